package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

const shop = `version: 1
sources:
  shop:
    kind: postgres
    description: Orders
    upstream: {host: "${NAME}.example", database: shop, user: gateway, password: file:pw, ca: ca.pem}
    limits: {connections: 5, statement_timeout: 10s, rows: 50, bytes: 1MiB}
    scan_interval: 1m
  local:
    kind: postgres
    disabled: true
    upstream: {host: /run/postgresql, port: 5433, database: local, user: gateway}
source_roles:
  analyst:
    source: shop
    permissions:
      - allow: [db.table.select]
        on: [crm.customers.id, 'crm."Orders"']
      - deny: [db.table.select, db.table.describe]
        on: ["*.*.ssn"]
identities:
  ana: {kind: human, grants: [{source: shop, roles: [analyst]}]}
  bot: {kind: agent}
`

func TestLoadGovernance(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "governance.yaml")
	if err := os.WriteFile(path, []byte(shop), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NAME", "db")
	doc, err := LoadGovernance(path)
	if err != nil {
		t.Fatal(err)
	}
	if doc.File != path || len(doc.Sources) != 2 || len(doc.Roles) != 1 || len(doc.Identities) != 2 {
		t.Fatalf("%+v", doc)
	}
	want := policy.SourceSpec{ID: "shop", Kind: "postgres", Line: 3, Description: "Orders", ScanInterval: time.Minute,
		Upstream: policy.UpstreamSpec{Host: "db.example", Port: 5432, Database: "shop", User: "gateway", Password: "file:" + dir + "/pw", TLS: "verify-full", CA: dir + "/ca.pem"},
		Limits:   policy.SourceLimits{Connections: 5, StatementTimeout: 10 * time.Second, Rows: 50, Bytes: 1 << 20}}
	if doc.Sources[0] != want {
		t.Errorf("source %+v", doc.Sources[0])
	}
	if u := doc.Sources[1]; !u.Disabled || u.Upstream.Port != 5433 || u.Upstream.TLS != "disable" || u.Limits.Rows != 0 {
		t.Errorf("source %+v", u)
	}
	p := doc.Roles[0].Permissions
	if len(p) != 2 || p[0].Effect != policy.Allow || p[0].Line != 17 || len(p[0].Resources) != 2 || p[0].Resources[1].Parts[1].Name != "Orders" ||
		p[1].Effect != policy.Deny || len(p[1].Actions) != 2 || p[1].Line != 19 {
		t.Errorf("permissions %+v", p)
	}
	r, err := policy.Compile(doc)
	if err != nil || !r.Granted("ana", "shop") || r.Granted("bot", "shop") {
		t.Errorf("compiled: %v", err)
	}
}

