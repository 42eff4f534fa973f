package analyze

import (
	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// A value is projected when it goes into a result column as a whole, through nothing that could tell more of it than that
// column does. Everything else that a statement does with a value is a use: it decides which rows there are, in which order,
// or if there is an error. What is projected is known here by its place (the select list, and the few kinds of
// expression in projects) and by the functions and casts that cannot fail; every other place is a use.

// consume notes that a value is used.
func (a *analysis) consume(l *lineage) {
	if l != nil {
		a.used = append(a.used, l)
	}
}

// flowsIntoWrite notes that a value is stored.
func (a *analysis) flowsIntoWrite(v value) {
	if v.from != nil {
		a.stored = append(a.stored, v.from)
	}
}

// sources of all that is used, and of all that is stored.
func (a *analysis) noteUses() {
	a.out.Uses = a.sources(union(a.used...))
	a.out.Stored = a.sources(union(a.stored...))
}

// projected evaluates in a place where values are projected.
func (a *analysis) projected(evaluate func() value) value {
	was := a.projecting
	a.projecting = true
	v := evaluate()
	a.projecting = was
	return v
}

// unprojected evaluates in a place where values are used.
func (a *analysis) unprojected(evaluate func()) {
	was := a.projecting
	a.projecting = false
	evaluate()
	a.projecting = was
}

// flow is a value that was made from projected ones: where it stands as a use, they are used.
func (a *analysis) flow(v value) value {
	if !a.projecting {
		a.consume(v.from)
	}
	return v
}

// projects reports if an expression of a kind passes values on, or looks itself at what it does with them.
func projects(n *pg.Node) bool {
	switch x := n.GetNode().(type) {
	case *pg.Node_AConst, *pg.Node_ColumnRef, *pg.Node_ParamRef, *pg.Node_FuncCall, *pg.Node_TypeCast, *pg.Node_CaseExpr, *pg.Node_AIndirection,
		*pg.Node_RowExpr, *pg.Node_AArrayExpr, *pg.Node_NullTest, *pg.Node_CollateClause, *pg.Node_NamedArgExpr, *pg.Node_CoalesceExpr:
		return true
	case *pg.Node_AExpr:
		return x.AExpr.Kind == pg.A_Expr_Kind_AEXPR_OP
	case *pg.Node_SubLink:
		switch x.SubLink.SubLinkType {
		case pg.SubLinkType_EXPR_SUBLINK, pg.SubLinkType_EXISTS_SUBLINK:
			return true
		}
	}
	return false
}

// isNull is x IS NULL: it tells of x only that.
func (a *analysis) isNull(s *scope, n *pg.NullTest) value {
	v := a.projected(func() value { return a.expr(s, n.Arg) })
	return a.presence(typing.Bool, v.from)
}

// presence is a value that tells of others only if they are NULL, which is a use of its own kind wherever it stands.
func (a *analysis) presence(typ catalog.OID, from *lineage) value {
	v := value{typ: typ, from: told(from)}
	a.consume(v.from)
	return v
}

// callUses notes the arguments about which a call could tell more than its result shows: by failing, by how many rows
// it makes, by comparing them. It returns the weight of the result.
func (a *analysis) callUses(f *catalog.Function, args []value) int {
	harmless := totalArguments(f)
	weight := a.together(args)
	parts := len(args) > 1 || len(args) == 1 && (args[0].row != nil || len(args[0].fields) > 0)
	for i := range args {
		if !spares(harmless, i) || parts && weight > maxWeight {
			a.consume(args[i].from)
		}
	}
	if harmless == noArgument {
		return 0
	}
	return weight
}

// PostgreSQL has no value of more than a gigabyte: what would be longer is an error. So a value beside a long one tells its
// own length, and whether a part of it was found. The weight of a value is how many constants and columns of tables it is
// made of; 0 is not known, as of what repeat or an aggregate makes.
const maxWeight = 64

// together is the weight of what is made of several values.
func (a *analysis) together(values []value) int {
	sum := 0
	for i := range values {
		sum += a.weight(&values[i])
	}
	return sum
}

func (a *analysis) weight(v *value) int {
	switch {
	case v.weight > 0:
		return v.weight
	case v.plain && v.origin.rel != nil && v.origin.num == 0:
		return max(1, len(v.origin.rel.Columns))
	case v.plain && v.origin.rel != nil, widerNumbers[v.typ] != nil, v.typ == typing.Bool:
		return 1
	}
	return maxWeight + 1
}

// presumed notes that whether a value is NULL decides if the others are evaluated, which may fail.
func (a *analysis) presumed(v value, others []*pg.Node) {
	for _, n := range others {
		if n.GetAConst() == nil && n.GetColumnRef() == nil && n.GetTypeCast().GetArg().GetAConst() == nil {
			a.consume(told(v.from))
			return
		}
	}
}

// isCount reports if a function is count(x).
func isCount(f *catalog.Function) bool { return f.Schema == "pg_catalog" && f.Name == "count" }

// castUses notes a value that a conversion can fail on.
func (a *analysis) castUses(v value, to catalog.OID) {
	if v.from != nil && !a.totalCast(v.typ, to) {
		a.consume(v.from)
	}
}

// totalCast reports if a conversion is known not to fail, whatever the value.
func (a *analysis) totalCast(from, to catalog.OID) bool {
	if a.types.Base(to) != to {
		return false // a domain may check it
	}
	from = a.types.Base(from)
	if a.isText(to) {
		return a.printable(from)
	}
	for _, wider := range widerNumbers[from] {
		if wider == to {
			return true
		}
	}
	return from == typing.JSONB && to == typing.JSON
}

// isText reports if every text is a value of a type, but for its length.
func (a *analysis) isText(t catalog.OID) bool {
	switch t {
	case typing.Text, typing.Varchar, typing.Bpchar, typing.Name, typing.Char:
		return true
	}
	typ := a.env.Catalog.Type(t)
	return typ != nil && typ.Extension == "citext" && typ.Name == "citext"
}

// printable reports if every value of a type has a text.
func (a *analysis) printable(t catalog.OID) bool {
	typ := a.env.Catalog.Type(t)
	return typ != nil && (typ.Kind == "e" || typ.Kind == "b" && typ.Schema == "pg_catalog" || a.isText(t))
}

// widerNumbers are the types that hold every number of a type.
var widerNumbers = map[catalog.OID][]catalog.OID{
	typing.Int2:   {typing.Int4, typing.Int8, typing.Numeric, typing.Float4, typing.Float8},
	typing.Int4:   {typing.Int8, typing.Numeric, typing.Float4, typing.Float8},
	typing.Int8:   {typing.Numeric, typing.Float4, typing.Float8},
	typing.Float4: {typing.Float8},
}

// Arguments of a function as bits.
const (
	noArgument    = 0
	firstOnly     = 1 << 0
	secondOnly    = 1 << 1
	everyArgument = -1
	everySecond   = -2 // the values beside keys, which must not be NULL; an argument alone is VARIADIC, of which the number tells
)

// spares reports if the argument at an index is among some, which are given as bits or as one of the constants below 0.
func spares(arguments, index int) bool {
	switch arguments {
	case everyArgument:
		return true
	case everySecond:
		return index%2 == 1
	}
	return index < 2 && arguments&(1<<index) != 0
}

// totalArguments are the arguments of a function that can have any value without an error and without another number of
// rows, one bit each. Functions that are not known here have none.
func totalArguments(f *catalog.Function) int {
	if f.Schema != "pg_catalog" || f.ReturnsSet {
		return noArgument
	}
	return total[f.Name+"("+f.Signature+")"]
}

// total lists functions as reviewed. Arguments that pick a part or a form are left out where a wrong one is an error.
// Comparisons are left out though they never fail: their result would be hidden whole, and who writes one wants to know.
var total = map[string]int{
	"length(text)": everyArgument, "length(character)": everyArgument, "length(bytea)": everyArgument,
	"char_length(text)": everyArgument, "char_length(character)": everyArgument,
	"character_length(text)": everyArgument, "character_length(character)": everyArgument,
	"octet_length(text)": everyArgument, "octet_length(character)": everyArgument, "octet_length(bytea)": everyArgument,
	"bit_length(text)": everyArgument, "bit_length(bytea)": everyArgument,
	"lower(text)": everyArgument, "upper(text)": everyArgument, "initcap(text)": everyArgument, "reverse(text)": everyArgument,
	"left(text, integer)": everyArgument, "right(text, integer)": everyArgument,
	"btrim(text)": everyArgument, "btrim(text, text)": everyArgument, "ltrim(text)": everyArgument, "ltrim(text, text)": everyArgument,
	"rtrim(text)": everyArgument, "rtrim(text, text)": everyArgument,
	"substr(text, integer)": everyArgument, "substring(text, integer)": everyArgument,
	"substr(text, integer, integer)": firstOnly, "substring(text, integer, integer)": firstOnly, "split_part(text, text, integer)": firstOnly,
	"md5(text)": everyArgument, "md5(bytea)": everyArgument, "normalize(text, text)": firstOnly,
	"textcat(text, text)": everyArgument, "concat(\"any\")": everyArgument, "concat_ws(text, \"any\")": everyArgument,
	"translate(text, text, text)": firstOnly,
	"quote_literal(text)":         everyArgument, "quote_ident(text)": everyArgument, "quote_nullable(text)": everyArgument,

	"floor(numeric)": everyArgument, "ceil(numeric)": everyArgument, "ceiling(numeric)": everyArgument, "sign(numeric)": everyArgument, "abs(numeric)": everyArgument,
	"round(numeric)": everyArgument, "trunc(numeric)": everyArgument, "round(numeric, integer)": firstOnly, "trunc(numeric, integer)": firstOnly,
	"date_part(text, timestamp without time zone)": secondOnly, "date_part(text, timestamp with time zone)": secondOnly,
	"extract(text, date)": secondOnly, "extract(text, timestamp without time zone)": secondOnly, "extract(text, timestamp with time zone)": secondOnly,

	"to_json(anyelement)": everyArgument, "to_jsonb(anyelement)": everyArgument, "row_to_json(record)": everyArgument,
	"json_build_object(\"any\")": everySecond, "jsonb_build_object(\"any\")": everySecond,
	"json_build_array(\"any\")": everyArgument, "jsonb_build_array(\"any\")": everyArgument, "array_to_json(anyarray)": everyArgument,
	"jsonb_object_field(jsonb, text)": everyArgument, "jsonb_object_field_text(jsonb, text)": everyArgument,
	"jsonb_array_element(jsonb, integer)": everyArgument, "jsonb_array_element_text(jsonb, integer)": everyArgument,
	"jsonb_extract_path(jsonb, text[])": everyArgument, "jsonb_extract_path_text(jsonb, text[])": everyArgument,
	"json_object_field(json, text)": everyArgument, "json_array_element(json, integer)": everyArgument,
	"cardinality(anyarray)": everyArgument, "array_to_string(anyarray, text)": everyArgument,

	"first_value(anyelement)": everyArgument, "last_value(anyelement)": everyArgument,
	"lag(anyelement)": everyArgument, "lag(anyelement, integer)": everyArgument, "lag(anycompatible, integer, anycompatible)": everyArgument,
	"lead(anyelement)": everyArgument, "lead(anyelement, integer)": everyArgument, "lead(anycompatible, integer, anycompatible)": everyArgument,
}
