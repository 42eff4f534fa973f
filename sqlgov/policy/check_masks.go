package policy

import (
	"fmt"
	"slices"
	"strconv"

	"interlock/catalog"
)

// maxMasks bounds the masks of a document.
const maxMasks = 1_000

func (c *checker) masks() {
	if len(c.doc.Masks) > maxMasks {
		c.report([]string{"masks"}, 0, "there are %d masks; at most %d are possible", len(c.doc.Masks), maxMasks)
	}
	seen := make(map[string]bool)
	for i := range c.doc.Masks {
		m := &c.doc.Masks[i]
		path := []string{"masks", m.Name}
		if !namePattern.MatchString(m.Name) {
			c.report(path, m.Line, "mask name %q %s", m.Name, nameExplains)
		}
		if seen[m.Name] {
			c.report(path, m.Line, "mask %q is defined twice", m.Name)
		}
		seen[m.Name] = true
		if err := m.Check(); err != nil {
			c.report(path, m.Line, "%s", err)
		}
		switch {
		case m.Keyed() && m.Key == "":
			c.report(path, m.Line, "a mask of kind %s needs a key: a reference to a secret, env:NAME or file:PATH", m.Kind)
		case !m.Keyed() && m.Key != "":
			c.report(append(path, "key"), m.Line, "a mask of kind %s has no key", m.Kind)
		}
	}
}

// maskRule checks what a rule refers to.
func (c *checker) maskRule(path []string, line int, m *MaskRule) {
	at := func(key string) []string { return append(slices.Clone(path), key) }
	if names := c.maskNames(); !slices.Contains(names, m.With) {
		c.report(at("with"), line, "unknown mask %q%s", m.With, Suggest(m.With, names))
	}
	labels := c.valuesOf(byLabel)
	for _, name := range m.Labels {
		if !slices.Contains(labels, name) {
			c.report(at("labels"), line, "unknown label %q%s", name, Suggest(name, labels))
		}
	}
	if len(m.On)+len(m.Labels) == 0 {
		c.report(path, line, "say which columns the mask is on: by on, labels, or both")
	}
}

func (c *checker) maskNames() []string {
	names := make([]string, len(c.doc.Masks))
	for i := range c.doc.Masks {
		names[i] = c.doc.Masks[i].Name
	}
	return names
}

// CheckMasks returns the columns of a source that a mask is put on and cannot keep the type of, in a document that
// compiles.
func CheckMasks(doc *Document, source string, ix *catalog.Index) Problems {
	c := &checker{doc: doc}
	for i := range doc.Roles {
		r := &doc.Roles[i]
		for k := range r.Masks {
			if r.Source == source {
				c.fits([]string{"source_roles", r.Name, "masks", strconv.Itoa(k)}, r.Masks[k].Line, ix, doc.compileMask(&r.Masks[k]))
			}
		}
	}
	for i := range doc.Policies {
		if p := &doc.Policies[i]; p.Mask != nil {
			c.fits([]string{"policies", p.Name, "mask"}, p.Line, ix, doc.compileMask(p.Mask))
		}
	}
	return c.problems
}

func (c *checker) fits(path []string, line int, ix *catalog.Index, rule *maskRule) {
	for i := range ix.Snapshot.Relations {
		rel := &ix.Snapshot.Relations[i]
		if !isTable(rel) {
			continue
		}
		for k := range rel.Columns {
			col := &rel.Columns[k]
			if !rule.covers(ix, rel, col.Name) || rule.spares(rel, col.Name) {
				continue
			}
			if err := rule.mask.Fits(MaskType(ix, col.Type, col.TypeMod)); err != nil {
				c.report(path, line, "mask %q cannot be put on %s: %s", rule.With, TableName(rel)+"."+quoteIdent(col.Name), fmt.Sprint(err))
			}
		}
	}
}
