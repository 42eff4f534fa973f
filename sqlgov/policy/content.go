package policy

import (
	"fmt"
	"slices"
	"strconv"

	"interlock/catalog"
	"interlock/redact"
	"interlock/sqlgov/analyze"
)

// ContentMode is what is done with content that is found in free text.
type ContentMode string

// The modes, the mildest first.
const (
	ContentOff    ContentMode = "off"
	ContentReport ContentMode = "report" // counted in the audit log
	ContentMask   ContentMode = "mask"   // counted, and its kind is shown in its place
)

// ContentModes lists the modes.
var ContentModes = []ContentMode{ContentOff, ContentReport, ContentMask}

// ContentSpec says what content is looked for in the results of a source.
type ContentSpec struct {
	Mode  ContentMode      `json:"mode"`            // of columns that no rule names
	Kinds []redact.Content `json:"kinds,omitempty"` // none means all
	// Columns are rules for single columns. The last one that covers a column counts.
	Columns []ContentRule `json:"columns,omitempty"`
}

// ContentRule is a mode for columns, and for what derives from them.
type ContentRule struct {
	Mode ContentMode `json:"mode"`
	On   []Resource  `json:"on"`
}

// ContentOutput is a result column in which content is looked for.
type ContentOutput struct {
	Statement, Output int
	Report            bool // it is counted and shown
	Type              redact.Type
}

// content finds the result columns in which content is looked for.
func (d *Decision) content(spec *ContentSpec, in *Input) {
	if spec == nil || len(d.Denied) > 0 {
		return
	}
	for i := range in.Facts.Statements {
		for k := range in.Facts.Statements[i].Output {
			o := &in.Facts.Statements[i].Output[k]
			mode := spec.Mode
			if len(o.Sources) > 0 {
				mode = spec.strictest(in.Catalog, o.Sources)
			}
			if mode == ContentOff {
				continue
			}
			d.Obligations.ContentKinds = spec.Kinds
			d.Obligations.Content = append(d.Obligations.Content, ContentOutput{i, k, mode == ContentReport, contentType(in.Catalog, o)})
		}
	}
}

// strictest is the mode of what derives from several columns.
func (c *ContentSpec) strictest(ix *catalog.Index, sources []analyze.Source) ContentMode {
	mode := ContentOff
	for i := range sources {
		if one := c.modeOf(ix, &sources[i]); slices.Index(ContentModes, one) > slices.Index(ContentModes, mode) {
			mode = one
		}
	}
	return mode
}

func (c *ContentSpec) modeOf(ix *catalog.Index, s *analyze.Source) ContentMode {
	rel := ix.Relation(s.Relation)
	for i := len(c.Columns) - 1; i >= 0 && rel != nil && s.Num > 0; i-- {
		if anyCovers(c.Columns[i].On, rel, s.Name) {
			return c.Columns[i].Mode
		}
	}
	if len(s.Behind) > 0 {
		return c.strictest(ix, s.Behind)
	}
	return c.Mode
}

// contentType is the type of a result column; one that depends on a parameter counts as text. Enumerations have no room for
// free text.
func contentType(ix *catalog.Index, o *analyze.Output) redact.Type {
	modifier := int32(-1)
	if rel := ix.Relation(o.Origin.Relation); rel != nil && o.Origin.Num > 0 {
		if col := columnNumbered(rel, o.Origin.Num); col != nil && col.Type == o.Type {
			modifier = col.TypeMod
		}
	}
	const text = 25
	t := MaskType(ix, o.Type, modifier)
	if o.Type == 0 {
		t.OID = text
	}
	for inner := &t; inner != nil; inner = inner.Element {
		if typ := ix.Type(catalog.OID(inner.OID)); typ != nil {
			inner.Plain = typ.Kind == "e"
		}
	}
	return t
}

func (c *checker) content(s *SourceSpec) {
	if s.Content == nil {
		return
	}
	path := []string{"sources", s.ID, "content"}
	modes := []ContentMode{s.Content.Mode}
	for i, r := range s.Content.Columns {
		modes = append(modes, r.Mode)
		if len(r.On) == 0 {
			c.report(append(slices.Clone(path), "columns", strconv.Itoa(i)), s.Line, "say which columns the rule is for")
		}
	}
	for _, m := range modes {
		if !slices.Contains(ContentModes, m) {
			c.report(path, s.Line, "unknown mode %q", m)
		}
	}
	for _, k := range s.Content.Kinds {
		if !slices.Contains(redact.Contents[:], k) {
			c.report(path, s.Line, "unknown kind of content %q%s", k, Suggest(string(k), contentNames()))
		}
	}
}

func contentNames() []string {
	names := make([]string, len(redact.Contents))
	for i, k := range redact.Contents {
		names[i] = fmt.Sprint(k)
	}
	return names
}
