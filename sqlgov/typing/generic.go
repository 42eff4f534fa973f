package typing

import "interlock/catalog"

// generics gathers what the arguments of one call say about its polymorphic types. There are two families that do
// not influence each other: anyelement and kin must match exactly, anycompatible and kin find a common type.
type generics struct {
	r *Resolver

	simple     int // arguments of the first family
	elem       catalog.OID
	array      catalog.OID
	rng        catalog.OID
	multi      catalog.OID
	nonArray   bool
	enum       bool
	multirange bool

	compatible   bool          // there are arguments of the second family
	actual       []catalog.OID // their known types, or element types
	common       catalog.OID
	commonArray  catalog.OID
	commonRange  catalog.OID
	commonSub    catalog.OID // subtype of commonRange
	commonMulti  catalog.OID
	multiRange   catalog.OID // range type of commonMulti
	wantNonArray bool
	wantArray    bool
	wantRange    bool
	wantMulti    bool
}

// The ways in which arguments fail polymorphic types. They are fixed values, because candidates are tried and
// dropped often.
var (
	errNotAlike     = &Error{SQLState: "42804", Message: "arguments of a polymorphic type are not all alike"}
	errNotArray     = &Error{SQLState: "42804", Message: "argument declared anyarray is not an array"}
	errNotRange     = &Error{SQLState: "42804", Message: "argument declared anyrange is not a range type"}
	errNotMulti     = &Error{SQLState: "42804", Message: "argument declared anymultirange is not a multirange type"}
	errInconsistent = &Error{SQLState: "42804", Message: "arguments of polymorphic types are not consistent with each other"}
	errIsArray      = &Error{SQLState: "42804", Message: "type matched to anynonarray is an array type"}
	errNotEnum      = &Error{SQLState: "42804", Message: "type matched to anyenum is not an enum type"}
	errNoCommon     = &Error{SQLState: "42804", Message: "arguments of anycompatible family cannot be cast to a common type"}
	errRangeCommon  = &Error{SQLState: "42804", Message: "range subtype does not match the anycompatible type"}
	errAnyArrayElem = &Error{SQLState: "42804", Message: `cannot determine element type of "anyarray" argument`}
	errUndetermined = &Error{SQLState: "42804", Message: "could not determine polymorphic type because input has type unknown"}
)

// consistent reports if actual types could match declared ones, as far as polymorphic types go. It is lenient where
// the types are not known yet; resolve has the last word.
func (r *Resolver) consistent(actual, declared []catalog.OID) bool {
	g := &generics{r: r}
	if g.collect(actual, declared) != nil || g.agreeSimple() != nil {
		return false
	}
	if g.nonArray && r.arrayOrDomain(g.elem) || g.enum && !r.isKind(g.elem, "e") {
		return false
	}
	if g.agreeRanges() != nil {
		return false
	}
	if len(g.actual) == 0 {
		return true
	}
	if g.unify() != nil {
		return false
	}
	return g.commonSub == 0 || g.commonSub == g.common
}

// collect reads the arguments one by one.
func (g *generics) collect(actual, declared []catalog.OID) error {
	for i, d := range declared {
		if err := g.collectOne(actual[i], d); err != nil {
			return err
		}
	}
	return nil
}

func (g *generics) collectOne(actual, declared catalog.OID) error {
	g.want(declared)
	if actual == Unknown {
		return nil
	}
	base := g.r.Base(actual)
	switch declared {
	case anyElement, anyNonArray, anyEnum:
		return same(&g.elem, actual)
	case AnyArray:
		return same(&g.array, base)
	case anyRange:
		return same(&g.rng, base)
	case anyMultirange:
		return same(&g.multi, base)
	case anyCompatible, anyCompatibleNonArray:
		g.actual = append(g.actual, actual)
	case anyCompatibleArray:
		return g.add(g.r.Elem(base), errNotArray)
	case anyCompatibleRange:
		return g.addRange(base)
	case anyCompatibleMultirange:
		return g.addMultirange(base)
	}
	return nil
}

// want notes that a type occurs as the declared type of an argument.
func (g *generics) want(declared catalog.OID) {
	switch declared {
	case anyElement, AnyArray, anyNonArray, anyEnum, anyRange, anyMultirange:
		g.simple++
	case anyCompatible, anyCompatibleArray, anyCompatibleNonArray, anyCompatibleRange, anyCompatibleMultirange:
		g.compatible = true
	}
	g.restrict(declared)
}

