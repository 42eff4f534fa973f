package oracle

import (
	"slices"

	"interlock/catalog"
)

// writable picks a table and some of its columns to write.
func (g *Generator) writable() (*catalog.Relation, []catalog.Column) {
	r := pick(g, g.tables)
	columns := slices.DeleteFunc(slices.Clone(r.Columns), func(c catalog.Column) bool { return c.Generated || c.Identity == "a" })
	g.rng.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
	return r, columns[:min(len(columns), 1+g.rng.IntN(3))]
}

func (g *Generator) insert(s *scope) *part {
	r, columns := g.writable()
	target := quote(r.Schema, r.Name)
	e := &entry{name: quote(r.Name), columns: members(r), whole: true, rowType: r.RowType}
	returning := &scope{outer: s, ctes: s.ctes, entries: []*entry{e}}
	if len(columns) == 0 || g.chance(5) {
		return text("insert into ", target, " default values", g.returning(returning))
	}
	var names []*part
	shape := make([]catalog.OID, len(columns))
	for i, c := range columns {
		names = append(names, text(quote(c.Name)))
		shape[i] = c.Type
	}
	return text("insert into ", target, " (", series(", ", names), ") ", g.rows(s, shape), g.conflict(s, r, columns), g.returning(returning))
}

// rows is what is inserted: a query where every type has expressions, else VALUES.
func (g *Generator) rows(s *scope, shape []catalog.OID) *part {
	if !slices.ContainsFunc(shape, func(t catalog.OID) bool { return !g.known(t) }) && g.chance(50) {
		return g.query(&scope{outer: s, ctes: s.ctes}, shape, 2)
	}
	var rows []*part
	for range 1 + g.rng.IntN(2) {
		var values []*part
		for _, t := range shape {
			values = append(values, g.orNull(&scope{ctes: s.ctes}, t, 2))
		}
		rows = append(rows, text("(", text(series(", ", values)), ")"))
	}
	return text("values ", series(", ", rows))
}

func (g *Generator) conflict(s *scope, r *catalog.Relation, columns []catalog.Column) *part {
	if len(r.UniqueIndexes) == 0 || !g.chance(60) {
		return text()
	}
	u := pick(g, r.UniqueIndexes)
	target := text()
	var names []*part
	for _, n := range u.Columns {
		names = append(names, text(quote(ColumnName(r, n))))
	}
	switch {
	case len(names) > 0 && len(u.ExprReads) == 0 && !u.Exclusion && g.chance(70):
		target = text(" (", series(", ", names), ")")
	case slices.ContainsFunc(r.Constraints, func(c catalog.Constraint) bool { return c.Index == u.OID }):
		target = text(" on constraint ", quote(u.Name))
	}
	if len(target.pieces) == 0 || g.chance(40) {
		return maybe(" on conflict", target, " do nothing")
	}
	own := &entry{name: quote(r.Name), columns: members(r), whole: true, rowType: r.RowType}
	excluded := &entry{name: "excluded", columns: members(r), whole: true, rowType: r.RowType}
	in := &scope{outer: s, ctes: s.ctes, entries: []*entry{own, excluded}}
	c := pick(g, columns)
	return maybe(" on conflict", target, " do update set ", quote(c.Name), " = ", g.orNull(in, c.Type, 2), g.where(in, 1))
}

func (g *Generator) update(s *scope) *part {
	r, columns := g.writable()
	if len(columns) == 0 {
		return g.delete(s)
	}
	in, target := g.target(s, r)
	from := text()
	if g.chance(35) {
		from = g.from(in, 1)
		from.optional = true
	}
	var sets []*part
	for _, c := range columns {
		sets = append(sets, text(quote(c.Name), " = ", g.orNull(in, c.Type, 2)))
	}
	if len(columns) == 2 && g.known(columns[0].Type) && g.known(columns[1].Type) && g.chance(40) {
		shape := []catalog.OID{columns[0].Type, columns[1].Type}
		sets = []*part{text("(", quote(columns[0].Name), ", ", quote(columns[1].Name), ") = (", g.query(in, shape, 1), " limit 1)")}
	}
	return text("update ", target, " set ", series(", ", sets), from, g.where(in, 2), g.returning(in))
}

func (g *Generator) delete(s *scope) *part {
	in, target := g.target(s, pick(g, g.tables))
	using := text()
	if g.chance(35) {
		if p := g.from(in, 1); len(p.pieces) > 0 {
			p.pieces[0] = " using "
			using = p
		}
	}
	return text("delete from ", target, using, g.where(in, 2), g.returning(in))
}

func (g *Generator) target(s *scope, r *catalog.Relation) (*scope, *part) {
	e := &entry{name: quote(r.Name), columns: members(r), whole: true, rowType: r.RowType}
	target := text(quote(r.Schema, r.Name))
	if g.chance(50) {
		e.name = g.name()
		target = text(target, " as ", e.name)
	}
	return &scope{outer: s, ctes: s.ctes, entries: []*entry{e}}, target
}

func (g *Generator) returning(s *scope) *part {
	if !g.chance(40) {
		return text()
	}
	list := []*part{}
	for range 1 + g.rng.IntN(2) {
		list = append(list, g.expression(s, pick(g, g.types), 1))
	}
	if g.chance(20) {
		list = append(list, text(pick(g, []string{"*", s.entries[0].name + ".*", s.entries[0].name})))
	}
	return maybe(" returning ", series(", ", list))
}

// merge invents a MERGE. In PostgreSQL 15 its target is a table.
func (g *Generator) merge(s *scope) *part {
	r := pick(g, g.tables)
	for r.Kind != catalog.Table && r.Kind != catalog.PartitionedTable {
		r = pick(g, g.tables)
	}
	in, target := g.target(s, r)
	source := &scope{outer: s, ctes: s.ctes}
	using := g.item(source, 1)
	in.entries = append(in.entries, source.entries...)
	var arms []*part
	for range 1 + g.rng.IntN(2) {
		arms = append(arms, g.mergeArm(r, in, source))
	}
	return text("merge into ", target, " using ", using, " on ", g.expression(in, 16, 2), " ", series(" ", arms))
}

func (g *Generator) mergeArm(r *catalog.Relation, both, source *scope) *part {
	columns := slices.DeleteFunc(slices.Clone(r.Columns), func(c catalog.Column) bool { return c.Generated || c.Identity == "a" })
	if len(columns) == 0 || g.chance(10) {
		return text("when matched", g.and(both), " then ", pick(g, []string{"delete", "do nothing"}))
	}
	c := pick(g, columns)
	if g.chance(50) {
		return text("when matched", g.and(both), " then update set ", quote(c.Name), " = ", g.orNull(both, c.Type, 2))
	}
	return text("when not matched", g.and(source), " then insert (", quote(c.Name), ") values (", g.orNull(source, c.Type, 2), ")")
}

func (g *Generator) and(s *scope) *part {
	if !g.chance(40) {
		return text()
	}
	return maybe(" and ", g.expression(s, 16, 1))
}
