package analyze

import (
	"runtime"
	"sync"
	"weak"

	"interlock/catalog"
)

// knowledge is what follows from a catalog alone and is worth keeping: what views are made of, and which keywords
// differ. It lives as long as the catalog's index.
type knowledge struct {
	drift map[string]bool

	mu    sync.Mutex
	views map[catalog.OID]*view
}

// view is what a view's definition touches. The functions run with the rights of whoever reads the view.
type view struct {
	columns []viewColumn
	calls   []*catalog.Function // by its clauses
	kept    []*catalog.Function // by columns, whichever are read: the planner does not drop them
	// What a security_invoker view reads is checked against whoever reads it, also through a view of another kind.
	reads   []origin            // number 0 is any column
	tables  []*catalog.Relation // FOR UPDATE reaches them
	source  origin              // the one relation that a simple view selects from, number 0
	refusal *Error
}

type viewColumn struct {
	from  *lineage
	calls []*catalog.Function
	base  origin // the column itself, if it is one
}

// maxViewDepth bounds views over views. PostgreSQL refuses circular ones.
const maxViewDepth = 100

var (
	knowledgeMu  sync.Mutex
	knowledgeMap = map[weak.Pointer[catalog.Index]]*knowledge{}
)

// knowledgeOf returns what is kept about a catalog. It holds no reference that would keep the catalog alive for longer
// than the analyses that use it.
func knowledgeOf(index *catalog.Index) *knowledge {
	key := weak.Make(index)
	knowledgeMu.Lock()
	defer knowledgeMu.Unlock()
	k := knowledgeMap[key]
	if k == nil {
		k = &knowledge{drift: keywordDrift(index.Snapshot.Keywords), views: map[catalog.OID]*view{}}
		knowledgeMap[key] = k
		runtime.AddCleanup(index, forgetKnowledge, key)
	}
	return k
}

func forgetKnowledge(key weak.Pointer[catalog.Index]) {
	knowledgeMu.Lock()
	defer knowledgeMu.Unlock()
	delete(knowledgeMap, key)
}

// viewOf returns what a view or materialized view is made of, from its definition.
func (a *analysis) viewOf(rel *catalog.Relation) *view {
	a.known.mu.Lock()
	v := a.known.views[rel.OID]
	a.known.mu.Unlock()
	if v == nil {
		v = a.analyseView(rel)
		a.known.mu.Lock()
		a.known.views[rel.OID] = v
		a.known.mu.Unlock()
	}
	if v.refusal != nil {
		failAt(-1, "0A000", "view %q cannot be analysed: %s", rel.Schema+"."+rel.Name, v.refusal.Message)
	}
	return v
}

// analyseView resolves a definition, in which every name outside pg_catalog is qualified.
func (a *analysis) analyseView(rel *catalog.Relation) (v *view) {
	v = &view{}
	defer func() {
		if e := refusal(recover()); e != nil {
			v = &view{refusal: e}
		}
	}()
	if a.depth >= maxViewDepth {
		failAt(-1, "54001", "views nest too deeply")
	}
	var out Statement
	in := newAnalysis(rel.Definition, &Env{Catalog: a.env.Catalog, SearchPath: []string{"pg_catalog"}}, a.known, &out)
	in.depth = a.depth + 1
	s := &scope{}
	columns := in.definition(s, rel)
	if len(columns) != len(rel.Columns) {
		failAt(-1, "XX000", "its definition has %d columns", len(columns))
	}
	in.finish()
	v.note(in, s, rel, columns)
	return v
}

// definition analyses the one SELECT of a view.
func (a *analysis) definition(s *scope, rel *catalog.Relation) []column {
	if e := admit(rel.Definition, Limits{}); e != nil {
		fail(e)
	}
	stmts, e := parse(rel.Definition)
	if e != nil {
		fail(e)
	}
	if len(stmts) != 1 || stmts[0].Stmt.GetSelectStmt() == nil {
		failAt(-1, "XX000", "its definition is not one SELECT")
	}
	n := stmts[0].Stmt.GetSelectStmt()
	if len(n.DistinctClause) == 0 && len(n.ValuesLists) == 0 {
		a.columnScope = s
	}
	return a.selectStmt(s, n).columns
}

