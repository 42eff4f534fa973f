package policy

import (
	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// Raw reports if an identity may run anything on a source without its being understood: a role allows db.execute_raw and
// none denies it.
func (r *Ruleset) Raw(identity, source string) bool {
	set := r.grants[grantKey{identity, source}]
	if set == nil {
		return false
	}
	by := set.sourcewide(ExecuteRaw)
	return by != nil && by.effect == Allow
}

// sourcewide returns the rule that decides about an action on the whole source: the first deny, else the first allow, else nil.
func (g *grantSet) sourcewide(action Action) *rule {
	var allow *rule
	rules := g.rules[action]
	for i := range rules {
		switch {
		case rules[i].effect == Deny:
			return &rules[i]
		case allow == nil:
			allow = &rules[i]
		}
	}
	return allow
}

// reviewRaw says for whom nothing is masked and no column counts, and which policies turn down all that they run.
func (c *checker) reviewRaw() {
	rules, err := Compile(c.doc)
	if err != nil {
		return // Check has said why
	}
	for i := range c.doc.Identities {
		who := &c.doc.Identities[i]
		for _, g := range who.Grants {
			if rules.Raw(who.Name, g.Source) {
				c.reviewRawGrant(rules, who, g)
			}
		}
	}
}

func (c *checker) reviewRawGrant(rules *Ruleset, who *Identity, g Grant) {
	path := []string{"identities", who.Name}
	c.report(path, g.Line, "on the PostgreSQL door identity %q may do on source %q whatever the upstream login may: no column permission and no mask holds",
		who.Name, g.Source)
	d := rules.Decide(Input{Identity: who.Name, Source: g.Source, Door: "pgwire", Facts: analyze.RawFacts("", analyze.Limits{}),
		Catalog: catalog.NewIndex(&catalog.Snapshot{})})
	for _, reason := range d.Reasons {
		if m := reason.Policy; m != nil && m.State != DryRun && !reason.Granted {
			c.report(path, g.Line, "policy %q (line %d) refuses whatever identity %q runs there by %s", m.Policy, m.Line, who.Name, ExecuteRaw)
		}
	}
}
