package introspect

import (
	"fmt"
	"slices"
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// Needs are the relations and functions of the system schemas that a statement may use because it is rewritten. What a
// permission gives is not among them.
type Needs struct {
	Relations map[catalog.OID]bool
	Functions map[catalog.OID]bool
}

// Problem is why a statement cannot be rewritten. It is worded as PostgreSQL words it, where it has words for it.
type Problem struct {
	SQLState string
	Message  string
	Hint     string
	Position int // byte offset + 1 in the text; 0 unknown
}

func (p *Problem) Error() string { return p.Message }

func unsupported(at int, format string, args ...any) *Problem {
	return &Problem{SQLState: "0A000", Message: fmt.Sprintf(format, args...), Position: at + 1,
		Hint: "Ask for it in another way, or ask your administrator for a permission on the catalog itself."}
}

// Rewrite writes a text so that it shows no more than s sees. facts are those of the text, analysed with Watched. The
// result is the text itself if there is nothing to change. What EXECUTE and FETCH run is not in the text: the caller holds what
// was sent when that was stored against what would be sent now.
func (s *Sight) Rewrite(text string, facts *analyze.Facts, needs Needs) (*Text, *Problem) {
	w := &writer{sight: s, text: text, needs: needs}
	for i := range facts.Statements {
		if p := w.statement(&facts.Statements[i]); p != nil {
			return nil, p
		}
	}
	return w.finish(), nil
}

type writer struct {
	sight *Sight
	text  string
	needs Needs
	edits []edit
	fence string
}

// rewritable reports if a statement is a query, stores one under a name or copies its result to the client, and changes nothing.
// EXPLAIN is none: what the planner expects of the rows of a catalog comes from all of them.
func rewritable(st *analyze.Statement) bool {
	switch st.Kind {
	case analyze.Select, analyze.Prepare, analyze.Declare, analyze.CopyOut:
		return st.Does() == analyze.Select && st.ReadOnly()
	}
	return false
}

// runsStored reports if a statement runs a query that was stored under a name before.
func runsStored(st *analyze.Statement) bool {
	return st.Kind == analyze.Execute || st.Kind == analyze.Fetch || st.Kind == analyze.Move
}

func (w *writer) statement(st *analyze.Statement) *Problem {
	if runsStored(st) {
		return w.stored(st)
	}
	if p := w.covered(st); p != nil {
		return p
	}
	w.fence = ""
	if !calm(st) {
		w.fence = " OFFSET 0"
	}
	for i := range st.System.References {
		if p := w.reference(&st.System.References[i]); p != nil {
			return p
		}
	}
	for i := range st.System.Calls {
		if p := w.call(i, &st.System.Calls[i]); p != nil {
			return p
		}
	}
	for i := range st.System.Conversions {
		if p := w.conversion(i, &st.System.Conversions[i]); p != nil {
			return p
		}
	}
	return nil
}

// stored takes a statement that runs a stored query. That was rewritten when it was stored; what stands in this text itself are
// arguments, which may use nothing that would have to be.
func (w *writer) stored(st *analyze.Statement) *Problem {
	if len(st.System.Calls)+len(st.System.Conversions) > 0 || !st.ReadOnly() {
		return unsupported(-1, "such an argument of a prepared query of the system catalogs is not supported by this gateway")
	}
	return nil
}

// covered refuses a statement that uses something which is not at a known place of the text: behind a prepared name, or as
// a row type.
func (w *writer) covered(st *analyze.Statement) *Problem {
	at := func(oid catalog.OID) bool {
		return slices.ContainsFunc(st.System.References, func(r analyze.Reference) bool { return r.Relation.OID == oid })
	}
	for i := range st.Reads {
		if oid := st.Reads[i].Relation; w.needs.Relations[oid] && (!at(oid) || !rewritable(st)) {
			return unsupported(-1, "reading the system catalogs in this kind of statement is not supported by this gateway")
		}
	}
	for _, oid := range st.RowTypes {
		if w.needs.Relations[oid] {
			return unsupported(-1, "the row types of the system catalogs are not supported by this gateway")
		}
	}
	for _, f := range st.Functions {
		noted := conversion(f) || slices.ContainsFunc(st.System.Calls, func(c analyze.SystemCall) bool { return c.Function == f })
		if w.needs.Functions[f.OID] && (!noted || !rewritable(st)) {
			return unsupported(-1, "this use of function %s is not supported by this gateway", f.Name)
		}
	}
	return nil
}

// conversion reports if a function stands for a conversion in the reports of the analyser: those are judged as such.
func conversion(f *catalog.Function) bool {
	return strings.HasPrefix(f.Name, "to_reg") || f.Name == "regclass"
}

// reference puts a sub-select in the place of a relation's name. It is called as the relation is.
func (w *writer) reference(r *analyze.Reference) *Problem {
	if !w.needs.Relations[r.Relation.OID] {
		return nil
	}
	rule, ok := ruleOf(r.Relation)
	switch {
	case !ok:
		return unsupported(r.Start, "reading %s is not supported by this gateway", r.Relation.Name)
	case w.sight.shows(rule):
		return nil
	case r.Whole:
		return unsupported(r.Start, "a row of %s as one value is not supported by this gateway", r.Relation.Name)
	case slices.ContainsFunc(r.Hidden, func(name string) bool { return name != "tableoid" && name != "xmin" }):
		return unsupported(r.Start, "system columns of %s are not supported by this gateway", r.Relation.Name)
	}
	sub := "(" + w.sight.subSelect(r.Relation, rule, r.Hidden) + w.fence + ")"
	if !r.Aliased {
		sub += " AS " + r.Relation.Name
	}
	w.edits = append(w.edits, edit{start: r.Start, end: r.End, text: sub})
	return nil
}

// shows reports if a relation is shown as it is.
func (s *Sight) shows(r rule) bool {
	return s.all && !r.always && (s.change || !r.privileges) || r.where == "" && r.hide == nil
}

// subSelect reads the visible rows of a relation, with some system columns.
func (s *Sight) subSelect(rel *catalog.Relation, rule rule, hidden []string) string {
	columns := "*"
	if len(rule.hide) > 0 || rule.only != nil || len(hidden) > 0 {
		list := make([]string, 0, len(rel.Columns)+1)
		for i := range rel.Columns {
			c := &rel.Columns[i]
			if instead, ok := rule.hide[c.Name]; ok {
				list = append(list, s.expand(instead)+" AS "+c.Name)
			} else if rule.only != nil && !slices.Contains(rule.only, c.Name) {
				list = append(list, "NULL::pg_catalog."+s.index.Type(c.Type).Name+" AS "+c.Name)
			} else {
				list = append(list, c.Name)
			}
		}
		columns = strings.Join(append(list, hidden...), ", ")
	}
	where := rule.where
	if where != "" {
		where = " WHERE " + s.expand(where)
	}
	return "SELECT " + columns + " FROM " + rel.Schema + "." + rel.Name + where + s.absentRows(rel, rule.absent, hidden)
}

// call guards a call.
func (w *writer) call(order int, c *analyze.SystemCall) *Problem {
	g, _ := guardOf(c.Function)
	switch {
	case !w.needs.Functions[c.Function.OID]:
		return nil
	case g.settings:
		return w.setting(c)
	case g.privilege:
		return w.privilege(order, c)
	}
	if w.sight.all || g.when == "" && !g.paired || c.Named || len(c.Args) == 0 {
		return nil
	}
	if g.paired {
		if pairedArguments(c) {
			return nil
		}
		g = guard{when: "{whole b}"}
	}
	if g.of != "" {
		if w.known(&c.Args[0], g.of) {
			return nil
		}
		if first := c.Function.Args[0]; first != oidType && first != regclassType {
			return unsupported(c.Start, "function %s with a name is not supported by this gateway", c.Function.Name)
		}
	}
	return w.guard(order, c, g)
}

const (
	oidType      catalog.OID = 26
	regclassType catalog.OID = 2205
	int2Type     catalog.OID = 21
)

// known reports if an operand is known to stand for something visible.
func (w *writer) known(o *analyze.Operand, k kind) bool {
	switch {
	case o.Null:
		return true
	case o.Literal != nil:
		oid, ok := number(o.Literal.Text)
		return ok && w.sight.seesKind(k, oid)
	}
	return w.needs.Relations[o.Column.Relation] && slices.Contains(carried[qualifiedName(o.Column)], k)
}

// pairedArguments reports if an expression and the relation whose columns it names come from the same row.
func pairedArguments(c *analyze.SystemCall) bool {
	if len(c.Args) < 2 {
		return false
	}
	tree, rel := &c.Args[0], &c.Args[1]
	with, ok := expressions[qualifiedName(tree.Column)]
	return ok && tree.Place > 0 && tree.Place == rel.Place && rel.Column.Relation == tree.Column.Relation && rel.Column.Name == with
}

// guard wraps a call into a sub-select that has no row if the condition does not hold. Its arguments stand where they see
// what they saw before, and nothing more.
func (w *writer) guard(order int, c *analyze.SystemCall, g guard) *Problem {
	end, args, ok := analyze.CallExtent(w.text, c.Start)
	if !ok || len(args) != len(c.Args) || len(args) > len(c.Function.Args) {
		return unsupported(c.Start, "this form of a call of %s is not supported by this gateway", c.Function.Name)
	}
	if c.Function.ReturnsSet {
		w.guardArgument(order, c, g, args[0])
		return nil
	}
	names := strings.Split("abcdef", "")[:len(args)]
	list := strings.Join(names, ", ")
	w.wrap(order, wrapping{c: c, end: end, args: args,
		head: fmt.Sprintf("(SELECT %s.%s(%s) AS %s FROM (VALUES ((", c.Function.Schema, c.Function.Name, list, c.Function.Name),
		tail: fmt.Sprintf(")) AS v(%s) WHERE %s)", list, w.sight.expand(g.when))})
	return nil
}

// guardArgument makes the first argument of a function that returns rows NULL if the condition does not hold: then there
// are none. The call itself stays where it is, which may be in FROM.
func (w *writer) guardArgument(order int, c *analyze.SystemCall, g guard, arg analyze.Extent) {
	w.edits = append(w.edits, edit{start: arg.Start, end: arg.Start, text: "(SELECT a FROM (VALUES ((", order: -order},
		edit{start: arg.End, end: arg.End, order: order,
			text: fmt.Sprintf(")::pg_catalog.%q)) AS v(a) WHERE %s)", w.sight.index.Type(c.Function.Args[0]).Name, w.sight.expand(g.when))})
}

// setting allows current_setting of parameters that everyone may know.
func (w *writer) setting(c *analyze.SystemCall) *Problem {
	if len(c.Args) > 0 && w.needs.Relations[c.Args[0].Column.Relation] && qualifiedName(c.Args[0].Column) == "pg_settings.name" {
		return nil
	}
	if len(c.Args) > 0 && c.Args[0].Literal != nil {
		asked := c.Args[0].Literal.Text
		if slices.ContainsFunc(settings, func(n string) bool { return strings.EqualFold(n, asked) }) {
			return nil
		}
	}
	return &Problem{SQLState: "42501", Message: "permission denied for function current_setting", Position: c.Start + 1,
		Hint: "Name a parameter that tells how to talk to the server, such as server_version_num."}
}
