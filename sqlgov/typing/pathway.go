package typing

import "interlock/catalog"

// pathway is how PostgreSQL gets from one type to another when a cast, or the lack of one, decides it.
type pathway int

const (
	noPath    pathway = iota
	relabel           // same bits
	byCast            // a cast function
	byElement         // an array, an element at a time
	viaText           // output function, then input function
)

// pathway finds the way from one type to another. Domains count as their base types. The function is 0 but for byCast.
func (r *Resolver) pathway(from, to catalog.OID, ctx Context) (pathway, catalog.OID) {
	from, to = r.Base(from), r.Base(to)
	if from == to {
		return relabel, 0
	}
	if cast := r.Catalog.Cast(from, to); cast != nil {
		return castPathway(cast, ctx)
	}
	// The vector types have array elements, yet nothing else may slip into them as an array.
	if to != oidVector && to != int2Vector {
		if source := r.Elem(from); source != 0 {
			if target := r.Elem(to); target != 0 {
				if path, _ := r.pathway(source, target, ctx); path != noPath {
					return byElement, 0
				}
			}
		}
	}
	return r.textPathway(from, to, ctx), 0
}

func castPathway(cast *catalog.Cast, ctx Context) (pathway, catalog.OID) {
	if ctx < castContext(cast) {
		return noPath, 0
	}
	switch cast.Method {
	case "f":
		return byCast, cast.Function
	case "i":
		return viaText, 0
	case "b":
		return relabel, 0
	}
	return noPath, 0
}

func castContext(cast *catalog.Cast) Context {
	switch cast.Context {
	case "i":
		return Implicit
	case "a":
		return Assignment
	}
	return Explicit
}

// textPathway is the fallback without a cast: to a string type on assignment, from one by an explicit cast.
func (r *Resolver) textPathway(from, to catalog.OID, ctx Context) pathway {
	if ctx == Implicit {
		return noPath
	}
	if c, _ := r.category(to); c == stringCategory {
		return viaText
	}
	if c, _ := r.category(from); c == stringCategory && ctx == Explicit {
		return viaText
	}
	return noPath
}

// CanCoerce reports if PostgreSQL would convert a value of one type to another in a context. Unknown goes to
// everything; record goes to every composite type (whether its fields fit is for Coerce and CoerceRow to say).
func (r *Resolver) CanCoerce(from, to catalog.OID, ctx Context) bool {
	if !r.accepts(from, to, ctx) {
		return false
	}
	return from == to || !polymorphic(to) || r.consistent([]catalog.OID{from}, []catalog.OID{to})
}

// canCoerceAll is CanCoerce for the arguments of one call, whose polymorphic types must agree with each other.
func (r *Resolver) canCoerceAll(from, to []catalog.OID, ctx Context) bool {
	generic := false
	for i, t := range from {
		if !r.accepts(t, to[i], ctx) {
			return false
		}
		generic = generic || polymorphic(to[i]) && t != to[i]
	}
	return !generic || r.consistent(from, to[:len(from)])
}

// accepts is the part of CanCoerce that looks at one pair of types; polymorphic targets take anything here.
func (r *Resolver) accepts(from, to catalog.OID, ctx Context) bool {
	switch {
	case from == to, to == Any, polymorphic(to), from == Unknown:
		return true
	}
	if path, _ := r.pathway(from, to, ctx); path != noPath {
		return true
	}
	return r.rowCompatible(from, to)
}

// rowCompatible holds the conversions between rows, which no cast describes.
func (r *Resolver) rowCompatible(from, to catalog.OID) bool {
	switch {
	case from == Record && r.complex(to),
		to == Record && r.complex(from),
		to == RecordArray && r.Elem(from) != 0 && r.complex(r.Elem(from)):
		return true
	}
	return r.inherits(from, to)
}

// BinaryCoercible reports if a value of one type can be used as the other without any conversion.
func (r *Resolver) BinaryCoercible(from, to catalog.OID) bool {
	if from == to || to == Any || to == anyElement || to == anyCompatible {
		return true
	}
	from = r.Base(from)
	switch to {
	case from:
		return true
	case AnyArray, anyCompatibleArray:
		return r.Elem(from) != 0
	case anyNonArray, anyCompatibleNonArray:
		return r.Elem(from) == 0
	case anyEnum:
		return r.isKind(from, "e")
	case anyRange, anyCompatibleRange:
		return r.isKind(from, "r")
	case anyMultirange, anyCompatibleMultirange:
		return r.isKind(from, "m")
	case Record:
		return r.complex(from)
	case RecordArray:
		return r.Elem(from) != 0 && r.complex(r.Elem(from))
	}
	cast := r.Catalog.Cast(from, to)
	return cast != nil && cast.Method == "b" && castContext(cast) == Implicit
}
