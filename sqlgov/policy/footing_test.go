package policy

import (
	"testing"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// TestFooting: a read of whole tables that shows each of them stands on its result, also beside policies that ask who
// reads and how; one that a policy looks at more closely stands on the catalog.
func TestFooting(t *testing.T) {
	const notes = catalog.OID(4)
	refuse := func(when string) []PolicySpec { return []PolicySpec{{When: when, Refuse: true}} }
	plain := analyze.Statement{Kind: analyze.Select, Tables: []catalog.OID{notes},
		Output: []analyze.Output{{Origin: analyze.Column{Relation: notes, Num: 1}}}}
	with := func(change func(*analyze.Statement)) analyze.Statement {
		s := plain
		change(&s)
		return s
	}
	changed := with(func(s *analyze.Statement) {
		s.Kind, s.Writes = analyze.Update, []analyze.Write{{Column: analyze.Column{Relation: notes, Num: 3}, Action: analyze.Updating}}
	})
	calling := with(func(s *analyze.Statement) { s.Loose = []analyze.Name{{Name: "score"}} })
	hiding := with(func(s *analyze.Statement) { s.Output = nil })
	for name, tc := range map[string]struct {
		policies  []PolicySpec
		statement analyze.Statement
		change    func(*catalog.Relation)
		want      Footing
	}{
		"no policy":                    {nil, plain, nil, OnRoles},
		"who reads":                    {refuse(`identity.kind == "agent" && door == "mcp"`), plain, nil, OnResult},
		"when and from where":          {refuse(`now.getHours() > 18 || client.address == "10.0.0.1"`), plain, nil, OnResult},
		"its risk":                     {refuse(`statement.risk == "high" && statement.kind == "update"`), plain, nil, OnResult},
		"its risk, in a draft":         {[]PolicySpec{{When: `"crm.notes" in statement.tables`, Refuse: true, State: Draft}}, plain, nil, OnRoles},
		"its tables":                   {refuse(`"crm.notes" in statement.tables`), plain, nil, OnCatalog},
		"its labels, in a dry run":     {[]PolicySpec{{When: `"pii" in statement.labels`, Refuse: true, State: DryRun}}, plain, nil, OnCatalog},
		"one of two its columns":       {append(refuse(`identity.kind == "agent"`), refuse(`"crm.notes.body" in statement.columns`)...), plain, nil, OnCatalog},
		"a mask":                       {[]PolicySpec{{Mask: &MaskRule{With: "hidden", Labels: []string{"pii"}}}}, plain, nil, OnCatalog},
		"its risk, of a write":         {refuse(`statement.risk == "high"`), changed, nil, OnCatalog},
		"its risk, with a function":    {refuse(`statement.risk == "high"`), calling, nil, OnCatalog},
		"its risk, of a hidden table":  {refuse(`statement.risk == "high"`), hiding, nil, OnCatalog},
		"its risk, of a view":          {refuse(`statement.risk == "high"`), plain, func(r *catalog.Relation) { r.Kind = catalog.View }, OnCatalog},
		"its risk, with row security":  {refuse(`statement.risk == "high"`), plain, func(r *catalog.Relation) { r.RowSecurity = true }, OnCatalog},
		"its risk, of a foreign table": {refuse(`statement.risk == "high"`), plain, func(r *catalog.Relation) { r.Kind = catalog.ForeignTable }, OnCatalog},
	} {
		doc := governed(t, tc.policies...)
		doc.Masks = hidden
		r, err := Compile(doc)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ix := sampleCatalog()
		if tc.change != nil {
			tc.change(ix.Relation(notes))
		}
		in := Input{Identity: "ana", Source: "shop", Door: "mcp", Catalog: ix, Facts: &analyze.Facts{Statements: []analyze.Statement{tc.statement}}}
		if got := r.Footing(in); got != tc.want {
			t.Errorf("%s: the footing is %d, want %d", name, got, tc.want)
		}
	}
}
