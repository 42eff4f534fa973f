package oracle

import (
	"cmp"
	"slices"

	"interlock/catalog"
)

// Source is a column of a table from which a result column derives. Negative numbers are system columns.
type Source struct {
	Relation catalog.OID
	Num      int16
}

// Kinds of range table entry (PostgreSQL's parsenodes.h).
const (
	rteRelation  = 0
	rteSubquery  = 1
	rteJoin      = 2
	rteFunction  = 3
	rteTableFunc = 4
	rteValues    = 5
	rteCTE       = 6
)

// derivation follows the variables of a rewritten query down to the columns of tables. Rows that are only compared,
// counted, grouped or sorted by do not count: it is where values come from.
type derivation struct {
	lexicon *Lexicon
	found   map[Source]bool
	busy    map[columnOf]bool // a recursive query meets itself
}

type columnOf struct {
	query *node
	num   int
}

// level is a query with those around it.
type level struct {
	query *node
	outer *level
}

// derive lists the sources of every result column of a query.
func (l *Lexicon) derive(query *node) [][]Source {
	list := outputs(query)
	all := make([][]Source, len(list))
	for i := range list {
		d := &derivation{lexicon: l, found: map[Source]bool{}, busy: map[columnOf]bool{}}
		d.output(&level{query: query}, i+1)
		for s := range d.found {
			all[i] = append(all[i], s)
		}
		slices.SortFunc(all[i], func(a, b Source) int { return cmp.Or(cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Num, b.Num)) })
	}
	return all
}

// outputs are the result columns of a query: TARGETENTRYs.
func outputs(query *node) []*node {
	list := nodes(query, "targetList")
	if returning := nodes(query, "returningList"); query.number("commandType") != 1 {
		list = returning
	}
	return slices.DeleteFunc(slices.Clone(list), func(n *node) bool { return n.word("resjunk") == "true" })
}

// nodes are the members of a field that is a list of nodes.
func nodes(n *node, name string) []*node {
	var all []*node
	for _, v := range n.get(name) {
		if l, ok := v.(list); ok {
			for _, x := range l {
				if c, ok := x.(*node); ok {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// output follows result column num of a query; 0 is all of them.
func (d *derivation) output(at *level, num int) {
	key := columnOf{at.query, num}
	if d.busy[key] {
		return
	}
	d.busy[key] = true
	if tree := at.query.child("setOperations"); tree != nil {
		d.branches(at, tree, num)
		return
	}
	list := outputs(at.query)
	if num > len(list) {
		num = 0 // a column that SEARCH or CYCLE adds is made of the others
	}
	for i, target := range list {
		if num == 0 || num == i+1 {
			d.expression(at, target.get("expr"))
		}
	}
}

func (d *derivation) branches(at *level, tree *node, num int) {
	if tree.kind == "RANGETBLREF" {
		d.variable(at, tree.number("rtindex"), num)
		return
	}
	for _, side := range []string{"larg", "rarg"} {
		if c := tree.child(side); c != nil {
			d.branches(at, c, num)
		}
	}
}

func (d *derivation) expression(at *level, values []any) {
	for _, v := range values {
		switch v := v.(type) {
		case list:
			d.expression(at, v)
		case *node:
			d.node(at, v)
		}
	}
}

func (d *derivation) node(at *level, n *node) {
	switch n.kind {
	case "VAR":
		home := at
		for range n.number("varlevelsup") {
			home = home.outer
		}
		d.variable(home, n.number("varno"), n.number("varattno"))
		return
	case "SUBLINK":
		const existsLink = 0
		d.expression(at, n.get("testexpr"))
		if n.number("subLinkType") != existsLink {
			d.output(&level{n.child("subselect"), at}, 0)
		}
		return
	case "GROUPINGFUNC":
		return
	}
	for i := range n.fields {
		d.expression(at, n.fields[i].values)
	}
}

// variable follows column num of an entry of the range table; 0 is the whole row.
func (d *derivation) variable(at *level, entry, num int) {
	table := nodes(at.query, "rtable")
	if entry < 1 || entry > len(table) {
		return
	}
	rte := table[entry-1]
	switch rte.number("rtekind") {
	case rteRelation:
		d.relation(catalog.OID(rte.number("relid")), int16(num))
	case rteSubquery:
		d.output(&level{rte.child("subquery"), at}, num)
	case rteJoin:
		vars := rte.get("joinaliasvars")
		if all, ok := vars[0].(list); ok && num > 0 && num <= len(all) {
			vars = []any{all[num-1]}
		}
		d.expression(at, vars)
	case rteFunction:
		d.functions(at, rte, num)
	case rteTableFunc:
		d.expression(at, rte.get("tablefunc"))
	case rteValues:
		d.values(at, rte, num)
	case rteCTE:
		d.with(at, rte, num)
	}
}

func (d *derivation) relation(oid catalog.OID, num int16) {
	if num != 0 {
		d.found[Source{oid, num}] = true
		return
	}
	for _, live := range d.lexicon.columns[oid] {
		d.found[Source{oid, live}] = true
	}
}

// functions follows a column of functions in FROM. The one that WITH ORDINALITY adds only counts.
func (d *derivation) functions(at *level, rte *node, num int) {
	first := 1
	for _, f := range nodes(rte, "functions") {
		behind := first + f.number("funccolcount")
		if num == 0 || num >= first && num < behind {
			d.expression(at, f.get("funcexpr"))
		}
		first = behind
	}
}

func (d *derivation) values(at *level, rte *node, num int) {
	for _, v := range rte.get("values_lists") {
		rows, _ := v.(list)
		for _, row := range rows {
			if r, ok := row.(list); ok && num > 0 && num <= len(r) {
				d.expression(at, []any{r[num-1]})
			} else {
				d.expression(at, []any{row})
			}
		}
	}
}

func (d *derivation) with(at *level, rte *node, num int) {
	home := at
	for range rte.number("ctelevelsup") {
		home = home.outer
	}
	for _, cte := range queriesOf(home.query) {
		if cte.word("ctename") == rte.word("ctename") {
			d.output(&level{cte.child("ctequery"), home}, num)
		}
	}
}
