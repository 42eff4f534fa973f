package introspect

import (
	"slices"
	"strings"
	"unicode/utf8"

	"interlock/catalog"
	"interlock/sqlgov/policy"
)

// firstUserOID is the first OID of what does not come with PostgreSQL (src/include/access/transam.h).
const firstUserOID = 16384

// Sight is what one identity may see of a source. It is immutable and safe for concurrent use.
type Sight struct {
	index *catalog.Index
	// all is set when the roles allow everything to be read: then nothing is filtered but what nobody may see. change is set
	// when they allow everything to be changed too.
	all, change bool

	partial bool                           // some relation is visible without all its columns
	columns map[catalog.OID]map[int16]bool // of relations of which some columns are visible
	objects map[kind]map[catalog.OID]bool
	keys    map[kind]map[int64]bool  // by relation and column number; see key
	names   map[kind]map[string]bool // "schema\nname", or a name
	hidden  *words                   // names that must not be told
	lists   map[kind]string          // as SQL arrays
}

// kind is what a condition asks. Those of objects hold OIDs from firstUserOID on; everything below is visible.
type kind string

const (
	relation   kind = "relation"
	whole      kind = "whole" // relations with all their columns
	tree       kind = "tree"  // relations with all that they are partitions of, and all their partitions
	viewText   kind = "view"  // views whose definitions name nothing hidden
	function   kind = "function"
	signature  kind = "signature" // functions whose arguments print nothing hidden
	source     kind = "source"    // functions whose definition may be printed: PostgreSQL's own
	typ        kind = "type"
	domain     kind = "domain" // domains whose checks call nothing hidden
	schema     kind = "schema"
	constraint kind = "constraint"
	operator   kind = "operator"
	object     kind = "object" // any of these
	system     kind = "system" // nothing but PostgreSQL's own

	column          kind = "column"
	defaultOf       kind = "default"
	comment         kind = "comment"
	functionComment kind = "functioncomment"
	schemaComment   kind = "schemacomment"

	partitioned kind = "partitioned" // tables whose partition key is visible; asked from the server

	name            kind = "name"       // relations by schema and name
	definition      kind = "definition" // of viewText, by schema and name
	wholeName       kind = "wholename"  // of whole, by schema and name
	columnName      kind = "columnname" // by schema, table and column; of whole too
	columnNumber    kind = "columnnumber"
	defaultName     kind = "defaultname"
	tableConstraint kind = "tableconstraint" // by schema, table and constraint
	constraintName  kind = "constraintname"  // by schema and constraint; asked from the server
	notNull         kind = "notnull"         // the names that the information_schema gives to NOT NULL
	typeName        kind = "typename"
	domainName      kind = "domainname"
	schemaName      kind = "schemaname"
	ownName         kind = "ownname" // schemas that come with PostgreSQL
	extension       kind = "extension"
	role            kind = "role"
	grantee         kind = "grantee" // roles, PostgreSQL's own and PUBLIC
	setting         kind = "setting"

	privilege       kind = "privilege"       // by schema, table and privilege
	columnPrivilege kind = "columnprivilege" // by schema, table, column and privilege
	may             kind = "may"             // the same by OID and number
)

// privileges are the kinds that are asked for those too who see everything.
var privileges = map[kind]bool{privilege: true, columnPrivilege: true, may: true}

// key joins a relation and the number of one of its columns.
func key(rel catalog.OID, num int16) int64 { return int64(rel)<<16 | int64(uint16(num)) }

// See says what an identity may see. access is what its roles allow, of the same index.
func See(index *catalog.Index, access *policy.Access) *Sight {
	s := &Sight{index: index, all: access.EveryTable && access.EveryFunction, columns: map[catalog.OID]map[int16]bool{},
		objects: map[kind]map[catalog.OID]bool{}, keys: map[kind]map[int64]bool{}, names: map[kind]map[string]bool{}}
	s.change = s.all && access.EveryChange
	if s.change {
		return s
	}
	s.seePrivileges(access)
	if s.all {
		s.list()
		return s
	}
	s.seeTables(access)
	s.seeTypes(access)
	s.seeFunctions(access)
	s.seeCandidates(access)
	s.hide()
	s.seeDefinitions()
	s.seeTrees()
	s.seeComments()
	s.seeNames(access)
	s.list()
	return s
}

