package oracle

import (
	"cmp"
	"fmt"
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
	busy    map[string]bool // a recursive query meets itself
}

// level is a query with those around it.
type level struct {
	query *node
	outer *level
}

func (at *level) up(levels int) *level {
	for range levels {
		at = at.outer
	}
	return at
}

// path are the numbers of fields that are taken of a row, of the row in it, and so on; empty for a whole value.
type path []int

// derive lists the sources of every result column of a query.
func (l *Lexicon) derive(query *node) [][]Source {
	list := outputs(query)
	all := make([][]Source, len(list))
	for i := range list {
		d := &derivation{lexicon: l, found: map[Source]bool{}, busy: map[string]bool{}}
		d.output(&level{query: query}, i+1, nil)
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

// output follows result column num of a query; 0 is its row.
func (d *derivation) output(at *level, num int, fields path) {
	if num == 0 && len(fields) > 0 {
		num, fields = fields[0], fields[1:]
	}
	key := fmt.Sprintf("%p %d %v", at.query, num, fields)
	if d.busy[key] {
		return
	}
	d.busy[key] = true
	if tree := at.query.child("setOperations"); tree != nil {
		d.branches(at, tree, num, fields)
		return
	}
	list := outputs(at.query)
	if num > len(list) {
		num, fields = 0, nil // a column that SEARCH or CYCLE adds is made of the others
	}
	for i, target := range list {
		if num == 0 || num == i+1 {
			d.value(at, target.child("expr"), fields)
		}
	}
}

func (d *derivation) branches(at *level, tree *node, num int, fields path) {
	if tree.kind == "RANGETBLREF" {
		d.variable(at, tree.number("rtindex"), num, fields)
		return
	}
	for _, side := range []string{"larg", "rarg"} {
		if c := tree.child(side); c != nil {
			d.branches(at, c, num, fields)
		}
	}
}

// value follows an expression, or fields of it where it is plain of what they are made.
func (d *derivation) value(at *level, n *node, fields path) {
	const exprLink = 4
	switch {
	case n == nil:
	case n.kind == "VAR":
		d.variable(at.up(n.number("varlevelsup")), n.number("varno"), n.number("varattno"), fields)
	case n.kind == "FIELDSELECT":
		d.value(at, n.child("arg"), append(path{n.number("fieldnum")}, fields...))
	case n.kind == "ROWEXPR" && len(fields) > 0 && fields[0] <= len(nodes(n, "args")):
		d.value(at, nodes(n, "args")[fields[0]-1], fields[1:])
	case n.kind == "SUBLINK" && n.number("subLinkType") == exprLink:
		d.output(&level{n.child("subselect"), at}, 1, fields)
	default:
		d.inside(at, n)
	}
}

// inside follows everything in an expression.
func (d *derivation) inside(at *level, n *node) {
	const existsLink = 0
	switch n.kind {
	case "GROUPINGFUNC":
		return
	case "SUBLINK":
		d.all(at, n.get("testexpr"))
		if n.number("subLinkType") != existsLink {
			d.output(&level{n.child("subselect"), at}, 0, nil)
		}
		return
	}
	for i := range n.fields {
		d.all(at, n.fields[i].values)
	}
}

func (d *derivation) all(at *level, values []any) {
	for _, v := range values {
		switch v := v.(type) {
		case list:
			d.all(at, v)
		case *node:
			d.value(at, v, nil)
		}
	}
}

// variable follows column num of an entry of the range table; 0 is the whole row.
func (d *derivation) variable(at *level, entry, num int, fields path) {
	table := nodes(at.query, "rtable")
	if entry < 1 || entry > len(table) {
		return
	}
	rte := table[entry-1]
	switch rte.number("rtekind") {
	case rteRelation:
		if num == 0 && len(fields) > 0 {
			num = fields[0]
		}
		d.relation(catalog.OID(rte.number("relid")), int16(num))
	case rteSubquery:
		d.output(&level{rte.child("subquery"), at}, num, fields)
	case rteJoin:
		vars := nodes(rte, "joinaliasvars")
		if num > 0 && num <= len(vars) {
			d.value(at, vars[num-1], fields)
		}
	case rteFunction:
		d.functions(at, rte, num)
	case rteTableFunc:
		d.all(at, rte.get("tablefunc"))
	case rteValues:
		d.values(at, rte, num)
	case rteCTE:
		d.with(at.up(rte.number("ctelevelsup")), rte.word("ctename"), num, fields)
	}
}

// relation is where a column is found. Rewriting leaves a view in place only when a trigger makes up its rows.
func (d *derivation) relation(oid catalog.OID, num int16) {
	if d.lexicon.views[oid] {
		return
	}
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
			d.all(at, f.get("funcexpr"))
		}
		first = behind
	}
}

func (d *derivation) values(at *level, rte *node, num int) {
	for _, v := range rte.get("values_lists") {
		rows, _ := v.(list)
		for _, row := range rows {
			if r, ok := row.(list); ok && num > 0 && num <= len(r) {
				d.all(at, []any{r[num-1]})
			} else {
				d.all(at, []any{row})
			}
		}
	}
}

func (d *derivation) with(home *level, name string, num int, fields path) {
	for _, cte := range queriesOf(home.query) {
		if cte.word("ctename") == name {
			d.output(&level{cte.child("ctequery"), home}, num, fields)
		}
	}
}
