// Package analyze says what a SQL text touches without running it: the columns it reads and writes, the functions
// it calls, and the base columns behind every output column.
//
// The measure is PostgreSQL itself: what is reported is what the server would check the caller's privileges on.
// What the package does not understand it refuses; it never guesses. It is pure (no I/O, no clock) and the only
// importer of pg_query.
package analyze

import (
	"interlock/catalog"
)

// Kind says what a statement is. It decides which action a permission must allow, and how risky a write is.
type Kind string

// The kinds of statement that the analyser reports. Every other statement is refused.
const (
	Select     Kind = "select"
	Insert     Kind = "insert"
	Update     Kind = "update"
	Delete     Kind = "delete"
	Truncate   Kind = "truncate"
	Merge      Kind = "merge"
	Explain    Kind = "explain"  // carries the facts of the statement inside; Name is "analyze" when that runs
	CopyOut    Kind = "copy_out" // COPY ... TO STDOUT; Output is what is copied
	CopyIn     Kind = "copy_in"  // COPY ... FROM STDIN
	Begin      Kind = "begin"    // BEGIN, START TRANSACTION
	Commit     Kind = "commit"
	Rollback   Kind = "rollback" // ROLLBACK, ROLLBACK TO
	Savepoint  Kind = "savepoint"
	Release    Kind = "release"
	Set        Kind = "set"  // SET, RESET and SET TRANSACTION of a reviewed parameter
	Show       Kind = "show" // SHOW of a reviewed parameter
	Discard    Kind = "discard"
	Prepare    Kind = "prepare" // carries the facts of the statement that it prepares
	Execute    Kind = "execute" // carries the facts of the prepared statement, arguments included
	Deallocate Kind = "deallocate"
	Declare    Kind = "declare" // carries the facts of the cursor's query
	Fetch      Kind = "fetch"   // carries them again
	Move       Kind = "move"    // as Fetch, and returns no rows
	Close      Kind = "close"   // of a cursor
	Lock       Kind = "lock"    // LOCK TABLE
	Listen     Kind = "listen"
	Unlisten   Kind = "unlisten"
	Constrain  Kind = "set constraints"
	Notify     Kind = "notify"
	Empty      Kind = "empty" // no statement at all: "", "-- ping", ";"
	Raw        Kind = "raw"   // runs without being understood; see RawFacts
)

// Column names one column of a relation, by OID and attribute number, with the names for messages. Num is 0 and
// Name is "" when the relation is touched without any column. System columns have negative numbers.
type Column struct {
	Relation catalog.OID
	Num      int16
	Schema   string
	Table    string
	Name     string
}

// WriteAction is what a statement does to a relation.
type WriteAction string

// The write actions. SelectForUpdate locks are reported as Updating with no column.
const (
	Inserting  WriteAction = "insert"
	Updating   WriteAction = "update"
	Deleting   WriteAction = "delete"
	Truncating WriteAction = "truncate"
)

// Write is a column (or a whole relation, Column.Num 0) that a statement changes or locks.
type Write struct {
	Column Column
	Action WriteAction
}

// ChannelAction is what a statement does with a channel.
type ChannelAction string

// The channel actions. A call of pg_notify is Notifying.
const (
	Listening ChannelAction = "listen"
	Notifying ChannelAction = "notify"
)

// Channel is one that a statement listens to or sends to. Name is "" if it is known only when the statement runs.
type Channel struct {
	Name   string
	Action ChannelAction
}

// Output is one result column, with the base columns (through views and subqueries) from which it derives.
type Output struct {
	Name    string
	Type    catalog.OID // 0 when the statement returns a type that depends on a parameter
	Columns []Column
	// Sources are the columns from which it derives as the text reaches them: those of views too, with Columns behind them.
	Sources []Source
	// Origin is the column that RowDescription must name for this field: the relation and attribute number that
	// PostgreSQL tracks for a plain column reference; zero for an expression.
	Origin Column
}

// How says what a value tells of a column.
type How uint8

// A value is the column's own; it tells only if the column is NULL; or it is computed from it.
const (
	Kept How = iota
	Counted
	Changed
)

// Source is a column from which a value derives.
type Source struct {
	Column
	How How
	// Behind are the columns from which a column of a view, or a generated one, itself derives.
	Behind []Source
}

// Assignment is a constant, or a parameter, that a statement puts into a column as it is.
type Assignment struct {
	Column Column
	Text   string
	Param  int // n of $n; 0 for a constant
}

