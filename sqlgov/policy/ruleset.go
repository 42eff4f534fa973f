// Package policy evaluates the facts of a statement against a ruleset and yields a decision with all its reasons.
//
// It is pure: the same ruleset, identity, source, facts and catalog always yield the same decision, so a decision
// can be explained and replayed offline. Deny wins over allow, no match is a refusal, and every permission that took
// part in the decision is named with its line in the governance document.
package policy

import "time"

// Action is what a permission allows or denies.
type Action string

// The actions that a permission can name.
const (
	TableSelect    Action = "db.table.select"
	TableInsert    Action = "db.table.insert"
	TableUpdate    Action = "db.table.update"
	TableDelete    Action = "db.table.delete_rows"
	TableTruncate  Action = "db.table.truncate"
	TableDescribe  Action = "db.table.describe"
	CreateTable    Action = "db.schema.create_table"
	AlterTable     Action = "db.schema.alter_table"
	DropTable      Action = "db.schema.drop_table"
	FunctionExec   Action = "db.function.execute"
	ChannelListen  Action = "db.channel.listen"
	ChannelNotify  Action = "db.channel.notify"
	LargeRead      Action = "db.large_object.read"
	LargeWrite     Action = "db.large_object.write"
	ExecuteRaw     Action = "db.execute_raw"
	DiscoverSearch Action = "discovery.search"
	DiscoverRead   Action = "discovery.asset.read"
)

// Actions lists every action, in the order in which documentation shows them.
var Actions = []Action{TableSelect, TableInsert, TableUpdate, TableDelete, TableTruncate, TableDescribe,
	CreateTable, AlterTable, DropTable, FunctionExec, ChannelListen, ChannelNotify, LargeRead, LargeWrite, ExecuteRaw, DiscoverSearch, DiscoverRead}

// Effect is allow or deny.
type Effect string

// The effects of a permission.
const (
	Allow Effect = "allow"
	Deny  Effect = "deny"
)

// Document is a governance document as written: what config parses and Compile turns into a Ruleset.
type Document struct {
	File       string       `json:"file"`
	Sources    []SourceSpec `json:"sources"`
	Roles      []RoleSpec   `json:"source_roles"`
	Identities []Identity   `json:"identities"`
	Groups     []GroupSpec  `json:"groups,omitempty"`
	Labels     []LabelSpec  `json:"labels,omitempty"`
	Masks      []MaskSpec   `json:"masks,omitempty"`
	Policies   []PolicySpec `json:"policies,omitempty"`
	Audit      AuditSpec    `json:"audit,omitzero"`
}

// AuditSpec says what the audit log keeps beside what everybody who may read it can see.
type AuditSpec struct {
	// KeepText is the public key of the owner for whom the full text of each statement and its parameters are sealed.
	// "" means that they are not kept at all.
	KeepText string `json:"keep_text,omitempty"`
}

// SourceSpec registers an upstream.
type SourceSpec struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"` // "postgres"
	Line     int    `json:"line"`
	Disabled bool   `json:"disabled,omitempty"`
	// Upstream is how to reach the database. It holds references to secrets (env:, file:), never their values.
	Upstream UpstreamSpec `json:"upstream"`
	// ScanInterval is how often the catalog is read again; 0 means the default of five minutes.
	ScanInterval time.Duration `json:"scan_interval,omitempty"`
	Limits       SourceLimits  `json:"limits"`
	// Content says what is looked for in free text; nil means nothing.
	Content *ContentSpec `json:"content,omitempty"`
	// Cache keeps results of reads over MCP.
	Cache       CacheSpec `json:"cache,omitzero"`
	Description string    `json:"description,omitempty"`
}

// UpstreamSpec is how to reach a PostgreSQL server.
type UpstreamSpec struct {
	Host     string `json:"host"` // host name, address or absolute path of a Unix socket directory; several with commas, each with its own port behind a colon if it has one
	Port     int    `json:"port"`
	Database string `json:"database"`
	User     string `json:"user"`
	Password string `json:"password,omitempty"` // reference: env:NAME or file:PATH; "" means none
	TLS      string `json:"tls"`                // disable (loopback and sockets only), require, verify-ca, verify-full
	CA       string `json:"ca,omitempty"`       // file with root certificates
	Cert     string `json:"cert,omitempty"`
	Key      string `json:"key,omitempty"`
	Target   string `json:"target_session_attrs,omitempty"` // which of the servers will do: one of Targets
	PoolMode string `json:"pool_mode,omitempty"`            // how long sessions keep a connection: one of PoolModes
}

// SourceLimits bound what one statement may take from a source. Zero means the default of the field.
type SourceLimits struct {
	Connections      int           `json:"connections,omitempty"`       // upstream connections in all; 50
	StatementTimeout time.Duration `json:"statement_timeout,omitempty"` // 5 minutes
	Rows             int           `json:"rows,omitempty"`              // rows of one MCP result; 1000
	Bytes            int           `json:"bytes,omitempty"`             // bytes of one MCP result; 8 MiB
	// Rate counts the statements of each identity on the source by itself, Concurrency those of all together.
	Rate        RateLimit   `json:"rate,omitzero"`
	Concurrency Concurrency `json:"concurrency,omitzero"`
}

// RoleSpec is a named set of permissions on one source.
type RoleSpec struct {
	Name        string       `json:"name"`
	Source      string       `json:"source"`
	Line        int          `json:"line"`
	Permissions []Permission `json:"permissions"`
	// Masks are put on columns that the role may read only masked. They take away and never give.
	Masks []MaskRule `json:"masks,omitempty"`
}

// Permission allows or denies actions on resources.
type Permission struct {
	Effect    Effect     `json:"effect"`
	Actions   []Action   `json:"actions"`
	Resources []Resource `json:"resources"`
	Line      int        `json:"line"`
}

// Resource is a pattern over schema.object[.column], one entry a part, unquoted and case-folded as PostgreSQL does.
// "*" alone stands for everything; it and a "*" in the schema's place do not reach the system schemas, which must be
// named. A pattern of two parts covers every column of the table.
type Resource struct {
	Text    string `json:"text"` // as written
	Parts   []Part `json:"parts"`
	Channel bool   `json:"channel,omitempty"` // "channel:name": the one part is the name of a channel
}

// Part is one part of a resource pattern.
type Part struct {
	Name string `json:"name,omitempty"`
	Any  bool   `json:"any,omitempty"`
}

// Identity is who may ask.
type Identity struct {
	Name   string  `json:"name"`
	Kind   string  `json:"kind"` // human, agent, service
	Line   int     `json:"line"`
	Grants []Grant `json:"grants"`
	// Team and Attributes are for the conditions of policies.
	Team       string            `json:"team,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Limits     IdentityLimits    `json:"limits,omitzero"`
}

// Grant gives an identity roles on one source.
type Grant struct {
	Source string   `json:"source"`
	Roles  []string `json:"roles"`
	Line   int      `json:"line"`
}
