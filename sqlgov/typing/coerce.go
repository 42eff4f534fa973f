package typing

import (
	"slices"
	"strings"

	"interlock/catalog"
)

// Coerce says what PostgreSQL calls to make a value of one type another in a context.
//
// Functions lists what PostgreSQL checks the caller's EXECUTE privilege on: the cast function, the length function of
// a domain's base type, the functions in CHECK constraints of domains, for arrays those of the elements; an untyped
// literal or a conversion through text into a type that has domains inside brings their checks too. IO lists the
// input and output functions outside pg_catalog that run unchecked. Length functions of casts as written, varchar(10),
// are for CoerceTypmod to say.
//
// A record whose fields are known goes to a composite type by CoerceRow; ARRAY[...] under a cast to an array type is
// coerced an element at a time, from each element's own type. 42846 if there is no way under an explicit cast, 42804
// if there is none otherwise, 42846 for a record whose fields are not known, 0A000 for an untyped literal as a
// pseudo-type that has no values in SQL.
func (r *Resolver) Coerce(from, to catalog.OID, ctx Context) (Coercion, error) {
	var c Coercion
	if !r.CanCoerce(from, to, ctx) {
		return c, r.cannotCoerce(from, to, ctx)
	}
	if from == Unknown && r.unwritable(to) {
		return c, errorf("0A000", "cannot accept a value of type %s", r.format(to))
	}
	if from == Record && to != Record && r.complex(to) {
		return c, errorf("42846", "cannot cast type record to %s", r.format(to))
	}
	return c, r.coerce(&c, from, to, ctx)
}

// CoerceRow is Coerce for ROW(...) with fields of the given types into a composite type or a domain over one.
func (r *Resolver) CoerceRow(fields []catalog.OID, to catalog.OID, ctx Context) (Coercion, error) {
	var c Coercion
	rel := r.Composite(to)
	if rel == nil || len(fields) != len(rel.Columns) {
		return c, errorf("42846", "cannot cast type record to %s", r.format(to))
	}
	for i, t := range fields {
		column := rel.Columns[i]
		if !r.CanCoerce(t, column.Type, ctx) {
			return c, errorf("42846", "cannot cast type record to %s", r.format(to))
		}
		if err := r.coerce(&c, t, column.Type, ctx); err != nil {
			return c, err
		}
		if column.TypeMod >= 0 {
			c.call(r.CoerceTypmod(column.Type))
		}
	}
	r.checkDomain(&c, to)
	return c, nil
}

// CoerceTypmod returns the function that fits a value of a type to a length or precision, varchar(10) or
// numeric(8,2), or nil when the type has none. For an array it is that of the elements.
func (r *Resolver) CoerceTypmod(t catalog.OID) *catalog.Function {
	t = r.Base(t)
	if elem := r.Elem(t); elem != 0 && t != int2Vector && t != oidVector {
		t = elem
	}
	if cast := r.Catalog.Cast(t, t); cast != nil {
		return r.Catalog.Function(cast.Function)
	}
	return nil
}

// unwritable reports if a type is one that no literal can be of.
func (r *Resolver) unwritable(t catalog.OID) bool {
	switch t {
	case Any, Unknown, Record, RecordArray, Void, cstring:
		return false
	}
	return r.isKind(t, "p") && !polymorphic(t)
}

func (r *Resolver) cannotCoerce(from, to catalog.OID, ctx Context) error {
	if ctx == Explicit {
		return errorf("42846", "cannot cast type %s to %s", r.format(from), r.format(to))
	}
	return errorf("42804", "type %s cannot be used where %s is expected", r.format(from), r.format(to))
}

