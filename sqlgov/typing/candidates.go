package typing

import (
	"slices"

	"interlock/catalog"
)

// maxArgs is the number of arguments that PostgreSQL allows in a call.
const maxArgs = 100

// candidate is one way to read a call: a function or operator, and the declared type for each argument as written.
type candidate struct {
	function  *catalog.Function
	operator  *catalog.Operator
	ambiguous bool // several functions fit the same argument types equally
	place     int  // position of its schema in the path
	// args are in the order of the call; arguments left to defaults stand last.
	args     []catalog.OID
	order    []int // for named notation: which parameter each of args is
	variadic int   // how many arguments the variadic parameter was expanded to
	defaults int   // how many of args are left to defaults
}

// written is the number of arguments as the call writes them.
func (c *candidate) written() int { return len(c.args) - c.defaults }

// functionCandidates lists the functions that a call could mean by name and number of arguments.
func (r *Resolver) functionCandidates(call Call) ([]*candidate, error) {
	schemas, err := r.schemas(call.Schema)
	if err != nil {
		return nil, err
	}
	var list []*candidate
	for place, schema := range schemas {
		for _, f := range r.Catalog.FunctionsNamed(schema, call.Name) {
			if c := fit(f, call); c != nil {
				c.place = place
				list = admit(list, c)
			}
		}
	}
	return list, nil
}

// fit matches a function with a call by number and names of arguments; nil if it does not match.
func fit(f *catalog.Function, call Call) *candidate {
	params := f.Args
	if call.Procedure && len(f.AllArgs) > 0 {
		params = f.AllArgs
	}
	if named(call) {
		return fitNamed(f, call, params)
	}
	n := len(call.Args)
	expand := !call.Variadic && f.Variadic != 0 && len(params) <= n
	switch {
	case expand:
		return fitVariadic(f, params, n)
	case len(params) < n, len(params) > n+f.Defaults:
		return nil
	}
	return &candidate{function: f, args: params, defaults: len(params) - n}
}

func fitVariadic(f *catalog.Function, params []catalog.OID, n int) *candidate {
	args := make([]catalog.OID, n)
	last := copy(args, params) - 1
	for i := last; i < n; i++ {
		args[i] = f.Variadic
	}
	return &candidate{function: f, args: args, variadic: n - last}
}

// named reports if a call uses named or mixed notation.
func named(call Call) bool { return len(call.Args) > 0 && call.Args[len(call.Args)-1].Name != "" }

// fitNamed matches a call in named or mixed notation.
func fitNamed(f *catalog.Function, call Call, params []catalog.OID) *candidate {
	n := len(call.Args)
	if f.Variadic != 0 && !call.Variadic || len(params) < n || len(params) > n+f.Defaults || len(f.ArgNames) == 0 {
		return nil
	}
	order := make([]int, 0, len(params))
	given := make([]bool, len(params))
	names := inputNames(f, call.Procedure)
	for i, a := range call.Args {
		at := i
		if a.Name != "" {
			at = slices.Index(names, a.Name)
		}
		if at < 0 || at >= len(params) || given[at] {
			return nil
		}
		given[at] = true
		order = append(order, at)
	}
	for at := range params {
		if given[at] {
			continue
		}
		if at < len(params)-f.Defaults {
			return nil
		}
		order = append(order, at)
	}
	args := make([]catalog.OID, len(order))
	for i, at := range order {
		args[i] = params[at]
	}
	return &candidate{function: f, args: args, order: order, defaults: len(params) - n}
}

// inputNames lists the names of the parameters that a call may set, in order; a procedure's OUT parameters count.
func inputNames(f *catalog.Function, procedure bool) []string {
	if f.ArgModes == "" || procedure {
		return f.ArgNames
	}
	var names []string
	for i, name := range f.ArgNames {
		if i < len(f.ArgModes) && f.ArgModes[i] != 'o' && f.ArgModes[i] != 't' {
			names = append(names, name)
		}
	}
	return names
}

// admit adds a candidate unless one with the same argument types is there already. The earlier schema wins; in one
// schema a plain function wins over a variadic one; else the call is ambiguous should it come to that signature.
func admit(list []*candidate, c *candidate) []*candidate {
	at := slices.IndexFunc(list, func(old *candidate) bool {
		return old.written() == c.written() && slices.Equal(old.args[:old.written()], c.args[:c.written()])
	})
	if at < 0 {
		return append(list, c)
	}
	old := list[at]
	switch {
	case old.place < c.place:
	case old.variadic == 0 && c.variadic > 0:
	case old.variadic > 0 && c.variadic == 0:
		list[at] = c
	default:
		old.ambiguous = true
	}
	return list
}

// operatorCandidates lists the binary (or prefix) operators of a name, an entry for each pair of operand types.
func (r *Resolver) operatorCandidates(schema, name string, prefix bool) ([]*candidate, error) {
	schemas, err := r.schemas(schema)
	if err != nil {
		return nil, err
	}
	var list []*candidate
	for place, s := range schemas {
		earlier := list
		// One allocation for all candidates and their types: there are many, for every operator of every statement.
		named := r.Catalog.OperatorsNamed(s, name)
		slots, types := make([]candidate, len(named)), make([]catalog.OID, 0, 2*len(named))
		for i, o := range named {
			if (o.Left == 0) != prefix {
				continue
			}
			first := len(types)
			if !prefix {
				types = append(types, o.Left)
			}
			types = append(types, o.Right)
			c := &slots[i]
			*c = candidate{operator: o, place: place, args: types[first:len(types):len(types)]}
			if !slices.ContainsFunc(earlier, func(old *candidate) bool { return slices.Equal(old.args, c.args) }) {
				list = append(list, c)
			}
		}
	}
	return list, nil
}
