package policy

import (
	"slices"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// Circumstances are what the same statement of the same identity can meet differently each time.
type Circumstances struct {
	Now         time.Time
	Address     string // IP address of the client
	Application string
}

// question is one statement put to the conditions: the values of their variables.
type question struct {
	identity, kind, team, source, door types.String
	attributes                         any
	ruleset                            types.Int
	at                                 *Circumstances // nil while they are not known

	statement *analyze.Statement
	risk      Risk
	names     [dimensions][]string // of the lists; made when first asked for
	made      [dimensions]bool
	index     *catalog.Index
	labels    []label
}

// unknowns are the variables that have no value without Circumstances, rawUnknowns those that have none for a raw
// statement.
var unknowns, rawUnknowns = patterns(dynamic), patterns(touching)

func patterns(names []string) (all []*interpreter.AttributePattern) {
	for _, name := range names {
		all = append(all, cel.AttributePattern(name))
	}
	return all
}

// raw reports if it is not known what the statement touches.
func (q *question) raw() bool { return q.statement.Kind == analyze.Raw }

// Parent is for interpreter.Activation.
func (q *question) Parent() interpreter.Activation { return nil }

// UnknownAttributePatterns is for interpreter.PartialActivation.
func (q *question) UnknownAttributePatterns() (all []*interpreter.AttributePattern) {
	if q.at == nil {
		all = append(all, unknowns...)
	}
	if q.raw() {
		all = append(all, rawUnknowns...)
	}
	return all
}

// AsPartialActivation makes partial programs see the unknown variables.
func (q *question) AsPartialActivation() (interpreter.PartialActivation, bool) {
	return q, q.at == nil || q.raw()
}

// ResolveName is for interpreter.Activation.
func (q *question) ResolveName(name string) (any, bool) {
	switch name {
	case "identity.attributes":
		return q.attributes, true
	case "ruleset":
		return q.ruleset, true
	case "statement.write":
		return types.Bool(!q.statement.ReadOnly()), true
	case "statement.where":
		return types.Bool(!q.statement.NoWhere), true
	case "statement.table_rows":
		return types.Int(q.tableRows()), true
	}
	if q.at != nil {
		switch name {
		case "now":
			return types.Timestamp{Time: q.at.Now}, true
		case "client.address":
			return types.String(q.at.Address), true
		case "client.application":
			return types.String(q.at.Application), true
		}
	}
	for d, n := range dimensionNames {
		switch {
		case n != name:
		case dimension(d) >= firstList:
			return types.NewStringList(types.DefaultTypeAdapter, q.list(dimension(d))), true
		default:
			return types.String(q.text(dimension(d))), true
		}
	}
	return nil, false
}

// text is the value of a dimension that has one.
func (q *question) text(d dimension) string {
	switch d {
	case byIdentity:
		return string(q.identity)
	case byIdentityKind:
		return string(q.kind)
	case byTeam:
		return string(q.team)
	case bySource:
		return string(q.source)
	case byDoor:
		return string(q.door)
	case byKind:
		return string(q.statement.Does())
	case byCommand:
		return string(q.statement.Kind)
	}
	return string(q.risk)
}

// list is the value of a dimension that has several, each once.
func (q *question) list(d dimension) []string {
	if !q.made[d] {
		q.names[d], q.made[d] = q.listed(d), true
	}
	return q.names[d]
}

func (q *question) listed(d dimension) []string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch d {
	case byTable:
		q.relations(func(rel *catalog.Relation, _ bool) { add(TableName(rel)) })
	case byWritten:
		q.relations(func(rel *catalog.Relation, written bool) {
			if written {
				add(TableName(rel))
			}
		})
	case byColumn:
		var last *catalog.Relation
		prefix := ""
		q.columns(func(rel *catalog.Relation, column string) {
			if rel != last {
				last, prefix = rel, TableName(rel)+"."
			}
			add(prefix + quoteIdent(column))
		})
	case byFunction:
		for _, f := range q.statement.Functions {
			add(quoteIdent(f.Schema) + "." + quoteIdent(f.Name))
		}
	case byLabel:
		for i := range q.labels {
			if q.labelled(&q.labels[i]) {
				add(q.labels[i].name)
			}
		}
	}
	return names
}

// TableName is how a governance document names a table.
func TableName(rel *catalog.Relation) string {
	return quoteIdent(rel.Schema) + "." + quoteIdent(rel.Name)
}

// relations calls visit for every relation that the statement touches. A relation can come several times.
func (q *question) relations(visit func(rel *catalog.Relation, written bool)) {
	last := catalog.OID(0)
	for i := range q.statement.Reads {
		if oid := q.statement.Reads[i].Relation; oid != last {
			last = oid
			if rel := q.index.Relation(oid); rel != nil {
				visit(rel, false)
			}
		}
	}
	for i := range q.statement.Writes {
		if rel := q.index.Relation(q.statement.Writes[i].Column.Relation); rel != nil {
			visit(rel, true)
		}
	}
}

// tableRows is the server's estimate of the rows of the largest table that is changed: 0 if none is, -1 if there is no
// estimate for one of them.
func (q *question) tableRows() int64 {
	most := int64(0)
	q.relations(func(rel *catalog.Relation, written bool) {
		switch {
		case !written || most < 0:
		case rel.RowEstimate < 0:
			most = -1
		default:
			most = max(most, int64(rel.RowEstimate))
		}
	})
	return most
}

// columns calls visit for every column that the statement touches, those behind the columns of views that come out among
// them. Deleting rows and truncating touch every column of a table.
func (q *question) columns(visit func(rel *catalog.Relation, column string)) {
	one := func(c *analyze.Column) {
		if rel := q.index.Relation(c.Relation); rel != nil && c.Name != "" {
			visit(rel, c.Name)
		}
	}
	s := q.statement
	for i := range s.Reads {
		one(&s.Reads[i])
	}
	for i := range s.Output {
		for k := range s.Output[i].Columns {
			one(&s.Output[i].Columns[k])
		}
	}
	for i := range s.Writes {
		w := &s.Writes[i]
		one(&w.Column)
		if rel := q.index.Relation(w.Column.Relation); rel != nil && (w.Action == analyze.Deleting || w.Action == analyze.Truncating) {
			for k := range rel.Columns {
				visit(rel, rel.Columns[k].Name)
			}
		}
	}
}

// label is a compiled LabelSpec.
type label struct {
	name      string
	resources []Resource
}

// Labels are the labels of the columns that statements touch, each once, in the order of the governance document.
func (r *Ruleset) Labels(in Input) (names []string) {
	for i := range r.policies.labels {
		l := &r.policies.labels[i]
		for k := range in.Facts.Statements {
			q := question{statement: &in.Facts.Statements[k], index: in.Catalog}
			if q.labelled(l) {
				names = append(names, l.name)
				break
			}
		}
	}
	return names
}

// labelled reports if a label is on a column that the statement touches, or on a whole table of which it touches none.
func (q *question) labelled(l *label) bool {
	found := false
	q.columns(func(rel *catalog.Relation, column string) { found = found || l.covers(rel, column) })
	if !found {
		q.relations(func(rel *catalog.Relation, _ bool) { found = found || l.coversTable(rel) })
	}
	return found
}

func (l *label) covers(rel *catalog.Relation, column string) bool {
	return slices.ContainsFunc(l.resources, func(r Resource) bool { return r.reaches(rel.Schema, rel.Name) && r.column(column) })
}

func (l *label) coversTable(rel *catalog.Relation) bool {
	return slices.ContainsFunc(l.resources, func(r Resource) bool { return r.reaches(rel.Schema, rel.Name) && r.wholeObject() })
}
