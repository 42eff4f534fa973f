package typing_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"interlock/catalog"
	"interlock/sqlgov/typing"
)

// paths are the search paths that user-defined names are tried under; each shadows differently.
var paths = [][]string{
	{"pg_catalog", "app", "other", "public"},
	{"app", "pg_catalog", "other", "public"},
	{"other", "app", "pg_catalog", "public"},
	{"pg_catalog", "other"},
	{"app", "other", "public", "pg_catalog"},
}

// TestUserFunctions calls every function of the test's schemas (and PostgreSQL's of the same names) in positional,
// named and variadic notation, along several search paths.
func TestUserFunctions(t *testing.T) {
	o, x := newOracle(t)
	pool := append(probeOperands(x), null, null, null)
	for n, path := range paths {
		t.Run(strings.Join(path, ","), func(t *testing.T) {
			r := o.resolver(t, x, path...)
			random := rand.New(rand.NewPCG(5, uint64(n)))
			var expressions []string
			var got []answer
			for i := range x.Snapshot.Functions {
				f := &x.Snapshot.Functions[i]
				if !shadowed(x, f) && !(n == 0 && intricate(f)) || unusable(x, f) || f.Name == "pd" || f.Name == "cd" {
					continue
				}
				for range 25 {
					c := randomCall(x, f, pool, random)
					c.over = window(r, c)
					expressions = append(expressions, c.SQL())
					got = append(got, resolveCall(r, c))
				}
			}
			o.compare(t, expressions, got)
		})
	}
}

// shadowed reports if a function is the test's, or has the name of one.
func shadowed(x *catalog.Index, f *catalog.Function) bool {
	return f.Schema == "app" || f.Schema == "other" ||
		len(x.FunctionsNamed("app", f.Name))+len(x.FunctionsNamed("other", f.Name)) > 0
}

// intricate reports if calls of a function take more than counting arguments.
func intricate(f *catalog.Function) bool {
	return len(f.Args) > 3 || f.Defaults > 0 || f.Variadic != 0 || f.AggKind == "o" || f.AggKind == "h"
}

// randomCall makes a call that has a chance to be one of f.
func randomCall(x *catalog.Index, f *catalog.Function, pool []operand, random *rand.Rand) call {
	c := newCall("", f.Name, randomOperands(x, f, pool, random)...)
	if random.IntN(3) == 0 {
		c.Schema = f.Schema
	}
	n := len(c.operands)
	c.Procedure = f.Kind == "p" && random.IntN(8) != 0 || f.Kind == "f" && random.IntN(40) == 0
	c.Variadic = n > 0 && f.AggKind != "o" && f.AggKind != "h" && random.IntN(8) < boolean[f.Variadic != 0]*4+1
	if c.Procedure {
		avoid(x, &c, "anyarray") // is a subquery, which CALL does not take
	}
	switch {
	case n > 0 && (f.AggKind == "o" || f.AggKind == "h"):
		c.WithinGroup = 1 + random.IntN(n)
		avoid(x, &c, "xml", "json", "point", "box", "pg_class", "anyarray", "label", "_label") // cannot be sorted
	case random.IntN(3) == 0:
		name(&c, f, random)
	}
	return c
}

// avoid replaces operands of some types by untyped literals.
func avoid(x *catalog.Index, c *call, names ...string) {
	for i, o := range c.operands {
		if slices.Contains(names, x.Type(o.typ).Name) {
			c.operands[i] = null
			c.Args[i].Type = typing.Unknown
		}
	}
}

var boolean = map[bool]int{true: 1}

// window reports if a call picks a window function, which the server insists to see with OVER.
func window(r *typing.Resolver, c call) bool {
	m, err := r.Function(c.Call)
	return err == nil && m.Function != nil && m.Function.Kind == "w"
}

// randomOperands are about as many as f takes, mostly of its types.
func randomOperands(x *catalog.Index, f *catalog.Function, pool []operand, random *rand.Rand) []operand {
	params := f.Args
	if f.Kind == "p" && len(f.AllArgs) > 0 {
		params = f.AllArgs
	}
	n := len(params)
	switch {
	case f.Variadic != 0:
		n += random.IntN(4) - 1
	case f.Defaults > 0 || random.IntN(6) == 0:
		n -= random.IntN(f.Defaults + 2)
	}
	same := pool[random.IntN(len(pool))]
	var list []operand
	for i := range max(n, 0) {
		switch k := random.IntN(6); {
		case k < 2 && i < len(params):
			list = append(list, stand(x, params[i], pool, random))
		case k == 2 && f.Variadic != 0 && f.Variadic != typing.Any:
			list = append(list, stand(x, f.Variadic, pool, random))
		case k == 3:
			list = append(list, same)
		case k == 4:
			list = append(list, null)
		default:
			list = append(list, pool[random.IntN(len(pool))])
		}
	}
	return list
}

// name gives the last arguments names, mostly those of f's parameters, in some order.
func name(c *call, f *catalog.Function, random *rand.Rand) {
	names := append([]string{"a", "b", "c", "d"}, f.ArgNames...)
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for i := random.IntN(len(c.Args) + 1); i < len(c.Args); i++ {
		c.Args[i].Name = names[i%len(names)]
	}
}

// TestUserOperators tries the operators of the test's schemas, and PostgreSQL's of the same names, along several
// search paths.
func TestUserOperators(t *testing.T) {
	o, x := newOracle(t)
	pool := append(probeOperands(x), null, null, null)
	for n, path := range paths {
		t.Run(strings.Join(path, ","), func(t *testing.T) {
			cases := newOperatorCases(o.resolver(t, x, path...))
			random := rand.New(rand.NewPCG(7, uint64(n)))
			for i := range x.Snapshot.Operators {
				op := &x.Snapshot.Operators[i]
				if len(x.OperatorsNamed("app", op.Name))+len(x.OperatorsNamed("public", op.Name)) == 0 {
					continue
				}
				left, right := stand(x, op.Right, pool, random), stand(x, op.Right, pool, random)
				if op.Left != 0 {
					left = stand(x, op.Left, pool, random)
				}
				other := pool[random.IntN(len(pool))]
				cases.binary("", op.Name, left, right)
				cases.binary("", op.Name, null, right)
				cases.binary("", op.Name, left, null)
				cases.binary("", op.Name, other, right)
				cases.binary(op.Schema, op.Name, left, other)
				if op.Left == 0 {
					cases.prefix("", op.Name, right)
					cases.prefix(op.Schema, op.Name, other)
				}
			}
			o.compare(t, cases.expressions, cases.got)
		})
	}
}
