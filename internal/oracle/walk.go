package oracle

import (
	"interlock/catalog"
)

// Bits of requiredPerms (PostgreSQL's parsenodes.h) and of attribute numbers in bitmaps (sysattr.h).
const (
	aclInsert = 1 << 0
	aclSelect = 1 << 1
	aclUpdate = 1 << 2
	aclDelete = 1 << 3

	firstLowInvalid = -7
)

// walk collects what trees say.
type walk struct {
	lexicon   *Lexicon
	demands   []Demand
	unchecked []Demand
	calls     []catalog.OID
	implied   []catalog.OID
	unread    bool // inside a WITH query that nothing reads
}

// trees walks printed trees, and returns them.
func (w *walk) trees(texts []string) ([]*node, error) {
	var all []*node
	for _, text := range texts {
		nodes, err := parseTree(text)
		if err != nil {
			return nil, err
		}
		all = append(all, nodes...)
		for _, n := range nodes {
			w.node(n)
		}
	}
	return all, nil
}

func (w *walk) node(n *node) {
	switch n.kind {
	case "QUERY":
		w.query(n)
		return
	case "RANGETBLENTRY":
		w.entry(n)
	case "FUNCEXPR":
		w.call(n, "funcid")
	case "OPEXPR", "DISTINCTEXPR", "NULLIFEXPR", "SCALARARRAYOPEXPR":
		w.call(n, "opfuncid")
	case "AGGREF":
		w.call(n, "aggfnoid")
	case "WINDOWFUNC":
		w.call(n, "winfnoid")
	case "ROWCOMPAREEXPR":
		for _, op := range n.numbers("opnos") {
			w.implied = append(w.implied, w.lexicon.operators[catalog.OID(op)])
		}
	case "SORTGROUPCLAUSE":
		w.implied = append(w.implied, w.operator(n, "eqop"), w.operator(n, "sortop"))
	case "TABLESAMPLECLAUSE":
		w.implied = append(w.implied, catalog.OID(n.number("tsmhandler")))
	case "CONST":
		w.implied = append(w.implied, w.lexicon.checks[catalog.OID(n.number("consttype"))]...)
	case "COERCETODOMAIN", "COERCEVIAIO", "ARRAYCOERCEEXPR", "CONVERTROWTYPEEXPR":
		w.implied = append(w.implied, w.lexicon.checks[catalog.OID(n.number("resulttype"))]...)
	}
	w.fields(n)
}

func (w *walk) fields(n *node) {
	for i := range n.fields {
		w.values(n.fields[i].values)
	}
}

func (w *walk) values(values []any) {
	for _, v := range values {
		switch v := v.(type) {
		case *node:
			w.node(v)
		case list:
			w.values(v)
		}
	}
}

func (w *walk) call(n *node, name string) {
	f := catalog.OID(n.number(name))
	if f == 0 {
		f = w.operator(n, "opno")
	}
	w.calls = append(w.calls, f)
}

func (w *walk) operator(n *node, name string) catalog.OID {
	return w.lexicon.operators[catalog.OID(n.number(name))]
}

// query walks a query. Those of its WITH queries that nothing reads are never planned, so never checked, unless they write.
func (w *walk) query(n *node) {
	unread := unreadQueries(n)
	for i := range n.fields {
		if n.fields[i].name != "cteList" {
			w.values(n.fields[i].values)
		}
	}
	for _, cte := range queriesOf(n) {
		was := w.unread
		w.unread = was || unread[cte]
		w.node(cte)
		w.unread = was
	}
}

func queriesOf(n *node) []*node { return nodes(n, "cteList") }

// unreadQueries finds the WITH queries that only select and that nothing reads, or only such queries do.
func unreadQueries(n *node) map[*node]bool {
	const selecting = 1
	ctes := queriesOf(n)
	unread := map[*node]bool{}
	for again := true; again; {
		again = false
		for _, c := range ctes {
			if unread[c] || c.child("ctequery").number("commandType") != selecting {
				continue
			}
			refs := c.number("cterefcount")
			for _, other := range ctes {
				// A recursive query's own reference does not count, nor do those of unread ones.
				if unread[other] && c.number("ctematerialized") != 1 {
					refs -= references(other, c.word("ctename"))
				}
			}
			if refs <= 0 {
				unread[c], again = true, true
			}
		}
	}
	return unread
}

// references counts the range table entries of kind RTE_CTE below n with a name.
func references(n *node, name string) int {
	const kindCTE = "6"
	count := 0
	if n.kind == "RANGETBLENTRY" && n.word("rtekind") == kindCTE && n.word("ctename") == name {
		count++
	}
	var in func(values []any)
	in = func(values []any) {
		for _, v := range values {
			switch v := v.(type) {
			case *node:
				count += references(v, name)
			case list:
				in(v)
			}
		}
	}
	for i := range n.fields {
		in(n.fields[i].values)
	}
	return count
}

// entry is a range table entry: what ExecCheckRTEPerms checks, unless it checks someone else than the caller.
func (w *walk) entry(n *node) {
	perms := n.number("requiredPerms")
	if n.number("checkAsUser") != 0 || n.number("relid") == 0 {
		return
	}
	rel := catalog.OID(n.number("relid"))
	for _, p := range []struct {
		bit     int
		action  Action
		columns string
	}{{aclSelect, Select, "selectedCols"}, {aclInsert, Insert, "insertedCols"}, {aclUpdate, Update, "updatedCols"}, {aclDelete, Delete, ""}} {
		if perms&p.bit != 0 {
			w.demand(p.action, rel, n.numbers(p.columns))
		}
	}
}

func (w *walk) demand(action Action, rel catalog.OID, bitmap []int) {
	to := &w.demands
	if w.unread {
		to = &w.unchecked
	}
	if len(bitmap) == 0 {
		*to = append(*to, Demand{action, rel, 0})
	}
	for _, bit := range bitmap {
		num := int16(bit + firstLowInvalid)
		if num != 0 {
			*to = append(*to, Demand{action, rel, num})
			continue
		}
		// The whole row: every live column.
		if len(w.lexicon.columns[rel]) == 0 {
			*to = append(*to, Demand{action, rel, 0})
		}
		for _, live := range w.lexicon.columns[rel] {
			*to = append(*to, Demand{action, rel, live})
		}
	}
}
