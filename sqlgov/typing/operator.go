package typing

import (
	"fmt"

	"interlock/catalog"
)

// Operator picks the operator for operands of the given types, as section 10.2 of the manual has it. Left is 0 for a
// prefix operator. An unqualified name is searched along the path; PostgreSQL looks up so too for what is spelled as
// a keyword:
//
//	x IN (a, b), x IN (SELECT), CASE x WHEN a, NULLIF, IS DISTINCT FROM, JOIN USING, NATURAL   "=" (NOT IN "<>")
//	BETWEEN ">=" and "<="; LIKE "~~", ILIKE "~~*", NOT LIKE "!~~", NOT ILIKE "!~~*"; SIMILAR TO "~"
//	(a, b) = (c, d)   the operator for each pair
//
// IN over a list has a helper, In, and op ANY (array) has ScalarArray. NULLIF, IS DISTINCT FROM, IN, rows and JOIN
// USING demand a boolean result (42804); NULLIF's own type is that to which its left operand is coerced.
// DISTINCT, GROUP BY, ORDER BY, PARTITION BY, set operations, GREATEST, LEAST, and rows compared by < > <= >= work by
// operator classes, whose functions PostgreSQL does not check the caller's privileges on; nothing is resolved for
// them here, but ORDER BY ... USING names an operator as written.
//
// Errors: 3F000 no such schema, 42883 no such operator, 42725 ambiguous, 42804 polymorphic operands that do not agree.
func (r *Resolver) Operator(schema, name string, left, right catalog.OID) (Operator, error) {
	o, err := r.pickOperator(schema, name, left, right)
	if err != nil {
		return Operator{}, err
	}
	f, err := r.implementation(o)
	if err != nil {
		return Operator{}, err
	}
	actual, declared := []catalog.OID{left, right}, []catalog.OID{o.Left, o.Right}
	if left == 0 {
		actual, declared = actual[1:], declared[1:]
	}
	result, err := r.resolve(actual, declared, o.Result)
	if err != nil {
		return Operator{}, err
	}
	match := Operator{Operator: o, Function: f, Result: result, Right: declared[len(declared)-1]}
	if left != 0 {
		match.Left = declared[0]
	}
	return match, nil
}

// pickOperator finds the operator, an exact match first.
func (r *Resolver) pickOperator(schema, name string, left, right catalog.OID) (*catalog.Operator, error) {
	if o := r.exactOperator(schema, name, left, right); o != nil {
		if takes(o, left, right) {
			r.loosen(schema, name, o.Schema, true)
		} else {
			r.loosen(schema, name, "", true)
		}
		return o, nil
	}
	r.loosen(schema, name, "", true)
	list, err := r.operatorCandidates(schema, name, left == 0)
	if err != nil {
		return nil, err
	}
	types := []catalog.OID{left, right}
	if left == 0 {
		types = types[1:]
	}
	c, ambiguous := r.choose(types, list)
	switch {
	case ambiguous:
		return nil, errorf("42725", "operator is not unique: %s", r.expression(schema, name, left, right))
	case c == nil:
		err := errorf("42883", "operator does not exist: %s", r.expression(schema, name, left, right))
		err.Missing = len(list) == 0
		return nil, err
	}
	return c.operator, nil
}

// takes reports if an operator is for just these types, of which an unknown one counts as the other. The base type of a
// domain is not the domain.
func takes(o *catalog.Operator, left, right catalog.OID) bool {
	return (o.Left == left || left == Unknown) && (o.Right == right || right == Unknown)
}

// exactOperator finds the operator for just these types. An unknown operand is first taken to have the type of the
// other, then that type's base type if it is a domain.
func (r *Resolver) exactOperator(schema, name string, left, right catalog.OID) *catalog.Operator {
	assumed := left != 0 && (left == Unknown || right == Unknown)
	switch {
	case !assumed:
	case left == Unknown:
		left = right
	default:
		right = left
	}
	if o := r.findOperator(schema, name, left, right); o != nil || !assumed {
		return o
	}
	if base := r.Base(left); base != left {
		return r.findOperator(schema, name, base, base)
	}
	return nil
}

