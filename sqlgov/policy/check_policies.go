package policy

import (
	"fmt"
	"slices"
	"strings"

	"interlock/sqlgov/analyze"
)

// Bounds of the policies of a document.
const (
	maxPolicies = 10_000
	maxLabels   = 1_000
)

func (c *checker) labels() {
	if len(c.doc.Labels) > maxLabels {
		c.report([]string{"labels"}, 0, "there are %d labels; at most %d are possible", len(c.doc.Labels), maxLabels)
	}
	seen := make(map[string]bool)
	for i := range c.doc.Labels {
		l := &c.doc.Labels[i]
		path := []string{"labels", l.Name}
		if !namePattern.MatchString(l.Name) {
			c.report(path, l.Line, "label %q %s", l.Name, nameExplains)
		}
		if seen[l.Name] {
			c.report(path, l.Line, "label %q is defined twice", l.Name)
		}
		seen[l.Name] = true
		if len(l.Resources) == 0 {
			c.report(path, l.Line, "a label needs at least one resource")
		}
	}
}

func (c *checker) policies() {
	if len(c.doc.Policies) > maxPolicies {
		c.report([]string{"policies"}, 0, "there are %d policies; at most %d are possible", len(c.doc.Policies), maxPolicies)
		return
	}
	seen := make(map[string]bool)
	for i := range c.doc.Policies {
		p := &c.doc.Policies[i]
		path := []string{"policies", p.Name}
		if !namePattern.MatchString(p.Name) {
			c.report(path, p.Line, "policy name %q %s", p.Name, nameExplains)
		}
		if seen[p.Name] {
			c.report(path, p.Line, "policy %q is defined twice", p.Name)
		}
		seen[p.Name] = true
		c.policy(path, p)
	}
}

func (c *checker) policy(path []string, p *PolicySpec) {
	at := func(key string) []string { return append(slices.Clone(path), key) }
	if p.State != "" && !slices.Contains(States, p.State) {
		c.report(at("state"), p.Line, "unknown state %q; a policy is draft, dry-run or active", p.State)
	}
	compiled, err := compileCondition(p.When)
	if err != nil {
		c.report(at("when"), p.Line, "%s", err)
	} else if problem := c.mistyped(compiled); problem != "" {
		c.report(at("when"), p.Line, "%s", problem)
	}
	switch effects := p.Effects(); {
	case len(effects) == 0:
		c.report(path, p.Line, "the policy does nothing; give it one of refuse, hold, read_only, cap, limit, budget and mask")
	case p.Refuse && len(effects) > 1:
		c.report(path, p.Line, "the policy refuses, so its %s can never matter", strings.Join(effects[1:], " and "))
	}
	c.effects(at, p)
}

func (c *checker) effects(at func(string) []string, p *PolicySpec) {
	if h := p.Hold; h != nil {
		c.hold(at("hold"), p.Line, h)
	}
	if l := p.Limit; l != nil {
		if l.Requests <= 0 || l.Window < 0 || l.Burst < 0 {
			c.report(at("limit"), p.Line, "requests, window and burst must be more than 0")
		}
		c.per(at("limit"), p.Line, l.Per)
	}
	if b := p.Budget; b != nil {
		if b.Rows < 0 || b.Bytes < 0 || b.Rows == 0 && b.Bytes == 0 || b.Window <= 0 {
			c.report(at("budget"), p.Line, "a budget needs a window, and rows or bytes, more than 0")
		}
		c.per(at("budget"), p.Line, b.Per)
	}
	if p.Mask != nil {
		c.maskRule(at("mask"), p.Line, p.Mask)
	}
	if k := p.Cap; k != nil && (k.Rows < 0 || k.Bytes < 0 || k.Time < 0 || *k == CapSpec{}) {
		c.report(at("cap"), p.Line, "a cap needs rows, bytes or time, more than 0")
	}
}

func (c *checker) per(path []string, line int, per RatePer) {
	if per != "" && !slices.Contains(RatePers, per) {
		c.report(path, line, "unknown key %q of a limit; limits are per identity, identity_source or rule", per)
	}
}

// mistyped says which value in the guards of a condition nothing can ever have, so that the policy never holds.
func (c *checker) mistyped(cond *condition) string {
	for _, g := range cond.guards {
		known := c.valuesOf(g.of)
		for _, v := range g.values {
			if known != nil && !slices.Contains(known, v) {
				return fmt.Sprintf("%s is never %q%s", dimensionNames[g.of], v, Suggest(v, known))
			}
		}
	}
	return ""
}

// valuesOf lists what a variable can be, or nil if that is not known here.
func (c *checker) valuesOf(d dimension) []string {
	var all []string
	switch d {
	case byIdentity:
		for i := range c.doc.Identities {
			all = append(all, c.doc.Identities[i].Name)
		}
	case byIdentityKind:
		return IdentityKinds
	case bySource:
		return c.sourceIDs()
	case byDoor:
		return []string{"pgwire", "mcp"}
	case byKind:
		return names(plainKinds)
	case byCommand:
		return names(statementKinds)
	case byRisk:
		return []string{string(RiskNone), string(RiskLow), string(RiskMedium), string(RiskHigh)}
	case byLabel:
		for i := range c.doc.Labels {
			all = append(all, c.doc.Labels[i].Name)
		}
		if all == nil {
			all = []string{}
		}
	}
	return all
}

func names(kinds []analyze.Kind) []string {
	all := make([]string, len(kinds))
	for i, k := range kinds {
		all[i] = string(k)
	}
	return all
}
