package typing

import (
	"slices"

	"interlock/catalog"
)

// Function picks the function, aggregate, window function or procedure that a call means, as section 10.3 of the
// manual has it. A call of a type's name with one argument can be a cast in disguise: see Match.Coercion.
//
// Errors: 3F000 no such schema, 42883 no such function (the caller then tries f(row) as row.f), 42725 ambiguous, 42804
// arguments that do not fit a polymorphic type, 42704 no array type for variadic arguments, 42809 an aggregate, plain
// function or procedure called as what it is not, 42601 misplaced named arguments, 54023 too many of them. Where OVER,
// FILTER, DISTINCT and ORDER BY may stand is not checked: they do not change which function is picked.
func (r *Resolver) Function(call Call) (Match, error) {
	if err := checkNotation(call); err != nil {
		return Match{}, err
	}
	list, err := r.functionCandidates(call)
	if err != nil {
		return Match{}, err
	}
	types := make([]catalog.OID, len(call.Args))
	for i, a := range call.Args {
		types[i] = a.Type
	}
	c := exact(list, types)
	if c != nil {
		r.loosen(call.Schema, call.Name, c.function.Schema, false)
	} else {
		r.loosen(call.Schema, call.Name, "", false)
		if target := r.disguisedCast(call); target != 0 {
			return r.castMatch(call, target)
		}
		var ambiguous bool
		if c, ambiguous = r.choose(types, list); ambiguous {
			return Match{}, r.notUnique(call)
		}
	}
	if c == nil {
		return Match{}, r.undefined(call)
	}
	return r.match(call, c, types)
}

// checkNotation holds the rules of named notation that need no catalog.
func checkNotation(call Call) error {
	if len(call.Args) > maxArgs {
		return errorf("54023", "cannot pass more than %d arguments to a function", maxArgs)
	}
	seen := make(map[string]bool)
	for _, a := range call.Args {
		switch {
		case a.Name == "" && len(seen) > 0:
			return errorf("42601", "positional argument cannot follow named argument")
		case seen[a.Name]:
			return errorf("42601", "argument name %q used more than once", a.Name)
		case a.Name != "":
			seen[a.Name] = true
		}
	}
	return nil
}

// exact finds the candidate that takes just these types.
func exact(list []*candidate, types []catalog.OID) *candidate {
	for _, c := range list {
		if slices.Equal(c.args[:c.written()], types) {
			return c
		}
	}
	return nil
}

// disguisedCast returns the target type if a call without an exact match is a cast: the name is a type's, and the
// argument is an untyped literal, or becomes that type without a cast function. Rows become strings by functions only.
func (r *Resolver) disguisedCast(call Call) catalog.OID {
	if len(call.Args) != 1 || named(call) {
		return 0
	}
	typ, err := r.TypeName(call.Schema, call.Name)
	if err != nil || typ.Relation != 0 {
		return 0
	}
	from := call.Args[0].Type
	if from == Unknown && !call.Args[0].Param {
		return typ.OID
	}
	switch path, _ := r.pathway(from, typ.OID, Explicit); path {
	case relabel:
		return typ.OID
	case viaText:
		category, _ := r.category(typ.OID)
		if category != stringCategory || from != Record && !r.complex(from) {
			return typ.OID
		}
	}
	return 0
}

func (r *Resolver) castMatch(call Call, target catalog.OID) (Match, error) {
	switch {
	case call.Procedure:
		return Match{}, errorf("42809", "%s is not a procedure", r.signature(call))
	case call.WithinGroup > 0:
		return Match{}, errorf("42809", "WITHIN GROUP specified, but %s is not an aggregate function", call.Name)
	}
	return Match{Coercion: target, Result: target, ArgTypes: []catalog.OID{target}}, nil
}

