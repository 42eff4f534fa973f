package policy

import (
	"cmp"
	"slices"

	"interlock/catalog"
)

// Statement is one action on one resource pattern, as interlock_describe_access lists it.
type Statement struct {
	Action   Action `json:"action"`
	Resource string `json:"resource"`
}

// Access is what an identity may see of a source.
type Access struct {
	Roles []string
	// Allow and Deny are the permissions of the roles, in the order of the document, each once.
	Allow, Deny []Statement
	// Tables are the relations of which the identity may read, change or describe something, by schema and name.
	Tables []TableAccess
	// Sequences are those that may be read.
	Sequences []*catalog.Relation
	// Functions are those outside the system schemas that may be executed.
	Functions []*catalog.Function
	// EveryTable and EveryFunction are set when the roles allow all that lies outside the system schemas to be read or
	// executed and deny nothing, so that what is made after the scan counts too.
	EveryTable, EveryFunction bool
	// EveryChange is set when they allow all of it to be changed too.
	EveryChange bool
}

// TableAccess is what an identity may see of one relation. Columns are in the order of the relation.
type TableAccess struct {
	Relation *catalog.Relation
	Read     []*catalog.Column // columns that db.table.select allows
	Describe []*catalog.Column // columns that may be described: those that may be read or written, and those with db.table.describe
	// Insert and Update are the columns that may be written so. Delete and Truncate are about the rows.
	Insert, Update   []*catalog.Column
	Delete, Truncate bool
	// Named is set if the caller may know that there is such a table.
	Named bool
}

// AllRead reports if every column of the relation may be read.
func (t *TableAccess) AllRead() bool { return len(t.Read) == len(t.Relation.Columns) }

// ReadNames returns the names of the columns that may be read.
func (t *TableAccess) ReadNames() []string {
	names := make([]string, len(t.Read))
	for i, c := range t.Read {
		names[i] = c.Name
	}
	return names
}

// Readable returns at most limit tables of which a column may be read, and whether there are more.
func (a *Access) Readable(limit int) (tables []TableAccess, truncated bool) {
	for _, t := range a.Tables {
		if len(t.Read) == 0 {
			continue
		}
		if len(tables) == limit {
			return tables, true
		}
		tables = append(tables, t)
	}
	return tables, false
}

// Access returns what an identity may see of a source, or nil if it has no grant on it. It asks the rules that Decide
// asks, so the two cannot drift apart. A nil catalog gives no tables. Describing a column needs db.table.describe,
// db.table.select, db.table.insert or db.table.update on it; a deny of db.table.describe wins over all.
func (r *Ruleset) Access(identity, source string, ix *catalog.Index) *Access {
	set := r.grants[grantKey{identity, source}]
	if set == nil {
		return nil
	}
	a := &Access{Roles: set.roles}
	a.Allow, a.Deny = r.statements(set.roles)
	if ix == nil {
		return a
	}
	for i := range ix.Snapshot.Relations {
		rel := &ix.Snapshot.Relations[i]
		if t := set.see(rel); t != nil {
			a.Tables = append(a.Tables, *t)
		}
		if by := set.scope(TableSelect, rel).anyColumn(rel); rel.Kind == catalog.Sequence && by != nil && by.effect == Allow {
			a.Sequences = append(a.Sequences, rel)
		}
	}
	for i := range ix.Snapshot.Functions {
		f := &ix.Snapshot.Functions[i]
		if by := set.function(f); by != nil && by.effect == Allow && !catalog.IsSystemSchema(f.Schema) {
			a.Functions = append(a.Functions, f)
		}
	}
	a.EveryTable = set.everything(TableSelect) && !set.denies(TableDescribe)
	a.EveryFunction = set.everything(FunctionExec)
	a.EveryChange = set.everything(TableInsert) && set.everything(TableUpdate) && set.everything(TableDelete) && set.everything(TableTruncate)
	slices.SortFunc(a.Tables, func(x, y TableAccess) int { return byName(x.Relation, y.Relation) })
	return a
}

