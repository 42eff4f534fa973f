package policy

import (
	"slices"

	"interlock/catalog"
	"interlock/redact"
)

// MaskSpec is a named mask, with what may be done with the columns that it is on beside showing them masked.
type MaskSpec struct {
	Name string `json:"name"`
	Line int    `json:"line"`
	redact.Spec
	// Key is a reference to the secret of a keyed mask: env:NAME or file:PATH.
	Key string `json:"key,omitempty"`
	// Filterable lets statements compare, sort, group, join and compute with the values behind the mask. What is computed
	// is still hidden whole.
	Filterable bool `json:"filterable,omitempty"`
	// Countable lets statements ask which values are NULL, and count the others. Filterable includes it.
	Countable bool `json:"countable,omitempty"`
}

// MaskRule puts a mask on columns.
type MaskRule struct {
	Line int    `json:"line,omitempty"` // 0 in a policy, which has a line itself
	With string `json:"with"`           // name of the mask
	// On are the columns by pattern, Labels by label. A pattern of a table covers all its columns.
	On     []Resource `json:"on,omitempty"`
	Labels []string   `json:"labels,omitempty"`
	// Except are columns that show what they hold, though they are among those, or derive from them as a view's do.
	Except []Resource `json:"except,omitempty"`
}

// maskRule is a compiled MaskRule.
type maskRule struct {
	*MaskRule
	mask   *MaskSpec
	on     []Resource
	role   string // that the rule belongs to, or else
	policy *PolicySpec
}

// line is where the rule stands in the governance document.
func (m *maskRule) line() int {
	if m.policy != nil {
		return m.policy.Line
	}
	return m.Line
}

// compileMask resolves the names in a rule of a document that has been checked.
func (d *Document) compileMask(spec *MaskRule) *maskRule {
	m := &maskRule{MaskRule: spec, on: slices.Clone(spec.On)}
	for i := range d.Masks {
		if d.Masks[i].Name == spec.With {
			m.mask = &d.Masks[i]
		}
	}
	for i := range d.Labels {
		if slices.Contains(spec.Labels, d.Labels[i].Name) {
			m.on = append(m.on, d.Labels[i].Resources...)
		}
	}
	return m
}

// covers reports if the rule puts its mask on a column: by a pattern for it, or for the column of the same name of a table
// that its table is a partition of or inherits from.
func (m *maskRule) covers(ix *catalog.Index, rel *catalog.Relation, column string) bool {
	if anyCovers(m.on, rel, column) {
		return true
	}
	return slices.ContainsFunc(rel.Parents, func(oid catalog.OID) bool {
		parent := ix.Relation(oid)
		return parent != nil && hasColumn(parent, column) && m.covers(ix, parent, column)
	})
}

// reaches reports if the rule is on a column of a relation.
func (m *maskRule) reaches(ix *catalog.Index, rel *catalog.Relation) bool {
	return slices.ContainsFunc(rel.Columns, func(c catalog.Column) bool { return m.covers(ix, rel, c.Name) })
}

// spares reports if a column is an exception of the rule.
func (m *maskRule) spares(rel *catalog.Relation, column string) bool {
	return anyCovers(m.Except, rel, column)
}

func anyCovers(patterns []Resource, rel *catalog.Relation, column string) bool {
	return slices.ContainsFunc(patterns, func(r Resource) bool { return r.reaches(rel.Schema, rel.Name) && r.column(column) })
}

// Masks reports if a mask could be on what an identity reads of a source.
func (r *Ruleset) Masks(identity, source string) bool {
	set := r.grants[grantKey{identity, source}]
	return set != nil && len(set.masks) > 0 || len(r.policies.masks) > 0
}

// MaskType is a type as masks see it, with a column's type modifier: domains are taken off, as the server takes them off
// before it describes a result.
func MaskType(ix *catalog.Index, oid catalog.OID, modifier int32) redact.Type {
	const bpchar, varchar, headerSize = 1042, 1043, 4
	typ := ix.Type(oid)
	for depth := 0; typ != nil && typ.Kind == "d" && depth < 100; depth++ {
		oid, modifier = typ.Base, typ.BaseMod
		typ = ix.Type(oid)
	}
	t := redact.Type{OID: uint32(oid), Name: "unknown"}
	if typ == nil {
		return t
	}
	t.Name, t.Text = typ.Display, typ.Extension == "citext" && typ.Name == "citext"
	if (oid == bpchar || oid == varchar) && modifier > headerSize {
		t.Length = int(modifier) - headerSize
	}
	if element := ix.Type(typ.Element); typ.Element != 0 && element != nil && element.Array == oid {
		inner := MaskType(ix, typ.Element, modifier)
		t.Element = &inner
	}
	return t
}
