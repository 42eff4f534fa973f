package typing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"interlock/catalog"
	"interlock/sqlgov/typing"
)

// TestCommonType compares the type of every construct that unites several, over all pairs of types and random lists.
func TestCommonType(t *testing.T) {
	o, x := newOracle(t)
	r := o.resolver(t, x, "pg_catalog", "public")
	pool := append(probeOperands(x), null, null)
	random := rand.New(rand.NewPCG(9, 10))
	var lists [][]operand
	for _, a := range pool {
		for _, b := range pool {
			lists = append(lists, []operand{a, b})
		}
		for range 5 {
			lists = append(lists, []operand{a, pool[random.IntN(len(pool))], pool[random.IntN(len(pool))]})
		}
	}
	for _, form := range []struct {
		name, format, separator string
		unite                   func(*typing.Resolver, []operand) (catalog.OID, catalog.OID, error)
	}{
		{"coalesce", "COALESCE(%s)", ", ", unite},
		{"array", "ARRAY[%s]", ", ", uniteArray},
		{"case", "CASE WHEN random() > 1 THEN %s END", " WHEN random() > 2 THEN ", uniteCase},
	} {
		t.Run(form.name, func(t *testing.T) {
			var expressions []string
			var got []answer
			for _, list := range lists {
				expressions = append(expressions, fmt.Sprintf(form.format, joined(list, form.separator)))
				result, common, err := form.unite(r, list)
				got = append(got, united(r, list, result, common, err))
			}
			o.compareOnly(t, expressions, got, withoutRandom(x, described))
		})
	}
	t.Run("union", func(t *testing.T) {
		var expressions []string
		var got []answer
		for _, list := range lists {
			expressions = append(expressions, joined(list, " UNION ALL SELECT "))
			got = append(got, unionAll(r, list))
		}
		o.compareOnly(t, expressions, got, func(a answer) answer { a.calls = nil; return described(a) })
	})
}

func joined(list []operand, separator string) string {
	var parts []string
	for _, o := range list {
		parts = append(parts, o.sql)
	}
	return strings.Join(parts, separator)
}

func types(list []operand) []catalog.OID {
	var oids []catalog.OID
	for _, o := range list {
		oids = append(oids, o.typ)
	}
	return oids
}

func unite(r *typing.Resolver, list []operand) (result, common catalog.OID, err error) {
	common, err = r.CommonType("COALESCE", types(list))
	return common, common, err
}

func uniteArray(r *typing.Resolver, list []operand) (result, common catalog.OID, err error) {
	return r.ArrayConstructor(types(list))
}

// uniteCase has the missing ELSE first: an untyped NULL.
func uniteCase(r *typing.Resolver, list []operand) (result, common catalog.OID, err error) {
	common, err = r.CommonType("CASE", append([]catalog.OID{typing.Unknown}, types(list)...))
	return common, common, err
}

// united adds what the conversion of every operand to the common type calls.
func united(r *typing.Resolver, list []operand, result, common catalog.OID, err error) answer {
	if err != nil {
		return failed(err)
	}
	a := answer{result: r.Base(result)}
	for _, o := range list {
		a.calls = append(a.calls, o.calls...)
		if a = addCoercion(r, a, o.typ, common, typing.Implicit); a.state != "" {
			return a
		}
	}
	return a
}

// withoutRandom leaves the function random, which the test's CASE needs, out of an answer.
func withoutRandom(x *catalog.Index, part func(answer) answer) func(answer) answer {
	skip := map[catalog.OID]bool{}
	for _, f := range x.FunctionsNamed("pg_catalog", "random") {
		skip[f.OID] = true
	}
	for _, f := range x.FunctionsNamed("pg_catalog", "float8gt") {
		skip[f.OID] = true
	}
	for _, f := range x.FunctionsNamed("pg_catalog", "float8") {
		skip[f.OID] = true
	}
	return func(a answer) answer {
		var calls []catalog.OID
		for _, f := range a.calls {
			if !skip[f] {
				calls = append(calls, f)
			}
		}
		a.calls = calls
		return part(a)
	}
}

