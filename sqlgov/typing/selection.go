package typing

import "interlock/catalog"

// choose picks the best of the candidates that accept the argument types. It returns nil, false when none accepts
// them, and nil, true when several are equally good.
func (r *Resolver) choose(types []catalog.OID, list []*candidate) (best *candidate, ambiguous bool) {
	var usable []*candidate
	for _, c := range list {
		if r.canCoerceAll(types, c.args, Implicit) {
			usable = append(usable, c)
		}
	}
	switch len(usable) {
	case 0:
		return nil, false
	case 1:
		return usable[0], false
	}
	best = r.prefer(types, usable)
	return best, best == nil
}

// prefer applies the heuristics of the manual's section 10.3 in their order, until one candidate is left.
func (r *Resolver) prefer(types []catalog.OID, list []*candidate) *candidate {
	base := make([]catalog.OID, len(types))
	unknowns := 0
	for i, t := range types {
		base[i] = r.Base(t)
		if t == Unknown {
			unknowns++
		}
	}
	list = most(list, func(c *candidate) int { return exactMatches(base, c) })
	if len(list) == 1 {
		return list[0]
	}
	list = most(list, func(c *candidate) int { return r.preferredMatches(base, c) })
	switch {
	case len(list) == 1:
		return list[0]
	case unknowns == 0:
		return nil
	}
	list = r.byCategory(base, list)
	if len(list) == 1 {
		return list[0]
	}
	return r.assumeSame(base, list)
}

// most keeps the candidates with the highest score.
func most(list []*candidate, score func(*candidate) int) []*candidate {
	var kept []*candidate
	best := 0
	for _, c := range list {
		n := score(c)
		if kept == nil || n > best {
			kept, best = kept[:0:0], n
		}
		if n == best {
			kept = append(kept, c)
		}
	}
	return kept
}

func exactMatches(types []catalog.OID, c *candidate) int {
	n := 0
	for i, t := range types {
		if t != Unknown && c.args[i] == t {
			n++
		}
	}
	return n
}

// preferredMatches counts arguments that match exactly or would become the preferred type of their own category.
func (r *Resolver) preferredMatches(types []catalog.OID, c *candidate) int {
	n := 0
	for i, t := range types {
		if t == Unknown {
			continue
		}
		category, _ := r.category(t)
		if to, preferred := r.category(c.args[i]); c.args[i] == t || preferred && to == category {
			n++
		}
	}
	return n
}

// byCategory guesses a category for every unknown argument from what the candidates accept there, and keeps those
// that accept it; all of them if a category cannot be guessed or nobody fits.
func (r *Resolver) byCategory(types []catalog.OID, list []*candidate) []*candidate {
	kept := list
	for i, t := range types {
		if t != Unknown {
			continue
		}
		category, preferred, ok := r.slotCategory(i, list)
		if !ok {
			return list
		}
		kept = filter(kept, func(c *candidate) bool {
			got, p := r.category(c.args[i])
			return got == category && (p || !preferred)
		})
	}
	if len(kept) == 0 {
		return list
	}
	return kept
}

// slotCategory is the category that the candidates take at an argument: string if any does, else the one that all
// agree on. It also says if one of them takes the preferred type there.
func (r *Resolver) slotCategory(i int, list []*candidate) (category string, preferred, ok bool) {
	conflict := false
	for n, c := range list {
		got, p := r.category(c.args[i])
		switch {
		case n == 0, got == stringCategory && category != stringCategory:
			category, preferred = got, p
		case got == category:
			preferred = preferred || p
		default:
			conflict = true
		}
	}
	return category, preferred, !conflict || category == stringCategory
}

func filter(list []*candidate, keep func(*candidate) bool) []*candidate {
	var kept []*candidate
	for _, c := range list {
		if keep(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

// assumeSame takes the unknown arguments to be of the one type that all known ones have, and sees if that leaves a
// single candidate.
func (r *Resolver) assumeSame(types []catalog.OID, list []*candidate) *candidate {
	known := catalog.OID(0)
	for _, t := range types {
		switch {
		case t == Unknown:
		case known != 0 && t != known:
			return nil
		default:
			known = t
		}
	}
	if known == 0 {
		return nil
	}
	assumed := make([]catalog.OID, len(types))
	for i := range assumed {
		assumed[i] = known
	}
	fits := filter(list, func(c *candidate) bool { return r.canCoerceAll(assumed, c.args, Implicit) })
	if len(fits) != 1 {
		return nil
	}
	return fits[0]
}
