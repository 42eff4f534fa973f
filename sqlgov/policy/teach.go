package policy

import (
	"fmt"
	"slices"
	"strings"

	"interlock/catalog"
)

// denial is what a refusal tells the caller about one thing. It holds only what may be told.
type denial struct {
	kind    denialKind
	action  Action
	rel     *catalog.Relation // for partial kinds; nil when the caller may not know which one it is
	name    string            // table or function as the caller typed it; "" if it was not typed
	columns []string          // columns that were typed
}

type denialKind int

const (
	hiddenTable   denialKind = iota // no permission on the table at all, or no such table: the answers are the same
	wholeTable                      // some permission on the table, but none for the action
	typedColumns                    // columns that were typed, denied or unknown
	untypedColumn                   // a column that was not typed: a star, a whole row
	someFunction                    // a function, denied or unknown
	someChannel                     // a channel
	largeObjects                    // all of them
	behindPlan                      // something whose plan may not be shown
	asItIs                          // a statement that is run without being understood
	ungoverned                      // something that no permission can allow
)

// teach turns the denied needs into the refusal's texts.
func (j *judge) teach() {
	var all []denial
	for i := range j.made.Denied {
		all = j.merge(all, j.denial(&j.made.Denied[i]))
	}
	j.say(all)
}

// denial says what may be told about a denied need.
func (j *judge) denial(r *Reason) denial {
	n := &r.Need
	if r.Note == planNote {
		return denial{kind: behindPlan}
	}
	if n.Action == ExecuteRaw {
		return denial{kind: asItIs}
	}
	if n.Action == FunctionExec {
		return denial{kind: someFunction, action: n.Action, name: j.typedName(n.Schema, n.Object)}
	}
	if n.Action == LargeRead || n.Action == LargeWrite {
		return denial{kind: largeObjects, action: n.Action}
	}
	if channelwise(n.Action) {
		return denial{kind: someChannel, action: n.Action, name: n.Object}
	}
	rel := j.in.Catalog.Relation(n.Relation)
	if rel == nil {
		return denial{kind: ungoverned}
	}
	if !j.set.visible(rel) {
		return denial{kind: hiddenTable, action: n.Action, name: j.typedName(rel.Schema, rel.Name)}
	}
	d := denial{action: n.Action, rel: rel, name: rel.Schema + "." + rel.Name}
	by := j.scope(n.Action, rel).anyColumn(rel)
	switch {
	case n.Column == "" || by == nil || by.effect == Deny:
		d.kind = wholeTable
	case j.typed(n.Column):
		d.kind, d.columns = typedColumns, []string{n.Column}
	default:
		d.kind = untypedColumn
	}
	return d
}

// merge adds a denial, joining the columns of one table and dropping repetitions.
func (j *judge) merge(all []denial, d denial) []denial {
	for i := range all {
		if same := &all[i]; same.kind == d.kind && same.action == d.action && same.rel == d.rel && same.name == d.name {
			for _, c := range d.columns {
				if !slices.Contains(same.columns, c) {
					same.columns = append(same.columns, c)
				}
			}
			return all
		}
	}
	return append(all, d)
}