// Each case is a change of the document above and the problems that it makes, in order.
func TestGovernanceProblems(t *testing.T) {
	for _, tc := range []struct{ old, new, want string }{
		{"version: 1\n", "\n", `2:1: key "version" is missing`},
		{"version: 1", "version: 2", `1:10: must be between 1 and 1`},
		{"kind: postgres\n    desc", "kind: oracle\n    desc", `4:11: must be one of postgres, but is "oracle"`},
		{"    kind: postgres\n    desc", "    desc", `4:5: key "kind" is missing`},
		{"scan_interval: 1m", "scan_intervall: 1m", `8:5: unknown key "scan_intervall" (did you mean "scan_interval"?)`},
		{"scan_interval: 1m", "scan_interval: 1m\n    kind: postgres", `9:5: key "kind" stands twice; the first is on line 4`},
		{"file:pw", "hunter2", `6:82: must be a reference, env:NAME or file:PATH; a secret must not stand in the file itself`},
		{"file:pw", `"${SECRET}"`, `6:82: must be a reference, env:NAME or file:PATH; a secret must not stand in the file itself`},
		{"${NAME}", "${NAMES}", `6:22: variable NAMES is not set`},
		{"ca: ca.pem", "tls: disable", `6:96: shop.example is not on the loopback interface, so its connections need TLS`},
		{"ca: ca.pem", "tls: verify", `6:96: must be one of disable, require, verify-ca, verify-full, but is "verify" (did you mean "verify-ca"?)`},
		{"${NAME}.example", "a,/run", `6:22: Unix sockets and hosts cannot be mixed`},
		{"${NAME}.example", "a,b:0", `6:22: "0" is not a port between 1 and 65535`},
		{"${NAME}.example", "a,", `6:22: a host between two commas is missing`},
		{"host: /run/postgresql", "tls: disable, host: 'localhost,db'", `12:21: db is not on the loopback interface, so its connections need TLS`},
		{"ca: ca.pem", "target_session_attrs: master", `6:113: must be one of any, read-write, read-only, primary, standby, prefer-standby, but is "master"`},
		{"ca: ca.pem", "cert: c.pem", `6:97: cert and key belong together`},
		{"port: 5433", "port: 5433, tls: verify-full", `12:56: a Unix socket has no TLS; leave the key out`},
		{"rows: 50", "rows: none", `7:60: must be an integer, but is a string`},
		{"allow: [db.table.select]", "allow: [db.table.slect]", `17:17: unknown action "db.table.slect" (did you mean "db.table.select"?)`},
		{"allow: [db.table.select]", "allow: []", `17:16: must not be empty`},
		{"allow: [db.table.select]", "permit: [db.table.select]", "17:9: unknown key \"permit\"\n17:9: exactly one of the keys allow and deny must be there"},
		{"allow: [db.table.select]", "allow: [db.table.select]\n        deny: [db.table.select]", `17:9: exactly one of the keys allow and deny must be there`},
		{"allow: [db.table.select]", "allow: [db.table.delete_rows]", `18:14: db.table.delete_rows acts on whole tables: write "schema.table", not the column "crm.customers.id"`},
		{"crm.customers.id", "customers", `18:14: resource "customers": write the schema too, as in "public.customers"`},
		{"crm.customers.id", "crm.cust*", `18:14: resource "crm.cust*": "*" stands for a whole part, not for a piece of a name`},
		{"on: [\"*.*.ssn\"]", "on: []", `20:13: must not be empty`},
		{"crm.customers.id", "'channel:orders'", `18:14: db.table.select does not act on channels, as "channel:orders" is`},
		{"allow: [db.table.select]", "allow: [db.channel.listen]", "18:14: db.channel.listen acts on channels: write \"channel:name\" or \"*\", not \"crm.customers.id\"\n" +
			`18:32: db.channel.listen acts on channels: write "channel:name" or "*", not "crm.\"Orders\""`},
		{"        on: [\"*.*.ssn\"]\n", "", `19:9: key "on" is missing`},
		{"    source: shop\n", "    source: shp\n", "15:13: unknown source \"shp\" (did you mean \"shop\"?)\n22:54: role \"analyst\" belongs to source \"shp\", not to \"shop\""},
		{"{source: shop, roles: [analyst]}", "{source: local, roles: [analyst]}", `22:55: role "analyst" belongs to source "shop", not to "local"`},
		{"roles: [analyst]", "roles: [analist]", `22:54: unknown role "analist" (did you mean "analyst"?)`},
		{"roles: [analyst]", "roles: []", `22:53: must not be empty`},
		{"roles: [analyst]", "roles: [analyst, analyst]", `22:63: role "analyst" is listed twice`},
		{"roles: [analyst]}]", "roles: [analyst]}, {source: shop, roles: [analyst]}]", `22:74: source "shop" is granted twice; list its roles in one grant`},
		{"  bot: {kind: agent}", "  bot: {kind: robot}", `23:15: must be one of human, agent, service, but is "robot"`},
		{"  bot: {kind: agent}", "  bot x: {kind: agent}", `23:3: identity name "bot x" must be 1 to 63 letters, digits or . _ @ + - and begin with a letter or digit`},
		{"  bot: {kind: agent}", "  bot: agent", `23:8: must be a mapping, but is a single value`},
		{"  bot: {kind: agent}", "  bot:", `23:7: must be a mapping, but is empty`},
	} {
		doc := strings.Replace(shop, tc.old, tc.new, 1)
		if doc == shop {
			t.Fatalf("%q is not in the document", tc.old)
		}
		_, err := parseGovernance("f", []byte(doc), environ)
		if got := strings.ReplaceAll(errorText(err), "f:", ""); got != strings.ReplaceAll(tc.want, "f:", "") {
			t.Errorf("%s\ngot  %s\nwant %s", tc.new, got, tc.want)
		}
	}
}

