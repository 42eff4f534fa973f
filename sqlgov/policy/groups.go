package policy

import (
	"fmt"
	"slices"
	"strconv"
)

// maxGroups bounds the groups of a document.
const maxGroups = 1_000

// GroupSpec is a named set of people, who may approve what a policy holds for the group.
type GroupSpec struct {
	Name    string   `json:"name"`
	Line    int      `json:"line"`
	Members []string `json:"members"` // names of identities
}

func compileGroups(doc *Document) map[string]map[string]bool {
	groups := make(map[string]map[string]bool, len(doc.Groups))
	for i := range doc.Groups {
		members := make(map[string]bool, len(doc.Groups[i].Members))
		for _, name := range doc.Groups[i].Members {
			members[name] = true
		}
		groups[doc.Groups[i].Name] = members
	}
	return groups
}

// Holds are all holds of the obligations. Each must be met before the statement runs.
func (o *Obligations) Holds() []Hold {
	if o.Hold == nil {
		return nil
	}
	return append([]Hold{*o.Hold}, o.MoreHolds...)
}

// MayApprove reports if an identity may approve what a hold holds for a requester: it is in one of the groups, and is
// not the requester.
func (r *Ruleset) MayApprove(h *Hold, requester, who string) bool {
	return who != requester && slices.ContainsFunc(h.Groups, func(group string) bool { return r.groups[group][who] })
}

// Met reports if enough different identities that may approve have done so.
func (r *Ruleset) Met(h *Hold, requester string, approvers []string) bool {
	counted := make(map[string]bool)
	for _, who := range approvers {
		if r.MayApprove(h, requester, who) {
			counted[who] = true
		}
	}
	return len(counted) >= max(1, h.Approvers)
}

// Holding reports if any policy that is enforced holds statements.
func (r *Ruleset) Holding() bool {
	return slices.ContainsFunc(r.policies.all, func(p compiledPolicy) bool { return p.enforced() && p.spec.Hold != nil })
}

func (c *checker) groups() {
	if len(c.doc.Groups) > maxGroups {
		c.report([]string{"groups"}, 0, "there are %d groups; at most %d are possible", len(c.doc.Groups), maxGroups)
	}
	seen := make(map[string]bool)
	for i := range c.doc.Groups {
		g := &c.doc.Groups[i]
		path := []string{"groups", g.Name}
		if !namePattern.MatchString(g.Name) {
			c.report(path, g.Line, "group name %q %s", g.Name, nameExplains)
		}
		if seen[g.Name] {
			c.report(path, g.Line, "group %q is defined twice", g.Name)
		}
		seen[g.Name] = true
		for k := range g.Members {
			if problem := c.member(g, k); problem != "" {
				c.report(append(slices.Clone(path), strconv.Itoa(k)), g.Line, "%s", problem)
			}
		}
	}
}

// member says what is wrong with a member of a group, or "".
func (c *checker) member(g *GroupSpec, k int) string {
	name := g.Members[k]
	i := slices.IndexFunc(c.doc.Identities, func(who Identity) bool { return who.Name == name })
	switch {
	case i < 0:
		return fmt.Sprintf("unknown identity %q%s", name, Suggest(name, c.valuesOf(byIdentity)))
	case c.doc.Identities[i].Kind == "agent":
		return fmt.Sprintf("%q is an agent, and agents approve nothing", name)
	case slices.Index(g.Members, name) < k:
		return fmt.Sprintf("%q is listed twice", name)
	}
	return ""
}

// hold checks that what a policy holds can be approved.
func (c *checker) hold(path []string, line int, h *HoldSpec) {
	if len(h.Groups) == 0 {
		c.report(path, line, "say which groups may approve")
		return
	}
	if h.Approvers < 0 || h.Expires < 0 || h.MaxRows < 0 {
		c.report(path, line, "approvers, expires and max_rows must be more than 0")
	}
	var names []string
	people := make(map[string]bool)
	for i := range c.doc.Groups {
		g := &c.doc.Groups[i]
		names = append(names, g.Name)
		for _, who := range g.Members {
			if slices.Contains(h.Groups, g.Name) {
				people[who] = true
			}
		}
	}
	known := true
	for i, group := range h.Groups {
		if !slices.Contains(names, group) {
			known = false
			c.report(append(slices.Clone(path), "groups", strconv.Itoa(i)), line, "unknown group %q%s", group, Suggest(group, names))
		}
	}
	if need := max(1, h.Approvers); known && len(people) < need {
		c.report(path, line, "nobody can approve this: it takes %d people, and the groups have %d", need, len(people))
	}
}
