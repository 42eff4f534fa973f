package sqlgov

import (
	"fmt"
	"slices"
	"strings"

	"interlock/audit"
	"interlock/catalog"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/introspect"
	"interlock/sqlgov/policy"
)

// Replayed is what a recorded request would meet under other rules. If Gap is set nothing can be said, and it says why.
type Replayed struct {
	Verdict policy.Verdict
	// Reasons are those that decided: what no role allows, and the policies that were met.
	Reasons []policy.Reason
	// Obligations are what an allowed statement would be held to.
	Obligations policy.Obligations
	Gap         string
}

// Replay judges a recorded request under another ruleset, from the facts on record: at its own time, from its own client,
// and against a catalog, which should be the one of then. Records have statements with their literals replaced. If such a
// statement does not analyse to the facts on record, those are used alone; what they lack is a gap.
func Replay(rules *policy.Ruleset, index *catalog.Index, v *audit.View) Replayed {
	if gap := notJudged(v); gap != "" {
		return Replayed{Gap: gap}
	}
	in := policy.Input{Identity: v.Identity, Source: v.Source, Door: v.Door, Typed: analyze.Typed(v.Statement), Catalog: index,
		Introspection: introspect.Catalogs{}}
	if !rules.Knows(v.Identity) || !rules.Granted(v.Identity, v.Source) {
		return Replayed{Verdict: policy.Refused, Reasons: []policy.Reason{{Note: "no grant on the source"}}}
	}
	if index == nil {
		return Replayed{Gap: "there is no catalog of source " + v.Source}
	}
	facts, whole, gap := factsOf(index, v.Judgement)
	switch {
	case gap != "":
		return Replayed{Gap: gap}
	case facts == nil:
		return Replayed{Verdict: policy.Refused, Reasons: []policy.Reason{{Note: "the statement cannot be analysed"}}}
	}
	in.Facts = facts
	d := rules.Decide(in)
	if !whole && len(d.Denied) == 0 && (len(facts.Statements) == 0 || rules.Asks("statement.where", "statement.risk", "statement.labels", "statement.columns")) {
		return Replayed{Gap: "the record lacks facts that the policies ask for"}
	}
	d = rules.Settle(d, in, policy.Circumstances{Now: v.Time, Address: hostOf(v.ClientAddr), Application: v.Application})
	r := Replayed{Verdict: d.Verdict, Obligations: d.Obligations, Reasons: slices.Clone(d.Denied)}
	for _, reason := range d.Reasons {
		if reason.Policy != nil {
			r.Reasons = append(r.Reasons, reason)
		}
	}
	return r
}

// notJudged says why a record holds nothing that a ruleset decides, or "".
func notJudged(v *audit.View) string {
	if v.Judgement == nil || v.Statement == "" {
		return "the record has no statement"
	}
	if v.Judgement.StatementBytes > 0 && len(v.Kinds) == 0 {
		return "the statement is cut"
	}
	if v.Verdict != string(policy.Refused) || v.Outcome == nil || v.Outcome.Refusal == nil {
		return ""
	}
	switch kind := v.Outcome.Refusal.Kind; kind {
	case Denied.String(), HeldForApproval.String(), UnknownSource.String(), Unsupported.String(), InvalidInput.String(), "":
		return ""
	default:
		return "it was refused as " + kind + ", whatever the rules say"
	}
}

// factsOf finds the facts of a record again. whole is false if they have only what the record says. Nil facts without a
// gap are for a statement that could not be analysed then and cannot be now.
func factsOf(index *catalog.Index, j *audit.Judgement) (facts *analyze.Facts, whole bool, gap string) {
	analysed, err := analyze.Analyze(j.Statement, analyze.Env{Catalog: index, SearchPath: index.Snapshot.SearchPath})
	if err == nil && !analysed.SessionBound {
		if len(j.Kinds) == 0 {
			return analysed, true, ""
		}
		names := namesOf(analysed)
		if slices.Equal(names.kinds, j.Kinds) && same(names.reads, j.Reads) && same(names.writes, j.Writes) && same(names.channels, j.Channels) && agreed(index, analysed, &names, j) {
			return analysed, true, ""
		}
	}
	if len(j.Kinds) == 0 {
		return nil, false, ""
	}
	facts, gap = recordedFacts(index, j)
	return facts, false, gap
}

