package policy

import (
	"slices"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// Guard is what a ruleset has for the protection of one column, whoever asks.
type Guard struct {
	Labels []string // that cover the column
	// Masks are those that roles of granted identities and policies can put on it.
	Masks []string
	// Readers are the identities whose source roles let them read it, masked or not.
	Readers []string
	// Content is the mode in which content is looked for in it; "" if the source has none.
	Content ContentMode
}

// Guard tells how a column of a source is protected.
func (r *Ruleset) Guard(ix *catalog.Index, source string, rel *catalog.Relation, column string) Guard {
	var g Guard
	for _, l := range r.policies.labels {
		if l.covers(rel, column) {
			g.Labels = append(g.Labels, l.name)
		}
	}
	note := func(m *maskRule) {
		if m.covers(ix, rel, column) && !m.spares(rel, column) && !slices.Contains(g.Masks, m.With) {
			g.Masks = append(g.Masks, m.With)
		}
	}
	for i := range r.Document.Identities {
		set := r.grants[grantKey{r.Document.Identities[i].Name, source}]
		if set == nil {
			continue
		}
		for _, m := range set.masks {
			note(m)
		}
		if set.scope(TableSelect, rel).allows(column) {
			g.Readers = append(g.Readers, r.Document.Identities[i].Name)
		}
	}
	for i := range r.Document.Policies {
		if m := r.policies.masks[r.Document.Policies[i].Name]; m != nil && m.policy.State != DryRun {
			note(m)
		}
	}
	if src := r.Source(source); src != nil && src.Content != nil {
		g.Content = src.Content.modeOf(ix, &analyze.Source{Column: analyze.Column{Relation: rel.OID, Num: numberOf(rel, column), Name: column}})
	}
	return g
}

func numberOf(rel *catalog.Relation, column string) int16 {
	for i := range rel.Columns {
		if rel.Columns[i].Name == column {
			return rel.Columns[i].Num
		}
	}
	return 0
}

// ColumnName is how a governance document names a column.
func ColumnName(rel *catalog.Relation, column string) string {
	return TableName(rel) + "." + quoteIdent(column)
}