// A secret that stands in the file by mistake is not printed back.
func TestProblemsKeepSecrets(t *testing.T) {
	_, err := parseGovernance("f", []byte(strings.Replace(shop, "file:pw", "hunter2", 1)), environ)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

// p0Catalog is the part of the attack cases' database that P0 speaks of.
func p0Catalog() *catalog.Index {
	s := &catalog.Snapshot{Functions: []catalog.Function{{OID: 1000, Schema: "app", Name: "get_ssn"}, {OID: 1001, Schema: "app", Name: "safe_len"}}}
	oid := catalog.OID(1)
	for _, text := range []string{
		"app.customers id name email ssn region balance created_at ssn_last4", "app.orders id customer_id amount status card_no created_at",
		"app.notes id customer_id author body created_at", "app.notes_log t", "app.v_public id name", "app.v_region_stats region n avg_balance",
		"app.v_customers id name national_id email", "app.v_barrier id name email", "app.v_leaky id name email", "app.v_star id ssn",
		"app.events id region customer_id payload ip", "app.events_eu id region", "app.vip_customers id credit_limit", "app.mv_customers id ref name",
		"hr.salaries emp_id emp_name salary ssn", "pg_catalog.pg_stats most_common_vals", "pg_catalog.pg_class oid relname",
	} {
		words := strings.Fields(text)
		schema, name, _ := strings.Cut(words[0], ".")
		rel := catalog.Relation{OID: oid, Schema: schema, Name: name, Kind: catalog.Table}
		for i, c := range words[1:] {
			rel.Columns = append(rel.Columns, catalog.Column{Num: int16(i + 1), Name: c})
		}
		s.Relations = append(s.Relations, rel)
		oid++
	}
	return catalog.NewIndex(s)
}

// Under P0 exactly these columns may be read, these may be written, and nothing else may be done.
func TestP0(t *testing.T) {
	data, err := os.ReadFile("testdata/p0.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := parseGovernance("testdata/p0.yaml", data, environ)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	readable := set("app.customers.id app.customers.name app.customers.region app.customers.created_at " +
		"app.orders.id app.orders.customer_id app.orders.amount app.orders.status app.orders.created_at " +
		"app.notes.id app.notes.customer_id app.notes.author app.notes.body app.notes.created_at app.v_public.id app.v_public.name " +
		"app.v_region_stats.region app.v_region_stats.n app.v_region_stats.avg_balance app.v_customers.id app.v_customers.name " +
		"app.v_barrier.id app.v_barrier.name app.v_leaky.id app.v_leaky.name app.events.id app.events.region app.events.customer_id")
	writable := set("app.notes.customer_id app.notes.body")
	ix := p0Catalog()
	allowed := func(s analyze.Statement) bool {
		return rules.Decide(policy.Input{Identity: "ana", Source: "gov", Catalog: ix, Facts: &analyze.Facts{Statements: []analyze.Statement{s}}}).Verdict == policy.Allowed
	}
	write := func(c analyze.Column, action analyze.WriteAction) bool {
		return allowed(analyze.Statement{Kind: analyze.Update, Writes: []analyze.Write{{Column: c, Action: action}}})
	}
	for i := range ix.Snapshot.Relations {
		rel := &ix.Snapshot.Relations[i]
		table := analyze.Column{Relation: rel.OID, Schema: rel.Schema, Table: rel.Name}
		some := false
		for _, col := range rel.Columns {
			c := table
			c.Num, c.Name = col.Num, col.Name
			name := rel.Schema + "." + rel.Name + "." + col.Name
			some = some || readable[name]
			if got := allowed(analyze.Statement{Kind: analyze.Select, Reads: []analyze.Column{c}}); got != readable[name] {
				t.Errorf("reading %s: %v", name, got)
			}
			for _, action := range []analyze.WriteAction{analyze.Inserting, analyze.Updating} {
				if got := write(c, action); got != writable[name] {
					t.Errorf("%s %s: %v", action, name, got)
				}
			}
		}
		if got := allowed(analyze.Statement{Kind: analyze.Select, Reads: []analyze.Column{table}}); got != some {
			t.Errorf("counting %s: %v", rel.Name, got)
		}
		if write(table, analyze.Deleting) || write(table, analyze.Truncating) {
			t.Errorf("rows of %s can be deleted", rel.Name)
		}
	}
	for i := range ix.Snapshot.Functions {
		f := &ix.Snapshot.Functions[i]
		if allowed(analyze.Statement{Kind: analyze.Select, Functions: []*catalog.Function{f}}) {
			t.Errorf("%s can be called", f.Name)
		}
	}
}

func set(names string) map[string]bool {
	all := make(map[string]bool)
	for _, n := range strings.Fields(names) {
		all[n] = true
	}
	return all
}

func FuzzGovernance(f *testing.F) {
	f.Add([]byte(shop))
	for _, s := range []string{"version: 1\nsources: {x: {}}", "version: 1\nsource_roles: {r: {source: x, permissions: [{allow: [a], on: ['a.b']}]}}", "identities: {a: {grants: [{}]}}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := parseGovernance("f", data, environ)
		if (doc == nil) == (err == nil) {
			t.Fatalf("%v with %v", doc, err)
		}
		if err != nil {
			return
		}
		if _, err := policy.Compile(doc); err != nil {
			t.Fatalf("a document that was accepted does not compile: %v", err)
		}
	})
}
