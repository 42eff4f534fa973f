package sqlgov

import (
	"fmt"

	"interlock/catalog"
	"interlock/sqlgov/policy"
)

// PreviewedColumn is how an identity would see a column.
type PreviewedColumn struct {
	Column string `json:"column"`
	Type   string `json:"type"`
	Shown  string `json:"shown"` // clear, masked, hidden (masked whole), or refused
	Mask   string `json:"mask,omitempty"`
	// Reasons are those of the decision on reading the column alone.
	Reasons []policy.Reason `json:"reasons,omitempty"`
}

// PreviewMasks tells how an identity would see each column of a table or view, named as schema.table, offline: it judges the
// statement that reads that column. Conditions on time and client are judged as of now and of no client.
func PreviewMasks(rules *policy.Ruleset, index *catalog.Index, h Hypothesis, table string) ([]PreviewedColumn, error) {
	rel, err := relationOf(index, table)
	if err != nil {
		return nil, err
	}
	columns := make([]PreviewedColumn, 0, len(rel.Columns))
	for i := range rel.Columns {
		c := &rel.Columns[i]
		h.SQL = selecting(rel, c.Name)
		a, e := suppose(rules, index, h)
		e.describe(a)
		p := PreviewedColumn{Column: c.Name, Type: c.TypeName, Shown: "clear", Reasons: e.Reasons}
		switch {
		case e.Verdict != string(policy.Allowed):
			p.Shown = "refused"
		case len(e.Obligations.Masks) > 0:
			if p.Shown, p.Mask = "masked", e.Obligations.Masks[0].With; e.Obligations.Masks[0].Mask == nil {
				p.Shown, p.Mask = "hidden", ""
			}
		}
		columns = append(columns, p)
	}
	return columns, nil
}

func relationOf(index *catalog.Index, table string) (*catalog.Relation, error) {
	r, err := policy.ParseResource(table)
	if err != nil {
		return nil, err
	}
	if len(r.Parts) == 2 && !r.Parts[0].Any && !r.Parts[1].Any {
		if rel := index.RelationNamed(r.Parts[0].Name, r.Parts[1].Name); rel != nil {
			return rel, nil
		}
	}
	return nil, fmt.Errorf("the catalog has no table %s", table)
}

// selecting is the statement that reads columns of a relation.
func selecting(rel *catalog.Relation, columns ...string) string {
	return "SELECT " + quoteList(columns) + " FROM " + quoteList([]string{rel.Schema}) + "." + quoteList([]string{rel.Name})
}

// masksOn tells which of the columns that the caller may read of a relation are masked, and by which mask, as far as that
// does not depend on time and client.
func (c *Core) masksOn(a *admission, source string, index *catalog.Index, t *policy.TableAccess) map[string]string {
	if !a.rules.Masks(a.caller.Identity, source) || len(t.Read) == 0 {
		return nil
	}
	judging := &admission{core: c, caller: a.caller, source: source, sql: selecting(t.Relation, t.ReadNames()...), rules: a.rules, index: index}
	if c.judge(judging) != nil {
		return nil
	}
	masks := make(map[string]string)
	for _, out := range a.rules.Decide(judging.input(judging.judged.facts)).Obligations.Masks {
		masks[out.Name] = out.With
	}
	return masks
}
