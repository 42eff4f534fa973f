package policy

import (
	"fmt"
	"slices"
	"strconv"
)

// Review returns what is likely a mistake in a document that compiles: parts that nothing uses, permissions that can
// never matter, connections whose server is not verified.
func Review(doc *Document) Problems {
	c := &checker{doc: doc}
	used := make(map[string]bool)
	for i := range doc.Identities {
		who := &doc.Identities[i]
		if len(who.Grants) == 0 {
			c.report([]string{"identities", who.Name}, who.Line, "identity %q has no grant, so everything is refused to it", who.Name)
		}
		for _, g := range who.Grants {
			for _, role := range g.Roles {
				used[role] = true
			}
		}
	}
	for i := range doc.Sources {
		c.reviewSource(&doc.Sources[i])
	}
	for i := range doc.Roles {
		c.reviewRole(&doc.Roles[i], used)
	}
	c.reviewRaw()
	return c.problems
}

func (c *checker) reviewSource(s *SourceSpec) {
	path := []string{"sources", s.ID}
	if len(c.rolesOf(s.ID)) == 0 {
		c.report(path, s.Line, "source %q has no role, so nobody can use it", s.ID)
	}
	if tls := s.Upstream.TLS; tls == "require" || tls == "verify-ca" {
		c.report(append(path, "upstream", "tls"), s.Line, "tls mode %s does not make sure that the server is %s; verify-full does", tls, s.Upstream.Host)
	}
}

func (c *checker) reviewRole(r *RoleSpec, used map[string]bool) {
	path := []string{"source_roles", r.Name}
	if !used[r.Name] {
		c.report(path, r.Line, "role %q is granted to nobody", r.Name)
	}
	if len(r.Permissions) == 0 {
		c.report(path, r.Line, "role %q has no permission", r.Name)
	}
	for i := range r.Permissions {
		p := &r.Permissions[i]
		if p.Effect != Allow {
			continue
		}
		for k := range p.Resources {
			if by := overruled(r, p, &p.Resources[k]); by != "" {
				at := append(slices.Clone(path), "permissions", strconv.Itoa(i), "on", strconv.Itoa(k))
				c.report(at, p.Line, "this never allows anything: %s", by)
			}
		}
	}
}

// overruled says which deny of the role covers a resource for every action that is allowed on it, or "".
func overruled(r *RoleSpec, p *Permission, res *Resource) string {
	var by string
	for _, a := range p.Actions {
		deny := -1
		for i := range r.Permissions {
			if d := &r.Permissions[i]; d.Effect == Deny && slices.Contains(d.Actions, a) && slices.ContainsFunc(d.Resources, res.within) {
				deny = i
				by = fmt.Sprintf("the deny on line %d covers it", d.Line)
				break
			}
		}
		if deny < 0 {
			return ""
		}
	}
	return by
}

// within reports if another pattern covers everything that this one covers.
func (r *Resource) within(other Resource) bool {
	part := func(of *Resource, i int) Part {
		if i < len(of.Parts) {
			return of.Parts[i]
		}
		return Part{Any: true}
	}
	for i := range 3 {
		if mine, theirs := part(r, i), part(&other, i); !theirs.Any && theirs != mine {
			return false
		}
	}
	// A star in the schema's place does not reach the system schemas.
	return !other.Parts[0].Any || r.Parts[0].Any || other.reaches(r.Parts[0].Name, part(r, 1).Name)
}
