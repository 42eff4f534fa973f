package sqlgov

import (
	"fmt"
	"slices"
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// Accessor is one way in which an identity reaches a resource.
type Accessor struct {
	Identity string         `json:"identity"`
	Source   string         `json:"source"`
	Action   policy.Action  `json:"action"`
	Object   string         `json:"object"` // the resource, or the column of a view that shows it
	View     bool           `json:"view,omitempty"`
	Verdict  policy.Verdict `json:"verdict"` // allow or hold; refuse if a policy takes away what a role gives
	// Depends is set when policies on time or client decide.
	Depends bool   `json:"depends,omitempty"`
	Role    string `json:"role"`
	Pattern string `json:"pattern"`
	Line    int    `json:"line"`
	// Mask is what a column that is read is masked by; "null" shows nothing.
	Mask string `json:"mask,omitempty"`
	// Policies are those that a statement that does nothing else would meet.
	Policies []policy.Match `json:"policies,omitempty"`
}

// probe is a statement that does one thing.
type probe struct {
	action policy.Action
	object string
	view   bool
	facts  *analyze.Facts
}

// WhoCan lists who reaches a table, column, function or channel of a source by its source roles, directly or through the columns
// of views that derive from it. The resource is schema.table, schema.table.column, schema.function or channel:name.
func WhoCan(rules *policy.Ruleset, index *catalog.Index, source, resource string) ([]Accessor, error) {
	probes, err := probesOf(index, resource)
	if err != nil {
		return nil, err
	}
	found := []Accessor{}
	for i := range rules.Document.Identities {
		who := rules.Document.Identities[i].Name
		if !rules.Granted(who, source) {
			continue
		}
		for _, p := range probes {
			d := rules.Decide(policy.Input{Identity: who, Source: source, Facts: p.facts, Catalog: index})
			if len(d.Denied) == 0 {
				found = append(found, accessor(who, source, &p, d))
			}
		}
	}
	return found, nil
}

func accessor(who, source string, p *probe, d *policy.Decision) Accessor {
	a := Accessor{Identity: who, Source: source, Action: p.action, Object: p.object, View: p.view, Verdict: d.Verdict, Depends: !d.Settled(), Mask: maskShown(d).name()}
	for _, r := range d.Reasons {
		switch {
		case r.Policy != nil:
			a.Policies = append(a.Policies, *r.Policy)
		case a.Role == "" && r.Need.Action == p.action:
			a.Role, a.Pattern, a.Line = r.Role, r.Pattern, r.Line
		}
	}
	return a
}

func probesOf(index *catalog.Index, resource string) ([]probe, error) {
	parsed, err := policy.ParseResource(resource)
	if err != nil {
		return nil, err
	}
	var parts []string
	for _, p := range parsed.Parts {
		if p.Any {
			return nil, fmt.Errorf("resource %q: name one table, column, function or channel", resource)
		}
		parts = append(parts, p.Name)
	}
	if parsed.Channel {
		return channelProbes(parts[0], resource), nil
	}
	rel := index.RelationNamed(parts[0], parts[1])
	if rel == nil {
		return functionProbes(index, parts, resource)
	}
	target := analyze.Column{Relation: rel.OID, Schema: rel.Schema, Table: rel.Name}
	if len(parts) == 3 {
		if target.Name = parts[2]; !numbered(rel, &target) {
			return nil, fmt.Errorf("the catalog has no column %s", resource)
		}
	}
	probes := tableProbes(target, resource)
	if target.Name != "" {
		if facts, err := reading(index, rel, target.Name); err == nil {
			probes[0].facts = facts // with what it shows
		}
	}
	return append(probes, viewProbes(index, target)...), nil
}

func functionProbes(index *catalog.Index, parts []string, resource string) ([]probe, error) {
	var probes []probe
	if len(parts) == 2 {
		for _, f := range index.FunctionsNamed(parts[0], parts[1]) {
			s := analyze.Statement{Kind: analyze.Select, Functions: []*catalog.Function{f}}
			probes = append(probes, probe{policy.FunctionExec, f.Schema + "." + f.Name + "(" + f.Signature + ")", false, single(s)})
		}
	}
	if probes == nil {
		return nil, fmt.Errorf("the catalog has no %s", resource)
	}
	return probes, nil
}

func channelProbes(name, resource string) []probe {
	one := func(kind analyze.Kind, action analyze.ChannelAction) *analyze.Facts {
		return single(analyze.Statement{Kind: kind, Channels: []analyze.Channel{{Name: name, Action: action}}})
	}
	return []probe{{policy.ChannelListen, resource, false, one(analyze.Listen, analyze.Listening)},
		{policy.ChannelNotify, resource, false, one(analyze.Notify, analyze.Notifying)}}
}

func single(s analyze.Statement) *analyze.Facts {
	return &analyze.Facts{Statements: []analyze.Statement{s}}
}

func tableProbes(target analyze.Column, resource string) []probe {
	probes := []probe{{policy.TableSelect, resource, false, single(analyze.Statement{Kind: analyze.Select, Reads: []analyze.Column{target}})}}
	for _, w := range []struct {
		action policy.Action
		kind   analyze.Kind
		write  analyze.WriteAction
		column bool
	}{{policy.TableInsert, analyze.Insert, analyze.Inserting, true}, {policy.TableUpdate, analyze.Update, analyze.Updating, true},
		{policy.TableDelete, analyze.Delete, analyze.Deleting, false}, {policy.TableTruncate, analyze.Truncate, analyze.Truncating, false}} {
		if target.Name == "" || w.column {
			s := analyze.Statement{Kind: w.kind, Writes: []analyze.Write{{Column: target, Action: w.write}}}
			probes = append(probes, probe{w.action, resource, false, single(s)})
		}
	}
	return probes
}

// viewProbes select every column of a view that derives from the target.
func viewProbes(index *catalog.Index, target analyze.Column) []probe {
	var probes []probe
	derives := func(c analyze.Column) bool {
		return c.Relation == target.Relation && (target.Num == 0 || c.Num == target.Num)
	}
	for i := range index.Snapshot.Relations {
		rel := &index.Snapshot.Relations[i]
		if rel.Kind != catalog.View && rel.Kind != catalog.MaterializedView || rel.OID == target.Relation || catalog.IsSystemSchema(rel.Schema) {
			continue
		}
		for k := range rel.Columns {
			facts, err := reading(index, rel, rel.Columns[k].Name)
			if err == nil && slices.ContainsFunc(facts.Statements[0].Output[0].Columns, derives) {
				probes = append(probes, probe{policy.TableSelect, strings.Join([]string{rel.Schema, rel.Name, rel.Columns[k].Name}, "."), true, facts})
			}
		}
	}
	return probes
}
