package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"interlock/audit"
	"interlock/internal/gatewaytest"
	"interlock/mcp"
)

const holding = `
version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
  closed:
    kind: postgres
    disabled: true
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
  distant:
    kind: postgres
    upstream: {host: HOST, port: 1, database: DATABASE, user: USER, tls: disable}
source_roles:
  writer:
    source: shop
    permissions:
      - allow: [db.table.select, db.table.update]
        on: ["*"]
  visitor: {source: closed, permissions: [{allow: [db.table.select], on: ["*"]}]}
  walker: {source: distant, permissions: [{allow: [db.table.select], on: ["*"]}]}
identities:
  ana:
    kind: agent
    grants: [{source: shop, roles: [writer]}, {source: closed, roles: [visitor]}, {source: distant, roles: [walker]}]
  dora: {kind: human}
groups:
  dba: [dora]
policies:
  ask-first:
    when: statement.risk in ["medium", "high"]
    hold: {groups: [dba]}
`

// queued is what is said of a write that is held.
type queued struct {
	Status        string
	ApprovalID    string `json:"approval_id"`
	ApprovalState string `json:"approval_state"`
	Message       string
	Error         string
}

func upstreamValue(t *testing.T, g *gatewaytest.Gateway) (v int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), g.Upstream)
	if err == nil {
		err = conn.QueryRow(t.Context(), "select v from t").Scan(&v)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(context.WithoutCancel(t.Context()))
	return v
}

// TestOutcomes: what becomes of a write that is held, of sources that cannot be used, and of requests that cannot be
// recorded, in every version and on the former routes.
func TestOutcomes(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: holding, Setup: []string{"create table t (v int); insert into t values (1)"}})
	t.Run("held", func(t *testing.T) { heldWrites(t, g) })
	t.Run("sources", func(t *testing.T) { unusableSources(t, g) })
	t.Run("correlation", func(t *testing.T) { correlated(t, g) })
	t.Run("audit", func(t *testing.T) { auditLost(t, g) })
}

// heldWrites: a held write is no error, is not run, is not to be sent again, and the same write sent twice is held twice.
func heldWrites(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	const write = "update t set v = 2"
	seen := map[string]bool{}
	for _, version := range mcp.Versions {
		for range 2 {
			got := as(t, g, "ana", version).query("shop", write)
			var q queued
			if err := json.Unmarshal(got.structured, &q); err != nil {
				t.Fatalf("%s: %v in %s", version, err, got.body)
			}
			if got.http != 200 || got.rpc != 0 || got.isError || q.Status != "queued" || q.ApprovalState != "pending" || q.ApprovalID == "" || q.Message == "" || seen[q.ApprovalID] {
				t.Errorf("%s: %s", version, got.body)
			}
			if !strings.Contains(got.text, "not executed") || !strings.Contains(got.text, "Do not send the statement again") {
				t.Errorf("%s: %s", version, got.text)
			}
			seen[q.ApprovalID] = true
		}
	}
	for _, route := range []string{"/mcp/tools/call", "/mcp/sse"} {
		status, body := formerCall(t, g, route, `{"name":"interlock_query","arguments":{"source_id":"shop","sql":"`+write+`"}}`)
		var q queued
		if err := json.Unmarshal([]byte(body), &q); err != nil || status != 202 || q.Error == "" || q.ApprovalID == "" || seen[q.ApprovalID] || q.ApprovalState != "pending" {
			t.Errorf("%s: %d %s", route, status, body)
		}
		seen[q.ApprovalID] = true
	}
	if v := upstreamValue(t, g); v != 1 {
		t.Errorf("a held write was run: v is %d", v)
	}
}

func formerCall(t *testing.T, g *gatewaytest.Gateway, route, body string) (int, string) {
	t.Helper()
	c := conversation{t: t, url: strings.TrimSuffix(g.MCP, mcp.Path), version: "2025-03-26", key: g.Key("ana")}
	got := c.send(http.MethodPost, route, c.header(body), body)
	return got.status, string(got.raw)
}

// unusableSources: each is answered by its reason, and none by the address of its server.
func unusableSources(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	for source, want := range map[string]struct {
		status, reason string
		code, rpc      int
	}{
		"closed":  {"unavailable", "is disabled", 503, -32603},
		"distant": {"unavailable", "has not been catalogued yet", 503, -32603},
		"nowhere": {"not_found", `source "nowhere" does not exist`, 404, -32602},
	} {
		for _, version := range mcp.Versions {
			got := as(t, g, "ana", version).query(source, "select 1")
			rpc := map[bool]int{true: want.rpc}[version == modernVersion]
			if got.http != 200 || got.rpc != rpc || got.isError != (rpc == 0) || got.reason.Status != want.status || got.reason.Code != want.code || !strings.Contains(got.text, want.reason) || strings.Contains(got.body, "127.0.0.1") {
				t.Errorf("%s in %s: %s", source, version, got.body)
			}
		}
		if status, body := formerCall(t, g, "/mcp/tools/call", `{"name":"interlock_query","arguments":{"source_id":"`+source+`","sql":"select 1"}}`); status != want.code || !strings.Contains(body, want.status) {
			t.Errorf("%s: %d %s", source, status, body)
		}
	}
	access := accessOf(t, as(t, g, "ana", modernVersion))["distant"].Resources
	if !access.Enforced || access.Catalogued || len(access.Tables) != 0 {
		t.Errorf("a source without a catalog: %+v", access)
	}
}

// correlated: the id in the header of a reply finds the record of the call in the audit log.
func correlated(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	for _, version := range mcp.Versions {
		for tool, args := range map[string]string{"interlock_query": `{"source_id":"shop","sql":"select v from t"}`, "interlock_describe_access": `{}`,
			"interlock_discover": `{"source_id":"nowhere"}`, "shell": `{}`} {
			got := as(t, g, "ana", version).call(tool, args)
			id := got.header.Get("X-Correlation-Id")
			if found := g.Records(audit.Filter{ID: id}); len(found) != 1 || found[0].Identity != "ana" {
				t.Errorf("%s in %s: %d records for %q", tool, version, len(found), id)
			}
		}
	}
}

// auditLost: what cannot be recorded is not run, by any version and any tool.
func auditLost(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	if err := g.Audit.Close(); err != nil {
		t.Fatal(err)
	}
	for _, version := range mcp.Versions {
		for tool, args := range map[string]string{"interlock_query": `{"source_id":"shop","sql":"select v from t"}`, "interlock_list_sources": `{}`, "interlock_discover": `{"source_id":"shop"}`} {
			if got := as(t, g, "ana", version).call(tool, args); got.reason.Status != "unavailable" || got.reason.Code != 503 || strings.Contains(got.body, "rows") {
				t.Errorf("%s in %s: %s", tool, version, got.body)
			}
		}
	}
	if status, body := formerCall(t, g, "/mcp/tools/call", `{"name":"interlock_query","arguments":{"source_id":"shop","sql":"select v from t"}}`); status != 503 {
		t.Errorf("%d %s", status, body)
	}
}
