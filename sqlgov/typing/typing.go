// Package typing picks the function, operator or cast that PostgreSQL would pick for given argument types, and says
// what type results.
//
// It follows chapter 10 of the PostgreSQL manual ("Type Conversion"): candidate search along the search path, exact
// match, unknown literals, preferred types and categories, polymorphic types, variadic and default arguments, domain
// flattening, and the common type of UNION, CASE, ARRAY and VALUES. It is pure and reads a catalog.Index only.
package typing

import "interlock/catalog"

// Well-known type OIDs, fixed in every PostgreSQL release.
const (
	Bool        catalog.OID = 16
	Bytea       catalog.OID = 17
	Char        catalog.OID = 18
	Name        catalog.OID = 19
	Int8        catalog.OID = 20
	Int2        catalog.OID = 21
	Int4        catalog.OID = 23
	Regproc     catalog.OID = 24
	Text        catalog.OID = 25
	OidType     catalog.OID = 26
	JSON        catalog.OID = 114
	XML         catalog.OID = 142
	Float4      catalog.OID = 700
	Float8      catalog.OID = 701
	Unknown     catalog.OID = 705
	Bpchar      catalog.OID = 1042
	Varchar     catalog.OID = 1043
	Date        catalog.OID = 1082
	Time        catalog.OID = 1083
	Timestamp   catalog.OID = 1114
	TimestampTZ catalog.OID = 1184
	Interval    catalog.OID = 1186
	TimeTZ      catalog.OID = 1266
	Bit         catalog.OID = 1560
	Varbit      catalog.OID = 1562
	Numeric     catalog.OID = 1700
	RefCursor   catalog.OID = 1790
	Record      catalog.OID = 2249
	Any         catalog.OID = 2276
	AnyArray    catalog.OID = 2277
	Void        catalog.OID = 2278
	RecordArray catalog.OID = 2287
	JSONB       catalog.OID = 3802
)

// Resolver resolves names and types against one catalog and one search path. It holds no mutable state.
type Resolver struct {
	Catalog *catalog.Index
	// Path is the list of schemas to search for an unqualified name, in order, pg_catalog included at its place.
	Path []string
	// Loose is told of every unqualified name that would mean another function or operator if one that fits better were
	// made. A name is not loose if it means something in pg_catalog that takes just the types given. It may be nil.
	Loose func(name string, operator bool)
}

// loosen reports a name if it is loose. exactIn is the schema of a meaning that takes just the types given; "" if there
// is none.
func (r *Resolver) loosen(schema, name, exactIn string, operator bool) {
	if r.Loose != nil && schema == "" && (exactIn != "pg_catalog" || r.Path[0] != exactIn) {
		r.Loose(name, operator)
	}
}

// Arg is one actual argument of a call.
type Arg struct {
	Type  catalog.OID // Unknown for an untyped literal or an untyped parameter
	Name  string      // set for named notation (name => value)
	Param bool        // an untyped parameter: unlike a literal, f(x) does not take it for a cast to type f
}

// Call is a function call to resolve.
type Call struct {
	Schema   string // "" when the name is not qualified
	Name     string
	Args     []Arg
	Variadic bool // VARIADIC before the last argument
	Star     bool // count(*)
	// Aggregate syntax, which restricts the candidates: DISTINCT, ORDER BY, FILTER or WITHIN GROUP.
	WithinGroup int // number of WITHIN GROUP arguments, which stand last in Args
	Procedure   bool
}

// Match is the function that PostgreSQL picks for a call.
type Match struct {
	Function *catalog.Function
	Result   catalog.OID // polymorphic results resolved
	// ArgTypes are the types that the arguments are coerced to, an entry an argument, polymorphic types resolved.
	ArgTypes []catalog.OID
	declared []catalog.OID // as the function declares them, in the order of the call
	// Coercion, when Function is nil, is the target type of a call that is a cast in disguise: text(x), int4(x).
	Coercion catalog.OID
}

// Operator is the operator that PostgreSQL picks for operands.
type Operator struct {
	Operator *catalog.Operator
	Function *catalog.Function
	Result   catalog.OID
	// Left and Right are the types that the operands are coerced to. Left is 0 for a prefix operator.
	Left, Right catalog.OID
}

// Context says how eagerly a value may be converted.
type Context int

// The coercion contexts, as pg_cast.castcontext has them.
const (
	Implicit Context = iota
	Assignment
	Explicit
)

// Coercion says how a value of one type becomes another.
type Coercion struct {
	// Functions are the functions that PostgreSQL checks EXECUTE on for it: cast functions and the functions of domain
	// checks. They are not in the order of their calls.
	Functions []*catalog.Function
	// IO are the input and output functions outside pg_catalog that run, too, but that PostgreSQL does not check.
	IO []*catalog.Function
	// Lookups are functions that do the same as the conversion does unchecked: to_regclass for one to regclass, whose
	// values stand for tables and are printed as their names.
	Lookups []*catalog.Function
	// ViaIO is set when a value that is not an untyped literal goes through its text (CoerceViaIO).
	ViaIO bool
}

// Error is a resolution failure as PostgreSQL reports it: 42883 undefined function, 42725 ambiguous function, 42804
// datatype mismatch, 42846 cannot coerce, 42704 undefined object.
type Error struct {
	SQLState string
	Message  string
	// Missing is set when no object of that name exists at all.
	Missing bool
}

func (e *Error) Error() string { return e.Message }