// everything reports if an action is allowed on all that lies outside the system schemas, and denied on nothing.
func (g *grantSet) everything(action Action) bool {
	rules := g.rules[action]
	return !g.denies(action) && slices.ContainsFunc(rules, func(r rule) bool { return r.resource.everything() })
}

func (g *grantSet) denies(action Action) bool {
	return slices.ContainsFunc(g.rules[action], func(r rule) bool { return r.effect == Deny })
}

func byName(x, y *catalog.Relation) int {
	return cmp.Or(cmp.Compare(x.Schema, y.Schema), cmp.Compare(x.Name, y.Name))
}

func (r *Ruleset) statements(roles []string) (allow, deny []Statement) {
	seen := make(map[Effect]map[Statement]bool)
	seen[Allow], seen[Deny] = make(map[Statement]bool), make(map[Statement]bool)
	for i := range r.Document.Roles {
		if role := &r.Document.Roles[i]; slices.Contains(roles, role.Name) {
			for _, p := range role.Permissions {
				for _, s := range p.statements() {
					switch {
					case seen[p.Effect][s]:
					case p.Effect == Allow:
						allow = append(allow, s)
					default:
						deny = append(deny, s)
					}
					seen[p.Effect][s] = true
				}
			}
		}
	}
	return allow, deny
}

func (p *Permission) statements() []Statement {
	all := make([]Statement, 0, len(p.Actions)*len(p.Resources))
	for _, action := range p.Actions {
		for i := range p.Resources {
			all = append(all, Statement{action, p.Resources[i].Text})
		}
	}
	return all
}

// isTable reports if a relation is one that statements read rows from.
func isTable(rel *catalog.Relation) bool {
	switch rel.Kind {
	case catalog.Table, catalog.PartitionedTable, catalog.View, catalog.MaterializedView, catalog.ForeignTable:
		return true
	}
	return false
}

// see returns what the grant shows of a relation, or nil if that is nothing.
func (g *grantSet) see(rel *catalog.Relation) *TableAccess {
	if !isTable(rel) {
		return nil
	}
	t := &TableAccess{Relation: rel, Delete: g.whole(TableDelete, rel), Truncate: g.whole(TableTruncate, rel)}
	describe := g.scope(TableDescribe, rel)
	scopes := []scope{g.scope(TableSelect, rel), g.scope(TableInsert, rel), g.scope(TableUpdate, rel)}
	lists := []*[]*catalog.Column{&t.Read, &t.Insert, &t.Update}
	for i := range rel.Columns {
		col, used := &rel.Columns[i], false
		for k, s := range scopes {
			if len(s.rules) > 0 && s.allows(col.Name) {
				*lists[k], used = append(*lists[k], col), true
			}
		}
		if by := describe.column(col.Name); by == nil && used || by != nil && by.effect == Allow {
			t.Describe = append(t.Describe, col)
		}
	}
	by := describe.table()
	t.Named = len(t.Describe) > 0 || (t.Delete || t.Truncate) && (by == nil || by.effect == Allow)
	if len(t.Read) == 0 && !t.Named {
		return nil
	}
	return t
}

// whole reports if an action is allowed on a relation as a whole.
func (g *grantSet) whole(action Action, rel *catalog.Relation) bool {
	by := g.scope(action, rel).table()
	return by != nil && by.effect == Allow
}

// tableActions are the actions by which a caller can know that a table exists.
var tableActions = []Action{TableSelect, TableDescribe, TableInsert, TableUpdate, TableDelete, TableTruncate}

// visible reports if the grant allows anything on the relation or on a column of it, so that the caller may know that
// it exists.
func (g *grantSet) visible(rel *catalog.Relation) bool {
	for _, action := range tableActions {
		s := g.scope(action, rel)
		if len(s.rules) == 0 {
			continue
		}
		by := s.table()
		if columnwise(action) {
			by = s.anyColumn(rel)
		}
		if by != nil && by.effect == Allow {
			return true
		}
	}
	return false
}