func (s *Sight) add(k kind, oid catalog.OID) {
	if oid < firstUserOID {
		return
	}
	if s.objects[k] == nil {
		s.objects[k] = map[catalog.OID]bool{}
	}
	s.objects[k][oid] = true
}

func (s *Sight) addKey(k kind, rel catalog.OID, num int16) {
	if s.keys[k] == nil {
		s.keys[k] = map[int64]bool{}
	}
	s.keys[k][key(rel, num)] = true
}

func (s *Sight) addName(k kind, parts ...string) {
	if s.names[k] == nil {
		s.names[k] = map[string]bool{}
	}
	if slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(p, "\n") }) {
		return // two names could be joined to one text; such a name stays hidden
	}
	s.names[k][strings.Join(parts, "\n")] = true
}

// sees reports if an object is visible.
func (s *Sight) sees(k kind, oid catalog.OID) bool {
	return s.all || oid < firstUserOID || s.objects[k][oid]
}

// seesColumns reports if columns of a relation are visible.
func (s *Sight) seesColumns(rel catalog.OID, nums []int16) bool {
	if s.sees(whole, rel) {
		return true
	}
	return !slices.ContainsFunc(nums, func(n int16) bool { return !s.columns[rel][n] })
}

func (s *Sight) seeTables(access *policy.Access) {
	for i := range access.Tables {
		t := &access.Tables[i]
		rel := t.Relation
		if rel.OID < firstUserOID || !t.Named {
			continue
		}
		s.add(relation, rel.OID)
		s.columns[rel.OID] = map[int16]bool{}
		if len(t.Describe) == len(rel.Columns) {
			s.add(whole, rel.OID)
			continue
		}
		s.partial = true
		for _, c := range t.Describe {
			s.columns[rel.OID][c.Num] = true
			s.addKey(column, rel.OID, c.Num)
		}
	}
	for _, rel := range access.Sequences {
		s.add(relation, rel.OID)
		s.add(whole, rel.OID)
	}
}

// seeTypes takes in the types of visible columns and rows, with all that they are made of.
func (s *Sight) seeTypes(access *policy.Access) {
	for i := range access.Tables {
		rel := access.Tables[i].Relation
		s.addType(rel.RowType)
		s.addType(rel.OfType)
		for _, c := range access.Tables[i].Describe {
			s.addType(c.Type)
		}
	}
}

// addType adds a type and what it is made of. The row type of a table that is not visible is not added.
func (s *Sight) addType(oid catalog.OID) {
	t := s.index.Type(oid)
	if t == nil || oid < firstUserOID || s.objects[typ][oid] || !s.typeVisible(oid) {
		return
	}
	s.add(typ, oid)
	for _, part := range []catalog.OID{t.Element, t.Array, t.Base, t.RangeSub, t.RangeMulti} {
		s.addType(part)
	}
	if rel := s.index.Relation(t.Relation); rel != nil && rel.Kind == catalog.CompositeType {
		s.add(relation, rel.OID)
		s.add(whole, rel.OID)
		for i := range rel.Columns {
			s.addType(rel.Columns[i].Type)
		}
	}
}

// typeVisible reports if a type may be shown to whoever uses it: it is not, and does not hold, the row of a hidden table.
func (s *Sight) typeVisible(oid catalog.OID) bool {
	t := s.index.Type(oid)
	switch {
	case oid < firstUserOID:
		return true
	case t == nil:
		return false
	case t.Element != 0:
		return s.typeVisible(t.Element)
	case t.Base != 0:
		return s.typeVisible(t.Base)
	case t.Relation == 0:
		return true
	}
	rel := s.index.Relation(t.Relation)
	return rel != nil && (rel.Kind == catalog.CompositeType || s.objects[relation][rel.OID])
}

