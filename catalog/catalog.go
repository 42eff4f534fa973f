// Package catalog describes what a PostgreSQL source contains (schemas, relations, columns, types, functions,
// operators and casts) as one immutable snapshot.
//
// A Snapshot is plain data: it is read from a source in one transaction, kept in the control store as JSON, and
// never changed afterwards. Everything that judges a statement (name resolution, type resolution, permissions)
// reads it and nothing else, so a decision can be made again offline. Look-ups go through an Index, which is built
// once from a snapshot and is safe for concurrent use.
package catalog

import "time"

// OID is a PostgreSQL object identifier.
type OID uint32

// Snapshot is what a source contained at one moment.
type Snapshot struct {
	Source    string    `json:"source"`
	Version   string    `json:"version"` // see ContentVersion: equal content has equal versions
	ScannedAt time.Time `json:"scanned_at"`

	Database      string    `json:"database"`
	ServerVersion string    `json:"server_version"` // as the server prints it: "15.20 (Debian ...)"
	ServerNum     int       `json:"server_num"`     // server_version_num: 150020
	Login         Login     `json:"login"`
	SearchPath    []string  `json:"search_path"` // effective search_path of the login, existing schemas only, pg_catalog left out unless listed
	Keywords      []Keyword `json:"keywords"`

	Schemas    []Schema    `json:"schemas"`
	Relations  []Relation  `json:"relations"`
	Types      []Type      `json:"types"`
	Functions  []Function  `json:"functions"`
	Operators  []Operator  `json:"operators"`
	Casts      []Cast      `json:"casts"`
	Extensions []Extension `json:"extensions"`
	Collations []Collation `json:"collations"`
}

// Login says what the upstream login is, so that an operator can be warned when it is more than it needs to be.
type Login struct {
	Name        string   `json:"name"`
	Superuser   bool     `json:"superuser"`
	BypassRLS   bool     `json:"bypass_rls"`
	CreateRole  bool     `json:"create_role"`
	CreateDB    bool     `json:"create_db"`
	Replication bool     `json:"replication"`
	MemberOf    []string `json:"member_of"`          // all roles, direct or not; pg_read_server_files and its kin among them
	Elevated    []string `json:"elevated,omitempty"` // those of MemberOf that are superuser or BYPASSRLS
	Owns        int      `json:"owns"`               // relations outside the system schemas that the login owns, itself or as a member of their owner
}

// Keyword is a row of the server's pg_get_keywords().
type Keyword struct {
	Word     string `json:"word"`
	Category string `json:"category"` // U unreserved, C unreserved but no function or type name, T reserved but function or type name, R reserved
}

// Schema is a row of pg_namespace. Temporary schemas are never part of a snapshot.
type Schema struct {
	OID     OID    `json:"oid"`
	Name    string `json:"name"`
	Comment string `json:"comment,omitempty"`
}

// RelationKind is pg_class.relkind.
type RelationKind string

// The kinds of relation that a statement can name.
const (
	Table                RelationKind = "r"
	PartitionedTable     RelationKind = "p"
	View                 RelationKind = "v"
	MaterializedView     RelationKind = "m"
	ForeignTable         RelationKind = "f"
	Sequence             RelationKind = "S"
	CompositeType        RelationKind = "c"
	ToastTable           RelationKind = "t"
	IndexKind            RelationKind = "i"
	PartitionedIndexKind RelationKind = "I"
)

