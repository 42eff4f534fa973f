package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sort"
)

// Ruleset is one immutable version of the governance document, compiled for decisions. It is safe for concurrent
// use. Number is the only field that is set after Compile, by the store, before anything else sees the ruleset.
type Ruleset struct {
	Number   int64  // version in the control store; 0 before it is stored
	Digest   string // hex SHA-256 of the document as JSON, the file's name left out
	Document *Document

	sources map[string]*SourceSpec
	people  map[string]*Identity
	grants  map[grantKey]*grantSet

	policies *policySet
	groups   map[string]map[string]bool // members by group
	kept     map[string][]*SourceSpec   // by the data behind them, if results are kept
}

type grantKey struct{ identity, source string }

// grantSet is what one identity may do on one source: the permissions of all its roles, by action.
type grantSet struct {
	roles []string
	rules map[Action][]rule
	masks []*maskRule
	// readsAll is set when select is allowed on everything outside the system schemas and denied on nothing.
	readsAll bool
}

// rule is one permission on one resource.
type rule struct {
	effect   Effect
	resource *Resource
	role     string
	line     int
}

// Compile checks a document and compiles it. The document must not change afterwards. If the document is wrong, the
// error is of type Problems and names all that is wrong with it.
func Compile(doc *Document) (*Ruleset, error) {
	if problems := Check(doc); len(problems) > 0 {
		return nil, problems
	}
	digest, err := digest(doc)
	if err != nil {
		return nil, err
	}
	r := &Ruleset{
		Digest:   digest,
		Document: doc,
		sources:  make(map[string]*SourceSpec, len(doc.Sources)),
		people:   make(map[string]*Identity, len(doc.Identities)),
		grants:   make(map[grantKey]*grantSet),
		groups:   compileGroups(doc),
		kept:     compileKept(doc),
	}
	for i := range doc.Sources {
		r.sources[doc.Sources[i].ID] = &doc.Sources[i]
	}
	roles := make(map[string]*RoleSpec, len(doc.Roles))
	for i := range doc.Roles {
		roles[doc.Roles[i].Name] = &doc.Roles[i]
	}
	for i := range doc.Identities {
		who := &doc.Identities[i]
		r.people[who.Name] = who
		for _, g := range who.Grants {
			r.grants[grantKey{who.Name, g.Source}] = compileGrant(g, roles, doc)
		}
	}
	r.policies, err = compilePolicies(doc)
	return r, err
}

func digest(doc *Document) (string, error) {
	content := *doc
	content.File = ""
	b, err := json.Marshal(&content)
	if err != nil {
		return "", fmt.Errorf("digesting the governance document: %w", err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

func compileGrant(g Grant, roles map[string]*RoleSpec, doc *Document) *grantSet {
	set := &grantSet{roles: g.Roles, rules: make(map[Action][]rule)}
	for _, name := range g.Roles {
		role := roles[name]
		for i := range role.Permissions {
			set.add(role.Name, &role.Permissions[i])
		}
		for i := range role.Masks {
			rule := doc.compileMask(&role.Masks[i])
			rule.role = role.Name
			set.masks = append(set.masks, rule)
		}
	}
	set.readsAll = set.everything(TableSelect)
	return set
}

func (g *grantSet) add(role string, p *Permission) {
	for _, action := range p.Actions {
		for i := range p.Resources {
			g.rules[action] = append(g.rules[action], rule{p.Effect, &p.Resources[i], role, p.Line})
		}
	}
}

// Knows reports if the identity is in the document.
func (r *Ruleset) Knows(identity string) bool { return r.people[identity] != nil }

// Identity returns an identity of the document, or nil.
func (r *Ruleset) Identity(name string) *Identity { return r.people[name] }

// Source returns a source of the document, or nil. It says nothing about grants.
func (r *Ruleset) Source(id string) *SourceSpec { return r.sources[id] }

// Granted reports if the identity holds a role on the source.
func (r *Ruleset) Granted(identity, source string) bool {
	return r.grants[grantKey{identity, source}] != nil
}

// Sources returns the ids of the sources on which the identity holds a role, disabled ones too, sorted.
func (r *Ruleset) Sources(identity string) []string {
	who := r.people[identity]
	if who == nil {
		return nil
	}
	ids := make([]string, 0, len(who.Grants))
	for _, g := range who.Grants {
		ids = append(ids, g.Source)
	}
	sort.Strings(ids)
	return ids
}

// Roles returns the roles that the identity holds on the source, in the order of the document. The caller must not
// change the slice.
func (r *Ruleset) Roles(identity, source string) []string {
	if set := r.grants[grantKey{identity, source}]; set != nil {
		return set.roles
	}
	return nil
}
