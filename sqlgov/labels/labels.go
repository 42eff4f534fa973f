// Package labels proposes labels for the columns of a source, from their names, types and comments and from what was found in
// samples of their values. It is pure, proposes and never applies: a person looks at each proposal and writes the governance
// document.
package labels

import (
	"fmt"
	"slices"
	"strings"

	"interlock/catalog"
	"interlock/redact"
	"interlock/sqlgov/policy"
)

// Proposal is what is proposed for one column.
type Proposal struct {
	Column string `json:"column"` // as a governance document names it
	Type   string `json:"type"`
	// Label is what the column should be labelled; "" if it is free text in which content should be looked for.
	Label string `json:"label,omitempty"`
	// Content are the kinds that were found among other text.
	Content []redact.Content `json:"content,omitempty"`
	// Likely is unset where the values that were looked at do not have the form that the name promises, and where only a
	// comment speaks for it.
	Likely  bool     `json:"likely"`
	Because []string `json:"because"`
	// Labels and Masks are what the ruleset has for the column, Readers whom it lets read it.
	Labels  []string `json:"labels"`
	Masks   []string `json:"masks"`
	Readers []string `json:"readers"`
}

// Unguarded reports if nothing stands between the column's values and those who may read it.
func (p *Proposal) Unguarded() bool { return len(p.Labels)+len(p.Masks) == 0 }

// Scanned reports if columns of a relation are looked at: those of tables. What views and partitions show is that of the
// tables behind them, and labels and masks follow it.
func Scanned(rel *catalog.Relation) bool {
	switch rel.Kind {
	case catalog.Table, catalog.PartitionedTable, catalog.ForeignTable, catalog.MaterializedView:
		return !rel.Partition && !catalog.IsSystemSchema(rel.Schema)
	}
	return false
}

// Propose tells what should be done about a column, or nil if it looks like any other. The sample may be empty.
func Propose(ix *catalog.Index, rel *catalog.Relation, c *catalog.Column, s *Sample) *Proposal {
	p := &Proposal{Column: policy.ColumnName(rel, c.Name), Type: c.TypeName}
	category := categoryOf(ix, c.Type)
	p.byValues(s)
	p.byName(rel, c, category, s)
	if p.Label == "" && category == "I" {
		p.propose("ip", "its type", true)
	}
	if p.Label == "" && len(p.Because) == 0 {
		p.byComment(c, category)
	}
	if p.Label == "" {
		p.byContent(s)
	}
	if len(p.Because) == 0 {
		return nil
	}
	return p
}

// categoryOf is the category of what a type is made of at last: of a domain's base, of an array's element.
func categoryOf(ix *catalog.Index, oid catalog.OID) string {
	t := policy.MaskType(ix, oid, -1)
	for t.Element != nil {
		t = *t.Element
	}
	if typ := ix.Type(catalog.OID(t.OID)); typ != nil {
		return typ.Category
	}
	return ""
}

func (p *Proposal) propose(label, because string, likely bool) {
	p.Label, p.Likely = label, p.Likely || likely
	p.Because = append(p.Because, because)
}

// byValues proposes the label of content that at least half of the values are.
func (p *Proposal) byValues(s *Sample) {
	for i, n := range s.Whole {
		if n > 0 && 2*n >= s.Values {
			p.propose(ofContent[redact.Contents[i]], share(n, s.Values, string(redact.Contents[i])), true)
			return
		}
	}
}

// enough values make it telling that none of them has a form.
const enough = 20

// byName proposes the label that the column's name says, and says if the values agree.
func (p *Proposal) byName(rel *catalog.Relation, c *catalog.Column, category string, s *Sample) {
	label, phrase := named(words(c.Name), category)
	if label == "" && category == "S" && slices.Equal(words(c.Name), []string{"name"}) {
		if who, ok := says(words(rel.Name), people); ok {
			label, phrase = "name", "name in a table of "+who
		}
	}
	switch {
	case label == "" || p.Label != "" && p.Label != label:
		return
	case p.Label == label:
		p.Because = append(p.Because, "its name: "+phrase)
		return
	}
	p.propose(label, "its name: "+phrase, true)
	for i, kind := range redact.Contents {
		n := s.Whole[i] + s.Within[i]
		if ofContent[kind] != label || label == "secret" || s.Values == 0 {
			continue
		}
		p.Because = append(p.Because, share(n, s.Values, string(kind)))
		p.Likely = p.Likely && (n > 0 || s.Values < enough)
	}
}

func named(words []string, category string) (label, phrase string) {
	if category == "" {
		return "", ""
	}
	for _, r := range rules {
		if phrase, ok := says(words, r.phrases); ok && strings.Contains(r.categories, category) {
			return r.label, phrase
		}
	}
	return "", ""
}

// byComment proposes what the column's comment says.
func (p *Proposal) byComment(c *catalog.Column, category string) {
	if label, phrase := named(words(c.Comment), category); label != "" {
		p.propose(label, "its comment: "+phrase, false)
	}
}

// byContent proposes that content is looked for in free text of which at least one value in a hundred holds some.
func (p *Proposal) byContent(s *Sample) {
	for i, kind := range redact.Contents {
		if n := s.Whole[i] + s.Within[i]; s.Within[i] > 0 && 100*n >= s.Values {
			p.Content = append(p.Content, kind)
			p.Because = append(p.Because, share(n, s.Values, string(kind)))
			p.Likely = true
		}
	}
}

func share(n, of int64, kind string) string {
	return fmt.Sprintf("%s in %d of %d values", kind, n, of)
}
