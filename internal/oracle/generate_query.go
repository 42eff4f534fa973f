package oracle

import (
	"fmt"
	"slices"
	"strconv"

	"interlock/catalog"
)

// query invents a SELECT that returns columns of the given types. It may use WITH and set operations.
func (g *Generator) query(outer *scope, shape []catalog.OID, depth int) *part {
	s := &scope{outer: outer}
	with := text()
	if depth > 0 && g.chance(20) {
		with = g.with(s, false)
	}
	body := g.selectBody(s, shape, depth)
	if depth > 0 && g.chance(12) {
		more := maybe(pick(g, []string{" union ", " union all ", " intersect ", " except "}), "(", g.selectBody(s, shape, depth-1), ")")
		order := maybe(" order by ", strconv.Itoa(1+g.rng.IntN(len(shape))))
		return text(with, "(", body, ")", more, order)
	}
	return text(with, body)
}

// with invents WITH queries, whose entries are added to the scope.
func (g *Generator) with(s *scope, top bool) *part {
	if top && !g.chance(25) {
		return text()
	}
	var all []*part
	recursive := false
	for range 1 + g.rng.IntN(2) {
		shape := g.shape()
		name := g.name()
		e := &entry{name: name, whole: true}
		columns := ""
		for i, t := range shape {
			e.columns = append(e.columns, member{fmt.Sprintf("c%d", i), t})
			if i > 0 {
				columns += ", "
			}
			columns += fmt.Sprintf("c%d", i)
		}
		body := g.query(s, shape, 1)
		more := ""
		switch {
		case g.chance(15):
			recursive = true
			more = g.searchOrCycle(e)
			inner := &scope{outer: s.outer, ctes: append([]*entry{e}, s.ctes...)}
			from := &entry{name: "r", columns: e.columns[:len(shape)], whole: true}
			inner.entries = []*entry{from}
			body = text("(", body, ") union all select ", g.expressions(inner, shape, 1), " from ", name, " r")
		case top && g.chance(30):
			body, e.columns = g.modify(s)
			columns = ""
		}
		if len(e.columns) == 0 {
			columns = ""
		}
		if columns != "" {
			columns = " (" + columns + ")"
		}
		all = append(all, text(name, columns, pick(g, []string{" as (", " as (", " as materialized ("}), body, ")", more))
		s.ctes = append(s.ctes, e)
	}
	word := "with "
	if recursive {
		word = "with recursive "
	}
	return maybe(word, series(", ", all), " ")
}

// searchOrCycle invents what orders a recursive query, or stops it, with the columns that this adds.
func (g *Generator) searchOrCycle(e *entry) string {
	switch g.rng.IntN(4) {
	case 0:
		return " search " + pick(g, []string{"depth", "breadth"}) + " first by c0 set s1"
	case 1:
		e.columns = append(e.columns, member{"y1", 16})
		return " cycle c0 set y1 using p1"
	}
	return ""
}

// modify invents a statement that changes a table, for WITH, and the columns that it returns.
func (g *Generator) modify(s *scope) (*part, []member) {
	r := pick(g, g.tables)
	e := &entry{name: quote(r.Name), columns: members(r)}
	inner := &scope{outer: s, entries: []*entry{e}}
	m := pick(g, e.columns)
	body := text("delete from ", quote(r.Schema, r.Name), g.where(inner, 1))
	if g.chance(50) {
		body = text("update ", quote(r.Schema, r.Name), " set ", m.name, " = ", g.orNull(inner, m.typ, 1), g.where(inner, 1))
	}
	return text(body, " returning ", m.name), []member{m}
}

func (g *Generator) selectBody(s *scope, shape []catalog.OID, depth int) *part {
	inner := &scope{outer: s.outer, ctes: s.ctes}
	from := g.from(inner, depth)
	where := g.where(inner, depth)
	if g.chance(15) {
		return g.grouped(inner, shape, from, where, depth)
	}
	distinct, window, order, tail := text(), text(), text(), text()
	targets := g.targets(inner, shape, depth)
	switch {
	case g.chance(8):
		distinct = maybe("distinct ")
	case g.chance(5):
		window = maybe(" window w as (partition by ", g.expression(inner, g.comparable(), 0), " order by ", g.expression(inner, g.comparable(), 0), ")")
	}
	if g.chance(25) {
		order = maybe(" order by ", g.sortKey(inner, len(shape), distinct.optional), pick(g, []string{"", " desc", " nulls first"}))
	}
	switch {
	case g.chance(10):
		tail = maybe(" limit ", g.expression(&scope{ctes: s.ctes}, 23, 1))
	case depth == 3 && g.chance(12) && !distinct.optional && len(s.entries) == 0:
		tail = maybe(pick(g, []string{" for update", " for share", " for no key update skip locked"}))
	}
	return text("select ", distinct, targets, from, where, window, order, tail)
}

