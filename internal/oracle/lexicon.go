package oracle

import (
	"slices"

	"interlock/catalog"
)

// Lexicon is what one must know of a catalog to read its server's trees.
type Lexicon struct {
	operators map[catalog.OID]catalog.OID   // function behind each operator
	columns   map[catalog.OID][]int16       // live columns of each relation
	checks    map[catalog.OID][]catalog.OID // functions behind the domains in each type
	views     map[catalog.OID]bool
}

// NewLexicon makes a lexicon of what an index describes.
func NewLexicon(index *catalog.Index) *Lexicon {
	l := &Lexicon{map[catalog.OID]catalog.OID{}, map[catalog.OID][]int16{}, map[catalog.OID][]catalog.OID{}, map[catalog.OID]bool{}}
	for _, o := range index.Snapshot.Operators {
		l.operators[o.OID] = o.Function
	}
	for _, r := range index.Snapshot.Relations {
		l.views[r.OID] = r.Kind == catalog.View
		for _, c := range r.Columns {
			l.columns[r.OID] = append(l.columns[r.OID], c.Num)
		}
	}
	for i := range index.Snapshot.Types {
		oid := index.Snapshot.Types[i].OID
		if f := checksIn(index, oid, nil); f != nil {
			l.checks[oid] = distinct(f)
		}
	}
	return l
}

// checksIn lists the functions that check the domains of which a type is made. A row type can hold arrays of itself.
func checksIn(index *catalog.Index, oid catalog.OID, seen []catalog.OID) []catalog.OID {
	t := index.Type(oid)
	if t == nil || slices.Contains(seen, oid) {
		return nil
	}
	seen = append(seen, oid)
	all := slices.Clone(t.CheckFuncs)
	for _, inner := range []catalog.OID{t.Base, t.Element, t.RangeSub} {
		all = append(all, checksIn(index, inner, seen)...)
	}
	if rel := index.Relation(t.Relation); rel != nil {
		for i := range rel.Columns {
			all = append(all, checksIn(index, rel.Columns[i].Type, seen)...)
		}
	}
	return all
}

// Read reads the trees of one statement: the detail of its ParsedMessage, and that of its RewrittenMessage or "". Fields
// stay nil.
func (l *Lexicon) Read(parsed, rewritten string) (*Needs, error) {
	n := &Needs{}
	trees := []string{}
	if rewritten != "" {
		trees = append(trees, rewritten)
	}
	return n, l.read(n, []string{parsed}, trees)
}

func (l *Lexicon) read(n *Needs, parsed, rewritten []string) error {
	w := &walk{lexicon: l}
	if _, err := w.trees(parsed); err != nil {
		return err
	}
	// Rewriting opens views. What a security_invoker view reads is checked against the caller, too.
	deep := &walk{lexicon: l, demands: w.demands, unchecked: w.unchecked}
	queries, err := deep.trees(rewritten)
	if err != nil {
		return err
	}
	for _, q := range queries {
		if q.word("canSetTag") == "true" {
			n.Sources = l.derive(q)
		}
	}
	n.Functions = distinct(w.calls)
	n.Behind = append(append(w.implied, deep.implied...), deep.calls...)
	n.Behind = slices.DeleteFunc(distinct(n.Behind), func(f catalog.OID) bool { return slices.Contains(n.Functions, f) })
	n.Demands = Normal(deep.demands)
	n.Unchecked = slices.DeleteFunc(Normal(deep.unchecked), func(d Demand) bool { return Covers(n.Demands, d) })
	return nil
}