func (s *Sight) seeFunctions(access *policy.Access) {
	for _, f := range access.Functions {
		types := append(slices.Clone(f.Args), f.AllArgs...)
		types = append(types, f.Result)
		if slices.ContainsFunc(types, func(t catalog.OID) bool { return !s.typeVisible(t) }) {
			continue
		}
		s.add(function, f.OID)
		if f.Defaults == 0 {
			s.add(signature, f.OID)
		}
		for _, t := range types {
			s.addType(t)
		}
	}
	for i := range s.index.Snapshot.Operators {
		o := &s.index.Snapshot.Operators[i]
		if s.sees(function, o.Function) && s.sees(typ, o.Left) && s.sees(typ, o.Right) && s.sees(typ, o.Result) {
			s.add(operator, o.OID)
		}
	}
	for oid := range s.objects[typ] {
		t := s.index.Type(oid)
		if t.Kind == "d" && !slices.ContainsFunc(t.CheckFuncs, func(f catalog.OID) bool { return !s.sees(function, f) }) {
			s.add(domain, oid)
		}
	}
}

// seeCandidates takes in what is visible if its definition names nothing hidden: constraints, indexes, owned sequences.
func (s *Sight) seeCandidates(*policy.Access) {
	for i := range s.index.Snapshot.Relations {
		rel := &s.index.Snapshot.Relations[i]
		if p := &rel.PartOf; p.Relation != 0 && rel.OID >= firstUserOID && s.sees(relation, p.Relation) && s.seesColumns(p.Relation, p.Columns) {
			s.add(relation, rel.OID)
			s.add(whole, rel.OID)
		}
		if !s.sees(relation, rel.OID) {
			continue
		}
		for k := range rel.Constraints {
			c := &rel.Constraints[k]
			if s.seesColumns(rel.OID, c.Columns) && (c.RefTable == 0 || s.sees(relation, c.RefTable) && s.seesColumns(c.RefTable, c.RefColumns)) {
				s.add(constraint, c.OID)
			}
		}
	}
}

// seeDefinitions takes away what would print a hidden name, and adds the definitions that do not.
func (s *Sight) seeDefinitions() {
	for i := range s.index.Snapshot.Relations {
		rel := &s.index.Snapshot.Relations[i]
		if rel.OID < firstUserOID || !s.sees(relation, rel.OID) {
			continue
		}
		tells := rel.Definition != "" && s.hidden.in(rel.Definition)
		switch rel.Kind {
		case catalog.IndexKind, catalog.PartitionedIndexKind:
			if tells {
				delete(s.objects[relation], rel.OID)
				delete(s.objects[whole], rel.OID)
			}
		case catalog.View, catalog.MaterializedView:
			if !tells {
				s.add(viewText, rel.OID)
			}
		}
		for k := range rel.Constraints {
			if c := &rel.Constraints[k]; s.hidden.in(c.Definition) {
				delete(s.objects[constraint], c.OID)
			}
		}
		for k := range rel.Columns {
			c := &rel.Columns[k]
			if c.HasDefault && s.seesColumns(rel.OID, []int16{c.Num}) && !s.hidden.in(c.Default) {
				s.addKey(defaultOf, rel.OID, c.Num)
			}
		}
	}
}

// seeTrees finds the partitioned tables and partitions whose whole tree is visible.
func (s *Sight) seeTrees() {
	for oid := range s.objects[relation] {
		if s.treeVisible(oid, 0) {
			s.add(tree, oid)
		}
	}
}

// treeVisible looks at the topmost ancestor and everything below it.
func (s *Sight) treeVisible(oid catalog.OID, depth int) bool {
	const deepest = 100
	rel := s.index.Relation(oid)
	if rel == nil || depth > deepest || !s.sees(relation, oid) {
		return false
	}
	if rel.Partition && len(rel.Parents) == 1 {
		return s.treeVisible(rel.Parents[0], depth+1)
	}
	return s.branchVisible(oid, 0)
}

func (s *Sight) branchVisible(oid catalog.OID, depth int) bool {
	const deepest = 100
	if depth > deepest || !s.sees(relation, oid) {
		return false
	}
	return !slices.ContainsFunc(s.index.Children(oid), func(child catalog.OID) bool { return !s.branchVisible(child, depth+1) })
}

