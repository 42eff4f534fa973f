package policy

import (
	"encoding/json"
	"slices"

	"interlock/catalog"
)

// AccessChange is what an identity gains and loses on one object by one action.
type AccessChange struct {
	Identity string `json:"identity"`
	Source   string `json:"source"`
	Action   Action `json:"action"`
	Object   string `json:"object"` // schema.table or schema.function(types)
	// Gained and Lost are columns; for actions on the object as a whole, the object itself.
	Gained []string `json:"gained,omitempty"`
	Lost   []string `json:"lost,omitempty"`
}

// CompareAccess lists the changes of what source roles allow on a source, from one ruleset to another over the same
// catalog: of every identity of either, in the order of the documents. What policies take away is not part of it.
func CompareAccess(before, after *Ruleset, source string, ix *catalog.Index) []AccessChange {
	var names []string
	for _, r := range []*Ruleset{before, after} {
		for i := range r.Document.Identities {
			if name := r.Document.Identities[i].Name; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	all := []AccessChange{}
	for _, name := range names {
		a, b := before.grants[grantKey{name, source}], after.grants[grantKey{name, source}]
		if a.equal(b) {
			continue
		}
		c := difference{a, b, name, source, nil}
		for i := range ix.Snapshot.Relations {
			if rel := &ix.Snapshot.Relations[i]; isTable(rel) {
				c.relation(rel)
			}
		}
		for i := range ix.Snapshot.Functions {
			c.function(&ix.Snapshot.Functions[i])
		}
		c.channels(ChannelListen)
		c.channels(ChannelNotify)
		c.largeObjects()
		all = append(all, c.changes...)
	}
	return all
}

// equal reports if two grants allow the same for the same reasons, lines aside.
func (g *grantSet) equal(other *grantSet) bool {
	if g == nil || other == nil {
		return g == other
	}
	a, err := json.Marshal(g.plain())
	b, err2 := json.Marshal(other.plain())
	return err == nil && err2 == nil && string(a) == string(b)
}

// plain lists effect and resource of the rules of each action.
func (g *grantSet) plain() map[Action][]string {
	all := make(map[Action][]string)
	for action, rules := range g.rules {
		for _, r := range rules {
			all[action] = append(all[action], string(r.effect)+" "+r.resource.Text)
		}
	}
	return all
}

type difference struct {
	before, after *grantSet
	who, source   string
	changes       []AccessChange
}

func (c *difference) relation(rel *catalog.Relation) {
	for _, action := range []Action{TableSelect, TableDescribe, TableInsert, TableUpdate} {
		change := c.change(action, TableName(rel))
		old, now := c.before.scopeOrNone(action, rel), c.after.scopeOrNone(action, rel)
		for i := range rel.Columns {
			name := rel.Columns[i].Name
			change.note(name, old.allows(name), now.allows(name))
		}
		c.keep(change)
	}
	for _, action := range []Action{TableDelete, TableTruncate} {
		change := c.change(action, TableName(rel))
		old, now := c.before.scopeOrNone(action, rel).table(), c.after.scopeOrNone(action, rel).table()
		change.note(change.Object, old != nil && old.effect == Allow, now != nil && now.effect == Allow)
		c.keep(change)
	}
}

func (c *difference) function(f *catalog.Function) {
	if Free(f) && (c.before == nil || c.after == nil) {
		return // everybody on the source may call it
	}
	change := c.change(FunctionExec, quoteIdent(f.Schema)+"."+quoteIdent(f.Name)+"("+f.Signature+")")
	change.note(change.Object, c.before.calls(f), c.after.calls(f))
	c.keep(change)
}

// channels compares every channel that a rule of either names, and what holds for all others.
func (c *difference) channels(action Action) {
	names := []string{""}
	for _, g := range []*grantSet{c.before, c.after} {
		if g == nil {
			continue
		}
		for _, r := range g.rules[action] {
			if r.resource.Channel && !slices.Contains(names, r.resource.Parts[0].Name) {
				names = append(names, r.resource.Parts[0].Name)
			}
		}
	}
	for _, name := range names {
		object := ChannelPrefix + everyChannel
		if name != "" {
			object = ChannelPrefix + quoteIdent(name)
		}
		change := c.change(action, object)
		change.note(object, c.before.opens(action, name), c.after.opens(action, name))
		c.keep(change)
	}
}

// opens reports if a grant allows an action on a channel; "" is one that no rule names.
func (g *grantSet) opens(action Action, name string) bool {
	if g == nil {
		return false
	}
	allowed := false
	for _, r := range g.rules[action] {
		switch {
		case !r.resource.everyChannel() && (name == "" || !r.resource.channel(name)):
		case r.effect == Deny:
			return false
		default:
			allowed = true
		}
	}
	return allowed
}

// calls reports if a grant lets a function be called.
func (g *grantSet) calls(f *catalog.Function) bool {
	if g == nil {
		return false
	}
	by := g.function(f)
	if catalog.IsSystemSchema(f.Schema) {
		switch lvl := builtinLevel(f); {
		case lvl == levelNever, lvl == levelGranted: // the latter by actions of its own
			return false
		case lvl == levelFree && by == nil:
			return true
		}
	}
	return by != nil && by.effect == Allow
}

// scopeOrNone is scope for a grant that may not be there.
func (g *grantSet) scopeOrNone(action Action, rel *catalog.Relation) scope {
	if g == nil {
		return scope{}
	}
	return g.scope(action, rel)
}

func (c *difference) change(action Action, object string) *AccessChange {
	return &AccessChange{Identity: c.who, Source: c.source, Action: action, Object: object}
}

func (c *difference) keep(change *AccessChange) {
	if len(change.Gained)+len(change.Lost) > 0 {
		c.changes = append(c.changes, *change)
	}
}

func (change *AccessChange) note(what string, before, after bool) {
	switch {
	case after && !before:
		change.Gained = append(change.Gained, what)
	case before && !after:
		change.Lost = append(change.Lost, what)
	}
}

// PolicyChange is a policy that a new document adds, removes or changes.
type PolicyChange struct {
	Policy string      `json:"policy"`
	Change string      `json:"change"` // added, removed, changed
	Before *PolicySpec `json:"before,omitempty"`
	After  *PolicySpec `json:"after,omitempty"`
}

// ComparePolicies lists the policies that differ, those of the old document first.
func ComparePolicies(before, after *Document) []PolicyChange {
	all := []PolicyChange{}
	find := func(doc *Document, name string) *PolicySpec {
		i := slices.IndexFunc(doc.Policies, func(p PolicySpec) bool { return p.Name == name })
		if i < 0 {
			return nil
		}
		return &doc.Policies[i]
	}
	for i := range before.Policies {
		old := &before.Policies[i]
		switch now := find(after, old.Name); {
		case now == nil:
			all = append(all, PolicyChange{old.Name, "removed", old, nil})
		case !old.same(now):
			all = append(all, PolicyChange{old.Name, "changed", old, now})
		}
	}
	for i := range after.Policies {
		if now := &after.Policies[i]; find(before, now.Name) == nil {
			all = append(all, PolicyChange{now.Name, "added", nil, now})
		}
	}
	return all
}

// same reports if two policies say the same, whatever their lines.
func (p *PolicySpec) same(other *PolicySpec) bool {
	a, b := *p, *other
	a.Line, b.Line = 0, 0
	x, err := json.Marshal(&a)
	y, err2 := json.Marshal(&b)
	return err == nil && err2 == nil && string(x) == string(y)
}