// targets are the select list. The plain columns of an entry can stand for a shape of any type.
func (g *Generator) targets(s *scope, shape []catalog.OID, depth int) *part {
	list := make([]*part, len(shape))
	for i, t := range shape {
		list[i] = text(g.expression(s, t, depth))
		if g.chance(20) {
			list[i] = text(list[i], fmt.Sprintf(" as a%d", i))
		}
	}
	// At the top, the shape matters to nobody.
	if depth == 3 && len(s.entries) > 0 && g.chance(20) {
		list = append(list, text(g.wholeRow(s)))
	}
	return series(", ", list)
}

func (g *Generator) sortKey(s *scope, columns int, distinct bool) *part {
	if distinct || g.chance(40) {
		return text(strconv.Itoa(1 + g.rng.IntN(columns)))
	}
	return g.expression(s, g.comparable(), 1)
}

// grouped is a SELECT with groups: its expressions are made of them and of aggregates.
func (g *Generator) grouped(s *scope, shape []catalog.OID, from, where *part, depth int) *part {
	var keys []*part
	var groups []member
	for range g.rng.IntN(3) {
		if m, ok := g.anyColumn(s); ok {
			keys, groups = append(keys, text(m.name)), append(groups, m)
		}
	}
	by, having := text(), text()
	if len(keys) > 0 {
		open, end := "", ""
		if g.chance(20) {
			open, end = pick(g, []string{"rollup (", "cube (", "grouping sets ((), "}), ")"
		}
		by = maybe(" group by ", open, series(", ", keys), end)
	}
	in := &scope{outer: s.outer, ctes: s.ctes, entries: s.entries, grouped: true, groups: groups}
	list := g.expressions(in, shape, min(depth, 1))
	if g.chance(30) {
		having = maybe(" having ", g.expression(in, 16, 1))
	}
	if depth == 3 {
		list = text(list, maybe(", count(*)"))
	}
	return text("select ", list, from, where, by, having)
}

func (g *Generator) expressions(s *scope, shape []catalog.OID, depth int) *part {
	list := make([]*part, len(shape))
	for i, t := range shape {
		list[i] = g.expression(s, t, depth)
	}
	return series(", ", list)
}

func (g *Generator) where(s *scope, depth int) *part {
	if !g.chance(50) {
		return text()
	}
	conditions := []*part{g.expression(s, 16, min(depth, 2))}
	for g.chance(30) {
		conditions = append(conditions, g.expression(s, 16, 1))
	}
	return maybe(" where ", series(pick(g, []string{" and ", " or "}), conditions))
}

// from invents a FROM clause and fills the scope.
func (g *Generator) from(s *scope, depth int) *part {
	if g.chance(5) {
		return text()
	}
	items := []*part{}
	for range 1 + g.rng.IntN(2) {
		items = append(items, g.join(s, depth))
	}
	return text(" from ", series(", ", items))
}

func (g *Generator) join(s *scope, depth int) *part {
	left := g.item(s, depth)
	if !g.chance(40) {
		return left
	}
	before := len(s.entries)
	right := g.item(s, depth)
	if before > 0 && len(s.entries) == before+1 && g.chance(15) {
		return g.joinAlias(s, left, right)
	}
	if before == 0 || len(s.entries) == before {
		return left
	}
	l, r := s.entries[before-1], s.entries[before]
	switch common := commonColumns(l, r); {
	case common != "" && g.chance(10):
		e := &entry{name: g.name(), whole: true, columns: []member{{common, l.columns[slices.IndexFunc(l.columns, func(m member) bool { return m.name == common })].typ}}}
		s.entries = append(s.entries, e)
		return text(left, " join ", right, " using (", common, ") as ", e.name)
	case common != "" && g.chance(50):
		return text(left, maybe(pick(g, []string{" join ", " left join ", " full join "}), right, " using (", common, ")"))
	case g.chance(8):
		return text(left, maybe(" natural join ", right))
	case g.chance(20):
		return text(left, maybe(" cross join ", right))
	}
	on := &scope{outer: s.outer, ctes: s.ctes, entries: s.entries[before-1:]}
	return text(left, maybe(pick(g, []string{" join ", " left join ", " right join "}), right, " on ", g.expression(on, 16, 1)))
}

// joinAlias names a join of the last two entries, which it hides, with all its columns.
func (g *Generator) joinAlias(s *scope, left, right *part) *part {
	last := len(s.entries) - 2
	l, r := s.entries[last], s.entries[last+1]
	e := &entry{name: g.name(), whole: true}
	names := ""
	on := text(" on ", g.expression(&scope{outer: s.outer, ctes: s.ctes, entries: []*entry{l, r}}, 16, 1))
	merged := append(slices.Clone(l.columns), r.columns...)
	if common := commonColumns(l, r); common != "" && g.chance(60) {
		on = text(" using (", common, ")")
		merged = append([]member{}, l.columns[slices.IndexFunc(l.columns, func(m member) bool { return m.name == common })])
		for _, m := range append(slices.Clone(l.columns), r.columns...) {
			if m.name != common {
				merged = append(merged, m)
			}
		}
	}
	for i, m := range merged {
		e.columns = append(e.columns, member{fmt.Sprintf("j%d", i), m.typ})
		if i > 0 {
			names += ", "
		}
		names += fmt.Sprintf("j%d", i)
	}
	s.entries = append(s.entries[:last], e)
	return text("(", left, pick(g, []string{" join ", " left join ", " full join "}), right, on, ") as ", e.name, " (", names, ")")
}