// seeComments takes in comments on visible objects that name nothing hidden.
func (s *Sight) seeComments() {
	for i := range s.index.Snapshot.Relations {
		rel := &s.index.Snapshot.Relations[i]
		if rel.OID < firstUserOID || !s.sees(relation, rel.OID) {
			continue
		}
		if rel.Comment != "" && !s.hidden.in(rel.Comment) {
			s.addKey(comment, rel.OID, 0)
		}
		for k := range rel.Columns {
			if c := &rel.Columns[k]; c.Comment != "" && s.seesColumns(rel.OID, []int16{c.Num}) && !s.hidden.in(c.Comment) {
				s.addKey(comment, rel.OID, c.Num)
			}
		}
	}
	for i := range s.index.Snapshot.Functions {
		if f := &s.index.Snapshot.Functions[i]; f.Comment != "" && s.sees(function, f.OID) && !s.hidden.in(f.Comment) {
			s.add(functionComment, f.OID)
		}
	}
	for i := range s.index.Snapshot.Schemas {
		if n := &s.index.Snapshot.Schemas[i]; n.Comment != "" && s.sees(schema, n.OID) && !s.hidden.in(n.Comment) {
			s.add(schemaComment, n.OID)
		}
	}
}

// words are names to look for in texts.
type words struct {
	plain map[string]bool
	odd   []string // names that are more than one word
}

// hide collects the names that must not be told: those of hidden objects that no visible object and nothing of
// PostgreSQL's own has too. Schemas of visible objects become visible here.
func (s *Sight) hide() {
	visible, hidden := map[string]bool{}, map[string]bool{}
	note := func(seen bool, name string) {
		if seen {
			visible[name] = true
		} else {
			hidden[name] = true
		}
	}
	used := map[string]bool{}
	for i := range s.index.Snapshot.Relations {
		rel := &s.index.Snapshot.Relations[i]
		seen := s.sees(relation, rel.OID)
		note(seen, rel.Name)
		used[rel.Schema] = used[rel.Schema] || seen
		for k := range rel.Columns {
			note(seen && s.seesColumns(rel.OID, []int16{rel.Columns[k].Num}), rel.Columns[k].Name)
		}
		for k := range rel.Constraints {
			note(seen && s.sees(constraint, rel.Constraints[k].OID), rel.Constraints[k].Name)
		}
	}
	for i := range s.index.Snapshot.Functions {
		f := &s.index.Snapshot.Functions[i]
		seen := s.sees(function, f.OID)
		note(seen, f.Name)
		used[f.Schema] = used[f.Schema] || seen
	}
	for i := range s.index.Snapshot.Types {
		t := &s.index.Snapshot.Types[i]
		seen := s.sees(typ, t.OID)
		note(seen, t.Name)
		used[t.Schema] = used[t.Schema] || seen
	}
	for i := range s.index.Snapshot.Schemas {
		n := &s.index.Snapshot.Schemas[i]
		if used[n.Name] {
			s.add(schema, n.OID)
		}
		note(s.sees(schema, n.OID), n.Name)
	}
	for _, k := range s.index.Snapshot.Keywords {
		visible[k.Word] = true
	}
	s.hidden = &words{plain: map[string]bool{}}
	for name := range hidden {
		switch {
		case visible[name]:
		case strings.IndexFunc(name, func(r rune) bool { return !wordRune(r) }) >= 0:
			s.hidden.odd = append(s.hidden.odd, name)
		default:
			s.hidden.plain[name] = true
		}
	}
}

func wordRune(r rune) bool {
	return r == '_' || r == '$' || r >= utf8.RuneSelf || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// in reports if a text holds one of the words, in whatever case.
func (w *words) in(text string) bool {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !wordRune(r) }) {
		if w.plain[word] || w.plain[strings.ToLower(word)] {
			return true
		}
	}
	return slices.ContainsFunc(w.odd, func(name string) bool { return strings.Contains(text, name) })
}

// Bytes estimates the memory that s holds.
func (s *Sight) Bytes() int64 {
	n := int64(1024)
	for _, list := range s.lists {
		n += int64(8 * len(list))
	}
	if s.hidden != nil {
		n += int64(64 * (len(s.hidden.plain) + len(s.hidden.odd)))
	}
	return n
}
