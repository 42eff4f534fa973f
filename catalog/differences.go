package catalog

import (
	"fmt"
	"reflect"
	"strings"
)

var kindWords = map[RelationKind]string{
	Table: "table", PartitionedTable: "partitioned table", View: "view", MaterializedView: "materialized view", ForeignTable: "foreign table",
	Sequence: "sequence", CompositeType: "composite type", ToastTable: "toast table", IndexKind: "index", PartitionedIndexKind: "partitioned index",
}

// Differences says in short lines for a log what changed from a to b: "table crm.x added". It is empty if and only if
// both have the same Version. When the server's version changed, the system schemas are not compared.
func Differences(a, b *Snapshot) []string {
	if a.Version == b.Version && a.Version != "" {
		return nil
	}
	d := differ{upgraded: a.ServerNum != b.ServerNum}
	d.session(a, b)
	d.add(compare(a.Schemas, b.Schemas, func(s *Schema) string { return d.label("schema", s.Name, "") }, nil))
	d.add(compare(a.Extensions, b.Extensions, func(e *Extension) string { return "extension " + e.Name }, nil))
	d.add(compare(a.Relations, b.Relations, d.relation, relationChanges))
	d.add(compare(a.Types, b.Types, d.typ, nil))
	d.add(compare(a.Functions, b.Functions, func(f *Function) string {
		return d.label("function", f.Schema, f.Name+"("+f.Signature+")")
	}, nil))
	typeName := typeNamer(a, b)
	d.add(compare(a.Operators, b.Operators, func(o *Operator) string {
		return d.label("operator", o.Schema, o.Name+" ("+typeName(o.Left)+", "+typeName(o.Right)+")")
	}, nil))
	d.add(compare(a.Casts, b.Casts, func(c *Cast) string { return "cast from " + typeName(c.Source) + " to " + typeName(c.Target) }, nil))
	d.add(compare(a.Collations, b.Collations, func(c *Collation) string { return d.label("collation", c.Schema, c.Name) }, nil))
	if len(d.lines) == 0 && a.Version != b.Version {
		d.say("details changed that have no line of their own")
	}
	return d.lines
}

type differ struct {
	upgraded bool
	lines    []string
}

func (d *differ) add(lines []string) { d.lines = append(d.lines, lines...) }

func (d *differ) say(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *differ) session(a, b *Snapshot) {
	if a.Database != b.Database {
		d.say("database %s is now %s", a.Database, b.Database)
	}
	if a.ServerVersion != b.ServerVersion || a.ServerNum != b.ServerNum {
		d.say("server version %s is now %s", a.ServerVersion, b.ServerVersion)
	}
	before, after := a.Login, b.Login
	before.Owns, after.Owns = 0, 0 // what it owns changes with relations, which have their own lines
	if before.Name != after.Name {
		d.say("login %s is now %s", before.Name, after.Name)
	} else if !reflect.DeepEqual(before, after) {
		d.say("login %s has other attributes or memberships", after.Name)
	}
	if !reflect.DeepEqual(a.SearchPath, b.SearchPath) {
		d.say("search_path %s is now %s", strings.Join(a.SearchPath, ", "), strings.Join(b.SearchPath, ", "))
	}
	if drift := KeywordDrift(a.Keywords, b.Keywords); len(drift) > 0 {
		d.say("keywords changed: %s", strings.Join(drift, ", "))
	}
}

// label names an object; "" leaves it out of the comparison.
func (d *differ) label(kind, schema, name string) string {
	if d.upgraded && IsSystemSchema(schema) {
		return ""
	}
	if name == "" {
		return kind + " " + schema
	}
	return kind + " " + schema + "." + name
}

func (d *differ) relation(r *Relation) string {
	return d.label(kindWords[r.Kind], r.Schema, r.Name)
}