// coerce notes what a conversion that is known to exist calls.
func (r *Resolver) coerce(c *Coercion, from, to catalog.OID, ctx Context) error {
	if from == to || to == Any || polymorphic(to) && from != Unknown {
		return nil
	}
	if from == Unknown {
		if !polymorphic(to) {
			r.read(c, to, map[catalog.OID]bool{})
		}
		return nil
	}
	path, function := r.pathway(from, to, ctx)
	switch path {
	case noPath:
		// Between rows: nothing is called, fields are moved.
		return nil
	case byCast:
		f := r.Catalog.Function(function)
		if f == nil {
			return &Error{SQLState: "42883", Message: "the function of a cast is unknown", Missing: true}
		}
		c.call(f)
	case byElement:
		if err := r.coerce(c, r.Elem(r.Base(from)), r.Elem(r.Base(to)), ctx); err != nil {
			return err
		}
	case viaText:
		c.ViaIO = true
		r.print(c, from, map[catalog.OID]bool{})
		r.read(c, r.Base(to), map[catalog.OID]bool{})
	}
	r.lookUp(c, to)
	r.checkDomain(c, to)
	return nil
}

// call adds a function once.
func (c *Coercion) call(f *catalog.Function) {
	if f != nil && !slices.Contains(c.Functions, f) {
		c.Functions = append(c.Functions, f)
	}
}

// io adds an input or output function, unless it is PostgreSQL's own.
func (c *Coercion) io(f *catalog.Function) {
	if f != nil && f.Schema != "pg_catalog" && !slices.Contains(c.IO, f) {
		c.IO = append(c.IO, f)
	}
}

// lookUp adds the function that finds objects as a conversion to their type does.
func (r *Resolver) lookUp(c *Coercion, t catalog.OID) {
	typ := r.Catalog.Type(r.Base(t))
	if typ == nil || typ.Schema != "pg_catalog" || !strings.HasPrefix(typ.Name, "reg") {
		return
	}
	for _, f := range r.Catalog.FunctionsNamed("pg_catalog", "to_"+typ.Name) {
		if !slices.Contains(c.Lookups, f) {
			c.Lookups = append(c.Lookups, f)
		}
	}
}

// checkDomain adds what runs when a value becomes one of a domain: the base type's length function, and the checks
// of the domain and of those under it.
func (r *Resolver) checkDomain(c *Coercion, t catalog.OID) {
	for d := r.domain(t); d != nil; d = r.domain(d.Base) {
		if d.BaseMod >= 0 && r.domain(d.Base) == nil {
			c.call(r.CoerceTypmod(d.Base))
		}
		for _, oid := range d.CheckFuncs {
			c.call(r.Catalog.Function(oid))
		}
	}
}

// read adds what runs when a value of a type is made from text, the types inside it included.
func (r *Resolver) read(c *Coercion, t catalog.OID, seen map[catalog.OID]bool) {
	r.checkDomain(c, t)
	r.walk(t, seen, func(typ *catalog.Type) {
		c.io(r.Catalog.Function(typ.Input))
		r.lookUp(c, typ.OID)
		r.checkDomain(c, typ.OID)
	})
}

// print adds what runs when a value of a type is turned into text.
func (r *Resolver) print(c *Coercion, t catalog.OID, seen map[catalog.OID]bool) {
	r.walk(t, seen, func(typ *catalog.Type) { c.io(r.Catalog.Function(typ.Output)) })
}

// walk visits a type and every type that its values contain.
func (r *Resolver) walk(t catalog.OID, seen map[catalog.OID]bool, visit func(*catalog.Type)) {
	typ := r.Catalog.Type(t)
	if typ == nil || seen[t] {
		return
	}
	seen[t] = true
	visit(typ)
	for _, inner := range []catalog.OID{r.domainBase(typ), r.Elem(t), r.rangeSub(t), r.rangeOf(t)} {
		if inner != 0 {
			r.walk(inner, seen, visit)
		}
	}
	if rel := r.Catalog.Relation(typ.Relation); rel != nil {
		for _, column := range rel.Columns {
			r.walk(column.Type, seen, visit)
		}
	}
}

func (r *Resolver) domainBase(typ *catalog.Type) catalog.OID {
	if typ.Kind != "d" {
		return 0
	}
	return typ.Base
}