func (v *view) note(in *analysis, s *scope, rel *catalog.Relation, columns []column) {
	v.calls = ownFunctions(in.out.Functions)
	if len(s.sources) == 1 && s.sources[0].rel != nil {
		v.source = origin{s.sources[0].rel, 0}
	}
	for i := range columns {
		own := Source{Column: nameColumn(rel, rel.Columns[i].Num), Behind: in.sources(in.lineageOf(&columns[i]))}
		c := viewColumn{from: &lineage{columns: []Source{own}}, base: columns[i].origin}
		v.columns = append(v.columns, c)
	}
	perColumn := len(in.columns) == len(columns)
	for i, calls := range in.columns {
		for _, f := range ownFunctions(calls) {
			// The planner drops what nobody reads, but for what is volatile or returns sets.
			if !perColumn || f.Volatility == "v" || f.ReturnsSet {
				v.kept = append(v.kept, f)
			}
			if perColumn { // changing rows through the view calls what is behind the columns that it reads
				v.columns[i].calls = append(v.columns[i].calls, f)
			}
		}
	}
	v.reads, v.tables = in.invoked, in.invokedTables
	if !rel.SecurityInvoker {
		return
	}
	for _, c := range in.out.Reads {
		v.reads = append(v.reads, origin{in.env.Catalog.Relation(c.Relation), c.Num})
	}
	for _, m := range in.touched {
		v.tables = append(v.tables, m.rel)
	}
}

// ownFunctions leaves PostgreSQL's own functions out: what a view calls of them is its owner's business.
func ownFunctions(list []*catalog.Function) []*catalog.Function {
	var own []*catalog.Function
	for _, f := range list {
		if !catalog.IsSystemSchema(f.Schema) {
			own = append(own, f)
		}
	}
	return own
}

// openView notes what reading a view calls, and for a security_invoker view what it reads.
func (a *analysis) openView(rel *catalog.Relation) {
	if rel.Kind != catalog.View {
		return
	}
	a.callView(rel)
	a.use(a.viewOf(rel).kept...)
	a.readView(rel)
}

// callView notes what the clauses of a view call.
func (a *analysis) callView(rel *catalog.Relation) {
	if rel.Kind == catalog.View {
		a.use(a.viewOf(rel).calls...)
	}
}

// readView notes what is read behind a view with the rights of whoever uses it.
func (a *analysis) readView(rel *catalog.Relation) {
	if rel.Kind != catalog.View {
		return
	}
	v := a.viewOf(rel)
	for _, r := range v.reads {
		if r.num == 0 {
			a.touch(r.rel)
		} else {
			a.read(r.rel, r.num)
		}
	}
	a.invoked = append(a.invoked, v.reads...)
	a.invokedTables = append(a.invokedTables, v.tables...)
}

func (a *analysis) useViewColumn(rel *catalog.Relation, num int16) {
	if rel.Kind != catalog.View || num < 1 {
		return
	}
	if v := a.viewOf(rel); int(num) <= len(v.columns) {
		a.use(v.columns[num-1].calls...)
	}
}

// relationLineage is what a column of a relation derives from: the column itself, the columns that a generated one is
// computed from, and for a view what its definition makes it of.
func (a *analysis) relationLineage(rel *catalog.Relation, num int16) *lineage {
	if (rel.Kind == catalog.View || rel.Kind == catalog.MaterializedView) && num > 0 && int(num) <= len(rel.Columns) {
		return a.viewOf(rel).columns[num-1].from
	}
	own := Source{Column: nameColumn(rel, num)}
	if c := columnNumbered(rel, num); c != nil && c.Generated {
		for _, n := range c.DependsOn {
			own.Behind = append(own.Behind, Source{Column: nameColumn(rel, n), How: Changed})
		}
	}
	return &lineage{columns: []Source{own}}
}

// rowLineage is what all columns of a relation derive from.
func (a *analysis) rowLineage(rel *catalog.Relation) *lineage {
	parts := make([]*lineage, len(rel.Columns))
	for i := range rel.Columns {
		parts[i] = a.relationLineage(rel, rel.Columns[i].Num)
	}
	return changed(parts...)
}

// drifts reports if a word is a keyword of another kind for the server than for the parser.
func (k *knowledge) drifts(word string) bool { return k.drift[word] }

// paramType is the type that a client declared for a parameter; 0 leaves it open.
func (k *knowledge) paramType(t catalog.OID) catalog.OID {
	const unknownType = 705
	if t == 0 {
		return unknownType
	}
	return t
}
