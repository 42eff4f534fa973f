package oracle

import (
	"fmt"
	"slices"

	"interlock/catalog"
)

// expression invents an expression of a type.
func (g *Generator) expression(s *scope, t catalog.OID, depth int) *part {
	if depth <= 0 || g.chance(35) {
		return g.leaf(s, t)
	}
	simple := g.leaf(s, t).String()
	if s.grouped && g.chance(50) {
		if p := g.aggregate(s, t, depth); p != nil {
			return p
		}
	}
	return orPlain(simple, g.compound(s, t, depth-1))
}

func (g *Generator) compound(s *scope, t catalog.OID, depth int) *part {
	switch n := g.rng.IntN(27); {
	case n < 5:
		if p := g.operation(s, t, depth); p != nil {
			return p
		}
	case n < 9:
		if list := g.functions[t]; len(list) > 0 {
			return g.callOf(s, pick(g, list), depth)
		}
	case n == 9:
		return text("case when ", g.expression(s, 16, depth), " then ", g.expression(s, t, depth), maybe(" else ", g.expression(s, t, depth)), " end")
	case n == 10 && t != 114:
		return text(pick(g, []string{"coalesce", "greatest", "least", "nullif"}), "(", g.expression(s, t, depth), ", ", g.expression(s, t, depth), ")")
	case n < 13 && depth > 0:
		return text("(", g.query(s, []catalog.OID{t}, depth-1), " limit 1)")
	case n == 13:
		return text("(", g.expression(s, pick(g, g.types), depth), ")::text::", g.typeText(t))
	case n == 14 && !s.grouped && s.outer == nil:
		if p := g.window(s, t, depth); p != nil {
			return p
		}
	case n < 18 && t == 16:
		return g.condition(s, depth)
	case n == 18 && t == 25 && len(s.entries) > 0 && !s.grouped:
		return text("(", g.wholeRow(s), ")::text")
	case n == 19 && t == 114 && len(s.entries) > 0 && !s.grouped:
		return text("row_to_json(", g.rowName(s), ")")
	case n == 20 && len(s.entries) > 0 && !s.grouped && t == 25:
		return text("(", g.rowName(s), ".", pick(g, []string{"ctid", "tableoid", "xmin"}), ")::text")
	case n == 21 && t == 25:
		return text("(", g.expression(s, 1009, depth), ")[", g.expression(s, 23, depth), "]")
	case n == 22 && t == 23:
		return text("(", g.expression(s, 1007, depth), ")[1]")
	case n == 23 && t == 3802:
		return text("(", g.expression(s, 3802, depth), ")['k']")
	case n == 24 && t == 16:
		return text("(", g.expression(s, 25, depth), ") ", pick(g, []string{"= any", "<> all", "like any", "~~~ any"}), " (", g.expression(s, 1009, depth), ")")
	case n == 25 && t == 25:
		return text("overlay(", g.expression(s, 25, depth), " placing 'x' from ", g.expression(s, 23, depth), ")")
	case n == 26 && t == 701:
		return text("extract(epoch from ", g.expression(s, 1184, depth), ")::float8")
	case n == 19 && t == 1009:
		return text("array(", g.query(s, []catalog.OID{25}, 0), ")")
	}
	return g.leaf(s, t)
}

// condition is a boolean of the forms that only SQL has.
func (g *Generator) condition(s *scope, depth int) *part {
	t := g.comparable()
	x := func() *part { return g.expression(s, t, depth) }
	switch g.rng.IntN(9) {
	case 0:
		return text("exists (", g.query(s, g.shape(), max(depth, 0)), ")")
	case 1:
		return text("(", x(), ") in (", g.query(s, []catalog.OID{t}, 0), ")")
	case 2:
		return text("(", x(), ") in (", series(", ", []*part{x(), x()}), ")")
	case 3:
		return text("(", x(), ") between ", g.leaf(s, t), " and ", g.leaf(s, t))
	case 4:
		return text("(", x(), ") is ", pick(g, []string{"null", "not null"}))
	case 5:
		return text("(", x(), ") is distinct from (", x(), ")")
	case 6:
		return text("(", x(), ") ", pick(g, []string{"=", "<>", "<"}), pick(g, []string{" any", " all"}), " (", g.query(s, []catalog.OID{t}, 0), ")")
	case 7:
		u := g.comparable()
		return text("row(", x(), ", ", g.leaf(s, u), ") ", pick(g, []string{"=", "<", "is distinct from"}), " row(", x(), ", ", g.leaf(s, u), ")")
	}
	return text("not (", g.expression(s, 16, depth), ")")
}

