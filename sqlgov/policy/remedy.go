package policy

import "strings"

// remedies finds the smallest changes of the document that would meet the denied needs. A reason with a note was not
// decided by permissions.
func (j *judge) remedies() {
	seen := make(map[Remedy]bool)
	for _, denied := range j.made.Denied {
		if denied.Note != "" {
			continue
		}
		for _, r := range j.set.remedies(&denied.Need) {
			if !seen[r] {
				seen[r] = true
				j.made.Remedies = append(j.made.Remedies, r)
			}
		}
	}
}

// remedies returns what would meet one need: every deny that covers it taken away, and an allow unless there is one.
func (g *grantSet) remedies(n *Need) []Remedy {
	var all []Remedy
	allowed := false
	for _, r := range g.rules[n.Action] {
		switch {
		case !n.concerns(&r):
		case r.effect == Deny:
			all = append(all, Remedy{Change: "remove", Role: r.role, Action: n.Action, Resource: r.resource.Text, Line: r.line})
		default:
			allowed = true
		}
	}
	if !allowed {
		all = append(all, Remedy{Change: "allow", Role: g.roles[0], Action: n.Action, Resource: n.pattern()})
	}
	return all
}

// concerns reports if a rule says something of what is needed.
func (n *Need) concerns(r *rule) bool {
	if channelwise(n.Action) {
		return r.resource.everyChannel() || n.Object == everyChannel && r.effect == Deny ||
			r.resource.Channel && quoteIdent(r.resource.Parts[0].Name) == n.Object
	}
	return r.resource.reaches(n.Schema, n.Object) && (n.Column == "" || r.resource.column(n.Column))
}

// pattern is the resource pattern that names exactly what is needed.
func (n *Need) pattern() string {
	switch {
	case sourcewide(n.Action), channelwise(n.Action) && n.Object == everyChannel:
		return "*"
	case channelwise(n.Action):
		return ChannelPrefix + n.Object
	}
	parts := []string{quoteIdent(n.Schema), quoteIdent(n.Object)}
	if n.Column != "" {
		parts = append(parts, quoteIdent(n.Column))
	}
	return strings.Join(parts, ".")
}

// quoteIdent writes an identifier so that PostgreSQL, and a resource pattern, read it back. Keywords are not quoted:
// in a pattern they need no quotes.
func quoteIdent(name string) string {
	if plainIdentifier(name) && lowerASCII(name) == name {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
