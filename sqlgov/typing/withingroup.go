package typing

import "interlock/catalog"

// checkWithinGroup checks how a call divides its arguments between the parentheses and WITHIN GROUP. Functions are
// picked by all arguments in one list, so the division can still be wrong for the one picked.
func (r *Resolver) checkWithinGroup(call Call, c *candidate, types []catalog.OID) error {
	f := c.function
	if f.Kind != "a" {
		return nil
	}
	ordered := f.AggKind == "o" || f.AggKind == "h"
	switch {
	case !ordered && call.WithinGroup > 0:
		return errorf("42809", "%s is not an ordered-set aggregate, so it cannot have WITHIN GROUP", f.Name)
	case !ordered:
		return nil
	case call.WithinGroup == 0:
		return errorf("42809", "WITHIN GROUP is required for ordered-set aggregate %s", f.Name)
	}
	if !divides(call, c, len(types)) {
		return r.undefined(call)
	}
	return nil
}

// divides reports if the number of direct arguments suits the aggregate.
func divides(call Call, c *candidate, n int) bool {
	f := c.function
	direct := n - call.WithinGroup
	params := n
	if c.variadic > 1 {
		params -= c.variadic - 1
	}
	if f.Variadic == 0 || f.AggDirectArgs < params {
		return direct == f.AggDirectArgs
	}
	// Direct and ordering arguments are both variadic; a hypothetical-set aggregate needs them in pairs.
	if f.AggKind == "h" {
		return c.variadic == 2*call.WithinGroup
	}
	return c.variadic > call.WithinGroup
}

// unifyHypothetical gives each hypothetical argument and its ordering column their common type. The ordering column
// comes first, so that its type wins a tie.
func (r *Resolver) unifyHypothetical(call Call, f *catalog.Function, types, declared []catalog.OID) error {
	if f.AggKind != "h" {
		return nil
	}
	direct := len(types) - call.WithinGroup
	for i := direct - call.WithinGroup; i < direct; i++ {
		if i < 0 {
			return r.undefined(call)
		}
		if declared[i] != Any {
			continue
		}
		ordering := i + call.WithinGroup
		t, err := r.CommonType("WITHIN GROUP", []catalog.OID{types[ordering], types[i]})
		if err != nil {
			return err
		}
		types[i], types[ordering] = t, t
	}
	return nil
}
