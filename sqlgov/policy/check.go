package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a governance document.
type Problem struct {
	// Path leads to the value in the document, a mapping key or a list index (from 0) an entry:
	// identities, ana, grants, 0, roles, 1.
	Path    []string
	Line    int // of the nearest item that knows its line; 0 unknown
	Message string
}

// Problems is everything that is wrong with a document, in document order.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = fmt.Sprintf("%s: %s", strings.Join(one.Path, "."), one.Message)
		if one.Line > 0 {
			lines[i] = fmt.Sprintf("line %d: %s", one.Line, lines[i])
		}
	}
	return strings.Join(lines, "\n")
}

// IdentityKinds lists what an identity can be.
var IdentityKinds = []string{"human", "agent", "service"}

// SourceKinds lists the kinds of source.
var SourceKinds = []string{"postgres"}

// Names of sources are database names for clients and names of identities are user names; both stand in audit
// records and on command lines.
var (
	namePattern  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,62}$`)
	nameExplains = "must be 1 to 63 letters, digits or . _ @ + - and begin with a letter or digit"
)

// checker walks a document and collects problems.
type checker struct {
	doc      *Document
	sources  map[string]int // line by id
	roles    map[string]*RoleSpec
	problems Problems
}

// Check returns what is wrong with the meaning of a document: names that are taken twice or refer to nothing, roles of
// another source, patterns that do not fit their action. It returns nil if the document compiles.
func Check(doc *Document) Problems {
	c := &checker{doc: doc, sources: make(map[string]int), roles: make(map[string]*RoleSpec)}
	for i := range doc.Sources {
		c.source(&doc.Sources[i])
		c.content(&doc.Sources[i])
	}
	for i := range doc.Roles {
		c.role(&doc.Roles[i])
	}
	seen := make(map[string]bool)
	for i := range doc.Identities {
		c.identity(&doc.Identities[i], seen)
	}
	c.labels()
	c.masks()
	for i := range doc.Roles {
		for k := range doc.Roles[i].Masks {
			m := &doc.Roles[i].Masks[k]
			c.maskRule([]string{"source_roles", doc.Roles[i].Name, "masks", strconv.Itoa(k)}, m.Line, m)
		}
	}
	c.groups()
	c.policies()
	return c.problems
}

func (c *checker) report(path []string, line int, format string, args ...any) {
	c.problems = append(c.problems, Problem{Path: path, Line: line, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) source(s *SourceSpec) {
	path := []string{"sources", s.ID}
	if !namePattern.MatchString(s.ID) {
		c.report(path, s.Line, "source id %q %s", s.ID, nameExplains)
	}
	if _, taken := c.sources[s.ID]; taken {
		c.report(path, s.Line, "source %q is defined twice", s.ID)
	}
	c.sources[s.ID] = s.Line
	if !slices.Contains(SourceKinds, s.Kind) {
		c.report(append(path, "kind"), s.Line, "unknown kind %q of source; the kinds are %s", s.Kind, strings.Join(SourceKinds, ", "))
	}
	c.upstream(append(path, "upstream"), s)
}

// upstream checks which servers a source has. Results that are kept must come from where the writes go: a standby lags
// behind them.
func (c *checker) upstream(path []string, s *SourceSpec) {
	u := &s.Upstream
	if u.Target != "" && !slices.Contains(Targets, u.Target) {
		c.report(append(path, "target_session_attrs"), s.Line, "unknown value %q; the values are %s", u.Target, strings.Join(Targets, ", "))
	}
	if u.PoolMode != "" && !slices.Contains(PoolModes, u.PoolMode) {
		c.report(append(path, "pool_mode"), s.Line, "unknown value %q; the values are %s", u.PoolMode, strings.Join(PoolModes, ", "))
	}
	if s.Cache.TTL > 0 && (u.Several() || u.Selective()) && u.Target != TargetPrimary && u.Target != TargetReadWrite {
		c.report([]string{"sources", s.ID, "cache"}, s.Line, "a standby is behind its primary, so results can be kept only with target_session_attrs: primary or read-write")
	}
}

func (c *checker) role(r *RoleSpec) {
	path := []string{"source_roles", r.Name}
	if !namePattern.MatchString(r.Name) {
		c.report(path, r.Line, "role name %q %s", r.Name, nameExplains)
	}
	if c.roles[r.Name] != nil {
		c.report(path, r.Line, "role %q is defined twice", r.Name)
	} else {
		c.roles[r.Name] = r
	}
	if _, ok := c.sources[r.Source]; !ok {
		c.report(append(path, "source"), r.Line, "unknown source %q%s", r.Source, Suggest(r.Source, c.sourceIDs()))
	}
	for i := range r.Permissions {
		c.permission(append(path, "permissions", strconv.Itoa(i)), &r.Permissions[i])
	}
}

func (c *checker) sourceIDs() []string {
	ids := make([]string, len(c.doc.Sources))
	for i := range c.doc.Sources {
		ids[i] = c.doc.Sources[i].ID
	}
	return ids
}

func (c *checker) permission(path []string, p *Permission) {
	at := func(more ...string) []string { return append(slices.Clone(path), more...) }
	if p.Effect != Allow && p.Effect != Deny {
		c.report(path, p.Line, "unknown effect %q; a permission allows or denies", p.Effect)
		return
	}
	effect := string(p.Effect)
	if len(p.Actions) == 0 {
		c.report(at(effect), p.Line, "a permission needs at least one action")
	}
	for i, a := range p.Actions {
		if !slices.Contains(Actions, a) {
			c.report(at(effect, strconv.Itoa(i)), p.Line, "unknown action %q%s", a, Suggest(string(a), ActionNames()))
		}
	}
	if len(p.Resources) == 0 {
		c.report(at("on"), p.Line, "a permission needs at least one resource")
	}
	for i := range p.Resources {
		if problem := misfit(&p.Resources[i], p.Actions); problem != "" {
			c.report(at("on", strconv.Itoa(i)), p.Line, "%s", problem)
		}
	}
}

// misfit says why a pattern can never mean anything for one of the actions, or "".
func misfit(r *Resource, actions []Action) string {
	if n := len(r.Parts); n == 0 || n > 3 || n == 1 && !r.Parts[0].Any && !r.Channel {
		return fmt.Sprintf("resource %q is not of the form schema.object or schema.table.column", r.Text)
	}
	for _, a := range actions {
		if channelwise(a) && !r.Channel && !r.everyChannel() {
			return fmt.Sprintf(`%s acts on channels: write "channel:name" or "*", not %q`, a, r.Text)
		}
		if !channelwise(a) && r.Channel && slices.Contains(Actions, a) {
			return fmt.Sprintf("%s does not act on channels, as %q is", a, r.Text)
		}
	}
	if i := slices.IndexFunc(actions, sourcewide); i >= 0 && len(r.Parts) > 1 {
		return fmt.Sprintf(`%s acts on the whole source: write "*", not %q`, actions[i], r.Text)
	}
	if len(r.Parts) < 3 {
		return ""
	}
	for _, a := range actions {
		if !slices.Contains(Actions, a) {
			continue
		}
		if a == FunctionExec {
			return fmt.Sprintf(`%s acts on functions: write "schema.function", not %q`, a, r.Text)
		}
		if !columnwise(a) && !r.wholeObject() {
			return fmt.Sprintf(`%s acts on whole tables: write "schema.table", not the column %q`, a, r.Text)
		}
	}
	return ""
}

// channelwise reports if an action is about channels.
func channelwise(a Action) bool { return a == ChannelListen || a == ChannelNotify }

// sourcewide reports if an action is about the source as a whole.
func sourcewide(a Action) bool { return a == ExecuteRaw || a == LargeRead || a == LargeWrite }

// columnwise reports if an action is judged column by column.
func columnwise(a Action) bool {
	return a == TableSelect || a == TableInsert || a == TableUpdate || a == TableDescribe
}

func (c *checker) identity(who *Identity, seen map[string]bool) {
	path := []string{"identities", who.Name}
	if !namePattern.MatchString(who.Name) {
		c.report(path, who.Line, "identity name %q %s", who.Name, nameExplains)
	}
	if seen[who.Name] {
		c.report(path, who.Line, "identity %q is defined twice", who.Name)
	}
	seen[who.Name] = true
	if !slices.Contains(IdentityKinds, who.Kind) {
		c.report(append(path, "kind"), who.Line, "unknown kind %q of identity; the kinds are %s", who.Kind, strings.Join(IdentityKinds, ", "))
	}
	granted := make(map[string]bool)
	for i := range who.Grants {
		at := append(slices.Clone(path), "grants", strconv.Itoa(i))
		g := &who.Grants[i]
		if granted[g.Source] {
			c.report(append(at, "source"), g.Line, "source %q is granted twice; list its roles in one grant", g.Source)
		}
		granted[g.Source] = true
		c.grant(at, g)
	}
}

func (c *checker) grant(path []string, g *Grant) {
	at := func(more ...string) []string { return append(slices.Clone(path), more...) }
	if _, ok := c.sources[g.Source]; !ok {
		c.report(at("source"), g.Line, "unknown source %q%s", g.Source, Suggest(g.Source, c.sourceIDs()))
		return
	}
	if len(g.Roles) == 0 {
		c.report(at("roles"), g.Line, "a grant needs at least one role")
	}
	for i, name := range g.Roles {
		role := c.roles[name]
		switch {
		case role == nil:
			c.report(at("roles", strconv.Itoa(i)), g.Line, "unknown role %q%s", name, Suggest(name, c.rolesOf(g.Source)))
		case role.Source != g.Source:
			c.report(at("roles", strconv.Itoa(i)), g.Line, "role %q belongs to source %q, not to %q", name, role.Source, g.Source)
		case slices.Index(g.Roles, name) < i:
			c.report(at("roles", strconv.Itoa(i)), g.Line, "role %q is listed twice", name)
		}
	}
	c.raw(at("roles"), g)
}

// raw reports what db.execute_raw would make void: nothing is known of what a raw statement touches, so no mask and no deny
// could hold for it.
func (c *checker) raw(path []string, g *Grant) {
	var roles []*RoleSpec
	for _, name := range g.Roles {
		if role := c.roles[name]; role != nil {
			roles = append(roles, role)
		}
	}
	by := rawBy(roles)
	if by == nil {
		return
	}
	for _, role := range roles {
		if len(role.Masks) > 0 {
			c.report(path, g.Line, "role %q has masks, which role %q would make void: it allows %s", role.Name, by.Name, ExecuteRaw)
		}
		for i := range role.Permissions {
			if p := &role.Permissions[i]; p.Effect == Deny {
				c.report(path, g.Line, "role %q denies something (line %d), which role %q would make void: it allows %s", role.Name, p.Line, by.Name, ExecuteRaw)
			}
		}
	}
}

// rawBy is the first of the roles that allows db.execute_raw, or nil if none does or one denies it.
func rawBy(roles []*RoleSpec) (by *RoleSpec) {
	for _, role := range roles {
		for i := range role.Permissions {
			switch p := &role.Permissions[i]; {
			case !slices.Contains(p.Actions, ExecuteRaw):
			case p.Effect == Deny:
				return nil
			case by == nil:
				by = role
			}
		}
	}
	return by
}

func (c *checker) rolesOf(source string) []string {
	var names []string
	for i := range c.doc.Roles {
		if c.doc.Roles[i].Source == source {
			names = append(names, c.doc.Roles[i].Name)
		}
	}
	return names
}

// ActionNames lists the actions as strings.
func ActionNames() []string {
	names := make([]string, len(Actions))
	for i, a := range Actions {
		names[i] = string(a)
	}
	return names
}