// restrict notes what a declared argument or result type demands of the actual type.
func (g *generics) restrict(declared catalog.OID) {
	switch declared {
	case anyNonArray:
		g.nonArray = true
	case anyEnum:
		g.enum = true
	case anyMultirange:
		g.multirange = true
	case anyCompatibleArray:
		g.wantArray = true
	case anyCompatibleNonArray:
		g.wantNonArray = true
	case anyCompatibleRange:
		g.wantRange = true
	case anyCompatibleMultirange:
		g.wantMulti = true
	}
}

// same sets a slot, or insists that it holds the same type already.
func same(slot *catalog.OID, t catalog.OID) error {
	if *slot != 0 && *slot != t {
		return errNotAlike
	}
	*slot = t
	return nil
}

func (g *generics) add(t catalog.OID, missing error) error {
	if t == 0 {
		return missing
	}
	g.actual = append(g.actual, t)
	return nil
}

func (g *generics) addRange(t catalog.OID) error {
	if g.commonRange != 0 {
		return same(&g.commonRange, t)
	}
	g.commonRange, g.commonSub = t, g.r.rangeSub(t)
	return g.add(g.commonSub, errNotRange)
}

func (g *generics) addMultirange(t catalog.OID) error {
	if g.commonMulti != 0 {
		return same(&g.commonMulti, t)
	}
	g.commonMulti, g.multiRange = t, g.r.rangeOf(t)
	if g.multiRange == 0 {
		return errNotMulti
	}
	return nil
}

// agreeSimple derives the element type from the array, multirange and range types, or finds them in conflict.
func (g *generics) agreeSimple() error {
	if g.array != 0 && g.array != AnyArray {
		if err := g.element(g.r.Elem(g.array), errNotArray); err != nil {
			return err
		}
	}
	if g.multi != 0 {
		rng := g.r.rangeOf(g.multi)
		if rng == 0 {
			return errNotMulti
		}
		if g.rng != 0 && g.rng != rng {
			return errInconsistent
		}
		g.rng = rng
	}
	if g.rng != 0 {
		return g.element(g.r.rangeSub(g.rng), errNotRange)
	}
	return nil
}

func (g *generics) element(t catalog.OID, missing error) error {
	switch {
	case t == 0:
		return missing
	case g.elem == 0:
		g.elem = t
	case g.elem != t:
		return errInconsistent
	}
	return nil
}

// agreeRanges does for anycompatiblerange and anycompatiblemultirange what agreeSimple does for its family.
func (g *generics) agreeRanges() error {
	if g.commonMulti == 0 {
		return nil
	}
	if g.commonRange != 0 {
		if g.commonRange != g.multiRange {
			return errInconsistent
		}
		return nil
	}
	g.commonRange, g.commonSub = g.multiRange, g.r.rangeSub(g.multiRange)
	return g.add(g.commonSub, errNotMulti)
}

// unify picks the common type of the second family from the types seen.
func (g *generics) unify() error {
	common, err := g.r.common(g.actual)
	if err != nil || !g.r.allCoerce(g.actual, common) {
		return errNoCommon
	}
	if g.wantNonArray && g.r.arrayOrDomain(common) {
		return errIsArray
	}
	g.common = common
	return nil
}

// resolve fixes the polymorphic types of a call: it returns the result type and replaces, in declared, the types
// that arguments are to be coerced to. Where an argument stays as it is, its own type is put there.
func (r *Resolver) resolve(actual, declared []catalog.OID, result catalog.OID) (catalog.OID, error) {
	g := &generics{r: r}
	g.restrict(result)
	if err := g.collect(actual, declared); err != nil {
		return 0, err
	}
	if g.simple > 0 {
		if err := g.settleSimple(result); err != nil {
			return 0, err
		}
	}
	if g.compatible {
		if err := g.settleCompatible(); err != nil {
			return 0, err
		}
	}
	for i, d := range declared {
		t, err := g.target(actual[i], d)
		if err != nil {
			return 0, err
		}
		declared[i] = t
	}
	if g.simple == 0 && !g.compatible {
		return result, nil
	}
	return g.actualFor(result)
}

