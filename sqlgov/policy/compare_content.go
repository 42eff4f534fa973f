package policy

import (
	"fmt"
	"slices"
	"strings"

	"interlock/catalog"
	"interlock/redact"
	"interlock/sqlgov/analyze"
)

// ContentChange is columns in which content is looked for otherwise.
type ContentChange struct {
	Source  string   `json:"source"`
	Object  string   `json:"object"` // schema.table
	Columns []string `json:"columns"`
	// Before and After are modes, with the kinds that are looked for if these are not all.
	Before string `json:"before"`
	After  string `json:"after"`
	// Uncovered is set when what was masked is shown.
	Uncovered bool `json:"uncovered,omitempty"`
}

// CompareContent lists the columns of a source in which content is looked for otherwise under another ruleset, over the same
// catalog: those that show more than before first. What a view shows is that of its tables unless a rule names it.
func CompareContent(before, after *Ruleset, source string, ix *catalog.Index) []ContentChange {
	all := []ContentChange{}
	old, now := contentOf(before, source), contentOf(after, source)
	for i := range ix.Snapshot.Relations {
		rel := &ix.Snapshot.Relations[i]
		if !isTable(rel) || catalog.IsSystemSchema(rel.Schema) {
			continue
		}
		first := len(all)
		for k := range rel.Columns {
			c := &rel.Columns[k]
			if rel.Kind == catalog.View && !old.names(rel, c.Name) && !now.names(rel, c.Name) || redact.Detector(redact.Contents[:], true, MaskType(ix, c.Type, c.TypeMod), redact.TextFormat) == nil {
				continue
			}
			at := &analyze.Source{Column: analyze.Column{Relation: rel.OID, Num: c.Num, Name: c.Name}}
			was, is := old.modeOf(ix, at), now.modeOf(ix, at)
			change := ContentChange{Source: source, Object: TableName(rel), Before: old.told(was), After: now.told(is), Uncovered: was == ContentMask && (is != ContentMask || !now.finds(old))}
			if change.Before == change.After {
				continue
			}
			all = joinContent(all, first, change, c.Name)
		}
	}
	slices.SortStableFunc(all, func(a, b ContentChange) int {
		switch {
		case a.Uncovered == b.Uncovered:
			return 0
		case a.Uncovered:
			return -1
		}
		return 1
	})
	return all
}

// joinContent adds a change of a column to an equal one of another column of the table, which are those from first on.
func joinContent(all []ContentChange, first int, change ContentChange, column string) []ContentChange {
	for i := first; i < len(all); i++ {
		if all[i].Before == change.Before && all[i].After == change.After {
			all[i].Columns = append(all[i].Columns, column)
			return all
		}
	}
	change.Columns = []string{column}
	return append(all, change)
}

// contentOf is what a ruleset looks for on a source; one that it does not have, or that says nothing, looks for nothing.
func contentOf(r *Ruleset, source string) *ContentSpec {
	if src := r.Source(source); src != nil && src.Content != nil {
		return src.Content
	}
	return &ContentSpec{Mode: ContentOff}
}

// names reports if a rule is for a column.
func (c *ContentSpec) names(rel *catalog.Relation, column string) bool {
	return slices.ContainsFunc(c.Columns, func(r ContentRule) bool { return anyCovers(r.On, rel, column) })
}

// finds reports if all kinds that another spec looks for are looked for.
func (c *ContentSpec) finds(other *ContentSpec) bool {
	if len(c.Kinds) == 0 {
		return true
	}
	kinds := other.Kinds
	if len(kinds) == 0 {
		kinds = redact.Contents[:]
	}
	return !slices.ContainsFunc(kinds, func(k redact.Content) bool { return !slices.Contains(c.Kinds, k) })
}

// told says what a mode does.
func (c *ContentSpec) told(mode ContentMode) string {
	if mode == ContentOff || len(c.Kinds) == 0 {
		return string(mode)
	}
	kinds := make([]string, len(c.Kinds))
	for i, k := range c.Kinds {
		kinds[i] = string(k)
	}
	slices.Sort(kinds)
	return fmt.Sprintf("%s of %s", mode, strings.Join(kinds, ", "))
}

// LabelChange is columns that a label gains and loses, by the patterns in the document.
type LabelChange struct {
	Label  string   `json:"label"`
	Gained []string `json:"gained,omitempty"`
	Lost   []string `json:"lost,omitempty"`
}

// CompareLabels lists the labels that differ, those of the old document first.
func CompareLabels(before, after *Document) []LabelChange {
	all := []LabelChange{}
	patterns := func(doc *Document, name string) (texts []string) {
		for i := range doc.Labels {
			for k := range doc.Labels[i].Resources {
				if doc.Labels[i].Name == name {
					texts = append(texts, doc.Labels[i].Resources[k].Text)
				}
			}
		}
		return texts
	}
	for _, l := range append(slices.Clone(before.Labels), after.Labels...) {
		if slices.ContainsFunc(all, func(c LabelChange) bool { return c.Label == l.Name }) {
			continue
		}
		was, is := patterns(before, l.Name), patterns(after, l.Name)
		change := LabelChange{Label: l.Name, Gained: without(is, was), Lost: without(was, is)}
		if len(change.Gained)+len(change.Lost) > 0 {
			all = append(all, change)
		}
	}
	return all
}

// without are the texts that are not among others.
func without(texts, others []string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(t string) bool { return slices.Contains(others, t) })
}