// Relation is a table, view, sequence, index or composite type with its columns in attribute number order.
// Relations of the system schemas are part of the snapshot too. Indexes have no columns.
type Relation struct {
	OID         OID          `json:"oid"`
	Schema      string       `json:"schema"`
	Name        string       `json:"name"`
	Kind        RelationKind `json:"kind"`
	Owner       string       `json:"owner"`
	RowType     OID          `json:"row_type,omitempty"` // pg_class.reltype
	OfType      OID          `json:"of_type,omitempty"`  // pg_class.reloftype, a typed table
	Columns     []Column     `json:"columns,omitempty"`
	Parents     []OID        `json:"parents,omitempty"` // inheritance parents, or the partitioned table, in pg_inherits order
	Partition   bool         `json:"partition,omitempty"`
	RowSecurity bool         `json:"row_security,omitempty"`
	HasRules    bool         `json:"has_rules,omitempty"`    // rules other than a view's own ON SELECT rule
	HasTriggers bool         `json:"has_triggers,omitempty"` // user triggers
	Comment     string       `json:"comment,omitempty"`
	RowEstimate float64      `json:"row_estimate,omitempty"` // pg_class.reltuples; -1 unknown

	// Definition is pg_get_viewdef of a view or materialized view, or pg_get_indexdef of an index, taken with
	// search_path = pg_catalog, so that every name in it outside pg_catalog is qualified.
	Definition      string `json:"definition,omitempty"`
	SecurityInvoker bool   `json:"security_invoker,omitempty"`
	SecurityBarrier bool   `json:"security_barrier,omitempty"`

	Constraints []Constraint `json:"constraints,omitempty"`
	// UniqueIndexes are the unique or exclusion indexes that ON CONFLICT can infer, constraints' indexes included.
	UniqueIndexes []UniqueIndex `json:"unique_indexes,omitempty"`
	// PartOf is set for an index, and for a sequence that a column owns.
	PartOf Part `json:"part_of,omitzero"`
}

// Part says what an index or a sequence belongs to.
type Part struct {
	Relation OID `json:"relation"`
	// Columns are those that the index reads, in its expressions and its predicate too, or the one that owns the sequence.
	Columns []int16 `json:"columns,omitempty"`
}

// Column is a live user column (pg_attribute with attnum > 0 and not dropped).
type Column struct {
	Num        int16   `json:"num"`
	Name       string  `json:"name"`
	Type       OID     `json:"type"`
	TypeMod    int32   `json:"type_mod"`  // -1 when none
	TypeName   string  `json:"type_name"` // format_type, with search_path = pg_catalog
	Collation  OID     `json:"collation,omitempty"`
	NotNull    bool    `json:"not_null,omitempty"`
	HasDefault bool    `json:"has_default,omitempty"`
	Generated  bool    `json:"generated,omitempty"`  // GENERATED ALWAYS AS (...) STORED
	Identity   string  `json:"identity,omitempty"`   // "a" always, "d" by default
	Default    string  `json:"default,omitempty"`    // text of the default or generation expression
	DependsOn  []int16 `json:"depends_on,omitempty"` // columns that a generation expression reads
	Comment    string  `json:"comment,omitempty"`
}

// Constraint is a row of pg_constraint on a relation.
type Constraint struct {
	OID        OID     `json:"oid"`
	Name       string  `json:"name"`
	Kind       string  `json:"kind"` // contype: p primary, u unique, f foreign, c check, x exclusion, t trigger
	Columns    []int16 `json:"columns,omitempty"`
	Index      OID     `json:"index,omitempty"`
	RefTable   OID     `json:"ref_table,omitempty"`
	RefColumns []int16 `json:"ref_columns,omitempty"`
	Definition string  `json:"definition,omitempty"`
}

// UniqueIndex lists the columns that a unique or exclusion index covers: its plain key columns, and the columns
// that its expressions and its predicate read.
type UniqueIndex struct {
	OID       OID     `json:"oid"`
	Name      string  `json:"name"`
	Columns   []int16 `json:"columns"`              // plain key columns
	ExprReads []int16 `json:"expr_reads,omitempty"` // columns read by expressions or by the predicate
	Exclusion bool    `json:"exclusion,omitempty"`
}