// match makes the answer from the candidate picked, or says why it cannot be called like that.
func (r *Resolver) match(call Call, c *candidate, types []catalog.OID) (Match, error) {
	f := c.function
	if c.ambiguous {
		return Match{}, r.notUnique(call)
	}
	// VARIADIC with named notation must mark the variadic parameter itself.
	if n := len(types); c.order != nil && call.Variadic && c.order[n-1] != n-1 {
		return Match{}, r.undefined(call)
	}
	if err := r.checkKind(call, f); err != nil {
		return Match{}, err
	}
	if err := r.checkWithinGroup(call, c, types); err != nil {
		return Match{}, err
	}
	declared := slices.Clone(c.args)
	if err := r.unifyHypothetical(call, f, types, declared); err != nil {
		return Match{}, err
	}
	result, err := r.resolveWithDefaults(c, types, declared)
	if err != nil {
		return Match{}, err
	}
	if err := r.checkVariadic(call, c, types, declared); err != nil {
		return Match{}, err
	}
	return Match{Function: f, Result: result, ArgTypes: declared[:len(types)], declared: c.args[:len(types)]}, nil
}

// Actual returns the type that a declared type of a match's function stands for in the call: a polymorphic one is what
// the arguments make of it, once they have been coerced.
func (r *Resolver) Actual(m Match, declared catalog.OID) (catalog.OID, error) {
	if !polymorphic(declared) {
		return declared, nil
	}
	return r.resolve(m.ArgTypes, slices.Clone(m.declared), declared)
}

// checkKind refuses what is called as something that it is not.
func (r *Resolver) checkKind(call Call, f *catalog.Function) error {
	switch {
	case call.Procedure && f.Kind != "p":
		return errorf("42809", "%s is not a procedure", r.signature(call))
	case !call.Procedure && f.Kind == "p":
		return errorf("42809", "%s is a procedure", r.signature(call))
	case f.Kind == "a" && named(call):
		return errorf("0A000", "aggregates cannot use named arguments")
	case f.Kind == "a" && len(call.Args) == 0 && !call.Star:
		return errorf("42809", "%s(*) must be used to call a parameterless aggregate function", qualify(call.Schema, call.Name))
	case f.Kind == "a":
		return nil
	case call.Star:
		return errorf("42809", "%s(*) specified, but %s is not an aggregate function", call.Name, call.Name)
	case call.WithinGroup > 0:
		return errorf("42809", "WITHIN GROUP specified, but %s is not an aggregate function", call.Name)
	}
	return nil
}

// resolveWithDefaults is resolve for a call that leaves arguments to defaults. The type of a polymorphic parameter's
// default is not in the catalog. Where the arguments given fix the result, the server either agrees or reports an
// error; where the default would have a say, nothing is guessed.
func (r *Resolver) resolveWithDefaults(c *candidate, types, declared []catalog.OID) (catalog.OID, error) {
	actual := slices.Clone(types)
	var unsure, guess bool
	for _, t := range c.args[c.written():] {
		guess = guess || compatibleFamily(t)
		if polymorphic(t) {
			t, unsure = Unknown, true
		}
		actual = append(actual, t)
	}
	result, err := r.resolve(actual, declared, c.function.Result)
	if guess || unsure && err != nil {
		return 0, errorf("0A000", "the default of a polymorphic parameter of function %s is not supported", c.function.Name)
	}
	return result, err
}

// checkVariadic holds the rules for variadic arguments once their types are known.
func (r *Resolver) checkVariadic(call Call, c *candidate, actual, declared []catalog.OID) error {
	n := len(call.Args)
	if c.function.Variadic == Any {
		if call.Variadic && n > 0 && !r.arrayOrDomain(actual[n-1]) {
			return errorf("42804", "VARIADIC argument must be an array")
		}
		return nil
	}
	if c.variadic > 0 && r.ArrayOf(declared[n-c.variadic]) == 0 {
		return r.noArray(declared[n-c.variadic])
	}
	return nil
}

func (r *Resolver) undefined(call Call) error {
	what := "function"
	if call.Procedure {
		what = "procedure"
	}
	err := errorf("42883", "%s %s does not exist", what, r.signature(call))
	schemas, _ := r.schemas(call.Schema)
	err.Missing = !slices.ContainsFunc(schemas, func(s string) bool {
		return len(r.Catalog.FunctionsNamed(s, call.Name)) > 0
	})
	return err
}

func (r *Resolver) notUnique(call Call) error {
	what := "function"
	if call.Procedure {
		what = "procedure"
	}
	return errorf("42725", "%s %s is not unique", what, r.signature(call))
}
