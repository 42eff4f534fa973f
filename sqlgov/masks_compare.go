package sqlgov

import (
	"encoding/json"
	"slices"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// MaskChange is columns of a table or view that an identity may read before and after, and sees otherwise.
type MaskChange struct {
	Identity string   `json:"identity"`
	Source   string   `json:"source"`
	Object   string   `json:"object"` // schema.table
	Columns  []string `json:"columns"`
	Change   string   `json:"change"` // unmasked, changed, masked
	// Before and After are names of masks; "null" shows nothing, "" is no mask. They can be the same: what it does has changed.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Door   Door   `json:"door,omitempty"` // "" if it is so at each
	// Depends is set when policies on time or client decide as well.
	Depends bool `json:"depends,omitempty"`
}

// The changes, the most dangerous first.
const (
	Unmasked    = "unmasked"
	MaskChanged = "changed"
	NewlyMasked = "masked"
)

// CompareMasks lists what columns of a source show otherwise under another ruleset, over the same catalog: the columns that
// lose their mask first. Columns that are read only before or only after are not part of it; see policy.CompareAccess.
func CompareMasks(before, after *policy.Ruleset, source string, index *catalog.Index) []MaskChange {
	all := []MaskChange{}
	var readers []string
	for _, doc := range []*policy.Document{before.Document, after.Document} {
		for i := range doc.Identities {
			if who := doc.Identities[i].Name; !slices.Contains(readers, who) && (before.Masks(who, source) || after.Masks(who, source)) {
				readers = append(readers, who)
			}
		}
	}
	if len(readers) == 0 {
		return all
	}
	for i := range index.Snapshot.Relations {
		rel := &index.Snapshot.Relations[i]
		if !selectable(rel) {
			continue
		}
		c := maskComparison{before: before, after: after, source: source, index: index, rel: rel}
		for k := range rel.Columns {
			c.column(rel.Columns[k].Name, readers)
		}
		all = append(all, c.changes...)
	}
	slices.SortStableFunc(all, func(a, b MaskChange) int { return changeRank(a.Change) - changeRank(b.Change) })
	return all
}

func changeRank(change string) int {
	return slices.Index([]string{Unmasked, MaskChanged, NewlyMasked}, change)
}

func selectable(rel *catalog.Relation) bool {
	switch rel.Kind {
	case catalog.Table, catalog.PartitionedTable, catalog.View, catalog.MaterializedView, catalog.ForeignTable:
		return !catalog.IsSystemSchema(rel.Schema)
	}
	return false
}

// maskComparison compares one relation.
type maskComparison struct {
	before, after *policy.Ruleset
	source        string
	index         *catalog.Index
	rel           *catalog.Relation
	changes       []MaskChange
}

func (c *maskComparison) column(name string, readers []string) {
	facts, err := reading(c.index, c.rel, name)
	if err != nil {
		return // nobody can read it
	}
	for _, who := range readers {
		var at [2]*MaskChange
		for i, door := range [...]Door{PGWire, MCP} {
			at[i] = c.compare(policy.Input{Identity: who, Source: c.source, Door: string(door), Facts: facts, Catalog: c.index})
		}
		same := at[0] != nil && at[1] != nil && at[0].like(at[1])
		for i, change := range at {
			if change == nil || same && i > 0 {
				continue
			}
			if !same {
				change.Door = [...]Door{PGWire, MCP}[i]
			}
			c.add(change, name)
		}
	}
}

// reading are the facts of the statement that reads one column.
func reading(index *catalog.Index, rel *catalog.Relation, column string) (*analyze.Facts, error) {
	return analyze.Analyze(selecting(rel, column), analyze.Env{Catalog: index, SearchPath: index.Snapshot.SearchPath})
}

// compare tells what changes for one reader of a column; nil if that is nothing.
func (c *maskComparison) compare(in policy.Input) *MaskChange {
	old, now := c.before.Decide(in), c.after.Decide(in)
	if old.Verdict == policy.Refused || now.Verdict == policy.Refused {
		return nil
	}
	was, is := maskShown(old), maskShown(now)
	if was.same(is) {
		return nil
	}
	m := &MaskChange{Identity: in.Identity, Source: c.source, Object: policy.TableName(c.rel), Change: MaskChanged,
		Before: was.name(), After: is.name(), Depends: !old.Settled() || !now.Settled()}
	switch {
	case is == nil:
		m.Change = Unmasked
	case was == nil:
		m.Change = NewlyMasked
	}
	return m
}

// like reports if two changes differ in columns and doors at most.
func (m *MaskChange) like(other *MaskChange) bool {
	a, b := *m, *other
	return a.Identity == b.Identity && a.Change == b.Change && a.Before == b.Before && a.After == b.After && a.Depends == b.Depends
}

// add joins a change of a column with an equal one of another column.
func (c *maskComparison) add(m *MaskChange, column string) {
	for i := range c.changes {
		if c.changes[i].like(m) && c.changes[i].Door == m.Door {
			c.changes[i].Columns = append(c.changes[i].Columns, column)
			return
		}
	}
	m.Columns = []string{column}
	c.changes = append(c.changes, *m)
}

// shownMask is what stands in the place of a column's values; nil is nothing.
type shownMask struct {
	with string
	spec *policy.MaskSpec // nil if they are hidden whole
}

func maskShown(d *policy.Decision) *shownMask {
	if len(d.Obligations.Masks) == 0 {
		return nil
	}
	m := &d.Obligations.Masks[0]
	return &shownMask{m.With, m.Mask}
}

func (s *shownMask) name() string {
	if s == nil {
		return ""
	}
	return s.with
}

// same reports if two masks show the same, and let the same be asked, whatever their lines.
func (s *shownMask) same(other *shownMask) bool {
	if s == nil || other == nil || s.spec == nil || other.spec == nil {
		return (s == nil) == (other == nil) && (s == nil || s.spec == other.spec)
	}
	a, b := *s.spec, *other.spec
	a.Line, b.Line = 0, 0
	x, err := json.Marshal(&a)
	y, err2 := json.Marshal(&b)
	return err == nil && err2 == nil && string(x) == string(y)
}
