package catalog

import "sync"

// Index answers look-ups on one snapshot. It is immutable and safe for concurrent use.
type Index struct {
	Snapshot *Snapshot

	relations  map[OID]*Relation
	relByName  map[qualified]*Relation
	types      map[OID]*Type
	typByName  map[qualified]*Type
	functions  map[OID]*Function
	funByName  map[qualified][]*Function
	operators  map[OID]*Operator
	opByName   map[qualified][]*Operator
	casts      map[[2]OID]*Cast
	schemas    map[string]bool
	children   map[OID][]OID
	collations map[qualified]bool

	pathless func() *Index
}

type qualified struct{ schema, name string }

// NewIndex indexes a snapshot, which must not change afterwards.
func NewIndex(s *Snapshot) *Index {
	x := &Index{
		Snapshot:   s,
		relations:  make(map[OID]*Relation, len(s.Relations)),
		relByName:  make(map[qualified]*Relation, len(s.Relations)),
		types:      make(map[OID]*Type, len(s.Types)),
		typByName:  make(map[qualified]*Type, len(s.Types)),
		functions:  make(map[OID]*Function, len(s.Functions)),
		funByName:  make(map[qualified][]*Function, len(s.Functions)),
		operators:  make(map[OID]*Operator, len(s.Operators)),
		opByName:   make(map[qualified][]*Operator, len(s.Operators)),
		casts:      make(map[[2]OID]*Cast, len(s.Casts)),
		schemas:    make(map[string]bool, len(s.Schemas)),
		children:   make(map[OID][]OID),
		collations: make(map[qualified]bool, len(s.Collations)),
	}
	for i := range s.Schemas {
		x.schemas[s.Schemas[i].Name] = true
	}
	for i := range s.Relations {
		r := &s.Relations[i]
		x.relations[r.OID] = r
		x.relByName[qualified{r.Schema, r.Name}] = r
		for _, p := range r.Parents {
			x.children[p] = append(x.children[p], r.OID)
		}
	}
	for i := range s.Types {
		t := &s.Types[i]
		x.types[t.OID] = t
		x.typByName[qualified{t.Schema, t.Name}] = t
	}
	for i := range s.Functions {
		f := &s.Functions[i]
		x.functions[f.OID] = f
		k := qualified{f.Schema, f.Name}
		x.funByName[k] = append(x.funByName[k], f)
	}
	for i := range s.Operators {
		o := &s.Operators[i]
		x.operators[o.OID] = o
		k := qualified{o.Schema, o.Name}
		x.opByName[k] = append(x.opByName[k], o)
	}
	for i := range s.Casts {
		c := &s.Casts[i]
		x.casts[[2]OID{c.Source, c.Target}] = c
	}
	for i := range s.Collations {
		x.collations[qualified{s.Collations[i].Schema, s.Collations[i].Name}] = true
	}
	x.pathless = sync.OnceValue(x.withoutPath)
	return x
}

// Pathless returns the index of the same snapshot with an empty search path, always the same one: names outside of
// pg_catalog are found with their schema only.
func (x *Index) Pathless() *Index { return x.pathless() }

func (x *Index) withoutPath() *Index {
	y, snapshot := *x, *x.Snapshot
	snapshot.SearchPath = []string{}
	y.Snapshot = &snapshot
	y.pathless = func() *Index { return &y }
	return &y
}

// HasSchema reports if the schema exists.
func (x *Index) HasSchema(name string) bool { return x.schemas[name] }

// Relation returns the relation with an OID, or nil.
func (x *Index) Relation(oid OID) *Relation { return x.relations[oid] }

// RelationNamed returns the relation schema.name, or nil.
func (x *Index) RelationNamed(schema, name string) *Relation {
	return x.relByName[qualified{schema, name}]
}

// Children returns the direct inheritance children or partitions of a relation.
func (x *Index) Children(oid OID) []OID { return x.children[oid] }

// Type returns the type with an OID, or nil.
func (x *Index) Type(oid OID) *Type { return x.types[oid] }

// TypeNamed returns the type schema.name, or nil.
func (x *Index) TypeNamed(schema, name string) *Type { return x.typByName[qualified{schema, name}] }

// Function returns the function with an OID, or nil.
func (x *Index) Function(oid OID) *Function { return x.functions[oid] }

// FunctionsNamed returns every function schema.name, in snapshot order. The caller must not change the slice.
func (x *Index) FunctionsNamed(schema, name string) []*Function {
	return x.funByName[qualified{schema, name}]
}

// Operator returns the operator with an OID, or nil.
func (x *Index) Operator(oid OID) *Operator { return x.operators[oid] }

// OperatorsNamed returns every operator schema.name. The caller must not change the slice.
func (x *Index) OperatorsNamed(schema, name string) []*Operator {
	return x.opByName[qualified{schema, name}]
}

// Cast returns the pg_cast row from one type to another, or nil.
func (x *Index) Cast(source, target OID) *Cast { return x.casts[[2]OID{source, target}] }

// HasCollation reports if the collation schema.name exists.
func (x *Index) HasCollation(schema, name string) bool { return x.collations[qualified{schema, name}] }

// IsSystemSchema reports if a schema belongs to PostgreSQL itself.
func IsSystemSchema(name string) bool {
	return name == "pg_catalog" || name == "information_schema" || name == "pg_toast"
}
