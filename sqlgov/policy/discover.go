package policy

import (
	"cmp"
	"slices"

	"interlock/catalog"
)

// Asset is something in a source that a search can find: a relation, one of its columns, or a function.
type Asset struct {
	Relation *catalog.Relation // nil for a function
	Column   *catalog.Column   // nil for the relation itself
	Function *catalog.Function
	// Roles are those roles of the identity that allow something on it, in the order of the grant.
	Roles []string
}

// Name is how SQL names the asset, quoted where PostgreSQL needs it: schema.table, schema.table.column or
// schema.function(types). No two assets of a source have the same.
func (a *Asset) Name() string {
	if a.Function != nil {
		return quoteIdent(a.Function.Schema) + "." + quoteIdent(a.Function.Name) + "(" + a.Function.Signature + ")"
	}
	if a.Column != nil {
		return TableName(a.Relation) + "." + quoteIdent(a.Column.Name)
	}
	return TableName(a.Relation)
}

// Assets returns what an identity may find in a source, by name, each relation before its columns and functions last. It
// is what the identity may describe, functions that it may call, and nothing of the system schemas; a deny of
// discovery.search hides what it covers. There is nothing without a grant on the source.
func (r *Ruleset) Assets(identity, source string, ix *catalog.Index) []Asset {
	set := r.grants[grantKey{identity, source}]
	if set == nil || ix == nil {
		return nil
	}
	var all []Asset
	for _, t := range r.Access(identity, source, ix).Tables {
		if !catalog.IsSystemSchema(t.Relation.Schema) {
			all = append(all, set.assets(&t)...)
		}
	}
	tables := len(all)
	for i := range ix.Snapshot.Functions {
		f := &ix.Snapshot.Functions[i]
		by := set.function(f)
		if by != nil && by.effect == Allow && !catalog.IsSystemSchema(f.Schema) && !set.hides(f) {
			all = append(all, Asset{Function: f, Roles: set.allowing(f.Schema, f.Name, "")})
		}
	}
	slices.SortFunc(all[tables:], func(x, y Asset) int { return cmp.Compare(x.Name(), y.Name()) })
	return all
}

// assets are a relation and its columns, as far as they may be described and found.
func (g *grantSet) assets(t *TableAccess) []Asset {
	if by := g.scope(DiscoverSearch, t.Relation).table(); by != nil && by.effect == Deny {
		return nil
	}
	found := []Asset{{Relation: t.Relation, Roles: g.allowing(t.Relation.Schema, t.Relation.Name, "")}}
	for _, col := range t.Describe {
		found = append(found, Asset{Relation: t.Relation, Column: col, Roles: g.allowing(t.Relation.Schema, t.Relation.Name, col.Name)})
	}
	if len(found) == 1 {
		return nil
	}
	return found
}

// hides reports if a function is denied to searches.
func (g *grantSet) hides(f *catalog.Function) bool {
	return slices.ContainsFunc(g.rules[DiscoverSearch], func(r rule) bool {
		return r.effect == Deny && r.resource.reaches(f.Schema, f.Name)
	})
}

// allowing are the roles with a permission that reaches an object, and the column unless that is "".
func (g *grantSet) allowing(schema, object, column string) []string {
	var by []string
	for _, role := range g.roles {
		for _, rules := range g.rules {
			if slices.ContainsFunc(rules, func(r rule) bool {
				return r.role == role && r.effect == Allow && r.resource.reaches(schema, object) && (column == "" || r.resource.column(column))
			}) {
				by = append(by, role)
				break
			}
		}
	}
	return by
}