// say writes message, detail and hint. The kinds are told in the order of their list: a table that the caller may know
// nothing about comes first and alone, so that the answer does not depend on whether it exists; and columns that were
// typed before those that were not.
func (j *judge) say(all []denial) {
	first := slices.MinFunc(all, func(a, b denial) int { return int(a.kind) - int(b.kind) })
	d := j.made
	d.SQLState = "42501"
	switch first.kind {
	case hiddenTable:
		d.Message, d.Detail = "permission denied for "+named("table", first.name), j.readableTables()
		d.Hint = "Use a table that your roles allow, or ask your administrator for access."
	case wholeTable:
		d.Message, d.Detail = "permission denied for "+named("table", first.name), j.allowedInstead(&first)
		d.Hint = fmt.Sprintf("Ask your administrator for %s on %s.", verb(first.action), j.pasteTable(first.rel))
	case typedColumns:
		d.Message, d.Detail = j.columnMessage(&first), j.allowedHere(first.action)
		d.Hint = columnHint(all)
	case untypedColumn:
		d.Message, d.Detail = "permission denied for "+named("table", first.name), j.allowedHere(first.action)
		d.Hint = j.starHint(all)
	case someFunction:
		d.Message = "permission denied for " + named("function", first.name)
		d.Detail = j.who() + " do not allow this function to be executed."
		d.Hint = "Leave it out or ask your administrator for db.function.execute on it."
	case someChannel:
		d.Detail = j.allowsChannels(first.action)
		if first.name == everyChannel {
			d.Message = "permission denied for a channel that is known only when the statement runs"
			d.Hint = "Write the name of the channel as a constant."
			break
		}
		d.Message = "permission denied for channel " + first.name
		d.Hint = fmt.Sprintf("Ask your administrator for %s on %s%s.", first.action, ChannelPrefix, first.name)
	case largeObjects:
		d.Message = fmt.Sprintf("permission denied to %s large objects", verb(first.action))
		d.Detail = fmt.Sprintf("%s do not allow %s.", j.who(), first.action)
		d.Hint = fmt.Sprintf(`Ask your administrator for %s on "*".`, first.action)
	case behindPlan:
		d.Message = "permission denied for the plan of this statement"
		d.Detail = "A plan shows the indexes, conditions, estimates and partitions of every table behind a statement."
		d.Hint = "Explain statements over tables that you may read whole, without views, row security or functions of the database."
	case asItIs:
		d.Message, d.Detail = "permission denied to run statements as they are", j.who()+" do not allow db.execute_raw."
		d.Hint = "Connect again: then each statement is judged by what it touches."
	default:
		d.SQLState, d.Message = "0A000", "the statement touches something that the gateway does not govern"
	}
}

// named is `table "crm.orders"`, or words that name nothing when the name may not be told.
func named(what, name string) string {
	if name == "" {
		return "a " + what + " behind this statement"
	}
	return fmt.Sprintf("%s %q", what, name)
}

func (j *judge) columnMessage(d *denial) string {
	rel := d.rel
	if rel == nil || !j.typed("", d.columns[0]) {
		// In a statement over several tables an unqualified column could be of any of them. Which one it is would
		// tell that it exists.
		rel = nil
		if here := j.typedTables(); len(here) == 1 {
			rel = here[0]
		}
	}
	if rel == nil {
		return fmt.Sprintf(`permission denied for column "%s"`, d.columns[0])
	}
	return fmt.Sprintf(`permission denied for column "%s" of table "%s.%s"`, d.columns[0], rel.Schema, rel.Name)
}

// columnHint says which columns to leave out.
func columnHint(all []denial) string {
	var typed []string
	for _, d := range all {
		for _, c := range d.columns {
			if quoted := `"` + c + `"`; !slices.Contains(typed, quoted) {
				typed = append(typed, quoted)
			}
		}
	}
	if len(typed) == 1 {
		return "Remove " + typed[0] + " or ask your administrator for it."
	}
	return "Remove " + list(typed) + " or ask your administrator for them."
}

// starHint says what to write instead of a star or a whole row.
func (j *judge) starHint(all []denial) string {
	var hints []string
	for _, d := range all {
		if d.kind != untypedColumn {
			continue
		}
		columns := j.pasteColumns(d.rel, d.action)
		if d.action == TableSelect {
			hints = append(hints, fmt.Sprintf("Name the columns of %s that you may read instead of using * or the whole row: %s.", j.pasteTable(d.rel), columns))
		} else {
			hints = append(hints, fmt.Sprintf("List the columns of %s that you may %s: %s.", j.pasteTable(d.rel), verb(d.action), columns))
		}
	}
	return strings.Join(hints, " ")
}

// who begins every detail: `Your roles on source "shop" (analyst)`.
func (j *judge) who() string {
	return fmt.Sprintf(`Your roles on source "%s" (%s)`, j.in.Source, strings.Join(j.set.roles, ", "))
}

// Bounds of what a text lists.
const (
	maxTablesListed  = 10
	maxColumnsListed = 40
)

// allowedHere lists what an action may touch of the tables that were typed.
func (j *judge) allowedHere(action Action) string {
	var tables []string
	for _, rel := range j.typedTables() {
		s := j.scope(action, rel)
		switch by := s.anyColumn(rel); {
		case by == nil || by.effect == Deny:
		case s.all(rel):
			tables = append(tables, j.pasteTable(rel)+" (all columns)")
		default:
			tables = append(tables, fmt.Sprintf("%s (%s)", j.pasteTable(rel), j.pasteColumns(rel, action)))
		}
	}
	if len(tables) == 0 {
		return j.readableTables()
	}
	return fmt.Sprintf("%s allow %s on %s.", j.who(), verb(action), list(cut(tables, maxTablesListed)))
}

