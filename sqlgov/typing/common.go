package typing

import (
	"slices"

	"interlock/catalog"
)

// CommonType returns the type to which PostgreSQL brings the branches of UNION, CASE, VALUES, ARRAY, COALESCE,
// GREATEST, LEAST and IN, given their types in the order in which PostgreSQL looks at them: the order of writing,
// but for CASE, whose ELSE comes first. A set operation takes two at a time, left to right. The context is the word
// for the message. Equal types stay (domains too); otherwise domains count as their base types, unknown adapts, and
// unknown alone becomes text. 42804 if the types differ in category, 42846 if one cannot be coerced to the type picked.
func (r *Resolver) CommonType(context string, types []catalog.OID) (catalog.OID, error) {
	t, err := r.common(types)
	if err != nil {
		return 0, errorf(err.SQLState, "%s %s", context, err.Message)
	}
	return t, r.checkCommon(context, types, t)
}

// checkCommon checks that every type can become the common one.
func (r *Resolver) checkCommon(context string, types []catalog.OID, common catalog.OID) error {
	for _, from := range types {
		if !r.CanCoerce(from, common, Implicit) {
			return errorf("42846", "%s could not convert type %s to %s", context, r.format(from), r.format(common))
		}
	}
	return nil
}

// common picks the common type without checking that every type can be coerced to it.
func (r *Resolver) common(types []catalog.OID) (catalog.OID, *Error) {
	if len(types) == 0 {
		return 0, errorf("42P18", "cannot determine type of an empty list")
	}
	first := types[0]
	if first != Unknown && allAre(types, first) {
		return first, nil
	}
	best := r.Base(first)
	category, preferred := r.category(best)
	for _, t := range types[1:] {
		t = r.Base(t)
		if t == Unknown || t == best {
			continue
		}
		c, p := r.category(t)
		switch {
		case best == Unknown:
		case c != category:
			return 0, errorf("42804", "types %s and %s cannot be matched", r.format(best), r.format(t))
		case preferred || !r.CanCoerce(best, t, Implicit) || r.CanCoerce(t, best, Implicit):
			continue
		}
		best, category, preferred = t, c, p
	}
	if best == Unknown {
		best = Text
	}
	return best, nil
}

func allAre(types []catalog.OID, t catalog.OID) bool {
	for _, other := range types {
		if other != t {
			return false
		}
	}
	return true
}

func (r *Resolver) allCoerce(types []catalog.OID, to catalog.OID) bool {
	for _, t := range types {
		if !r.CanCoerce(t, to, Implicit) {
			return false
		}
	}
	return true
}

// ArrayConstructor returns the types of ARRAY[...] over elements of the given types, and of what each element is
// coerced to. Elements that are arrays make a higher dimension of the same array type. 42P18 for an empty list, which
// needs a cast.
func (r *Resolver) ArrayConstructor(types []catalog.OID) (array, element catalog.OID, err error) {
	if len(types) == 0 {
		return 0, 0, errorf("42P18", "cannot determine type of empty array")
	}
	element, failure := r.common(types)
	if failure != nil {
		return 0, 0, errorf(failure.SQLState, "ARRAY %s", failure.Message)
	}
	if array, err = r.arrayHolding(element, slices.ContainsFunc(types, r.nests)); err != nil {
		return 0, 0, err
	}
	return array, element, r.checkCommon("ARRAY", types, element)
}

// nests reports if an element of a type makes ARRAY[...] one dimension higher instead of an array of that type.
func (r *Resolver) nests(t catalog.OID) bool {
	return t != int2Vector && t != oidVector && r.Elem(t) != 0
}

func (r *Resolver) arrayHolding(element catalog.OID, nested bool) (catalog.OID, error) {
	switch {
	case nested && r.Elem(element) == 0:
		return 0, errorf("42704", "could not find element type for data type %s", r.format(element))
	case nested:
		return element, nil
	}
	if array := r.ArrayOf(element); array != 0 {
		return array, nil
	}
	return 0, r.noArray(element)
}
