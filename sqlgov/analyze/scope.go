package analyze

import (
	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// scope is one query level: what FROM has brought into view, and the WITH queries. Names not found are looked up in
// the parent, the query around it.
type scope struct {
	parent  *scope
	items   []*item
	ctes    []*cte
	lateral bool // inside a LATERAL item: what stands to its left is in view
	// sources are the entries of FROM in order, the ones hidden by a join's alias too: FOR UPDATE reaches those.
	sources []*entry
	// recursive is the WITH query whose body this scope is, when it may refer to itself.
	recursive *cte
	// windows are the names of the WINDOW clause, with what they derive from, which is known later.
	windows     map[string]*lineage
	definitions map[string]*pg.WindowDef // of the windows
	defining    bool                     // inside the WINDOW clause, where a definition's own name is no reference
}

func (s *scope) child() *scope { return &scope{parent: s} }

// item makes an entry visible: by name, by its columns, or both. A join without an alias shows its columns, its inputs show
// their names.
type item struct {
	entry    *entry
	named    bool // the entry's name can qualify a column
	columns  bool // its columns can stand unqualified
	sideways bool // only LATERAL sees it yet
	refused  bool // LATERAL must not see it: the wrong side of an outer join, or a target table
}

// entry is a range table entry: a table, a subquery, a function, a join.
type entry struct {
	name    string // alias or own name
	aliased bool
	rel     *catalog.Relation // of a table or view
	columns []column
	rowType catalog.OID // type of the whole row: a relation's or a composite type, else record
	scalar  bool        // a function that returns one scalar: its whole row is the scalar
	inputs  []*entry    // of a join
	built   bool        // the alias of USING: its whole row is an expression, so a field of that is no plain column
	system  bool        // it has system columns
	place   *mention    // of a relation that is read
	query   *query      // of a subquery: FOR UPDATE reaches into it
}

// column is a column of an entry.
type column struct {
	name    string
	typ     catalog.OID
	from    *lineage
	origin  origin
	charged bool     // reading it needs SELECT on origin
	mention *mention // where, unless it is a target's
	fields  []column // of an anonymous record
	param   int32    // an output column that is $n, while its type is open
	hidden  bool     // "*" leaves it out
}

// relationEntry makes an entry for a table, view, sequence.
func (a *analysis) relationEntry(rel *catalog.Relation, name string) *entry {
	a.spend(16 * len(rel.Columns))
	e := &entry{name: name, rel: rel, rowType: rel.RowType, system: true}
	e.columns = make([]column, len(rel.Columns))
	for i := range rel.Columns {
		c := &rel.Columns[i]
		e.columns[i] = column{name: c.Name, typ: c.Type, origin: origin{rel, c.Num}, charged: true}
	}
	return e
}

// mention says where the entry's columns are read.
func (e *entry) mention(m *mention) {
	e.place = m
	for i := range e.columns {
		e.columns[i].mention = m
	}
}

// find returns the column of that name, a system column if need be; ambiguous is set if the name stands for several.
func (e *entry) find(name string) (found *column, ambiguous bool) {
	for i := range e.columns {
		if e.columns[i].name != name {
			continue
		}
		if found != nil {
			return nil, true
		}
		found = &e.columns[i]
	}
	if found == nil && e.system {
		if c := systemColumnNamed(e.rel, name); c != nil {
			found = &column{name: name, typ: c.Type, origin: origin{e.rel, c.Num}, charged: true, mention: e.place}
		}
	}
	return found, false
}

// columnInScope finds an unqualified column in the nearest scope that has it.
func (a *analysis) columnInScope(s *scope, name string, location int32, localOnly bool) *column {
	for ; s != nil; s = s.parent {
		var found *column
		for _, it := range s.items {
			a.spend(1 + len(it.entry.columns)/8)
			if !it.columns || it.sideways && !s.lateral {
				continue
			}
			c, ambiguous := it.entry.find(name)
			if ambiguous || c != nil && found != nil {
				fail(refuse("42702", "column reference %q is ambiguous", name).at(int(location)).named(nil, name))
			}
			if c != nil {
				it.checkLateral(location)
				found = c
			}
		}
		if found != nil || localOnly {
			return found
		}
	}
	return nil
}

// entryInScope finds the entry that a qualifier names. With a schema it is a table named without an alias.
func (a *analysis) entryInScope(s *scope, schema, name string, location int32) *entry {
	var rel *catalog.Relation
	if schema != "" {
		if rel = a.env.Catalog.RelationNamed(schema, name); rel == nil {
			return nil
		}
	}
	for ; s != nil; s = s.parent {
		var found *item
		a.spend(len(s.items))
		for _, it := range s.items {
			if !it.named || it.sideways && !s.lateral || !it.entry.answersTo(rel, name) {
				continue
			}
			if found != nil {
				failAt(location, "42P09", "table reference %q is ambiguous", name)
			}
			found = it
		}
		if found != nil {
			found.checkLateral(location)
			return found.entry
		}
	}
	return nil
}

func (e *entry) answersTo(rel *catalog.Relation, name string) bool {
	if rel != nil {
		return e.rel == rel && !e.aliased
	}
	return e.name == name
}

func (it *item) checkLateral(location int32) {
	if it.sideways && it.refused {
		e := refuse("42P10", "invalid reference to FROM-clause entry for table %q", it.entry.name).at(int(location))
		e.Detail = "The combining JOIN type must be INNER or LEFT for a LATERAL reference."
		fail(e)
	}
}

// value of a column: reading it is noted if it is charged.
func (a *analysis) columnValue(c *column) value {
	if c.charged {
		if c.mention != nil {
			c.mention.used = true
			a.refersToColumn(c)
		}
		a.read(c.origin.rel, c.origin.num)
		a.useViewColumn(c.origin.rel, c.origin.num)
	}
	return a.flow(value{typ: c.typ, from: a.lineageOf(c), origin: c.origin, plain: true, fields: c.fields, mention: c.mention})
}

func (a *analysis) lineageOf(c *column) *lineage {
	if c.from == nil && c.charged {
		c.from = a.relationLineage(c.origin.rel, c.origin.num)
	}
	return c.from
}

// rowValue is the value of an entry named as a whole. All its columns are read.
func (a *analysis) rowValue(e *entry) value {
	if e.scalar {
		return a.columnValue(&e.columns[0])
	}
	a.chargeRow(e)
	v := value{typ: e.rowType, row: e}
	if v.typ == 0 {
		v.typ = typing.Record
	}
	if e.rel != nil {
		v.origin, v.plain = origin{e.rel, 0}, true
	}
	a.spend(16 * len(e.columns))
	parts := make([]*lineage, len(e.columns))
	for i := range e.columns {
		parts[i] = a.lineageOf(&e.columns[i])
	}
	v.from = changed(parts...)
	if v.typ == typing.Record {
		v.fields = e.columns
	}
	return a.flow(v)
}

// chargeRow notes what a whole-row reference reads: a join's is one of each of its inputs.
func (a *analysis) chargeRow(e *entry) {
	if e.rel != nil {
		a.readRow(e.rel)
	}
	if e.place != nil && len(e.columns) > 0 {
		e.place.used = true
	}
	a.refersToRow(e)
	for _, in := range e.inputs {
		a.chargeRow(in)
	}
}

// expand lists the columns behind "*" or "name.*", all of them read.
func (a *analysis) expand(e *entry) []value {
	if e.rel != nil && len(e.columns) == 0 {
		a.touch(e.rel)
	}
	a.spend(16 * len(e.columns))
	values := make([]value, 0, len(e.columns))
	for i := range e.columns {
		if e.columns[i].hidden {
			continue
		}
		v := a.columnValue(&e.columns[i])
		v.name = e.columns[i].name
		values = append(values, v)
	}
	return values
}
