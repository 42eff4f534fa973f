package typing_test

import (
	"fmt"
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/typing"
)

// operand is an expression of a known type.
type operand struct {
	sql   string
	typ   catalog.OID
	calls []catalog.OID // what it calls itself: the length function of a domain
}

// null is an untyped literal; unlike 'x' it converts to every type without an error of the type's input function.
var null = operand{sql: "NULL", typ: typing.Unknown}

// typed is a NULL of a type.
func typed(x *catalog.Index, t catalog.OID) operand {
	typ := x.Type(t)
	o := operand{sql: fmt.Sprintf("NULL::%q.%q", typ.Schema, typ.Name), typ: t}
	r := typing.Resolver{Catalog: x}
	if c, err := r.Coerce(typing.Unknown, t, typing.Explicit); err == nil {
		for _, f := range c.Functions {
			o.calls = append(o.calls, f.OID)
		}
	}
	return o
}

// call is a function call with its operands.
type call struct {
	typing.Call
	operands []operand
	over     bool
}

// newCall makes a call in positional notation.
func newCall(schema, name string, operands ...operand) call {
	c := call{Call: typing.Call{Schema: schema, Name: name}, operands: operands}
	for _, o := range operands {
		c.Args = append(c.Args, typing.Arg{Type: o.typ})
	}
	return c
}

// SQL writes the call.
func (c call) SQL() string {
	name := fmt.Sprintf("%q", c.Name)
	if c.Schema != "" {
		name = fmt.Sprintf("%q.%s", c.Schema, name)
	}
	args := make([]string, len(c.operands))
	for i, o := range c.operands {
		args[i] = o.sql
		if c.Args[i].Name != "" {
			args[i] = c.Args[i].Name + " => " + o.sql
		}
	}
	direct := len(args) - c.WithinGroup
	if c.Variadic {
		args[len(args)-1] = "VARIADIC " + args[len(args)-1]
	}
	var b strings.Builder
	if c.Procedure {
		b.WriteString("CALL ")
	}
	b.WriteString(name + "(" + strings.Join(args[:direct], ", "))
	if c.Star {
		b.WriteString("*")
	}
	b.WriteString(")")
	if c.WithinGroup > 0 {
		b.WriteString(" WITHIN GROUP (ORDER BY " + strings.Join(args[direct:], ", ") + ")")
	}
	if c.over {
		b.WriteString(" OVER ()")
	}
	return b.String()
}

// resolveCall is the resolver's answer to a call, with everything that its arguments' coercion calls.
func resolveCall(r *typing.Resolver, c call) answer {
	m, err := r.Function(c.Call)
	if err != nil {
		return failed(err)
	}
	a := answer{result: m.Result}
	for _, o := range c.operands {
		a.calls = append(a.calls, o.calls...)
	}
	if m.Function == nil {
		return addCoercion(r, a, c.Args[0].Type, m.Coercion, typing.Explicit)
	}
	a.picked = m.Function.OID
	a.calls = append(a.calls, m.Function.OID)
	for i, arg := range c.Args {
		a = addCoercion(r, a, arg.Type, m.ArgTypes[i], typing.Implicit)
	}
	return a
}

// resolveOperator is the resolver's answer to an operator.
func resolveOperator(r *typing.Resolver, schema, name string, left, right operand) answer {
	m, err := r.Operator(schema, name, left.typ, right.typ)
	if err != nil {
		return failed(err)
	}
	a := answer{picked: m.Function.OID, result: m.Result, calls: []catalog.OID{m.Function.OID}}
	a.calls = append(append(a.calls, left.calls...), right.calls...)
	if left.typ != 0 {
		a = addCoercion(r, a, left.typ, m.Left, typing.Implicit)
	}
	return addCoercion(r, a, right.typ, m.Right, typing.Implicit)
}

// operatorCases gathers operator expressions with the resolver's answers.
type operatorCases struct {
	r           *typing.Resolver
	expressions []string
	got         []answer
}

func newOperatorCases(r *typing.Resolver) *operatorCases { return &operatorCases{r: r} }

func (c *operatorCases) prefix(schema, name string, right operand) {
	c.expressions = append(c.expressions, fmt.Sprintf("%s (%s)", operatorSQL(schema, name), right.sql))
	c.got = append(c.got, resolveOperator(c.r, schema, name, operand{}, right))
}

func (c *operatorCases) binary(schema, name string, left, right operand) {
	c.expressions = append(c.expressions, fmt.Sprintf("(%s) %s (%s)", left.sql, operatorSQL(schema, name), right.sql))
	c.got = append(c.got, resolveOperator(c.r, schema, name, left, right))
}

func operatorSQL(schema, name string) string {
	if schema == "" {
		return name
	}
	return fmt.Sprintf("OPERATOR(%s.%s)", schema, name)
}

func addCoercion(r *typing.Resolver, a answer, from, to catalog.OID, ctx typing.Context) answer {
	c, err := r.Coerce(from, to, ctx)
	if err != nil {
		return failed(err)
	}
	for _, f := range c.Functions {
		a.calls = append(a.calls, f.OID)
	}
	a.calls = distinct(a.calls)
	if a.result == typing.Unknown {
		a.result = typing.Text
	}
	return a
}
