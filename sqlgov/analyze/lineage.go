package analyze

import (
	"cmp"
	"slices"

	"interlock/catalog"
)

// lineage is the set of columns from which a value derives. It is a graph that grows by pointing at its parts, so that a
// union costs nothing; a recursive query makes a cycle. Nil is the empty set.
type lineage struct {
	columns []Source
	from    []*lineage
	how     How // what the value tells of all these
}

// union returns the lineage of a value that is one of them, or several.
func union(parts ...*lineage) *lineage {
	var some []*lineage
	for _, p := range parts {
		if p != nil && !slices.Contains(some[max(0, len(some)-4):], p) {
			some = append(some, p)
		}
	}
	switch len(some) {
	case 0:
		return nil
	case 1:
		return some[0]
	}
	return &lineage{from: some}
}

// changed returns the lineage of a value that is computed from all of them.
func changed(parts ...*lineage) *lineage { return through(Changed, parts) }

// told returns the lineage of a value that tells of the others only if they are NULL.
func told(parts ...*lineage) *lineage { return through(Counted, parts) }

func through(how How, parts []*lineage) *lineage {
	all := union(parts...)
	if all == nil || all.how == how {
		return all
	}
	return &lineage{from: []*lineage{all}, how: how}
}

// sources lists the columns, each once, ordered by table and attribute number. Of a column that is reached in several ways
// only the same way counts as what it is.
func (a *analysis) sources(l *lineage) []Source {
	if l == nil {
		return nil
	}
	type step struct {
		l   *lineage
		how How
	}
	var found []Source
	places := map[columnKey]int{}
	seen := map[step]bool{}
	for work := []step{{l, Kept}}; len(work) > 0; {
		last := len(work) - 1
		next := work[last]
		work = work[:last]
		next.how = max(next.how, next.l.how)
		if seen[next] {
			continue
		}
		seen[next] = true
		a.spend(8 + len(next.l.columns))
		for _, c := range next.l.columns {
			c.How = max(c.How, next.how)
			key := columnKey{c.Relation, c.Num}
			if i, again := places[key]; !again {
				places[key] = len(found)
				found = append(found, c)
			} else if found[i].How != c.How {
				found[i].How = Changed
			}
		}
		for _, p := range next.l.from {
			if p != nil {
				work = append(work, step{p, next.how})
			}
		}
	}
	slices.SortFunc(found, func(a, b Source) int { return byPlace(a.Column, b.Column) })
	return found
}

func byPlace(a, b Column) int {
	return cmp.Or(cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Table, b.Table), cmp.Compare(a.Num, b.Num))
}

// baseColumns lists the columns of tables among sources and behind them.
func (a *analysis) baseColumns(sources []Source) []Column {
	var found []Column
	var add func([]Source)
	add = func(list []Source) {
		a.spend(len(list))
		for i := range list {
			if rel := a.env.Catalog.Relation(list[i].Relation); rel == nil || rel.Kind != catalog.View || list[i].Num < 0 {
				found = append(found, list[i].Column)
			}
			add(list[i].Behind)
		}
	}
	add(sources)
	slices.SortFunc(found, byPlace)
	return slices.Compact(found)
}

// origin is the relation and attribute number that PostgreSQL names for a plain column in RowDescription. Number 0 is
// a whole row; a nil relation is an expression.
type origin struct {
	rel *catalog.Relation
	num int16
}

func (o origin) column() Column {
	if o.rel == nil {
		return Column{}
	}
	return nameColumn(o.rel, o.num)
}

// nameColumn describes a column of a relation for the report.
func nameColumn(rel *catalog.Relation, num int16) Column {
	c := Column{Relation: rel.OID, Num: num, Schema: rel.Schema, Table: rel.Name}
	switch {
	case num < 0:
		c.Name = systemColumnName(num)
	case num > 0:
		if found := columnNumbered(rel, num); found != nil {
			c.Name = found.Name
		}
	}
	return c
}

// columnNumbered finds a live column. Numbers ascend, with gaps where columns were dropped.
func columnNumbered(rel *catalog.Relation, num int16) *catalog.Column {
	i, ok := slices.BinarySearchFunc(rel.Columns, num, func(c catalog.Column, n int16) int { return cmp.Compare(c.Num, n) })
	if !ok {
		return nil
	}
	return &rel.Columns[i]
}

func columnNamed(rel *catalog.Relation, name string) *catalog.Column {
	for i := range rel.Columns {
		if rel.Columns[i].Name == name {
			return &rel.Columns[i]
		}
	}
	return nil
}

// systemColumns are the columns that every table has besides its own.
var systemColumns = []catalog.Column{
	{Name: "ctid", Num: -1, Type: 27},
	{Name: "xmin", Num: -2, Type: 28},
	{Name: "cmin", Num: -3, Type: 29},
	{Name: "xmax", Num: -4, Type: 28},
	{Name: "cmax", Num: -5, Type: 29},
	{Name: "tableoid", Num: -6, Type: 26},
}

func systemColumnName(num int16) string {
	if n := int(-num) - 1; n < len(systemColumns) {
		return systemColumns[n].Name
	}
	return ""
}

// systemColumnNamed finds a system column of a relation; views and composite types have none.
func systemColumnNamed(rel *catalog.Relation, name string) *catalog.Column {
	if rel.Kind == catalog.View || rel.Kind == catalog.CompositeType {
		return nil
	}
	for i := range systemColumns {
		if systemColumns[i].Name == name {
			return &systemColumns[i]
		}
	}
	return nil
}