// leaf is a column, an outer column, or a literal.
func (g *Generator) leaf(s *scope, t catalog.OID) *part {
	literal := g.literal(t)
	if g.chance(20) {
		return text(literal)
	}
	if found := g.columnsOf(s, t); len(found) > 0 {
		return orPlain(literal, pick(g, found))
	}
	if m, ok := g.anyColumn(s); ok && g.chance(30) {
		return orPlain(literal, m.name, "::text::", g.typeText(t))
	}
	return text(literal)
}

func (g *Generator) literal(t catalog.OID) string {
	if list := literals[t]; len(list) > 0 {
		return pick(g, list)
	}
	return "null::" + g.typeText(t)
}

// orNull is an expression for a column that is assigned; of a type without literals a NULL.
func (g *Generator) orNull(s *scope, t catalog.OID, depth int) *part {
	if !g.known(t) {
		return text(pick(g, []string{"null", "default"}))
	}
	return g.expression(s, t, depth)
}

// columnsOf lists the names of every column of a type that is in view.
func (g *Generator) columnsOf(s *scope, t catalog.OID) []string {
	var found []string
	for level := s; level != nil; level = level.outer {
		if level.grouped {
			for _, m := range level.groups {
				if m.typ == t {
					found = append(found, m.name)
				}
			}
			continue
		}
		for _, e := range level.entries {
			if e.rowType == t {
				found = append(found, e.name)
			}
			for _, m := range e.columns {
				if m.typ == t {
					found = append(found, g.reference(e, m))
				} else {
					found = append(found, g.fields(e, m, t)...)
				}
			}
		}
	}
	return found
}

// fields lists the fields of a type of a composite column.
func (g *Generator) fields(e *entry, m member, t catalog.OID) []string {
	typ := g.index.Type(m.typ)
	if typ == nil || typ.Kind != "c" {
		return nil
	}
	var found []string
	for _, f := range members(g.index.Relation(typ.Relation)) {
		if f.typ == t {
			found = append(found, "("+e.name+"."+m.name+")."+f.name)
		}
	}
	return found
}

// reference writes a column: qualified, bare, or as a field or a function of the row.
func (g *Generator) reference(e *entry, m member) string {
	switch n := g.rng.IntN(30); {
	case n == 0 && e.whole:
		return "(" + e.name + ")." + m.name
	case n == 1 && e.whole:
		return m.name + "(" + e.name + ")"
	case n == 2 && e.whole:
		return "(" + e.name + ".*)." + m.name
	case n < 6:
		return m.name
	}
	return e.name + "." + m.name
}

// anyColumn picks a column of whatever type that is in view.
func (g *Generator) anyColumn(s *scope) (member, bool) {
	if s.grouped {
		if len(s.groups) == 0 {
			return member{}, false
		}
		return pick(g, s.groups), true
	}
	var all []member
	for _, e := range s.entries {
		for _, m := range e.columns {
			all = append(all, member{e.name + "." + m.name, m.typ})
		}
	}
	if len(all) == 0 {
		return member{}, false
	}
	return pick(g, all), true
}

func (g *Generator) rowName(s *scope) string { return pick(g, s.entries).name }

// wholeRow writes a whole row.
func (g *Generator) wholeRow(s *scope) string {
	name := g.rowName(s)
	return pick(g, []string{name, name + ".*", "row(" + name + ".*)", "(" + name + ")", "count(" + name + ") over ()"})
}