// allowedInstead says that an action is not allowed on a table, and what may be read of it.
func (j *judge) allowedInstead(d *denial) string {
	by := j.scope(TableSelect, d.rel).anyColumn(d.rel)
	if d.action == TableSelect || by == nil || by.effect == Deny {
		return fmt.Sprintf("%s do not allow %s on %s.", j.who(), verb(d.action), j.pasteTable(d.rel))
	}
	return fmt.Sprintf("%s allow select on %s (%s), but not %s.", j.who(), j.pasteTable(d.rel), j.pasteColumns(d.rel, TableSelect), verb(d.action))
}

// readableTables lists the first tables of the source that the caller may read.
func (j *judge) readableTables() string {
	var readable []*catalog.Relation
	relations := j.in.Catalog.Snapshot.Relations
	for i := range relations {
		rel := &relations[i]
		if !isTable(rel) {
			continue
		}
		if by := j.set.scope(TableSelect, rel).anyColumn(rel); by != nil && by.effect == Allow {
			readable = append(readable, rel)
		}
	}
	if len(readable) == 0 {
		return j.who() + " do not allow select on any table."
	}
	slices.SortFunc(readable, byName)
	names := make([]string, len(readable))
	for i, rel := range readable {
		names[i] = j.pasteTable(rel)
	}
	return fmt.Sprintf("%s allow select on %s.", j.who(), list(cut(names, maxTablesListed)))
}

// typed reports if the caller typed a name.
func (j *judge) typed(name ...string) bool { return j.in.Typed != nil && j.in.Typed(name...) }

// typedName returns a qualified name as the caller typed it: with its schema only if the schema was typed, "" if the
// name was not typed at all.
func (j *judge) typedName(schema, name string) string {
	switch {
	case j.typed(schema, name):
		return schema + "." + name
	case j.typed(name):
		return name
	}
	return ""
}

// typedTables returns the tables that the caller typed and may know of, by name. It looks at the text and not at the
// facts, so that it finds the same for a text that could not be analysed.
func (j *judge) typedTables() []*catalog.Relation {
	if j.here != nil {
		return j.here
	}
	j.here = []*catalog.Relation{}
	relations := j.in.Catalog.Snapshot.Relations
	for i := range relations {
		rel := &relations[i]
		if !isTable(rel) || !j.typed(rel.Name) {
			continue
		}
		if (j.typed(rel.Schema, rel.Name) || !j.typed("", rel.Name)) && j.set.visible(rel) {
			j.here = append(j.here, rel)
		}
	}
	slices.SortFunc(j.here, byName)
	return j.here
}

// pasteColumns lists the columns of a relation that an action may touch, ready to paste into a statement.
func (j *judge) pasteColumns(rel *catalog.Relation, action Action) string {
	s := j.scope(action, rel)
	var names []string
	for i := range rel.Columns {
		if name := rel.Columns[i].Name; s.allows(name) {
			names = append(names, j.paste(name))
		}
	}
	return strings.Join(cut(names, maxColumnsListed), ", ")
}

func (j *judge) pasteTable(rel *catalog.Relation) string {
	return j.paste(rel.Schema) + "." + j.paste(rel.Name)
}

// paste writes an identifier as a statement needs it.
func (j *judge) paste(name string) string {
	for _, k := range j.in.Catalog.Snapshot.Keywords {
		if k.Word == name && (k.Category == "R" || k.Category == "T") {
			return `"` + name + `"`
		}
	}
	return quoteIdent(name)
}

// cut shortens a list and says by how much.
func cut(items []string, most int) []string {
	if len(items) <= most {
		return items
	}
	return append(slices.Clone(items[:most]), fmt.Sprintf("%d more", len(items)-most))
}

// list joins with commas and "and".
func list(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:len(items)-1], ", ") + " and " + items[len(items)-1]
}

func verb(a Action) string {
	switch a {
	case TableDelete:
		return "delete"
	case FunctionExec:
		return "execute"
	}
	return string(a[strings.LastIndexByte(string(a), '.')+1:])
}
