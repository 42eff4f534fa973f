package policy

import "interlock/catalog"

// largeObjectActions are the actions of which a function of large objects needs one, by its class. What is in a large object, and who
// put it there, the catalog does not tell: an action is about all that the upstream login may use.
var largeObjectActions = map[BuiltinClass][]Action{
	BuiltinLargeRead:  {LargeRead},
	BuiltinLargeWrite: {LargeWrite},
	BuiltinLargeOpen:  {LargeRead, LargeWrite},
}

// largeObjects judges a call of a function of a class. The first action that is allowed will do.
func (j *judge) largeObjects(class BuiltinClass) {
	actions := largeObjectActions[class]
	need, by := actions[0], j.set.sourcewide(actions[0])
	for _, action := range actions {
		if r := j.set.sourcewide(action); r != nil && r.effect == Allow {
			need, by = action, r
			break
		}
	}
	j.settle(Need{Action: need, Object: "*"}, by)
}

// WritesLargeObjects reports if a function of PostgreSQL makes, changes or removes large objects.
func WritesLargeObjects(f *catalog.Function) bool {
	return catalog.IsSystemSchema(f.Schema) && Builtin(f) == BuiltinLargeWrite
}

// largeObjects compares what may be done with large objects.
func (c *difference) largeObjects() {
	for _, action := range []Action{LargeRead, LargeWrite} {
		change := c.change(action, "*")
		change.note(change.Object, c.before.allowed(action), c.after.allowed(action))
		c.keep(change)
	}
}

// allowed reports if a grant, which may not be there, allows an action on the whole source.
func (g *grantSet) allowed(action Action) bool {
	if g == nil {
		return false
	}
	by := g.sourcewide(action)
	return by != nil && by.effect == Allow
}