// settleSimple determines the first family's types, or says why they cannot be.
func (g *generics) settleSimple(result catalog.OID) error {
	if g.array == AnyArray {
		// A column of type anyarray (pg_stats has some) has no element type to offer.
		if g.simple != 1 || result != AnyArray && polymorphic(result) && !compatibleFamily(result) {
			return errAnyArrayElem
		}
		g.elem = anyElement
	}
	if err := g.agreeSimple(); err != nil {
		return err
	}
	if g.multirange && g.multi == 0 && g.rng != 0 {
		g.multi = g.r.multirangeOf(g.rng)
	}
	switch {
	case g.elem == 0:
		return errUndetermined
	case g.elem == anyElement:
		return nil
	case g.nonArray && g.r.arrayOrDomain(g.elem):
		return errIsArray
	case g.enum && !g.r.isKind(g.elem, "e"):
		return errNotEnum
	}
	return nil
}

func compatibleFamily(t catalog.OID) bool {
	switch t {
	case anyCompatible, anyCompatibleArray, anyCompatibleNonArray, anyCompatibleRange, anyCompatibleMultirange:
		return true
	}
	return false
}

// settleCompatible determines the second family's types. Unknown arguments alone make text.
func (g *generics) settleCompatible() error {
	if err := g.agreeRanges(); err != nil {
		return err
	}
	if g.commonMulti == 0 && g.wantMulti && g.commonRange != 0 {
		g.commonMulti = g.r.multirangeOf(g.commonRange)
	}
	if len(g.actual) == 0 {
		g.common, g.commonArray = Text, textArray
		return g.rangesKnown()
	}
	if err := g.unify(); err != nil {
		return err
	}
	if g.wantArray {
		if g.commonArray = g.r.ArrayOf(g.common); g.commonArray == 0 {
			return g.r.noArray(g.common)
		}
	}
	if err := g.rangesKnown(); err != nil {
		return err
	}
	if (g.wantRange || g.wantMulti) && g.commonSub != g.common {
		return errRangeCommon
	}
	return nil
}

// rangesKnown checks that the range types wanted are known: no other type tells them.
func (g *generics) rangesKnown() error {
	switch {
	case g.wantRange && g.commonRange == 0:
		return undetermined("anycompatiblerange")
	case g.wantMulti && g.commonMulti == 0:
		return undetermined("anycompatiblemultirange")
	}
	return nil
}

// target returns what an argument is coerced to.
func (g *generics) target(actual, declared catalog.OID) (catalog.OID, error) {
	switch declared {
	case Any:
		return actual, nil
	case anyCompatible, anyCompatibleNonArray, anyCompatibleArray, anyCompatibleRange, anyCompatibleMultirange:
		return g.actualFor(declared)
	case anyElement, anyNonArray, anyEnum:
		if actual != Unknown {
			return actual, nil
		}
		return g.actualFor(declared)
	case AnyArray, anyRange, anyMultirange:
		if actual != Unknown {
			return g.r.Base(actual), nil
		}
		return g.actualFor(declared)
	}
	return declared, nil
}

// actualFor returns the actual type behind a polymorphic one; other types are returned as they are.
func (g *generics) actualFor(t catalog.OID) (catalog.OID, error) {
	switch t {
	case anyElement, anyNonArray, anyEnum:
		return determined(g.elem, "anyelement")
	case AnyArray:
		return g.arrayType()
	case anyRange:
		return determined(g.rng, "anyrange")
	case anyMultirange:
		return determined(g.multi, "anymultirange")
	case anyCompatible, anyCompatibleNonArray:
		return determined(g.common, "anycompatible")
	case anyCompatibleArray:
		return determined(g.commonArray, "anycompatiblearray")
	case anyCompatibleRange:
		return determined(g.commonRange, "anycompatiblerange")
	case anyCompatibleMultirange:
		return determined(g.commonMulti, "anycompatiblemultirange")
	}
	return t, nil
}

func determined(t catalog.OID, name string) (catalog.OID, error) {
	if t == 0 {
		return 0, undetermined(name)
	}
	return t, nil
}

func undetermined(name string) error {
	return errorf("42804", "could not determine polymorphic type %s because input has type unknown", name)
}

func (g *generics) arrayType() (catalog.OID, error) {
	if g.array != 0 {
		return g.array, nil
	}
	if a := g.r.ArrayOf(g.elem); a != 0 {
		return a, nil
	}
	return 0, g.r.noArray(g.elem)
}

func (r *Resolver) noArray(t catalog.OID) error {
	return errorf("42704", "could not find array type for data type %s", r.format(t))
}