// Statement is what the analyser found in one statement of a text.
type Statement struct {
	Kind Kind
	// Carries is the kind of the statement inside, whose facts these are: what PREPARE, EXECUTE, EXPLAIN and COPY of a query
	// are about. "" for every other kind. See Does.
	Carries   Kind
	Start     int // byte offset of the statement in the text
	End       int // byte offset behind it, without the semicolon
	Reads     []Column
	Writes    []Write
	Functions []*catalog.Function // in order of first use, each once; system functions too
	Channels  []Channel           // each once
	// Output is nil for a statement that returns no rows.
	Output []Output
	// Uses are the columns with which the statement does more than to pass their values to Output: they decide which rows
	// there are, their order, or if there is an error. Counted are those of which only the presence is used so.
	Uses []Source
	// Stored are the columns whose values, or what is computed from them, the statement writes.
	Stored []Source
	// Assigned are the constants and parameters that it writes.
	Assigned []Assignment
	// Name is the prepared statement's name (Prepare, Execute, Deallocate; "" in Deallocate means all), the cursor's (Declare,
	// Fetch, Move, Close; "" in Close means all), the savepoint, or the parameter (Set, Show).
	Name string
	// Prepared is the text of a PREPARE or DECLARE statement, all of it. The caller keeps it and gives it back by
	// Env.Prepared or Env.Cursor when the name is executed or fetched from.
	Prepared string
	// Held is set for a DECLARE of a cursor that outlives its transaction: WITH HOLD.
	Held bool
	// ParamTypes are those of the parameters of a DECLARE, which keeps their values for whoever fetches.
	ParamTypes []catalog.OID
	// Settings are the parameters that Set changes, and the transaction modes of Begin.
	Settings []Setting
	// SessionValues are the words that tell who and where the session is: current_user, current_schema and kin. They are
	// no functions to PostgreSQL.
	SessionValues []string
	// RowTypes are tables and views whose row type the text or a parameter names. It reads no row, and PostgreSQL checks
	// nothing, but it tells the names and types of all columns.
	RowTypes []catalog.OID
	// Copied is the number of columns that COPY takes or gives, and Form is how they are written; nil for other statements.
	Copied int
	Form   *CopyForm
	// TakesData is set for one of kind Raw that is a COPY from the client.
	TakesData bool
	// Tables are the relations that the text names, an entry for each place.
	Tables []catalog.OID
	// Loose are the names of functions and operators that would mean another one if one that fits better were made.
	Loose []Name
	// Built is the length in bytes of the largest value that constants in the text tell a function to make, as in
	// repeat('x', 1000000); 0 if there is none.
	Built int64
	// Params is the highest n of the parameters $n, declared ones included.
	Params int
	// NoWhere is set for an UPDATE or DELETE without a WHERE clause at the top level or in a CTE.
	NoWhere bool
	// Locks is set when rows are locked by FOR UPDATE or FOR SHARE.
	Locks bool
	// System is what the statement asks of the system schemas, place by place.
	System System
}

// CopyForm is the form of COPY's data, with the server's defaults for what is not given. The server refuses what makes no
// sense.
type CopyForm struct {
	Format        string // text, csv or binary
	Header        bool   // a line of names comes first
	Delimiter     string
	Null          *string
	Quote, Escape string   // of csv
	ForceQuote    []string // names of columns, or EveryColumn
}

// EveryColumn stands for all names in CopyForm.ForceQuote.
const EveryColumn = "*"

// Setting is a parameter with the value that a statement gives it.
type Setting struct {
	Name    string // as the server spells it: TimeZone, transaction_isolation
	Value   string // as written; several values are joined by ", "
	Default bool   // RESET and SET ... TO DEFAULT
	Local   bool   // SET LOCAL
}

// Does is the kind of what is done with the data, whatever it is wrapped in: that of the statement inside, if there is
// one. A rule about a kind holds for it in every form.
func (s *Statement) Does() Kind {
	if s.Carries != "" {
		return s.Carries
	}
	return s.Kind
}

// Name is the unqualified name of a function or operator.
type Name struct {
	Name     string
	Operator bool
}

// ReadOnly reports if the statement neither writes nor locks, as far as is known.
func (s *Statement) ReadOnly() bool { return len(s.Writes) == 0 && s.Kind != Raw }

// Facts is everything that the analyser found in one text.
type Facts struct {
	Statements []Statement
	// Normalized is the text with every literal replaced by $n, for audit; it is safe to show.
	Normalized string
	// Fingerprint groups texts that differ in literals only. It is never a key for a decision.
	Fingerprint string
	// SessionBound is set when the facts depend on the session (EXECUTE of a name), so they cannot be cached by text.
	SessionBound bool
}

// Env is what the meaning of a text depends on besides the text.
type Env struct {
	Catalog    *catalog.Index
	SearchPath []string // schemas in order; pg_catalog is searched first unless it is listed
	// ParamTypes are the types that the client declared for $1, $2, ... (Parse message); 0 leaves one open.
	ParamTypes []catalog.OID
	Limits     Limits
	// Watched picks the functions of the system schemas whose calls are reported in Statement.System. Nil means none.
	Watched func(*catalog.Function) bool
	// Prepared returns what EXECUTE of a name runs: Statement.Prepared of a PREPARE, or the text of a statement that the
	// session prepared by the protocol. Nil means none.
	Prepared func(name string) (sql string, ok bool)

	// Cursor returns Statement.Prepared and ParamTypes of the DECLARE whose cursor has a name. Nil means none.
	Cursor func(name string) (sql string, params []catalog.OID, ok bool)
	// Ahead is set when the text is prepared and does not run yet. What EXECUTE or FETCH names is looked for when it runs, as
	// PostgreSQL does, so here one that is not there leaves nothing to report.
	Ahead bool

	cursors map[string]string // what cursors the text itself has declared so far
	here    map[string]string // what the text itself has prepared so far
}

// Error is why a text was refused. SQLState is the code that PostgreSQL uses for the same problem, or 0A000 for
// what this package does not support.
type Error struct {
	SQLState string
	Message  string // as PostgreSQL words it, where it has words for it
	Detail   string
	Hint     string
	Position int // byte offset + 1 in the text; 0 unknown
	// Unknown is set when a name was not found in the catalog: a newer scan may know it.
	Unknown bool
	// Name is the name that was not found or is ambiguous, resolved case, an entry a part ("crm", "nosuch"); nil when
	// the error is not about a name. SQLState says what it names: 42P01 a relation or an alias, 42703 and 42702 a
	// column, 42883 a function.
	Name []string
	// Relation is the relation that the column was looked for in, when the reference was qualified or named a
	// target column; 0 otherwise.
	Relation catalog.OID
	// Action is what the statement does to the column, if it is a target column of Relation; "" otherwise.
	Action WriteAction
	// Touched are the relations (Num 0) and columns that had been resolved when the error was found. They are judged
	// before the caller sees the message, because the message tells of them.
	Touched []Column
}

func (e *Error) Error() string { return e.Message }