// commonColumns finds a name that two entries share.
func commonColumns(l, r *entry) string {
	for _, a := range l.columns {
		for _, b := range r.columns {
			if a == b {
				return a.name
			}
		}
	}
	return ""
}

// item invents one item of FROM.
func (g *Generator) item(s *scope, depth int) *part {
	switch n := g.rng.IntN(20); {
	case n < 3 && depth > 0:
		return g.subquery(s, depth-1)
	case n < 5:
		return g.setFunction(s)
	case n == 9 && g.chance(30):
		e := &entry{name: g.name(), whole: true, columns: []member{{"a", 23}, {"b", 25}, {"n", 20}}}
		p := text("rows from (generate_series(1, ", g.expression(s, 23, 1), "), unnest(", g.expression(s, 1009, 1), ")) with ordinality as ", e.name, " (a, b, n)")
		s.entries = append(s.entries, e)
		return p
	case n < 8:
		if ctes := visibleCTEs(s); len(ctes) > 0 {
			return g.alias(s, pick(g, ctes))
		}
	case n == 8:
		e := &entry{name: g.name(), whole: true, columns: []member{{"v1", 23}, {"v2", 25}}}
		s.entries = append(s.entries, e)
		return text("(values (1, 'a'::text), (2, ", g.literal(25), ")) as ", e.name, " (v1, v2)")
	}
	return g.table(s)
}

func visibleCTEs(s *scope) []*entry {
	var all []*entry
	for ; s != nil; s = s.outer {
		for _, e := range s.ctes {
			if len(e.columns) > 0 {
				all = append(all, e)
			}
		}
	}
	return all
}

// alias names an entry again, sometimes with new column names.
func (g *Generator) alias(s *scope, of *entry) *part {
	e := &entry{name: g.name(), columns: append([]member{}, of.columns...), whole: true, rowType: of.rowType}
	s.entries = append(s.entries, e)
	if !g.chance(15) {
		return text(of.name, " as ", e.name)
	}
	e.columns[0].name = fmt.Sprintf("n%d", g.serial)
	return text(of.name, " as ", e.name, " (", e.columns[0].name, ")")
}

func (g *Generator) table(s *scope) *part {
	r := pick(g, g.tables)
	written := quote(r.Schema, r.Name)
	if g.chance(30) {
		written = quote(r.Name) // along the search path, or a WITH query
	}
	of := &entry{name: written, columns: members(r), rowType: r.RowType}
	if g.chance(25) {
		s.entries = append(s.entries, &entry{name: quote(r.Name), columns: of.columns, whole: true, rowType: r.RowType})
		return text(written)
	}
	p := g.alias(s, of)
	if r.Kind == catalog.Table && g.chance(4) {
		return text(p, maybe(" tablesample bernoulli (100)"))
	}
	return p
}

func (g *Generator) subquery(s *scope, depth int) *part {
	shape := g.shape()
	e := &entry{name: g.name(), whole: true}
	names := ""
	for i, t := range shape {
		e.columns = append(e.columns, member{fmt.Sprintf("q%d", i), t})
		if i > 0 {
			names += ", "
		}
		names += fmt.Sprintf("q%d", i)
	}
	inner := &scope{outer: s.outer, ctes: s.ctes}
	lateral := ""
	if g.chance(30) {
		lateral, inner = "lateral ", s
	}
	q := g.query(inner, shape, depth)
	s.entries = append(s.entries, e)
	return text(lateral, "(", q, ") as ", e.name, " (", names, ")")
}

func (g *Generator) setFunction(s *scope) *part {
	f := pick(g, g.sets)
	e := &entry{name: g.name(), whole: true, columns: []member{{"f1", f.Result}}}
	call := g.callOf(s, f, 0)
	columns := " (f1)"
	if rel := g.index.Relation(g.index.Type(f.Result).Relation); rel != nil {
		e.columns, columns = members(rel), ""
	} else if len(f.AllArgs) > 0 {
		e.columns, columns = nil, ""
	}
	if columns != "" && g.chance(20) {
		e.columns = append(e.columns, member{"o1", 20})
		columns = " with ordinality as " + e.name + " (f1, o1)"
	} else {
		columns = " as " + e.name + columns
	}
	s.entries = append(s.entries, e)
	return text(call, columns)
}
