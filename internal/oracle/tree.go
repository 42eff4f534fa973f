package oracle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"interlock/catalog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Action is what a privilege on a table lets its holder do.
type Action string

// The actions.
const (
	Select   Action = "select"
	Insert   Action = "insert"
	Update   Action = "update"
	Delete   Action = "delete"
	Truncate Action = "truncate"
)

// Demand is a privilege on a relation that a statement needs. Num 0 means any one column for Select, Insert and Update,
// and the table for Delete and Truncate.
type Demand struct {
	Action   Action
	Relation catalog.OID
	Num      int16
}

// Needs is what PostgreSQL's analysis of a statement says that it needs of the caller.
type Needs struct {
	// Demands are sorted, each once. A demand for any column is left out where there is one for a column.
	Demands []Demand
	// Unchecked are those that PostgreSQL does not check although they are in the tree: those of SELECTs in WITH that
	// nothing reads. None of them is in Demands.
	Unchecked []Demand
	// Functions are those that the statement as written calls, also behind operators and casts.
	Functions []catalog.OID
	// Behind are further ones that it may come to call: from views, defaults, domains, and what compares and samples rows.
	Behind []catalog.OID
	// Fields are the result columns; nil for a statement without.
	Fields []Field
	// Sources are the columns of tables, through views, from which the values of each result column come.
	Sources [][]Source
}

// Field is a result column as RowDescription names it.
type Field struct {
	Name     string
	Relation catalog.OID
	Num      int16
	Type     catalog.OID
}

// Server is a connection of a superuser that hears how PostgreSQL analyses what it is sent. One goroutine at a time may
// use it.
type Server struct {
	conn      *pgx.Conn
	lexicon   *Lexicon
	parsed    []string
	rewritten []string
}

// Talkative makes a session print its analysis in notices.
const Talkative = `set debug_pretty_print = off; set client_min_messages = log; set debug_print_parse = on;
	set debug_print_rewritten = on`

// The messages that hold the trees, in their details.
const (
	ParsedMessage    = "parse tree:"
	RewrittenMessage = "rewritten parse tree:"
)

// Connect opens a connection. The index must describe the database's present content.
func Connect(ctx context.Context, dsn string, index *catalog.Index) (*Server, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("reading the DSN: %w", err)
	}
	s := &Server{lexicon: NewLexicon(index)}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		switch n.Message {
		case ParsedMessage:
			s.parsed = append(s.parsed, n.Detail)
		case RewrittenMessage:
			s.rewritten = append(s.rewritten, n.Detail)
		}
	}
	if s.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	// The server's own log would grow without end.
	if err := s.Run(ctx, "set log_min_messages = panic; set statement_timeout = '20s';"+Talkative); err != nil {
		return nil, errors.Join(err, s.conn.Close(ctx))
	}
	return s, nil
}

// Close ends the connection.
func (s *Server) Close(ctx context.Context) error { return s.conn.Close(ctx) }

// Run runs statements that are not the question, such as a SET.
func (s *Server) Run(ctx context.Context, sql string) error {
	_, err := s.conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// Analysed asks how the server analyses one statement. It is parsed, not run; the error is the server's.
func (s *Server) Analysed(ctx context.Context, sql string) (*Needs, error) {
	return s.listen(func(n *Needs) error {
		description, err := s.conn.PgConn().Prepare(ctx, "", sql, nil)
		if err == nil {
			n.Fields = describe(description.Fields)
		}
		return err
	})
}

// AnalysedPrepare asks how the server analyses the statement inside PREPARE, of which Parse says nothing.
func (s *Server) AnalysedPrepare(ctx context.Context, sql string) (*Needs, error) {
	n, err := s.listen(func(*Needs) error { return s.Run(ctx, sql) })
	return n, errors.Join(err, s.Run(ctx, "deallocate all"))
}

func describe(fields []pgconn.FieldDescription) []Field {
	var all []Field
	for _, f := range fields {
		all = append(all, Field{f.Name, catalog.OID(f.TableOID), int16(f.TableAttributeNumber), catalog.OID(f.DataTypeOID)})
	}
	return all
}

// listen hears the trees that are printed meanwhile.
func (s *Server) listen(meanwhile func(*Needs) error) (*Needs, error) {
	s.parsed, s.rewritten = nil, nil
	n := &Needs{}
	if err := meanwhile(n); err != nil {
		return nil, err
	}
	// Code that runs meanwhile is analysed first: the input function of a domain, for a literal.
	return n, s.lexicon.read(n, last(s.parsed), last(s.rewritten))
}

func last(trees []string) []string { return trees[max(0, len(trees)-1):] }

func distinct(oids []catalog.OID) []catalog.OID {
	slices.Sort(oids)
	return slices.DeleteFunc(slices.Compact(oids), func(o catalog.OID) bool { return o == 0 })
}

// Normal sorts demands and drops doubles, and those for any column where there is one for a column.
func Normal(demands []Demand) []Demand {
	all := slices.Clone(demands)
	slices.SortFunc(all, func(a, b Demand) int {
		return cmp.Or(cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Num, b.Num))
	})
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(d Demand) bool {
		return d.Num == 0 && slices.ContainsFunc(all, func(e Demand) bool {
			return e.Num > 0 && e.Relation == d.Relation && e.Action == d.Action // a system column is not just any
		})
	})
}

// Covers reports if holding what is demanded satisfies d as well.
func Covers(demands []Demand, d Demand) bool {
	return slices.ContainsFunc(demands, func(e Demand) bool {
		return e.Relation == d.Relation && e.Action == d.Action && (e.Num == d.Num || d.Num == 0 && e.Num > 0)
	})
}
