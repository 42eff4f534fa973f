package policy

import "interlock/catalog"

// level says what a function of the system schemas needs before a statement may call it.
type level int

// The levels, the strictest first: a function that nobody has reviewed is never run.
const (
	levelNever   level = iota // never runs through the gateway, whatever the document says
	levelGranted              // runs if an action of its own is allowed; db.function.execute does not give it
	levelNamed                // runs if db.function.execute is allowed on it by name
	levelFree                 // runs for everyone, unless it is denied
)

// Free reports if a function was reviewed to leave nothing behind and to tell nothing: every statement may call it.
func Free(f *catalog.Function) bool {
	return catalog.IsSystemSchema(f.Schema) && builtinLevel(f) == levelFree
}

func builtinLevel(f *catalog.Function) level {
	return builtinLevels[Builtin(f)]
}