func (r *Resolver) findOperator(schema, name string, left, right catalog.OID) *catalog.Operator {
	schemas, err := r.schemas(schema)
	if err != nil {
		return nil
	}
	for _, s := range schemas {
		for _, o := range r.Catalog.OperatorsNamed(s, name) {
			if o.Left == left && o.Right == right {
				return o
			}
		}
	}
	return nil
}

// implementation returns the function behind an operator.
func (r *Resolver) implementation(o *catalog.Operator) (*catalog.Function, error) {
	if o.Function == 0 {
		return nil, errorf("42883", "operator is only a shell: %s", r.expression("", o.Name, o.Left, o.Right))
	}
	f := r.Catalog.Function(o.Function)
	if f == nil {
		return nil, &Error{SQLState: "42883", Message: fmt.Sprintf("function of operator %s is unknown", o.Name), Missing: true}
	}
	return f, nil
}

// expression prints an operator with its operand types for a message.
func (r *Resolver) expression(schema, name string, left, right catalog.OID) string {
	op := qualify(schema, name) + " " + r.format(right)
	if left == 0 {
		return op
	}
	return r.format(left) + " " + op
}

// ScalarArray picks the operator of "left op ANY (right)" and "left op ALL (right)", where right is the type of the
// array. In the answer, Right is the array type to which the right operand is coerced. 42809 if right is no array or
// the operator's result is not boolean; otherwise errors are those of Operator.
func (r *Resolver) ScalarArray(schema, name string, left, right catalog.OID) (Operator, error) {
	elem := Unknown
	if right != Unknown {
		if elem = r.Elem(r.Base(right)); elem == 0 {
			return Operator{}, errorf("42809", "op ANY/ALL (array) requires array on right side")
		}
	}
	match, err := r.Operator(schema, name, left, elem)
	if err != nil {
		return Operator{}, err
	}
	if match.Result != Bool || match.Function.ReturnsSet {
		return Operator{}, errorf("42809", "op ANY/ALL (array) requires operator to yield boolean")
	}
	if right != Unknown && polymorphic(match.Operator.Right) && !compatibleFamily(match.Operator.Right) {
		match.Right = right
		return match, nil
	}
	array := r.ArrayOf(match.Right)
	if array == 0 {
		return Operator{}, r.noArray(match.Right)
	}
	match.Right = array
	return match, nil
}

// In picks the operators of "left IN (list)" ("=") and "left NOT IN (list)" ("<>"). Values are the types of the
// members that hold no column of the same query level, columns those of the members that do: two or more values of
// a common type are compared as one array, everything else one by one. Rows on both sides are compared field by field:
// the caller resolves those.
func (r *Resolver) In(name string, left catalog.OID, values, columns []catalog.OID) ([]Operator, error) {
	var found []Operator
	rest := append(append([]catalog.OID{}, values...), columns...)
	if array := r.inArray(left, values); array != 0 {
		match, err := r.ScalarArray("", name, left, array)
		if err != nil {
			return nil, err
		}
		found, rest = append(found, match), columns
	}
	for _, t := range rest {
		match, err := r.Operator("", name, left, t)
		switch {
		case err != nil:
			return nil, err
		case !r.CanCoerce(match.Result, Bool, Assignment):
			return nil, errorf("42804", "argument of IN must be type boolean, not type %s", r.format(match.Result))
		}
		found = append(found, match)
	}
	return found, nil
}

// inArray returns the array type as which the values of an IN list are compared, or 0 if they are not.
func (r *Resolver) inArray(left catalog.OID, values []catalog.OID) catalog.OID {
	if len(values) < 2 {
		return 0
	}
	all := append([]catalog.OID{left}, values...)
	t, err := r.common(all)
	if err != nil || t == Record || !r.allCoerce(all, t) {
		return 0
	}
	return r.ArrayOf(t)
}