// typ leaves out the row types of relations and the array types, which come and go with what they belong to.
func (d *differ) typ(t *Type) string {
	if t.Relation != 0 || (t.Category == "A" && t.Array == 0 && t.Element != 0) {
		return ""
	}
	return d.label("type", t.Schema, t.Name)
}

// compare returns a line for each object of one side only, and for each that changed, in the order of the snapshots. label
// says which objects are the same; changes says how one changed, and may be nil or silent, which makes the line "changed".
func compare[T any](a, b []T, label func(*T) string, changes func(before, after *T) []string) []string {
	var lines []string
	before := make(map[string]*T, len(a))
	for i := range a {
		before[label(&a[i])] = &a[i]
	}
	delete(before, "")
	for i := range b {
		name := label(&b[i])
		old := before[name]
		delete(before, name)
		switch {
		case name == "":
		case old == nil:
			lines = append(lines, name+" added")
		case !equal(old, &b[i]):
			var how []string
			if changes != nil {
				how = changes(old, &b[i])
			}
			if len(how) == 0 {
				how = []string{"changed"}
			}
			lines = append(lines, name+": "+strings.Join(how, ", "))
		}
	}
	for i := range a {
		if name := label(&a[i]); before[name] != nil {
			lines = append(lines, name+" dropped")
		}
	}
	return lines
}

// equal compares two objects without what ContentVersion leaves out.
func equal[T any](x, y *T) bool {
	if r, ok := any(x).(*Relation); ok {
		other := *any(y).(*Relation)
		other.RowEstimate = r.RowEstimate
		return reflect.DeepEqual(*r, other)
	}
	return reflect.DeepEqual(x, y)
}

func relationChanges(a, b *Relation) []string {
	if a.OID != b.OID {
		return []string{"recreated"}
	}
	var out []string
	say := func(when bool, what string) {
		if when {
			out = append(out, what)
		}
	}
	say(a.Definition != b.Definition, "definition changed")
	say(a.Owner != b.Owner, "owner is now "+b.Owner)
	say(!a.RowSecurity && b.RowSecurity, "row-level security enabled")
	say(a.RowSecurity && !b.RowSecurity, "row-level security disabled")
	say(!reflect.DeepEqual(a.Parents, b.Parents), "parents changed")
	say(!reflect.DeepEqual(a.Constraints, b.Constraints), "constraints changed")
	say(!reflect.DeepEqual(a.UniqueIndexes, b.UniqueIndexes), "unique indexes changed")
	return append(out, columnChanges(a.Columns, b.Columns)...)
}

func columnChanges(a, b []Column) []string {
	before := make(map[int16]*Column, len(a))
	for i := range a {
		before[a[i].Num] = &a[i]
	}
	var out []string
	for i := range b {
		c, old := &b[i], before[b[i].Num]
		delete(before, c.Num)
		switch {
		case old == nil:
			out = append(out, "column "+c.Name+" added")
		case old.Name != c.Name:
			out = append(out, "column "+old.Name+" renamed to "+c.Name)
		case old.TypeName != c.TypeName:
			out = append(out, "column "+c.Name+" is now "+c.TypeName)
		case !reflect.DeepEqual(old, c):
			out = append(out, "column "+c.Name+" changed")
		}
	}
	for i := range a {
		if before[a[i].Num] != nil {
			out = append(out, "column "+a[i].Name+" dropped")
		}
	}
	return out
}

// typeNamer names the types of either snapshot, for the labels of operators and casts.
func typeNamer(a, b *Snapshot) func(OID) string {
	names := make(map[OID]string, len(b.Types))
	for _, s := range []*Snapshot{a, b} {
		for i := range s.Types {
			t := &s.Types[i]
			names[t.OID] = t.Name
			if t.Schema != "pg_catalog" {
				names[t.OID] = t.Schema + "." + t.Name
			}
		}
	}
	return func(oid OID) string {
		switch name := names[oid]; {
		case oid == 0:
			return "none"
		case name == "":
			return fmt.Sprintf("type %d", oid)
		default:
			return name
		}
	}
}
