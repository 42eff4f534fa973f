package analyze

import (
	"slices"
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// value is what is known of an expression.
type value struct {
	typ    catalog.OID // typing.Unknown for a literal or parameter that no use has typed yet
	from   *lineage
	name   string // the output name, for a column of "*"
	result string // what a function calls its one result
	made   bool   // by a function that makes values of any type from JSON
	plain  bool   // a column reference and nothing more; origin says which, if the column is a table's
	origin origin
	fields []column // of a record whose shape is known
	row    *entry   // the whole row of this entry
	param  int32    // $n, while its type is open
	null   bool     // the literal NULL
	built  int64    // bytes that it has at least, where constants in the text say so; 0 if they do not
	weight int      // see maxWeight
	// What System tells of an operand: where the column is read, and a literal with its place in the text.
	mention *mention
	literal *Literal
}

// derived is a new value of a type, made from others.
func derived(typ catalog.OID, from ...*lineage) value { return value{typ: typ, from: changed(from...)} }

func lineages(values []value) []*lineage {
	parts := make([]*lineage, len(values))
	for i := range values {
		parts[i] = values[i].from
	}
	return parts
}

func typesOf(values []value) []catalog.OID {
	types := make([]catalog.OID, len(values))
	for i := range values {
		types[i] = values[i].typ
	}
	return types
}

// coerce turns a value into another type and notes the functions that this calls.
func (a *analysis) coerce(v value, to catalog.OID, ctx typing.Context, location int32) value {
	a.settle(&v, to, location)
	if v.typ == to {
		return v
	}
	if to == typing.Any || to == 0 || isPolymorphic(to) || a.staysRow(v.typ, to) {
		return v
	}
	var c typing.Coercion
	var err error
	if v.typ == typing.Record && len(v.fields) > 0 && a.types.Composite(to) != nil {
		c, err = a.types.CoerceRow(fieldTypes(v.fields), to, ctx)
	} else {
		c, err = a.types.Coerce(v.typ, to, ctx)
	}
	must(err, location)
	a.turns(v, to, c, location)
	// A NULL is checked by the domain that it becomes, but nothing inside it is.
	if !v.null || a.types.Base(to) != to {
		a.converts(c)
	}
	a.castUses(v, to)
	return value{typ: to, from: changed(v.from), built: v.built, weight: v.weightAs(a, to)}
}

// weightAs is the weight of a value in another type.
func (v *value) weightAs(a *analysis, to catalog.OID) int {
	if a.totalCast(v.typ, to) || v.typ == typing.Unknown {
		return a.weight(v)
	}
	return 0
}

// converts notes what a conversion calls, and what it does without calling it.
func (a *analysis) converts(c typing.Coercion) {
	a.use(c.Functions...)
	a.use(c.Lookups...)
}

// staysRow reports if a row goes to record, or an array of rows to one of records: it keeps its own type then.
func (a *analysis) staysRow(from, to catalog.OID) bool {
	return to == typing.Record && a.types.Composite(from) != nil ||
		to == typing.RecordArray && a.types.Elem(from) != 0 && a.types.Composite(a.types.Elem(from)) != nil
}

// settle gives an open parameter its type: the first use decides.
func (a *analysis) settle(v *value, to catalog.OID, location int32) {
	if v.param == 0 || v.typ != typing.Unknown || to == typing.Unknown || isPseudo(to) {
		return
	}
	a.params[v.param-1] = to
	v.typ, v.param = to, 0
	a.binds(to, location)
	if base := a.types.Base(to); base != to {
		c, err := a.types.Coerce(typing.Unknown, to, typing.Implicit)
		must(err, -1)
		a.converts(c)
	}
}

// settled gives a value whose type nobody decided the type text.
func (a *analysis) settled(v value) value {
	if v.typ != typing.Unknown {
		return v
	}
	a.settle(&v, typing.Text, -1)
	v.typ, v.null = typing.Text, false
	return v
}

// common brings values to their common type, in the order in which PostgreSQL looks at them.
func (a *analysis) common(context string, values []value, location int32) (catalog.OID, []value) {
	t, err := a.types.CommonType(context, distinctTypes(values))
	must(err, location)
	done := make([]value, len(values))
	for i := range values {
		done[i] = a.coerce(values[i], t, typing.Implicit, location)
	}
	return t, done
}

// distinctTypes are the types of the values, each once, in order of appearance: a list of 100,000 constants has one.
func distinctTypes(values []value) []catalog.OID {
	var types []catalog.OID
	for i := range values {
		if !slices.Contains(types, values[i].typ) {
			types = append(types, values[i].typ)
		}
	}
	return types
}

// boolean demands a condition.
func (a *analysis) boolean(v value, context string, location int32) value {
	if v.typ != typing.Unknown && !a.types.CanCoerce(v.typ, typing.Bool, typing.Assignment) {
		failAt(location, "42804", "argument of %s must be type boolean, not type %s", context, a.typeName(v.typ))
	}
	return a.coerce(v, typing.Bool, typing.Assignment, location)
}

func fieldTypes(fields []column) []catalog.OID {
	types := make([]catalog.OID, len(fields))
	for i := range fields {
		types[i] = fields[i].typ
	}
	return types
}

// typeName names a type for a message.
func (a *analysis) typeName(t catalog.OID) string {
	typ := a.env.Catalog.Type(t)
	if typ == nil {
		return "unknown"
	}
	// As the server prints it: without the schema when the search path finds the type.
	if bare, ok := strings.CutPrefix(typ.Display, typ.Schema+"."); ok && slices.Contains(a.types.Path, typ.Schema) {
		return bare
	}
	return typ.Display
}

// isPolymorphic reports if a declared type stands for a family of types.
func isPolymorphic(t catalog.OID) bool {
	switch t {
	case 2283, 2277, 2776, 3500, 3831, 4537, 5077, 5078, 5079, 5080, 4538:
		return true
	}
	return false
}

// isPseudo reports if a declared type cannot be the type of a parameter.
func isPseudo(t catalog.OID) bool { return t == typing.Any || t == 0 || isPolymorphic(t) }

// typeOf resolves a type as written.
func (a *analysis) typeOf(n *pg.TypeName) catalog.OID {
	if n.PctType {
		unsupported(n.Location, "%TYPE is")
	}
	if n.Setof {
		failAt(n.Location, "42809", "type cannot be declared SETOF here")
	}
	names := words(n.Names)
	schema, name := a.qualified(names, n.Location)
	typ, err := a.types.TypeName(schema, name)
	must(err, n.Location, names...)
	oid := typ.OID
	a.namesRow(oid)
	if len(n.ArrayBounds) > 0 && a.types.Elem(oid) == 0 {
		if oid = a.types.ArrayOf(oid); oid == 0 {
			fail(unknown(n.Location, "42704", "could not find array type for data type %s", name))
		}
	}
	return oid
}

// namesRow notes the table or view that a type is the row type of, an array or a domain of it included.
func (a *analysis) namesRow(t catalog.OID) {
	t = a.types.Base(t)
	if elem := a.types.Elem(t); elem != 0 {
		t = a.types.Base(elem)
	}
	rel := a.types.Composite(t)
	if rel != nil && rel.Kind != catalog.CompositeType && !slices.Contains(a.out.RowTypes, rel.OID) {
		a.out.RowTypes = append(a.out.RowTypes, rel.OID)
	}
}

// cast is a cast as written: the length function of varchar(10) is part of it.
func (a *analysis) cast(v value, n *pg.TypeName, location int32) value {
	to := a.typeOf(n)
	v = a.coerce(v, to, typing.Explicit, location)
	column := v.column()
	modifier, known := typeModifier(to, n.Typmods)
	if column == nil && len(n.Typmods) == 0 || column != nil && known && column.TypeMod == modifier {
		return v
	}
	if len(n.Typmods) > 0 {
		a.use(a.types.CoerceTypmod(to))
		if !a.isText(to) {
			a.consume(v.from)
		}
		v.from = changed(v.from)
	}
	if column != nil {
		v.origin, v.plain = origin{}, false // relabelled, which makes it an expression
	}
	return v
}

// column is the column of a relation that the value is and nothing more, or nil.
func (v value) column() *catalog.Column {
	if !v.plain || v.origin.rel == nil {
		return nil
	}
	return columnNumbered(v.origin.rel, v.origin.num)
}

// typeModifier is how the server encodes varchar(10) or numeric(8,2) in atttypmod, -1 for none. It is not known for types
// whose encoding is not needed here.
func typeModifier(t catalog.OID, list []*pg.Node) (modifier int32, known bool) {
	var args [2]int32
	for i, n := range list {
		c, ok := n.GetAConst().GetVal().(*pg.A_Const_Ival)
		if !ok || i >= len(args) {
			return 0, false
		}
		args[i] = c.Ival.GetIval()
	}
	const header = 4
	switch {
	case len(list) == 0:
		return -1, true
	case t == typing.Varchar, t == typing.Bpchar:
		return args[0] + header, true
	case t == typing.Numeric:
		return (args[0]<<16 | args[1]&0x7ff) + header, true
	}
	return 0, false
}

// words are the strings of a list of names.
func words(list []*pg.Node) []string {
	names := make([]string, 0, len(list))
	for _, n := range list {
		if s := n.GetString_(); s != nil {
			names = append(names, s.Sval)
		}
	}
	return names
}

// qualified splits a name into schema and name. A database in front must be the current one.
func (a *analysis) qualified(names []string, location int32) (schema, name string) {
	switch len(names) {
	case 1:
		return "", names[0]
	case 2:
		return names[0], names[1]
	case 3:
		if names[0] == a.env.Catalog.Snapshot.Database {
			return names[1], names[2]
		}
		failAt(location, "0A000", "cross-database references are not implemented: %s", join(names))
	}
	failAt(location, "42601", "improper qualified name (too many dotted names): %s", join(names))
	return "", ""
}

func join(names []string) string { return strings.Join(names, ".") }