// Type is a row of pg_type. Array types of every listed type are listed too.
type Type struct {
	OID       OID    `json:"oid"`
	Schema    string `json:"schema"`
	Name      string `json:"name"`
	Display   string `json:"display,omitempty"` // format_type with search_path = pg_catalog: "integer", "app.status"
	Kind      string `json:"kind"`              // typtype: b base, c composite, d domain, e enum, p pseudo, r range, m multirange
	Category  string `json:"category"`          // typcategory
	Preferred bool   `json:"preferred,omitempty"`
	Element   OID    `json:"element,omitempty"` // typelem
	// SubscriptHandler tells a true array (array_subscript_handler) from fixed-length types and jsonb.
	SubscriptHandler string `json:"subscript_handler,omitempty"`
	Array            OID    `json:"array,omitempty"`       // typarray
	Relation         OID    `json:"relation,omitempty"`    // typrelid of a composite
	Base             OID    `json:"base,omitempty"`        // typbasetype of a domain
	BaseMod          int32  `json:"base_mod,omitempty"`    // typtypmod of a domain
	RangeSub         OID    `json:"range_sub,omitempty"`   // rngsubtype of a range
	RangeMulti       OID    `json:"range_multi,omitempty"` // rngmultitypid of a range; of a multirange, its range
	// Functions that run when a value is made or printed; 0 where there is none.
	Input  OID `json:"input,omitempty"`
	Output OID `json:"output,omitempty"`
	// CheckFuncs are the functions called by a domain's CHECK constraints.
	CheckFuncs []OID  `json:"check_funcs,omitempty"`
	Extension  string `json:"extension,omitempty"`
}

// Function is a row of pg_proc.
type Function struct {
	OID             OID      `json:"oid"`
	Schema          string   `json:"schema"`
	Name            string   `json:"name"`
	Kind            string   `json:"kind"`                // prokind: f function, p procedure, a aggregate, w window
	Args            []OID    `json:"args"`                // input argument types (proargtypes)
	AllArgs         []OID    `json:"all_args,omitempty"`  // proallargtypes, when there are OUT, INOUT, TABLE or VARIADIC arguments
	ArgModes        string   `json:"arg_modes,omitempty"` // one letter an entry of AllArgs: i o b v t
	ArgNames        []string `json:"arg_names,omitempty"` // by AllArgs if present, else by Args
	Defaults        int      `json:"defaults,omitempty"`  // pronargdefaults
	Variadic        OID      `json:"variadic,omitempty"`  // provariadic: element type, or ANY
	Result          OID      `json:"result"`
	ReturnsSet      bool     `json:"returns_set,omitempty"`
	Signature       string   `json:"signature"`  // oidvectortypes(proargtypes) with search_path = pg_catalog: "integer, text"
	Volatility      string   `json:"volatility"` // i s v
	Language        string   `json:"language"`
	SecurityDefiner bool     `json:"security_definer,omitempty"`
	Strict          bool     `json:"strict,omitempty"`
	Owner           string   `json:"owner"`
	Config          []string `json:"config,omitempty"` // proconfig: SET clauses
	Extension       string   `json:"extension,omitempty"`
	Comment         string   `json:"comment,omitempty"`
	// Aggregate facts; empty for other kinds.
	AggKind       string `json:"agg_kind,omitempty"` // n normal, o ordered-set, h hypothetical-set
	AggDirectArgs int    `json:"agg_direct_args,omitempty"`
}

// Operator is a row of pg_operator.
type Operator struct {
	OID      OID    `json:"oid"`
	Schema   string `json:"schema"`
	Name     string `json:"name"`
	Left     OID    `json:"left,omitempty"` // 0 for a prefix operator
	Right    OID    `json:"right"`
	Result   OID    `json:"result"`
	Function OID    `json:"function"`
}

// Cast is a row of pg_cast.
type Cast struct {
	Source   OID    `json:"source"`
	Target   OID    `json:"target"`
	Function OID    `json:"function,omitempty"`
	Context  string `json:"context"` // e explicit, a assignment, i implicit
	Method   string `json:"method"`  // f function, i input/output, b binary
}

// Extension is a row of pg_extension.
type Extension struct {
	Name    string `json:"name"`
	Schema  string `json:"schema"`
	Version string `json:"version"`
}

// Collation is a row of pg_collation.
type Collation struct {
	OID    OID    `json:"oid"`
	Schema string `json:"schema"`
	Name   string `json:"name"`
}