// agreed makes the functions of analysed facts those on record, as far as that can be done: which function a call means
// can depend on a literal's type, and the record has been made with the literals.
func agreed(index *catalog.Index, analysed *analyze.Facts, names *recordNames, j *audit.Judgement) bool {
	if same(names.functions, j.Functions) {
		return true
	}
	if len(analysed.Statements) != 1 {
		return false
	}
	s := &analysed.Statements[0]
	s.Functions = nil
	for _, name := range j.Functions {
		f := functionNamed(index, name)
		if f == nil {
			return false
		}
		s.Functions = append(s.Functions, f)
	}
	return true
}

func same(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// recordedFacts makes facts of the names on record. Roles are judged by them exactly.
func recordedFacts(index *catalog.Index, j *audit.Judgement) (*analyze.Facts, string) {
	if len(j.Kinds) != 1 {
		return nil, "the record has several statements, and it does not say which of them touches what"
	}
	s := analyze.Statement{Kind: analyze.Kind(j.Kinds[0])}
	for _, name := range j.Reads {
		c, ok := columnNamed(index, name)
		if !ok {
			return nil, name + " is not in the catalog"
		}
		s.Reads = append(s.Reads, c)
	}
	for _, write := range j.Writes {
		action, name, _ := strings.Cut(write, " ")
		c, ok := columnNamed(index, name)
		if !ok {
			return nil, name + " is not in the catalog"
		}
		s.Writes = append(s.Writes, analyze.Write{Column: c, Action: analyze.WriteAction(action)})
	}
	for _, name := range j.Functions {
		f := functionNamed(index, name)
		if f == nil {
			return nil, name + " is not in the catalog"
		}
		s.Functions = append(s.Functions, f)
	}
	for _, use := range j.Channels {
		action, name, _ := strings.Cut(use, " ")
		s.Channels = append(s.Channels, analyze.Channel{Name: name, Action: analyze.ChannelAction(action)})
	}
	return &analyze.Facts{Statements: []analyze.Statement{s}, Normalized: j.Statement, Fingerprint: j.Fingerprint}, ""
}

// columnNamed finds schema.table.column or schema.table. The names on record are not quoted, so every way to cut them is
// tried.
func columnNamed(index *catalog.Index, name string) (analyze.Column, bool) {
	parts := strings.Split(name, ".")
	for i := 1; i < len(parts); i++ {
		for k := i + 1; k <= len(parts); k++ {
			rel := index.RelationNamed(strings.Join(parts[:i], "."), strings.Join(parts[i:k], "."))
			if rel == nil {
				continue
			}
			c := analyze.Column{Relation: rel.OID, Schema: rel.Schema, Table: rel.Name}
			if k == len(parts) {
				return c, true
			}
			if c.Name = strings.Join(parts[k:], "."); numbered(rel, &c) {
				return c, true
			}
		}
	}
	return analyze.Column{}, false
}

// numbered sets the attribute number of a column by its name.
func numbered(rel *catalog.Relation, c *analyze.Column) bool {
	for i := range rel.Columns {
		if rel.Columns[i].Name == c.Name {
			c.Num = rel.Columns[i].Num
			return true
		}
	}
	c.Num = -1
	return slices.Contains([]string{"ctid", "xmin", "cmin", "xmax", "cmax", "tableoid"}, c.Name)
}

// functionNamed finds schema.name(signature).
func functionNamed(index *catalog.Index, name string) *catalog.Function {
	path, signature, _ := strings.Cut(name, "(")
	schema, bare, _ := strings.Cut(path, ".")
	for _, f := range index.FunctionsNamed(schema, bare) {
		if fmt.Sprintf("%s)", f.Signature) == signature {
			return f
		}
	}
	return nil
}