// unionAll unites from left to right, two at a time.
func unionAll(r *typing.Resolver, list []operand) answer {
	t := list[0].typ
	for _, o := range list[1:] {
		var err error
		if t, err = r.CommonType("UNION", []catalog.OID{t, o.typ}); err != nil {
			return failed(err)
		}
	}
	return answer{result: r.Base(t)}
}

// TestInAndAny compares IN over lists, and operators with ANY.
func TestInAndAny(t *testing.T) {
	o, x := newOracle(t)
	r := o.resolver(t, x, "app", "pg_catalog", "public")
	pool := append(probeOperands(x), null, null, null)
	// ANY over a subquery is another construct, so the operand that is one stays out.
	pool = slices.DeleteFunc(pool, func(o operand) bool { return o.typ == typing.AnyArray })
	random := rand.New(rand.NewPCG(11, 12))
	pick := func() operand { return pool[random.IntN(len(pool))] }
	var expressions []string
	var got []answer
	for _, left := range pool {
		for _, other := range pool {
			list := []operand{other, pick(), left}[random.IntN(2):]
			expressions = append(expressions, fmt.Sprintf("(%s) IN (%s)", left.sql, joined(list, ", ")))
			got = append(got, in(r, left, list))
			name := []string{"=", "<", "+", "~~", "||", "@@@", "==="}[random.IntN(7)]
			expressions = append(expressions, fmt.Sprintf("(%s) %s ANY (%s)", left.sql, name, other.sql))
			got = append(got, anyOf(r, name, left, other))
		}
	}
	o.compareOnly(t, expressions, got, conversion)
}

// in adds to the operators of an IN list what the conversion of its members calls.
func in(r *typing.Resolver, left operand, list []operand) answer {
	operators, err := r.In("=", left.typ, types(list), nil)
	if err != nil {
		return failed(err)
	}
	var a answer
	for _, o := range append([]operand{left}, list...) {
		a.calls = append(a.calls, o.calls...)
	}
	for i, op := range operators {
		a.calls = append(a.calls, op.Function.OID)
		if a = addCoercion(r, a, left.typ, op.Left, typing.Implicit); a.state != "" {
			return a
		}
		if len(operators) == len(list) {
			a = addCoercion(r, a, list[i].typ, op.Right, typing.Implicit)
			continue
		}
		a = inArray(r, a, left, list, op)
	}
	return a
}

// inArray converts the members to their common type, and then the array of them to the operator's.
func inArray(r *typing.Resolver, a answer, left operand, list []operand, op typing.Operator) answer {
	common, err := r.CommonType("IN", types(append([]operand{left}, list...)))
	if err != nil {
		return failed(err)
	}
	for _, o := range list {
		if a = addCoercion(r, a, o.typ, common, typing.Implicit); a.state != "" {
			return a
		}
	}
	return addCoercion(r, a, r.ArrayOf(common), op.Right, typing.Implicit)
}

func anyOf(r *typing.Resolver, name string, left, right operand) answer {
	op, err := r.ScalarArray("", name, left.typ, right.typ)
	if err != nil {
		return failed(err)
	}
	a := answer{calls: append(append([]catalog.OID{op.Function.OID}, left.calls...), right.calls...)}
	if a = addCoercion(r, a, left.typ, op.Left, typing.Implicit); a.state != "" {
		return a
	}
	return addCoercion(r, a, right.typ, op.Right, typing.Implicit)
}

// TestSubscripts subscripts and slices every type.
func TestSubscripts(t *testing.T) {
	o, x := newOracle(t)
	r := o.resolver(t, x, "pg_catalog", "public")
	pool := append(probeOperands(x), typed(x, x.TypeNamed("public", "hstore").OID))
	var expressions []string
	var got []answer
	add := func(sql string, t catalog.OID, err error) {
		expressions = append(expressions, sql)
		if err != nil {
			got = append(got, failed(err))
			return
		}
		got = append(got, answer{result: r.Base(t)})
	}
	for _, p := range pool {
		elem, err := r.Element(p.typ)
		add("("+p.sql+")[1]", elem, err)
		slice, err := r.Slice(p.typ)
		add("("+p.sql+")[1:2]", slice, err)
	}
	o.compareOnly(t, expressions, got, func(a answer) answer { a.calls = nil; return described(a) })
}
