package mcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"interlock/internal/gatewaytest"
	"interlock/mcp"
	"interlock/sqlgov"
)

const marked = `
version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  reader:
    source: shop
    permissions:
      - allow: [db.table.select]
        on: ["*"]
labels:
  pay: [hr.salaries, crm.staff.salary]
policies:
  no-pay:
    when: '"pay" in statement.labels'
    refuse: true
    message: Salaries are for the payroll team.
identities:
  ana: {kind: agent, grants: [{source: shop, roles: [reader]}]}
`

func accessOf(t *testing.T, c caller) map[string]sqlgov.Access {
	t.Helper()
	var access map[string]sqlgov.Access
	got := c.call("interlock_describe_access", `{}`)
	if err := json.Unmarshal([]byte(got.text), &access); err != nil {
		t.Fatalf("%v in %s", err, got.body)
	}
	return access
}

// TestPolicyMarks: a table that a policy refuses is marked as such, in every version, exactly if no query of one of its
// columns runs.
func TestPolicyMarks(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: marked, Setup: []string{`
		create schema hr; create table hr.salaries (who int, amount int);
		create schema crm; create table crm.staff (id int, salary int); create table crm.orders (id int)`}})
	for _, version := range mcp.Versions {
		c := as(t, g, "ana", version)
		for _, table := range accessOf(t, c)["shop"].Resources.Tables {
			runs := false
			for _, column := range table.Columns {
				got := c.query("shop", "select "+column+" from "+table.Table)
				runs = runs || got.rpc == 0 && !got.isError
			}
			if marked := table.Policy != nil; marked == runs {
				t.Errorf("%s: %s is marked: %v, and can be read: %v", version, table.Table, marked, runs)
			}
			if table.Policy != nil && (*table.Policy != sqlgov.PolicyMark{Refused: true, Rule: "no-pay", Reason: table.Policy.Reason} || table.Policy.Reason == "") {
				t.Errorf("%s: %s: %+v", version, table.Table, table.Policy)
			}
		}
	}
}

// TestAccessIsBounded: at most 200 tables are listed, and the rest is said to be there.
func TestAccessIsBounded(t *testing.T) {
	var tables strings.Builder
	for i := range 201 {
		fmt.Fprintf(&tables, "create table t%d (id int);", i)
	}
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{tables.String()}})
	for _, version := range mcp.Versions {
		if got := accessOf(t, as(t, g, "ana", version))["shop"].Resources; len(got.Tables) != 200 || !got.Truncated {
			t.Errorf("%s: %d tables, truncated: %v", version, len(got.Tables), got.Truncated)
		}
	}
}

// TestAccessWithoutIdentity: no key and a wrong key are 401; a good key of an identity that is not in the ruleset is 403.
// None is answered by an empty object, which would say that the caller may nothing.
func TestAccessWithoutIdentity(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{})
	for _, version := range mcp.Versions {
		for key, want := range map[string]int{"": 401, "wrong": 401, g.Key("ghost"): 403} {
			c := as(t, g, "ana", version)
			c.key = key
			got := c.call("interlock_describe_access", `{}`)
			if http := map[bool]int{true: want, false: 200}[version == modernVersion]; got.http != http || got.reason.Code != want {
				t.Errorf("%s: key %q: HTTP %d, code %d, want %d", version, key, got.http, got.reason.Code, want)
			}
			if challenge := got.header.Get("WWW-Authenticate"); (challenge == "Bearer") != (got.http == 401) {
				t.Errorf("%s: key %q: WWW-Authenticate is %q", version, key, challenge)
			}
		}
	}
}
