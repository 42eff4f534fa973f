package analyze

import (
	"fmt"

	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// columnRef is a name with up to three qualifiers: a column, a whole row, or a function of a row in column notation.
func (a *analysis) columnRef(s *scope, n *pg.ColumnRef) value {
	a.columnRefs++
	names := words(n.Fields)
	if len(names) != len(n.Fields) {
		return a.wholeRow(s, names, n.Location)
	}
	if len(names) == 1 {
		return a.bareName(s, names[0], n.Location)
	}
	qualifier, name := names[:len(names)-1], names[len(names)-1]
	e := a.qualifier(s, qualifier, n.Location)
	if e == nil {
		fail(missingEntry(s, qualifier, n.Location))
	}
	c, ambiguous := e.find(name)
	if ambiguous {
		fail(refuse("42702", "column reference %q is ambiguous", name).at(int(n.Location)).named(e.rel, names...))
	}
	if c != nil {
		return a.columnValue(c)
	}
	if v, ok := a.attribute(a.rowValue(e), name, n.Location); ok {
		return v
	}
	fail(unknown(n.Location, "42703", "column %s.%s does not exist", lastOf(qualifier), name).named(e.rel, names...))
	return value{}
}

// wholeRow is "t.*" where one value is wanted.
func (a *analysis) wholeRow(s *scope, names []string, location int32) value {
	if len(names) == 0 {
		failAt(location, "42601", "improper use of \"*\"")
	}
	e := a.qualifier(s, names, location)
	if e == nil {
		fail(missingEntry(s, names, location))
	}
	return a.rowValue(e)
}

// missingEntry is the error for a qualifier that names nothing in view. It tells of what is there but cannot be meant.
func missingEntry(s *scope, qualifier []string, location int32) *Error {
	name := lastOf(qualifier)
	for ; s != nil; s = s.parent {
		for _, it := range s.items {
			hidden := it.entry.name == name
			if !hidden && (it.entry.rel == nil || it.entry.rel.Name != name) {
				continue
			}
			e := unknown(location, "42P01", "invalid reference to FROM-clause entry for table %q", name).named(nil, qualifier...)
			if hidden {
				e.Detail = fmt.Sprintf("There is an entry for table %q, but it cannot be referenced from this part of the query.", name)
			} else {
				e.Hint = fmt.Sprintf("Perhaps you meant to reference the table alias %q.", it.entry.name)
			}
			return e
		}
	}
	return unknown(location, "42P01", "missing FROM-clause entry for table %q", name).named(nil, qualifier...)
}

// bareName is an unqualified name: a column of the nearest scope that has it, else an entry's whole row.
func (a *analysis) bareName(s *scope, name string, location int32) value {
	if c := a.columnInScope(s, name, location, false); c != nil {
		return a.columnValue(c)
	}
	if e := a.entryInScope(s, "", name, location); e != nil {
		return a.rowValue(e)
	}
	fail(unknown(location, "42703", "column %q does not exist", name).named(nil, name))
	return value{}
}

// qualifier finds the entry behind table, schema.table or database.schema.table.
func (a *analysis) qualifier(s *scope, names []string, location int32) *entry {
	schema, name := a.qualified(names, location)
	return a.entryInScope(s, schema, name, location)
}

// star expands "*" and "x.*" where several values may stand; ok is false for anything else.
func (a *analysis) star(s *scope, n *pg.Node) (values []value, ok bool) {
	switch x := n.Node.(type) {
	case *pg.Node_ColumnRef:
		fields := x.ColumnRef.Fields
		if fields[len(fields)-1].GetAStar() == nil {
			return nil, false
		}
		a.columnRefs++
		if len(fields) == 1 {
			return a.everything(s, x.ColumnRef.Location), true
		}
		names := words(fields[:len(fields)-1])
		e := a.qualifier(s, names, x.ColumnRef.Location)
		if e == nil {
			fail(missingEntry(s, names, x.ColumnRef.Location))
		}
		return a.expand(e), true
	case *pg.Node_AIndirection:
		list := x.AIndirection.Indirection
		if list[len(list)-1].GetAStar() == nil {
			return nil, false
		}
		v := a.steps(s, a.expr(s, x.AIndirection.Arg), list[:len(list)-1], location(n))
		return a.fieldsOf(v, location(n)), true
	}
	return nil, false
}

// everything is "*": all columns that can stand unqualified.
func (a *analysis) everything(s *scope, location int32) []value {
	var values []value
	found := false
	for _, it := range s.items {
		if it.columns {
			found = true
			values = append(values, a.expand(it.entry)...)
		}
	}
	if !found {
		failAt(location, "42601", "SELECT * with no tables specified is not valid")
	}
	return values
}

// fieldsOf takes a row apart.
func (a *analysis) fieldsOf(v value, location int32) []value {
	fields, ok := a.shape(v)
	if !ok {
		failAt(location, "42809", "row expansion via \"*\" needs a row, not type %s", a.typeName(v.typ))
	}
	values := make([]value, len(fields))
	for i := range fields {
		values[i] = v.row.fieldOf(a.fieldValue(&fields[i]))
		values[i].name = fields[i].name
	}
	return values
}

// shape lists the fields of a row value.
func (a *analysis) shape(v value) ([]column, bool) {
	switch {
	case v.row != nil:
		return v.row.columns, true
	case len(v.fields) > 0 || v.typ == typing.Record:
		return v.fields, len(v.fields) > 0
	}
	rel := a.types.Composite(v.typ)
	if rel == nil {
		return nil, false
	}
	return fieldsFrom(rel, v.from), true
}

// fieldsFrom are the fields of a composite value; each derives from all that the value does.
func fieldsFrom(rel *catalog.Relation, from *lineage) []column {
	fields := make([]column, len(rel.Columns))
	for i := range rel.Columns {
		fields[i] = column{name: rel.Columns[i].Name, typ: rel.Columns[i].Type, from: changed(from)}
	}
	return fields
}

// fieldValue is a field taken from a row. Of an entry's whole row it is the column, and reading that was noted.
func (a *analysis) fieldValue(c *column) value {
	if c.charged {
		return a.columnValue(c)
	}
	return value{typ: c.typ, from: c.from, origin: c.origin, plain: c.origin.rel != nil, fields: c.fields}
}

// fieldOf is a value taken from the entry's whole row.
func (e *entry) fieldOf(v value) value {
	if e != nil && e.built {
		v.origin, v.plain = origin{}, false
	}
	return v
}

// field takes a field of a row by name.
func (a *analysis) field(v value, name string) (value, bool) {
	if v.row != nil {
		if c, _ := v.row.find(name); c != nil {
			return v.row.fieldOf(a.columnValue(c)), true
		}
		return value{}, false
	}
	fields, _ := a.shape(v)
	for i := range fields {
		if fields[i].name == name {
			return a.fieldValue(&fields[i]), true
		}
	}
	return value{}, false
}

// attribute is row.name: a field, or what name(row) is, a call or a cast.
func (a *analysis) attribute(v value, name string, location int32) (value, bool) {
	if f, ok := a.field(v, name); ok {
		return f, true
	}
	match, err := a.types.Function(typing.Call{Name: name, Args: []typing.Arg{{Type: v.typ, Param: v.param != 0}}})
	if err != nil {
		return value{}, false
	}
	return a.called(match, []value{v}, location), true
}

// indirection is (x).field, x[i], and chains of them.
func (a *analysis) indirection(s *scope, n *pg.A_Indirection) value {
	return a.steps(s, a.expr(s, n.Arg), n.Indirection, location(n.Arg))
}

func (a *analysis) steps(s *scope, v value, list []*pg.Node, at int32) value {
	for i := 0; i < len(list); i++ {
		switch x := list[i].Node.(type) {
		case *pg.Node_String_:
			next, ok := a.attribute(v, x.String_.Sval, at)
			if !ok {
				a.noSuchField(v, x.String_.Sval, at)
			}
			v = next
		case *pg.Node_AIndices:
			end := i
			for end < len(list) && list[end].GetAIndices() != nil {
				end++
			}
			v = a.subscript(s, v, list[i:end], at)
			i = end - 1
		default:
			failAt(at, "42601", "row expansion via \"*\" is not supported here")
		}
	}
	return v
}

func (a *analysis) noSuchField(v value, name string, at int32) {
	if v.row != nil {
		fail(unknown(at, "42703", "column %s.%s does not exist", v.row.name, name).named(v.row.rel, v.row.name, name))
	}
	if _, ok := a.shape(v); !ok {
		failAt(at, "42809", "column notation .%s applied to type %s, which is not a composite type", name, a.typeName(v.typ))
	}
	fail(unknown(at, "42703", "column %q not found in data type %s", name, a.typeName(v.typ)).named(a.types.Composite(v.typ), name))
}

// subscript is x[i][j:k]: all subscripts in a row belong together, and one slice makes the result an array.
func (a *analysis) subscript(s *scope, v value, list []*pg.Node, at int32) value {
	slice := false
	for _, n := range list {
		slice = slice || n.GetAIndices().IsSlice
	}
	typ, err := a.types.Element(v.typ)
	if slice {
		typ, err = a.types.Slice(v.typ)
	}
	must(err, at)
	from := v.from
	index := typing.Int4
	if typ == typing.JSONB {
		index = typing.Unknown
	}
	for _, n := range list {
		for _, bound := range []*pg.Node{n.GetAIndices().Lidx, n.GetAIndices().Uidx} {
			if bound == nil {
				continue
			}
			a.unprojected(func() {
				i := a.expr(s, bound)
				if index != typing.Unknown {
					i = a.coerce(i, index, typing.Assignment, at)
				}
				from = union(from, i.from)
			})
		}
	}
	return derived(typ, from)
}
