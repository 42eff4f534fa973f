package sqlgov

import (
	"cmp"
	"context"
	"time"

	"interlock/audit"
	"interlock/sqlgov/policy"
)

// describesAccess is what DescribeAccess does, for the record.
const describesAccess = "describe_access"

// maxTables bounds the tables that DescribeAccess lists for one source.
const maxTables = 200

// SourceInfo describes a source that a caller may use.
type SourceInfo struct {
	ID          string   `json:"id"`
	Kind        string   `json:"kind"`
	Description string   `json:"description,omitempty"`
	Roles       []string `json:"roles"`
	Status      string   `json:"status"` // "active", or "not_catalogued" until its first scan
}

// Access is what a caller's own source roles allow and deny on one source.
type Access struct {
	Roles     []string           `json:"roles"`
	Allow     []policy.Statement `json:"allow"`
	Deny      []policy.Statement `json:"deny"`
	Resources Resources          `json:"resources"`
}

// Resources are the tables and columns of a source that the caller may read.
type Resources struct {
	Enforced   bool      `json:"enforced"`   // statements are checked against catalogued columns
	Catalogued bool      `json:"catalogued"` // there is a catalog; without one every statement is refused
	ScannedAt  time.Time `json:"scanned_at,omitzero"`
	// CatalogTruncated is always false for PostgreSQL: the catalog is scanned whole.
	CatalogTruncated bool          `json:"catalog_truncated"`
	Tables           []TableAccess `json:"tables"`
	Truncated        bool          `json:"truncated"` // there are more than 200 tables
}

// TableAccess lists the columns of one table that the caller may read.
type TableAccess struct {
	Table      string   `json:"table"` // schema.table
	Columns    []string `json:"columns"`
	AllColumns bool     `json:"all_columns"`
	// Policy is set if a policy would refuse the caller to read the table now.
	Policy *PolicyMark `json:"policy,omitempty"`
	// Masked are the columns among them that are shown masked, with the name of the mask; "null" shows nothing.
	Masked map[string]string `json:"masked,omitempty"`
}

// ColumnInfo is one column that the caller may describe.
type ColumnInfo struct {
	TableSchema string `json:"table_schema"`
	TableName   string `json:"table_name"`
	ColumnName  string `json:"column_name"`
	DataType    string `json:"data_type"`
}

// Sources lists the enabled sources on which the caller holds a grant, and names the decision.
func (c *Core) Sources(ctx context.Context, caller Caller) (_ []SourceInfo, decision string, _ error) {
	a := &admission{caller: caller}
	if r := c.look(ctx, a); r != nil {
		return nil, "", r
	}
	infos := []SourceInfo{}
	for _, id := range a.rules.Sources(caller.Identity) {
		src := a.rules.Source(id)
		if src.Disabled {
			continue
		}
		info := SourceInfo{ID: id, Kind: src.Kind, Description: src.Description, Status: "active",
			Roles: a.rules.Roles(caller.Identity, id)}
		if c.Catalogs.Index(id) == nil {
			info.Status = "not_catalogued"
		}
		infos = append(infos, info)
	}
	return infos, a.id, nil
}

// DescribeAccess says what the caller's roles allow and deny, by source, and names the decision. A source that the caller
// holds no grant on is left out; source "" means all. An identity that is not in the ruleset is refused as one that may
// nothing, because an empty answer would read like that of one that is.
func (c *Core) DescribeAccess(ctx context.Context, caller Caller, source string) (_ map[string]Access, decision string, _ error) {
	a := &admission{caller: caller, source: source, looks: describesAccess}
	if r := c.look(ctx, a); r != nil {
		return nil, "", r
	}
	all := map[string]Access{}
	for _, id := range a.rules.Sources(caller.Identity) {
		if source == "" || source == id {
			all[id] = c.access(a, id)
		}
	}
	return all, a.id, nil
}

func (c *Core) access(a *admission, source string) Access {
	index := c.Catalogs.Index(source)
	seen := a.rules.Access(a.caller.Identity, source, index)
	acc := Access{Roles: seen.Roles, Allow: nonNil(seen.Allow), Deny: nonNil(seen.Deny),
		Resources: Resources{Enforced: true, Catalogued: index != nil, Tables: []TableAccess{}}}
	if index == nil {
		return acc
	}
	acc.Resources.ScannedAt = index.Snapshot.ScannedAt
	tables, truncated := seen.Readable(maxTables)
	for i := range tables {
		t := &tables[i]
		acc.Resources.Tables = append(acc.Resources.Tables, TableAccess{
			Table: t.Relation.Schema + "." + t.Relation.Name, Columns: t.ReadNames(), AllColumns: t.AllRead(),
			Policy: a.policyMark(source, index, t), Masked: c.masksOn(a, source, index, t)})
	}
	acc.Resources.Truncated = truncated
	return acc
}

func nonNil(s []policy.Statement) []policy.Statement {
	if s == nil {
		return []policy.Statement{}
	}
	return s
}

// DescribeSource lists the columns of a source that the caller may describe, and names the decision.
func (c *Core) DescribeSource(ctx context.Context, caller Caller, source string) (_ []ColumnInfo, decision string, _ error) {
	a := &admission{caller: caller, source: source}
	if r := c.look(ctx, a, c.resolveSource); r != nil {
		return nil, "", r
	}
	infos := []ColumnInfo{}
	for _, t := range a.rules.Access(caller.Identity, source, a.index).Tables {
		for _, col := range t.Describe {
			infos = append(infos, ColumnInfo{t.Relation.Schema, t.Relation.Name, col.Name, col.TypeName})
		}
	}
	return infos, a.id, nil
}

// look admits a request that reads the ruleset and the catalog only: no statement runs, so one record tells it all.
func (c *Core) look(ctx context.Context, a *admission, more ...func(context.Context, *admission) *Refusal) *Refusal {
	a.core, a.id, a.started = c, audit.NewID(), time.Now()
	for _, step := range append([]func(context.Context, *admission) *Refusal{c.identify, c.meterLook}, more...) {
		if r := step(ctx, a); r != nil {
			return c.refuse(ctx, a, r)
		}
	}
	j := &audit.Judgement{Verdict: string(policy.Allowed), Kinds: []string{cmp.Or(a.looks, "describe")}}
	a.nameVersions(j)
	rec := a.caller.record(a.source)
	rec.ID, rec.Time, rec.Judgement = a.id, a.started, j
	now := time.Now()
	if err := c.Audit.Request(ctx, &rec, &audit.Outcome{ID: a.id, Time: now, Status: audit.OK, Duration: now.Sub(a.started)}); err != nil {
		return c.refuse(ctx, a, auditUnavailable(err))
	}
	return nil
}
