package policy

import (
	"fmt"
	"slices"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// Decide judges everything that a text needs, and then every policy. It is pure, judges every need even after one was refused, and refuses
// whatever it does not know: an identity without a grant, a kind of statement, a relation that is not in the catalog.
func (r *Ruleset) Decide(in Input) *Decision {
	j := r.judge(in)
	if j == nil {
		return noGrant(in.Source)
	}
	needs := 0
	for i := range in.Facts.Statements {
		s := &in.Facts.Statements[i]
		needs += len(s.Reads) + len(s.Writes) + len(s.Functions) + len(s.Channels)
	}
	j.made.Reasons = make([]Reason, 0, needs)
	for i := range in.Facts.Statements {
		j.statement(&in.Facts.Statements[i])
	}
	j.policies()
	d := j.decision()
	d.mask(r, &j.in)
	if src := r.Source(in.Source); src != nil {
		d.content(src.Content, &j.in)
	}
	d.conclude()
	return d
}

func noGrant(source string) *Decision {
	return &Decision{
		Verdict: Refused, SQLState: "3D000", Message: fmt.Sprintf("source %q does not exist", source),
		Denied: []Reason{{Note: "no grant on the source"}}, Reasons: []Reason{{Note: "no grant on the source"}},
	}
}

// judge collects the reasons of one decision.
type judge struct {
	rules  *Ruleset
	in     Input
	set    *grantSet
	seen   map[needKey]bool
	scopes []scope
	here   []*catalog.Relation // see typedTables
	made   *Decision
}

func (r *Ruleset) judge(in Input) *judge {
	set := r.grants[grantKey{in.Identity, in.Source}]
	if set == nil {
		return nil
	}
	if in.Catalog == nil {
		in.Catalog = catalog.NewIndex(&catalog.Snapshot{})
	}
	return &judge{rules: r, in: in, set: set, seen: make(map[needKey]bool, 16), made: &Decision{Verdict: Allowed, Roles: set.roles}}
}

func (j *judge) decision() *Decision {
	d := j.made
	for _, reason := range d.Reasons {
		if !reason.Granted && reason.Policy == nil {
			d.Denied = append(d.Denied, reason)
		}
	}
	if len(d.Denied) > 0 {
		d.Verdict = Refused
		j.remedies()
		j.teach()
	}
	return d
}

// statementKinds are the kinds that can be judged.
var statementKinds = append([]analyze.Kind{analyze.Prepare, analyze.Execute, analyze.Explain,
	analyze.CopyOut, analyze.CopyIn, analyze.Declare, analyze.Fetch, analyze.Move}, plainKinds...)

// plainKinds are those that carry no other statement.
var plainKinds = []analyze.Kind{analyze.Select, analyze.Insert, analyze.Update, analyze.Delete, analyze.Merge, analyze.Truncate,
	analyze.Begin, analyze.Commit, analyze.Rollback, analyze.Savepoint, analyze.Release, analyze.Set, analyze.Show, analyze.Discard,
	analyze.Deallocate, analyze.Close, analyze.Lock, analyze.Listen, analyze.Unlisten, analyze.Notify, analyze.Constrain, analyze.Empty, analyze.Raw}

func (j *judge) statement(s *analyze.Statement) {
	if !slices.Contains(statementKinds, s.Kind) {
		j.add(Reason{Note: fmt.Sprintf("unknown kind of statement %q", s.Kind)})
	}
	if s.Kind == analyze.Raw {
		j.settle(Need{Action: ExecuteRaw}, j.set.sourcewide(ExecuteRaw))
	}
	for i := range s.Reads {
		j.column(TableSelect, &s.Reads[i])
	}
	for i := range s.Writes {
		j.write(&s.Writes[i])
	}
	for _, f := range s.Functions {
		j.function(f)
	}
	j.channels(s)
	for _, oid := range s.RowTypes {
		j.rowType(oid)
	}
	if s.Kind == analyze.Explain {
		j.plan(s)
	}
	j.obligations(s)
}

// needKey tells needs apart by what they resolve to.
type needKey struct {
	action   Action
	relation catalog.OID
	function catalog.OID
	num      int16
	channel  string
}

func (j *judge) add(r Reason) {
	key := needKey{action: r.Need.Action, relation: r.Need.Relation, function: r.Need.Function, num: r.Need.Num}
	if channelwise(r.Need.Action) {
		key.channel = r.Need.Object
	}
	if !j.seen[key] {
		j.seen[key] = true
		j.made.Reasons = append(j.made.Reasons, r)
	}
}

func (j *judge) write(w *analyze.Write) {
	switch w.Action {
	case analyze.Inserting:
		j.column(TableInsert, &w.Column)
	case analyze.Updating:
		j.column(TableUpdate, &w.Column)
	case analyze.Deleting:
		j.table(TableDelete, &w.Column)
	case analyze.Truncating:
		j.table(TableTruncate, &w.Column)
	default:
		j.add(Reason{Note: fmt.Sprintf("unknown write %q", w.Action)})
	}
}

// column judges an action on one column, or on any column of a table that is touched without naming one. Names come
// from the catalog by OID and attribute number, not from the text.
func (j *judge) column(action Action, c *analyze.Column) {
	need := Need{Action: action, Schema: c.Schema, Object: c.Table, Column: c.Name, Relation: c.Relation, Num: c.Num, AnyColumn: c.Num == 0}
	rel := j.in.Catalog.Relation(c.Relation)
	if rel == nil {
		j.add(Reason{Need: need, Note: "not in the catalog"})
		return
	}
	need.Schema, need.Object = rel.Schema, rel.Name
	s := j.scope(action, rel)
	if action == TableSelect && len(s.rules) == 0 && j.filters(rel) {
		j.add(Reason{Need: need, Granted: true, Filtered: true, Note: filteredNote})
		return
	}
	switch {
	case c.Num == 0:
		need.Column = ""
		j.settle(need, s.anyColumn(rel))
	case c.Num > 0:
		col := columnNumbered(rel, c.Num)
		if col == nil {
			j.add(Reason{Need: need, Note: "not in the catalog"})
			return
		}
		need.Column = col.Name
		j.settle(need, s.column(col.Name))
	default:
		j.settle(need, s.column(c.Name))
	}
}

// rowType demands to read the columns of a table that the caller may not know of: the table's row type tells of them.
func (j *judge) rowType(table catalog.OID) {
	rel := j.in.Catalog.Relation(table)
	if rel == nil {
		j.add(Reason{Need: Need{Action: TableSelect, Relation: table}, Note: "not in the catalog"})
		return
	}
	for i := range rel.Columns {
		if c := &rel.Columns[i]; !j.knows(rel, c.Name) {
			j.column(TableSelect, &analyze.Column{Relation: table, Num: c.Num})
		}
	}
}

// table judges an action on a table as a whole.
func (j *judge) table(action Action, c *analyze.Column) {
	need := Need{Action: action, Schema: c.Schema, Object: c.Table, Relation: c.Relation}
	rel := j.in.Catalog.Relation(c.Relation)
	if rel == nil {
		j.add(Reason{Need: need, Note: "not in the catalog"})
		return
	}
	need.Schema, need.Object = rel.Schema, rel.Name
	j.settle(need, j.scope(action, rel).table())
}

func (j *judge) settle(need Need, by *rule) {
	r := Reason{Need: need}
	if by != nil {
		r.Granted, r.Effect, r.Role, r.Pattern, r.Line = by.effect == Allow, by.effect, by.role, by.resource.Text, by.line
	}
	j.add(r)
}

func (j *judge) function(f *catalog.Function) {
	need := Need{Action: FunctionExec, Schema: f.Schema, Object: f.Name, Function: f.OID}
	by := j.set.function(f)
	if !catalog.IsSystemSchema(f.Schema) {
		j.settle(need, by)
		return
	}
	switch lvl := builtinLevel(f); {
	case lvl == levelNever:
		j.add(Reason{Need: need, Note: fmt.Sprintf("built-in function of class %q, which never runs through the gateway", Builtin(f))})
	case lvl == levelGranted && (by == nil || by.effect == Allow):
		j.largeObjects(Builtin(f))
	case Builtin(f) == BuiltinNotify && by == nil:
		j.add(Reason{Need: need, Granted: true, Note: "built-in function, whose channel is judged instead"})
	case lvl == levelNamed && by == nil && j.in.Introspection != nil && j.in.Introspection.Function(f):
		j.add(Reason{Need: need, Granted: true, Filtered: true, Note: filteredNote})
	case lvl == levelFree && by == nil:
		j.add(Reason{Need: need, Granted: true, Note: "built-in function, reviewed as " + string(Builtin(f))})
	default:
		j.settle(need, by)
	}
}

const filteredNote = "shows only what the roles let the identity see"

func (j *judge) filters(rel *catalog.Relation) bool {
	return j.in.Introspection != nil && catalog.IsSystemSchema(rel.Schema) && j.in.Introspection.Relation(rel)
}

// scope returns the rules of an action that reach a relation, found once for each decision.
func (j *judge) scope(action Action, rel *catalog.Relation) scope {
	for _, s := range j.scopes {
		if s.relation == rel.OID && s.action == action {
			return s
		}
	}
	s := j.set.scope(action, rel)
	j.scopes = append(j.scopes, s)
	return s
}

// scope is what the roles say about one action on one relation.
type scope struct {
	action   Action
	relation catalog.OID
	rules    []*rule
}

func (g *grantSet) scope(action Action, rel *catalog.Relation) scope {
	s := scope{action: action, relation: rel.OID}
	rules := g.rules[action]
	for i := range rules {
		if rules[i].resource.reaches(rel.Schema, rel.Name) {
			s.rules = append(s.rules, &rules[i])
		}
	}
	return s
}

// column returns the rule that decides about a column: the first deny, else the first allow, else nil.
func (s scope) column(name string) *rule {
	var allow *rule
	for _, r := range s.rules {
		switch {
		case !r.resource.column(name):
		case r.effect == Deny:
			return r
		case allow == nil:
			allow = r
		}
	}
	return allow
}

// table returns the rule that decides about the table as a whole. A deny on a part of it denies the whole.
func (s scope) table() *rule {
	var allow *rule
	for _, r := range s.rules {
		switch {
		case r.effect == Deny:
			return r
		case allow == nil && r.resource.wholeObject():
			allow = r
		}
	}
	return allow
}

// anyColumn returns the rule that allows the first allowed column of the relation. If there is none, it returns a
// deny that stands in the way, or nil.
func (s scope) anyColumn(rel *catalog.Relation) *rule {
	if len(s.rules) == 0 {
		return nil
	}
	var deny *rule
	for i := range rel.Columns {
		r := s.column(rel.Columns[i].Name)
		if r != nil && r.effect == Allow {
			return r
		}
		if deny == nil {
			deny = r
		}
	}
	if len(rel.Columns) == 0 {
		return s.table()
	}
	return deny
}

// allows reports if the scope allows a column.
func (s scope) allows(column string) bool {
	r := s.column(column)
	return r != nil && r.effect == Allow
}

// all reports if the scope allows every column of the relation.
func (s scope) all(rel *catalog.Relation) bool {
	for i := range rel.Columns {
		if !s.allows(rel.Columns[i].Name) {
			return false
		}
	}
	return true
}

// function returns the rule that decides about a function: the first deny, else the first allow, else nil.
func (g *grantSet) function(f *catalog.Function) *rule {
	var allow *rule
	rules := g.rules[FunctionExec]
	for i := range rules {
		r := &rules[i]
		switch {
		case !r.resource.reaches(f.Schema, f.Name):
		case r.effect == Deny:
			return r
		case allow == nil:
			allow = r
		}
	}
	return allow
}

// columnNumbered returns the live user column with an attribute number, or nil.
func columnNumbered(rel *catalog.Relation, num int16) *catalog.Column {
	if i := int(num) - 1; i < len(rel.Columns) && rel.Columns[i].Num == num {
		return &rel.Columns[i]
	}
	for i := range rel.Columns {
		if rel.Columns[i].Num == num {
			return &rel.Columns[i]
		}
	}
	return nil
}
