package introspect

import (
	"fmt"
	"strconv"

	"interlock/catalog"
	"interlock/sqlgov/policy"
)

// seeNames lists what is visible by name.
func (s *Sight) seeNames(access *policy.Access) {
	s.addName(role, s.index.Snapshot.Login.Name)
	schemas := map[string]catalog.OID{}
	for i := range s.index.Snapshot.Schemas {
		if n := &s.index.Snapshot.Schemas[i]; s.sees(schema, n.OID) {
			s.addName(schemaName, n.Name)
			schemas[n.Name] = n.OID
		}
	}
	for i := range s.index.Snapshot.Relations {
		rel := &s.index.Snapshot.Relations[i]
		if rel.OID < firstUserOID || !s.sees(relation, rel.OID) {
			continue
		}
		s.addName(role, rel.Owner)
		s.nameRelation(rel)
		s.nameConstraints(rel, schemas[rel.Schema])
	}
	for _, f := range access.Functions {
		s.addName(role, f.Owner)
		if f.Extension != "" {
			s.addName(extension, f.Extension)
		}
	}
	for oid := range s.objects[typ] {
		t := s.index.Type(oid)
		if t.Extension != "" {
			s.addName(extension, t.Extension)
		}
		s.addName(typeName, t.Schema, t.Name)
		if s.sees(domain, oid) {
			s.addName(domainName, t.Schema, t.Name)
		}
	}
	s.addName(extension, "plpgsql")
	for _, n := range settings {
		s.addName(setting, n)
	}
	for _, k := range []kind{relation, function, typ, schema, constraint, operator} {
		for oid := range s.objects[k] {
			s.add(object, oid)
		}
	}
}

// anyColumn stands in the place of a column's number for whichever.
const anyColumn = "any"

// seePrivileges lists what may be done, under PostgreSQL's names for it. A privilege on a table is one on all its columns.
func (s *Sight) seePrivileges(access *policy.Access) {
	for i := range s.index.Snapshot.Relations {
		rel := &s.index.Snapshot.Relations[i]
		if _, ok := ruleOf(rel); ok {
			s.mayAll(rel, "SELECT")
		}
	}
	for _, rel := range access.Sequences {
		s.mayAll(rel, "SELECT")
	}
	for i := range access.Tables {
		t := &access.Tables[i]
		if !t.Named {
			continue
		}
		for does, columns := range map[string][]*catalog.Column{"SELECT": t.Read, "INSERT": t.Insert, "UPDATE": t.Update} {
			s.mayColumns(t.Relation, does, columns)
		}
		if t.Delete {
			s.mayAll(t.Relation, "DELETE")
		}
		if t.Truncate {
			s.mayAll(t.Relation, "TRUNCATE")
		}
	}
}

func (s *Sight) mayAll(rel *catalog.Relation, does string) {
	s.addName(privilege, rel.Schema, rel.Name, does)
	s.addName(may, oidText(rel.OID), does)
	s.addName(may, oidText(rel.OID), anyColumn, does)
}

func (s *Sight) mayColumns(rel *catalog.Relation, does string, columns []*catalog.Column) {
	switch len(columns) {
	case 0:
		return
	case len(rel.Columns):
		s.mayAll(rel, does)
		return
	}
	s.addName(may, oidText(rel.OID), anyColumn, does)
	for _, c := range columns {
		s.addName(columnPrivilege, rel.Schema, rel.Name, c.Name, does)
		s.addName(may, oidText(rel.OID), strconv.Itoa(int(c.Num)), does)
	}
}

func oidText(oid catalog.OID) string { return strconv.FormatUint(uint64(oid), 10) }

// nameRelation takes in a visible relation and its visible columns.
func (s *Sight) nameRelation(rel *catalog.Relation) {
	s.addName(name, rel.Schema, rel.Name)
	if s.sees(viewText, rel.OID) {
		s.addName(definition, rel.Schema, rel.Name)
	}
	if s.sees(whole, rel.OID) {
		s.addName(wholeName, rel.Schema, rel.Name)
	}
	for i := range rel.Columns {
		c := &rel.Columns[i]
		if s.columns[rel.OID][c.Num] {
			s.addName(columnName, rel.Schema, rel.Name, c.Name)
			s.addName(columnNumber, rel.Schema, rel.Name, strconv.Itoa(int(c.Num)))
		}
		if s.keys[defaultOf][key(rel.OID, c.Num)] {
			s.addName(defaultName, rel.Schema, rel.Name, c.Name)
		}
	}
}

// nameConstraints takes in the visible constraints of a visible relation, and what the information_schema makes of NOT NULL.
func (s *Sight) nameConstraints(rel *catalog.Relation, in catalog.OID) {
	for i := range rel.Constraints {
		if c := &rel.Constraints[i]; s.sees(constraint, c.OID) {
			s.addName(tableConstraint, rel.Schema, rel.Name, c.Name)
		}
	}
	for i := range rel.Columns {
		c := &rel.Columns[i]
		if !c.NotNull || !s.seesColumns(rel.OID, []int16{c.Num}) {
			continue
		}
		called := fmt.Sprintf("%d_%d_%d_not_null", in, rel.OID, c.Num)
		s.addName(tableConstraint, rel.Schema, rel.Name, called)
		s.addName(notNull, rel.Schema, called)
	}
}
