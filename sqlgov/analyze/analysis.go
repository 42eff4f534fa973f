package analyze

import (
	"errors"
	"slices"

	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// analysis is the work on one statement. Its methods give up by fail, which Analyze turns into the error.
type analysis struct {
	text  string
	env   *Env
	types *typing.Resolver
	known *knowledge
	out   *Statement

	params    []catalog.OID // what is known of the types of $1...; Unknown until a use decides
	touched   []*mention
	met       []*catalog.Relation // every relation that the text named, for errors
	reads     map[columnKey]bool
	writes    map[writeKey]bool
	functions *[]*catalog.Function // where calls are noted; a view's columns are noted apart
	depth     int                  // views inside views
	// columns notes calls apart for each output column of columnScope, a view's query.
	columns     [][]*catalog.Function
	columnScope *scope

	// What security_invoker views have brought in.
	invoked       []origin
	invokedTables []*catalog.Relation

	// projecting is set where values are passed on to result columns; see uses.go.
	projecting bool
	used       []*lineage
	stored     []*lineage

	sessionBound bool
	conditions   int  // WHERE, HAVING and ON clauses around what is analysed
	foreign      bool // text is not the statement's own but that of one which it executes
	spent        int
	columnRefs   int // column references met so far
	sublinkNames map[*pg.SubLink]string
}

type columnKey struct {
	rel catalog.OID
	num int16
}

type writeKey struct {
	columnKey
	action WriteAction
}

func newAnalysis(text string, env *Env, known *knowledge, out *Statement) *analysis {
	a := &analysis{
		text: text, env: env, known: known, out: out,
		types: &typing.Resolver{Catalog: env.Catalog, Path: fullPath(env.SearchPath)},
		reads: map[columnKey]bool{}, writes: map[writeKey]bool{},
	}
	a.types.Loose = a.loose
	a.functions = &out.Functions
	for _, t := range env.ParamTypes {
		a.params = append(a.params, known.paramType(t))
		a.namesRow(t)
		a.binds(t, -1)
	}
	return a
}

// fullPath is the search path with pg_catalog in front, unless it is listed.
func fullPath(path []string) []string {
	if slices.Contains(path, "pg_catalog") {
		return path
	}
	return append([]string{"pg_catalog"}, path...)
}

// loose notes a name that could come to mean another function or operator.
func (a *analysis) loose(name string, operator bool) {
	if n := (Name{name, operator}); !slices.Contains(a.out.Loose, n) {
		a.out.Loose = append(a.out.Loose, n)
	}
}

// finish completes the report. Relations of which no column was read need one column, whichever.
func (a *analysis) finish() {
	a.noteUses()
	for _, rel := range a.met {
		a.out.Tables = append(a.out.Tables, rel.OID)
	}
	for _, m := range a.touched {
		// A system column does not stand for any column.
		has := func(c Column) bool { return c.Relation == m.rel.OID && c.Num >= 0 }
		if !m.used && !slices.ContainsFunc(a.out.Reads, has) {
			a.out.Reads = append(a.out.Reads, nameColumn(m.rel, 0))
		}
	}
}

// budget bounds the work on one statement in steps of some nanoseconds. Real statements need thousands; only long lists
// of names over wide scopes get near it.
const budget = 20_000_000

// spend takes steps off the budget.
func (a *analysis) spend(steps int) {
	if a.spent += steps; a.spent > budget {
		failAt(-1, "54001", "the statement is too complex")
	}
}

// maxColumns is how many columns a select list, a row or a relation can have.
const maxColumns = 1664

func checkWidth(columns int, what string) {
	if columns > maxColumns {
		failAt(-1, "54011", "%s can have at most %d entries", what, maxColumns)
	}
}

// mention is a place where a statement reads a relation. The server wants the right to read some column for each.
type mention struct {
	rel   *catalog.Relation
	used  bool // a column is read there
	place int  // 1 + its index in System.References; 0 if it has none there
}

// touch notes that a relation is read, even if no column of it will be.
func (a *analysis) touch(rel *catalog.Relation) *mention {
	m := &mention{rel: rel}
	a.touched = append(a.touched, m)
	return m
}

// read notes that a column is read.
func (a *analysis) read(rel *catalog.Relation, num int16) {
	key := columnKey{rel.OID, num}
	if !a.reads[key] {
		a.reads[key] = true
		a.out.Reads = append(a.out.Reads, nameColumn(rel, num))
	}
}

// readRow notes that every column of a relation is read.
func (a *analysis) readRow(rel *catalog.Relation) {
	if len(rel.Columns) == 0 {
		a.touch(rel)
	}
	a.spend(16 * len(rel.Columns))
	for i := range rel.Columns {
		a.read(rel, rel.Columns[i].Num)
		a.useViewColumn(rel, rel.Columns[i].Num)
	}
}

func (a *analysis) write(rel *catalog.Relation, num int16, action WriteAction) {
	key := writeKey{columnKey{rel.OID, num}, action}
	if !a.writes[key] {
		a.writes[key] = true
		a.out.Writes = append(a.out.Writes, Write{Column: nameColumn(rel, num), Action: action})
	}
}

// use notes a call.
func (a *analysis) use(functions ...*catalog.Function) {
	for _, f := range functions {
		if isNotify(f) {
			a.channel("", Notifying)
		}
		if f != nil && !slices.Contains(*a.functions, f) {
			*a.functions = append(*a.functions, f)
		}
	}
}

// fail ends the analysis of the text.
func fail(e *Error) { panic(e) }

// failAt is fail with a byte offset in the text.
func failAt(location int32, state, format string, args ...any) {
	fail(refuse(state, format, args...).at(int(location)))
}

// unsupported refuses what this package does not handle.
func unsupported(location int32, what string) {
	failAt(location, "0A000", "%s not supported by this gateway", what)
}

// unknown is the error for a name that is not in the catalog: a newer scan may know it.
func unknown(location int32, state, format string, args ...any) *Error {
	e := refuse(state, format, args...).at(int(location))
	e.Unknown = true
	return e
}

// named adds what was looked for, and the relation that it was looked for in, if there is one.
func (e *Error) named(rel *catalog.Relation, parts ...string) *Error {
	e.Name = parts
	if rel != nil {
		e.Relation = rel.OID
	}
	return e
}

// must fails with an error of the typing package.
func must(err error, location int32, name ...string) {
	if err == nil {
		return
	}
	var t *typing.Error
	if !errors.As(err, &t) {
		failAt(location, "XX000", "%s", err.Error())
	}
	e := refuse(t.SQLState, "%s", t.Message).at(int(location))
	e.Unknown = t.Missing || t.SQLState == "42883" || t.SQLState == "42704"
	e.Name = name
	fail(e)
}

// refusal turns what ended an analysis into its error. Anything but fail is a defect of this package, and refused too.
func refusal(cause any) *Error {
	if cause == nil {
		return nil
	}
	if e, ok := cause.(*Error); ok {
		return e
	}
	return refuse("0A000", "the statement could not be analysed: %v", cause)
}

// resolved lists what was resolved when an error was found.
func (a *analysis) resolved() []Column {
	all := slices.Clone(a.out.Reads)
	for _, w := range a.out.Writes {
		all = append(all, w.Column)
	}
	for _, m := range a.touched {
		all = append(all, nameColumn(m.rel, 0))
	}
	for _, rel := range a.met {
		all = append(all, nameColumn(rel, 0))
	}
	return all
}
