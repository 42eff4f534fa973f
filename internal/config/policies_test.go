package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"interlock/sqlgov/policy"
)

const somePolicies = `version: 1
identities:
  ana:
    kind: human
    team: finance
    attributes: {clearance: high, site: "7"}
  dora: {kind: human}
  dirk: {kind: human}
groups:
  dba: [dora]
  legal: [dirk]
labels:
  pii: [crm.customers.ssn, "*.*.email"]
policies:
  zeta:
    when: identity.team == "finance"
    refuse: true
    message: not now
  alpha:
    state: dry-run
    when: |
      "pii" in statement.labels
      && now.getHours() < 8
    hold: {groups: [dba, legal], approvers: 2, expires: 1h, max_rows: 7}
    read_only: true
    cap: {rows: 10, bytes: 1MiB, time: 2s}
    limit: {requests: 5, per: rule, window: 1h, burst: 2}
    budget: {rows: 500, bytes: 2MiB, window: 24h, per: identity_source}
  bare:
    state: draft
    hold: {groups: [dba]}
    limit: {requests: 5}
`

func parsed(t *testing.T, text string) (*policy.Document, error) {
	t.Helper()
	return parseGovernance("f.yaml", []byte(text), environ)
}

func TestPoliciesAreRead(t *testing.T) {
	doc, err := parsed(t, somePolicies)
	if err != nil {
		t.Fatal(err)
	}
	want := []policy.PolicySpec{
		{Name: "zeta", Line: 15, State: policy.Active, When: `identity.team == "finance"`, Refuse: true, Message: "not now"},
		{Name: "alpha", Line: 19, State: policy.DryRun, When: "\"pii\" in statement.labels\n&& now.getHours() < 8\n", ReadOnly: true,
			Hold:   &policy.HoldSpec{Groups: []string{"dba", "legal"}, Approvers: 2, Expires: time.Hour, MaxRows: 7},
			Cap:    &policy.CapSpec{Rows: 10, Bytes: 1 << 20, Time: 2 * time.Second},
			Limit:  &policy.RateSpec{Requests: 5, Per: policy.PerRule, Window: time.Hour, Burst: 2},
			Budget: &policy.BudgetSpec{Rows: 500, Bytes: 2 << 20, Window: 24 * time.Hour, Per: policy.PerIdentitySource}},
		{Name: "bare", Line: 29, State: policy.Draft, Hold: &policy.HoldSpec{Groups: []string{"dba"}, Approvers: 1},
			Limit: &policy.RateSpec{Requests: 5, Per: policy.PerIdentity, Window: time.Minute}},
	}
	if !reflect.DeepEqual(doc.Policies, want) {
		t.Errorf("%+v", doc.Policies)
	}
	who := doc.Identities[0]
	if who.Team != "finance" || who.Attributes["clearance"] != "high" || who.Attributes["site"] != "7" {
		t.Errorf("%+v", who)
	}
	if l := doc.Labels[0]; l.Name != "pii" || l.Line != 13 || len(l.Resources) != 2 || l.Resources[1].Text != "*.*.email" {
		t.Errorf("%+v", doc.Labels)
	}
}

// What is wrong with a policy is told at its place, and the published schema agrees where it can know.
func TestPoliciesThatAreWrong(t *testing.T) {
	schema := compileSchema(t, "governance.schema.json")
	for _, tc := range []struct {
		change, want string
		schema       bool // can know
	}{
		{`refuse: true => mask: full`, "f.yaml:17:11: must be a mapping", true},
		{`refuse: true => refuse: maybe`, "f.yaml:17:13: must be true or false", true},
		{`refuse: true => deny: true`, `f.yaml:17:5: unknown key "deny"`, true},
		{`    refuse: true => `, "f.yaml:15:3: the policy does nothing", false},
		{`state: dry-run => state: dryrun`, `f.yaml:20:12: must be one of draft, dry-run, active`, true},
		{`identity.team == "finance" => identity.tem == "finance"`, "f.yaml:16:11: undeclared reference to 'identity", false},
		{`"pii" in statement.labels => "ppi" in statement.labels`, `f.yaml:21:11: statement.labels is never "ppi" (did you mean "pii"?)`, false},
		{`groups: [dba, legal] => groups: []`, "must not be empty", true},
		{`groups: [dba, legal], => `, `key "groups" is missing`, true},
		{`approvers: 2 => approvers: 0`, "must be between 1 and 20", true},
		{`requests: 5, per: rule => requests: 0, per: rule`, "must be between", true},
		{`per: rule => per: everyone`, "must be one of identity, identity_source, rule", true},
		{`rows: 10, bytes: 1MiB, time: 2s => `, "a cap needs rows, bytes or time", false},
		{`rows: 500, bytes: 2MiB, window: 24h => window: 24h`, "a budget needs a window, and rows or bytes", false},
		{`bytes: 2MiB, window: 24h => bytes: 2MiB`, `key "window" is missing`, true},
		{`bytes: 1MiB => bytes: 1MB`, "is no size", true},
		{`clearance: high => clearance: [high]`, "must be a string", true},
		{`pii: [crm.customers.ssn, "*.*.email"] => pii: [ssn]`, "write the schema too", true},
		{`pii: [crm.customers.ssn, "*.*.email"] => pii: []`, "must not be empty", true},
	} {
		old, replacement, _ := strings.Cut(tc.change, " => ")
		text := strings.Replace(somePolicies, old, replacement, 1)
		if text == somePolicies {
			t.Fatalf("%q is not in the document", old)
		}
		if _, err := parsed(t, text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.change, err, tc.want)
		}
		if invalid := schema.Validate(decodeJSON(t, text)); tc.schema != (invalid != nil) {
			t.Errorf("%s: the schema says %v", tc.change, invalid)
		}
	}
	if invalid := schema.Validate(decodeJSON(t, somePolicies)); invalid != nil {
		t.Error(invalid)
	}
}

func TestPolicyTestsAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "governance.tests.yaml")
	write := func(text string) ([]PolicyTest, error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return LoadPolicyTests(path)
	}
	tests, err := write(`tests:
  - {identity: ana, source: shop, sql: select 1, expect: allow}
  - name: at night
    identity: ana
    source: shop
    sql: select 1
    door: mcp
    client: 10.0.0.1
    application: psql
    at: 2026-01-31T03:00:00Z
    expect: refuse
    sqlstate: "42501"
    rule: office-hours
`)
	want := []PolicyTest{{Line: 2, Identity: "ana", Source: "shop", SQL: "select 1", Door: "pgwire", Client: "127.0.0.1", Expect: policy.Allowed},
		{Name: "at night", Line: 3, Identity: "ana", Source: "shop", SQL: "select 1", Door: "mcp", Client: "10.0.0.1", Application: "psql",
			At: time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC), Expect: policy.Refused, SQLState: "42501", Rule: "office-hours"}}
	if err != nil || !reflect.DeepEqual(tests, want) {
		t.Errorf("%v %+v", err, tests)
	}
	for _, bad := range []string{"tests: []", "tests: [{identity: ana, source: shop, expect: allow}]", "tests: [{identity: a, source: s, sql: x, expect: maybe}]",
		"tests: [{identity: a, source: s, sql: x, expect: allow, at: soon}]", "test: []", ""} {
		if _, err := write(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if got := PolicyTestsOf("/etc/governance.yaml"); got != "/etc/governance.tests.yaml" {
		t.Error(got)
	}
}
