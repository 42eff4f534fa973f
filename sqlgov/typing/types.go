package typing

import (
	"strings"

	"interlock/catalog"
)

// Pseudo-types and array types that the rules single out.
const (
	int2Vector              catalog.OID = 22
	oidVector               catalog.OID = 30
	int2Array               catalog.OID = 1005
	textArray               catalog.OID = 1009
	oidArray                catalog.OID = 1028
	cstring                 catalog.OID = 2275
	anyElement              catalog.OID = 2283
	anyNonArray             catalog.OID = 2776
	anyEnum                 catalog.OID = 3500
	anyRange                catalog.OID = 3831
	anyMultirange           catalog.OID = 4537
	anyCompatibleMultirange catalog.OID = 4538
	anyCompatible           catalog.OID = 5077
	anyCompatibleArray      catalog.OID = 5078
	anyCompatibleNonArray   catalog.OID = 5079
	anyCompatibleRange      catalog.OID = 5080
)

// stringCategory is pg_type.typcategory of the string types.
const stringCategory = "S"

// polymorphic reports if a declared type stands for a family of actual types.
func polymorphic(t catalog.OID) bool {
	switch t {
	case anyElement, AnyArray, anyNonArray, anyEnum, anyRange, anyMultirange,
		anyCompatible, anyCompatibleArray, anyCompatibleNonArray, anyCompatibleRange, anyCompatibleMultirange:
		return true
	}
	return false
}

// Base returns the type under a domain, through domains over domains; any other type is returned as it is.
func (r *Resolver) Base(t catalog.OID) catalog.OID {
	for {
		d := r.domain(t)
		if d == nil {
			return t
		}
		t = d.Base
	}
}

// domain returns the type if it is a domain, else nil.
func (r *Resolver) domain(t catalog.OID) *catalog.Type {
	if typ := r.Catalog.Type(t); typ != nil && typ.Kind == "d" && typ.Base != 0 && typ.Base != t {
		return typ
	}
	return nil
}

// ArrayOf returns the array type whose elements are of type t, or 0 when there is none.
func (r *Resolver) ArrayOf(t catalog.OID) catalog.OID {
	if typ := r.Catalog.Type(t); typ != nil {
		return typ.Array
	}
	return 0
}

// Elem returns the element type of a true array type, or 0. A domain over an array is not an array here: flatten it
// with Base where PostgreSQL does.
func (r *Resolver) Elem(t catalog.OID) catalog.OID {
	if typ := r.Catalog.Type(t); typ != nil && handler(typ) == "array_subscript_handler" {
		return typ.Element
	}
	return 0
}

// handler returns the name of a type's subscripting function without its schema.
func handler(t *catalog.Type) string {
	name := t.SubscriptHandler
	return name[strings.LastIndexByte(name, '.')+1:]
}

// Element returns the type of x[i] for x of type t: domains are flattened, and arrays, int2vector, oidvector, the
// fixed-length types (point, box, name) and jsonb can be subscripted. 42804 for any other type; 0A000 for a type with
// a subscripting function of an extension, whose result is the extension's secret.
func (r *Resolver) Element(t catalog.OID) (catalog.OID, error) {
	typ := r.Catalog.Type(r.Base(t))
	if typ == nil || typ.SubscriptHandler == "" || typ.SubscriptHandler == "-" {
		return 0, errorf("42804", "cannot subscript type %s because it does not support subscripting", r.format(r.Base(t)))
	}
	switch handler(typ) {
	case "array_subscript_handler", "raw_array_subscript_handler":
		return typ.Element, nil
	case "jsonb_subscript_handler":
		return JSONB, nil
	case "hstore_subscript_handler":
		return Text, nil
	}
	return 0, errorf("0A000", "subscripting type %s is not supported", r.format(t))
}

// Slice returns the type of x[i:j] for x of type t. Only arrays and the fixed-length types can be sliced.
func (r *Resolver) Slice(t catalog.OID) (catalog.OID, error) {
	if _, err := r.Element(t); err != nil {
		return 0, err
	}
	base := r.Base(t)
	switch {
	case base == int2Vector:
		return int2Array, nil
	case base == oidVector:
		return oidArray, nil
	case base == JSONB:
		return 0, errorf("42804", "jsonb subscript does not support slices")
	case strings.HasSuffix(r.Catalog.Type(base).SubscriptHandler, "array_subscript_handler"):
		return base, nil
	}
	return 0, errorf("0A000", "slices of type %s are not supported", r.format(base))
}

// Composite returns the relation that describes the fields of a composite type or of a domain over one, or nil.
func (r *Resolver) Composite(t catalog.OID) *catalog.Relation {
	if typ := r.Catalog.Type(r.Base(t)); typ != nil && typ.Relation != 0 {
		return r.Catalog.Relation(typ.Relation)
	}
	return nil
}

// complex reports if a type is composite, or a domain over a composite type.
func (r *Resolver) complex(t catalog.OID) bool {
	typ := r.Catalog.Type(r.Base(t))
	return typ != nil && typ.Relation != 0
}

// arrayOrDomain reports if a type is an array or a domain over one.
func (r *Resolver) arrayOrDomain(t catalog.OID) bool { return r.Elem(r.Base(t)) != 0 }

func (r *Resolver) isKind(t catalog.OID, kind string) bool {
	typ := r.Catalog.Type(t)
	return typ != nil && typ.Kind == kind
}

// rangeSub returns the subtype of a range type, or 0.
func (r *Resolver) rangeSub(t catalog.OID) catalog.OID {
	if typ := r.Catalog.Type(t); typ != nil && typ.Kind == "r" {
		return typ.RangeSub
	}
	return 0
}

// multirangeOf returns the multirange type of a range type, or 0.
func (r *Resolver) multirangeOf(t catalog.OID) catalog.OID {
	if typ := r.Catalog.Type(t); typ != nil && typ.Kind == "r" {
		return typ.RangeMulti
	}
	return 0
}

// rangeOf returns the range type of a multirange type, or 0.
func (r *Resolver) rangeOf(t catalog.OID) catalog.OID {
	if typ := r.Catalog.Type(t); typ != nil && typ.Kind == "m" {
		return typ.RangeMulti
	}
	return 0
}

// category returns a type's category, and if it is the preferred type there.
func (r *Resolver) category(t catalog.OID) (string, bool) {
	if typ := r.Catalog.Type(t); typ != nil {
		return typ.Category, typ.Preferred
	}
	return "", false
}

// inherits reports if a row of type sub may stand where one of type super is expected: super's relation is an
// ancestor of sub's, or the composite type that sub's relation was made OF.
func (r *Resolver) inherits(sub, super catalog.OID) bool {
	child := r.Composite(sub)
	parent := r.Catalog.Type(super)
	if child == nil || parent == nil || parent.Relation == 0 {
		return false
	}
	return child.OfType == super || r.descends(child, parent.Relation, map[catalog.OID]bool{})
}

func (r *Resolver) descends(rel *catalog.Relation, ancestor catalog.OID, seen map[catalog.OID]bool) bool {
	if rel == nil || seen[rel.OID] {
		return false
	}
	seen[rel.OID] = true
	for _, p := range rel.Parents {
		if p == ancestor || r.descends(r.Catalog.Relation(p), ancestor, seen) {
			return true
		}
	}
	return false
}
