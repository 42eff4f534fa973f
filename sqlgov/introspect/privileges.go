package introspect

import (
	"fmt"
	"strings"

	"interlock/sqlgov/analyze"
)

// asked says how a function of the has_..._privilege family is answered: as the server answers for its login, if the gateway
// lets the caller do the same. Texts are SQL over a, b, c, the arguments without the role, and o, n, p: the object, the number
// of a column, and one privilege in capital letters.
type asked struct {
	name   string // finds the object by a text a
	seen   string // whether there is such an object, for the caller; NULL is answered if not
	column bool   // b is a column
	may    string // whether the gateway allows it
}

const noCondition = "true"

var privilegeFunctions = map[string]asked{
	"has_table_privilege":      {name: "pg_catalog.to_regclass(a)::pg_catalog.oid", seen: "{relation o}", may: "{may o p}"},
	"has_any_column_privilege": {name: "pg_catalog.to_regclass(a)::pg_catalog.oid", seen: "{relation o}", may: "{may o '" + anyColumn + "' p}"},
	"has_column_privilege": {name: "pg_catalog.to_regclass(a)::pg_catalog.oid", seen: "({whole o} OR {column o n})", column: true,
		may: "({may o p} OR {may o n p})"},
	"has_sequence_privilege": {name: "pg_catalog.to_regclass(a)::pg_catalog.oid", seen: "{relation o}", may: "{may o p}"},
	"has_schema_privilege": {name: "(SELECT s.oid FROM pg_catalog.pg_namespace AS s WHERE s.nspname OPERATOR(pg_catalog.=) a::pg_catalog.name)",
		seen: "{schema o}", may: "p OPERATOR(pg_catalog.=) 'USAGE'"},
	"has_function_privilege": {name: "pg_catalog.to_regprocedure(a)::pg_catalog.oid", seen: "{function o}", may: "p OPERATOR(pg_catalog.=) 'EXECUTE'"},
	"has_type_privilege":     {name: "pg_catalog.to_regtype(a)::pg_catalog.oid", seen: "{type o}", may: noCondition},
	"has_language_privilege": {name: "(SELECT l.oid FROM pg_catalog.pg_language AS l WHERE l.lanname OPERATOR(pg_catalog.=) a::pg_catalog.name)",
		seen: "{system o}", may: noCondition},
	"has_database_privilege": {name: "(SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) a::pg_catalog.name)",
		seen: "o OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())",
		may:  "p OPERATOR(pg_catalog.=) 'CONNECT'"},
	"has_tablespace_privilege": {name: "(SELECT t.oid FROM pg_catalog.pg_tablespace AS t WHERE t.spcname OPERATOR(pg_catalog.=) a::pg_catalog.name)",
		seen: "{system o}", may: noCondition},
	"pg_has_role": {name: "(SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname OPERATOR(pg_catalog.=) a::pg_catalog.name)",
		seen: "EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.oid OPERATOR(pg_catalog.=) o AND {grantee r.rolname})", may: noCondition},
}

// privilege writes what stands in the place of a call. A role that is named must be the session's own: others may nothing
// here.
func (w *writer) privilege(order int, c *analyze.SystemCall) *Problem {
	if w.sight.change {
		return nil
	}
	how := privilegeFunctions[c.Function.Name]
	end, args, ok := analyze.CallExtent(w.text, c.Start)
	if !ok || c.Named || len(args) != len(c.Function.Args) {
		return unsupported(c.Start, "this form of a call of %s is not supported by this gateway", c.Function.Name)
	}
	names := strings.Split("abc", "")
	own := noCondition
	if plain := 2 + count(how.column); len(args) > plain {
		names = append([]string{"u"}, names...)
		own = "u OPERATOR(pg_catalog.=) CURRENT_USER"
		if c.Function.Args[0] == oidType {
			own = "u OPERATOR(pg_catalog.=) (SELECT r.oid FROM pg_catalog.pg_roles AS r WHERE r.rolname OPERATOR(pg_catalog.=) CURRENT_USER)"
		}
	}
	names = names[:len(args)]
	object := len(names) - 2 - count(how.column)
	find := how.name
	if c.Function.Args[object] == oidType {
		find = "a"
	}
	head := "(SELECT pg_catalog.bool_or(" + own + " AND pg_catalog." + c.Function.Name + "(o, " + numbered(how) + "p) AND " + w.sight.expand(how.may) + ") AS " +
		c.Function.Name + " FROM (VALUES (("
	from := fmt.Sprintf("LATERAL (SELECT %s) AS found(o), %sLATERAL pg_catalog.unnest(pg_catalog.string_to_array(pg_catalog.upper(%s), ',')) AS listed(l), "+
		"LATERAL (SELECT pg_catalog.btrim(l)) AS one(p) WHERE %s)", find, w.attribute(how, c, object), names[len(names)-1], w.sight.expand(how.seen))
	w.wrap(order, wrapping{c: c, end: end, args: args, head: head, tail: ")) AS given(" + strings.Join(names, ", ") + "), " + from})
	return nil
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// numbered is the column among the arguments of a call.
func numbered(how asked) string {
	if how.column {
		return "n, "
	}
	return ""
}

// attribute finds the number of the column b.
func (w *writer) attribute(how asked, c *analyze.SystemCall, object int) string {
	switch {
	case !how.column:
		return ""
	case c.Function.Args[object+1] == int2Type:
		return "LATERAL (SELECT b) AS attribute(n), "
	}
	return "LATERAL (SELECT t.attnum FROM pg_catalog.pg_attribute AS t WHERE t.attrelid OPERATOR(pg_catalog.=) o AND t.attname OPERATOR(pg_catalog.=) b::pg_catalog.name) AS attribute(n), "
}

// wrapping is what is put around the arguments of a call, and in the place of the rest of it.
type wrapping struct {
	c          *analyze.SystemCall
	end        int // of the call
	args       []analyze.Extent
	head, tail string
}

// wrap replaces a call but for its arguments, which become a row of values of the types that the function wants.
func (w *writer) wrap(order int, r wrapping) {
	at, head := r.c.Start, r.head
	for i, arg := range r.args {
		w.edits = append(w.edits, edit{start: at, end: arg.Start, text: head, order: -order})
		at = arg.End
		head = fmt.Sprintf(")::pg_catalog.%q, (", w.sight.index.Type(r.c.Function.Args[i]).Name)
	}
	w.edits = append(w.edits, edit{start: at, end: r.end, text: strings.TrimSuffix(head, ", (") + r.tail, order: order})
}