func (g *Generator) operation(s *scope, t catalog.OID, depth int) *part {
	list := g.operators[t]
	if len(list) == 0 {
		return nil
	}
	o := pick(g, list)
	name := o.Name
	if g.chance(10) {
		name = fmt.Sprintf("operator(%s.%s)", quote(o.Schema), o.Name)
	}
	right := g.argument(s, o.Right, depth)
	if o.Left == 0 {
		return text("(", name, " ", right, ")")
	}
	return text("(", g.argument(s, o.Left, depth), " ", name, " ", right, ")")
}

// argument is an expression, sometimes a literal or a parameter that the call must find a type for.
func (g *Generator) argument(s *scope, t catalog.OID, depth int) *part {
	if g.chance(5) {
		return text(pick(g, []string{"'1'", "null", "'x'", "$1", "$2"}))
	}
	return g.expression(s, t, depth)
}

func (g *Generator) callOf(s *scope, f *catalog.Function, depth int) *part {
	args := make([]*part, len(f.Args))
	for i, a := range f.Args {
		args[i] = g.argument(s, a, depth)
	}
	if f.Defaults > 0 && g.chance(50) {
		args = args[:len(args)-1]
	}
	name := quote(f.Name)
	if f.Schema != "pg_catalog" || g.chance(10) {
		name = quote(f.Schema, f.Name)
	}
	if len(args) == 0 {
		return text(name, "()")
	}
	return text(name, "(", series(", ", args), ")")
}

// aggregates by result type; the argument is of the type below it.
var aggregates = map[catalog.OID][]struct {
	name string
	arg  catalog.OID
}{
	20:   {{"count", 25}, {"sum", 23}, {"count", 3802}},
	23:   {{"max", 23}, {"min", 23}},
	25:   {{"max", 25}, {"shop.glue", 25}, {"min", 25}},
	1700: {{"sum", 1700}, {"avg", 23}, {"max", 1700}},
	16:   {{"bool_and", 16}, {"every", 16}},
	1007: {{"array_agg", 23}},
	1009: {{"array_agg", 25}},
	3802: {{"jsonb_agg", 23}, {"jsonb_agg", 25}},
	114:  {{"json_agg", 1082}},
	1082: {{"max", 1082}},
}

func (g *Generator) aggregate(s *scope, t catalog.OID, depth int) *part {
	if t != 114 && g.chance(10) {
		in := &scope{outer: s.outer, ctes: s.ctes, entries: s.entries}
		if t == 701 {
			return text("percentile_cont(0.5) within group (order by ", g.expression(in, t, depth-1), ")")
		}
		return text("mode() within group (order by ", g.expression(in, t, depth-1), ")")
	}
	list := aggregates[t]
	if len(list) == 0 {
		return nil
	}
	a := pick(g, list)
	inner := &scope{outer: s.outer, ctes: s.ctes, entries: s.entries}
	order, filter, distinct := text(), text(), ""
	if g.chance(15) {
		order = maybe(" order by ", g.expression(inner, g.comparable(), 0))
	} else if g.chance(15) && a.arg != 114 {
		distinct = "distinct "
	}
	if g.chance(15) {
		filter = maybe(" filter (where ", g.expression(inner, 16, depth-1), ")")
	}
	return orPlain(g.literal(t), a.name, "(", distinct, g.expression(inner, a.arg, depth-1), order, ")", filter)
}

func (g *Generator) window(s *scope, t catalog.OID, depth int) *part {
	list := aggregates[t]
	if len(list) == 0 {
		return nil
	}
	a := pick(g, list)
	by := maybe("partition by ", g.expression(s, g.comparable(), 0))
	order := maybe(" order by ", g.expression(s, g.comparable(), 0), maybe(" rows between 1 preceding and current row"))
	call := text(a.name, "(", g.expression(s, a.arg, depth), ")")
	if slices.Contains([]catalog.OID{23, 25, 1082, 1700}, t) && g.chance(50) {
		call = text(pick(g, []string{"lag", "first_value", "last_value"}), "(", g.expression(s, t, depth), ")")
	}
	return text(call, " over (", by, order, ")")
}
