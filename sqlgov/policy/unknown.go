package policy

import (
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// DecideError turns an error of the analysis into a refusal that tells the caller no more than the roles allow. What
// does not exist is answered as what the caller may not use: a table in words that do not depend on whether there is
// one, a column of a partly readable table as a denied column. An error that tells only of what the caller may know
// is passed on as it is. in.Facts is not used. The reasons keep the error itself, for the audit log.
func (r *Ruleset) DecideError(in Input, err *analyze.Error) *Decision {
	j := r.judge(in)
	if j == nil {
		return noGrant(in.Source)
	}
	d := j.made
	d.Verdict = Refused
	tells := j.tellsOf(err)
	if len(tells) == 0 {
		d.SQLState, d.Message, d.Detail, d.Hint, d.Position = err.SQLState, err.Message, err.Detail, err.Hint, err.Position
	} else {
		j.say(tells)
	}
	d.Reasons = []Reason{{Note: err.SQLState + ": " + err.Message}}
	d.Denied = d.Reasons
	return d
}

// tellsOf returns what an error tells of that the caller may not know. Nothing means that the caller may see it.
func (j *judge) tellsOf(err *analyze.Error) []denial {
	if j.set.readsAll {
		return nil
	}
	hidden, columns := j.touched(err)
	if len(hidden) > 0 {
		return hidden
	}
	switch err.SQLState {
	case "42601", "0A000", "54000", "54001":
		return nil
	case "42P01":
		return j.unknownTable(err.Name)
	case "42704": // every table has a type of its name, so a type that is missing is answered as a table that is
		if err.Name != nil {
			return j.unknownTable(err.Name)
		}
	case "42703", "42702":
		if d := j.unknownColumn(err); d != nil {
			return j.merge(columns, *d)
		}
	case "42883", "42725", "3F000":
		if len(columns) == 0 {
			return j.unknownFunction(err.Name)
		}
	}
	return columns
}

// touched judges what had been resolved before the error: tables that the caller may know nothing about, and columns
// of other tables that the caller may neither read nor write.
func (j *judge) touched(err *analyze.Error) (hidden, columns []denial) {
	for i := range err.Touched {
		c := &err.Touched[i]
		rel := j.in.Catalog.Relation(c.Relation)
		switch {
		case rel == nil:
			hidden = append(hidden, denial{kind: hiddenTable})
		case !j.set.visible(rel):
			hidden = j.merge(hidden, denial{kind: hiddenTable, name: j.typedName(rel.Schema, rel.Name)})
		case c.Num == 0 || j.knows(rel, c.Name):
		case j.typed(c.Name):
			columns = j.merge(columns, denial{kind: typedColumns, action: TableSelect, rel: rel, name: rel.Schema + "." + rel.Name, columns: []string{c.Name}})
		default:
			columns = j.merge(columns, denial{kind: untypedColumn, action: TableSelect, rel: rel, name: rel.Schema + "." + rel.Name})
		}
	}
	return hidden, columns
}

// knows reports if the caller may know that a column exists: some action on it is allowed.
func (j *judge) knows(rel *catalog.Relation, column string) bool {
	for _, action := range tableActions {
		if columnwise(action) && j.scope(action, rel).allows(column) {
			return true
		}
	}
	return false
}

// unknownTable answers for a name that is no table and no alias. A name that the caller may know (an alias hides the
// table, for example) is left to the error's own words.
func (j *judge) unknownTable(name []string) []denial {
	if len(name) == 0 {
		return []denial{{kind: hiddenTable}}
	}
	last := name[len(name)-1]
	for _, rel := range j.typedTables() {
		if rel.Name == last && (len(name) == 1 || rel.Schema == name[len(name)-2]) {
			return nil
		}
	}
	return []denial{{kind: hiddenTable, name: lastTwo(name)}}
}

// lastTwo drops a database from the front of a name, as typedName does.
func lastTwo(name []string) string { return strings.Join(name[max(0, len(name)-2):], ".") }

// unknownColumn answers for a column that is missing or ambiguous, unless every table that it could be a column of
// has no secrets from the caller.
func (j *judge) unknownColumn(err *analyze.Error) *denial {
	d := &denial{kind: typedColumns, action: TableSelect}
	if len(err.Name) == 0 {
		return &denial{kind: ungoverned}
	}
	d.columns = err.Name[len(err.Name)-1:]
	if rel := j.in.Catalog.Relation(err.Relation); rel != nil {
		if !j.secretive(rel, err) {
			return nil
		}
		return j.unknownIn(rel, d, err.Action)
	}
	for i := range err.Touched {
		if j.secretive(j.in.Catalog.Relation(err.Touched[i].Relation), err) {
			return d
		}
	}
	for _, rel := range j.typedTables() {
		if j.secretive(rel, err) {
			return d
		}
	}
	return nil
}

// unknownIn answers for a column that is missing in a known relation, as for one that is denied there.
func (j *judge) unknownIn(rel *catalog.Relation, d *denial, write analyze.WriteAction) *denial {
	d.rel, d.name = rel, rel.Schema+"."+rel.Name
	switch write {
	case analyze.Inserting:
		d.action = TableInsert
	case analyze.Updating:
		d.action = TableUpdate
	}
	if by := j.scope(d.action, rel).anyColumn(rel); by == nil || by.effect == Deny {
		d.kind, d.columns = wholeTable, nil
	}
	return d
}

// secretive reports if an error about a column could tell of a column of the relation that the caller may not know:
// that it exists, when it is ambiguous; that there is none beside the known ones, when it is missing.
func (j *judge) secretive(rel *catalog.Relation, err *analyze.Error) bool {
	for i := range rel.Columns {
		name := rel.Columns[i].Name
		if err.SQLState == "42702" && name != err.Name[len(err.Name)-1] {
			continue
		}
		if !j.knows(rel, name) {
			return true
		}
	}
	return false
}

// unknownFunction answers for a function that is missing or ambiguous. If the caller may call one of that name, or
// PostgreSQL itself has one, only the arguments are wrong, and the error may say so.
func (j *judge) unknownFunction(name []string) []denial {
	if len(name) == 0 {
		return nil
	}
	last := name[len(name)-1]
	if len(name) > 1 && catalog.IsSystemSchema(name[len(name)-2]) {
		return nil
	}
	functions := j.in.Catalog.Snapshot.Functions
	for i := range functions {
		f := &functions[i]
		if f.Name != last || len(name) > 1 && f.Schema != name[len(name)-2] {
			continue
		}
		if by := j.set.function(f); catalog.IsSystemSchema(f.Schema) || by != nil && by.effect == Allow {
			return nil
		}
	}
	return []denial{{kind: someFunction, action: FunctionExec, name: lastTwo(name)}}
}
