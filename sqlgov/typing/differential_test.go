package typing_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"interlock/catalog"
	"interlock/sqlgov/typing"
)

// probes are the types that calls are tried with where they do not fit exactly.
var probes = []string{
	"bool", "int2", "int4", "int8", "numeric", "float4", "float8", "text", "varchar", "bpchar", "name", "char", "bytea",
	"date", "time", "timestamp", "timestamptz", "interval", "oid", "regclass", "json", "jsonb", "uuid", "inet", "cidr",
	"_int4", "_int8", "_text", "_numeric", "_name", "int2vector", "oidvector", "int4range", "int8range", "numrange",
	"int4multirange", "point", "box", "bit", "varbit", "tsvector", "money", "xml", "record", "pg_class",
}

// userProbes are more of them, in schema app.
var userProbes = []string{
	"mood", "pair", "posint", "small", "short", "words", "pairdom", "mooddom", "numdom", "floatrange", "floatmultirange",
	"parent", "child", "grandchild", "typed", "_mood", "_pair", "_posint", "_child", "_floatrange", "holder", "label", "_label",
}

func probeOperands(x *catalog.Index) []operand {
	var list []operand
	for _, name := range probes {
		list = append(list, typed(x, x.TypeNamed("pg_catalog", name).OID))
	}
	list = append(list, operand{sql: "(SELECT most_common_vals FROM pg_catalog.pg_stats)", typ: typing.AnyArray})
	for _, name := range userProbes {
		list = append(list, typed(x, x.TypeNamed("app", name).OID))
	}
	return list
}

// TestEveryFunction calls every function of pg_catalog that takes up to three arguments with exact types, with untyped
// literals, and with other types in their places.
func TestEveryFunction(t *testing.T) {
	o, x := newOracle(t)
	r := o.resolver(t, x, "pg_catalog", "public")
	pool := probeOperands(x)
	random := rand.New(rand.NewPCG(1, 2))
	var expressions []string
	var got []answer
	for i := range x.Snapshot.Functions {
		f := &x.Snapshot.Functions[i]
		if f.Schema != "pg_catalog" || len(f.Args) > 3 || f.AggKind == "o" || f.AggKind == "h" || unusable(x, f) {
			continue
		}
		for _, operands := range variations(x, f, pool, random) {
			c := newCall([]string{"", "pg_catalog"}[len(expressions)%2], f.Name, operands...)
			c.over = f.Kind == "w"
			expressions = append(expressions, c.SQL())
			got = append(got, resolveCall(r, c))
		}
	}
	o.compare(t, expressions, got)
}

// unusable reports if a call of a function with NULL is judged by what the server thinks of a NULL of a type that has no
// values, which varies.
func unusable(x *catalog.Index, f *catalog.Function) bool {
	for _, name := range []string{"unknown", "internal", "pg_ddl_command"} {
		if t := x.TypeNamed("pg_catalog", name).OID; f.Result == t || slices.Contains(f.Args, t) {
			return true
		}
	}
	return false
}

// variations lists argument lists for a function.
func variations(x *catalog.Index, f *catalog.Function, pool []operand, random *rand.Rand) [][]operand {
	exact := make([]operand, len(f.Args))
	for i, t := range f.Args {
		exact[i] = stand(x, t, pool, random)
	}
	lists := [][]operand{exact}
	if len(exact) == 0 {
		return lists
	}
	lists = append(lists, slices.Repeat([]operand{null}, len(exact)))
	for i := range exact {
		for _, other := range []operand{null, pool[random.IntN(len(pool))]} {
			list := slices.Clone(exact)
			list[i] = other
			lists = append(lists, list)
		}
	}
	return lists
}

// TestEveryOperator tries every operator of pg_catalog with its own types, untyped literals and other types in their
// places.
func TestEveryOperator(t *testing.T) {
	o, x := newOracle(t)
	r := o.resolver(t, x, "pg_catalog", "public")
	pool := probeOperands(x)
	random := rand.New(rand.NewPCG(3, 4))
	cases := newOperatorCases(r)
	for i := range x.Snapshot.Operators {
		op := &x.Snapshot.Operators[i]
		for _, schema := range []string{"", "pg_catalog"} {
			right := stand(x, op.Right, pool, random)
			other := pool[random.IntN(len(pool))]
			if op.Left == 0 {
				cases.prefix(schema, op.Name, right)
				cases.prefix(schema, op.Name, null)
				cases.prefix(schema, op.Name, other)
				continue
			}
			left := stand(x, op.Left, pool, random)
			cases.binary(schema, op.Name, left, right)
			cases.binary(schema, op.Name, null, right)
			cases.binary(schema, op.Name, left, null)
			cases.binary(schema, op.Name, left, other)
			cases.binary(schema, op.Name, other, right)
		}
	}
	o.compare(t, cases.expressions, cases.got)
}

// TestOperatorMatrix tries the operators with the most overloads with every pair of types.
func TestOperatorMatrix(t *testing.T) {
	o, x := newOracle(t)
	r := o.resolver(t, x, "pg_catalog", "public")
	pool := append(probeOperands(x), null)
	cases := newOperatorCases(r)
	for _, name := range []string{"=", "+", "||"} {
		for _, right := range pool {
			for _, left := range pool {
				cases.binary("", name, left, right)
			}
		}
	}
	o.compare(t, cases.expressions, cases.got)
}

// stand returns an operand of a declared type, or any for a pseudo-type.
func stand(x *catalog.Index, t catalog.OID, pool []operand, random *rand.Rand) operand {
	if typ := x.Type(t); typ.Kind != "p" || t == typing.Record {
		return typed(x, t)
	}
	return pool[random.IntN(len(pool))]
}
