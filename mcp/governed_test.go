package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"interlock/audit"
	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
	"interlock/mcp"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// shop is a governed source: ana may read customers without their SSN and place orders; bob may read salaries on
// another source, which ana must not learn of.
const shop = `
version: 1
sources:
  shop:
    kind: postgres
    description: Customers and orders
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
  payroll:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
  closed:
    kind: postgres
    disabled: true
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  analyst:
    source: shop
    permissions:
      - allow: [db.table.select, db.table.describe]
        on: [crm.customers.id, crm.customers.name, crm.customers.region, crm.orders]
      - allow: [db.table.insert, db.table.update]
        on: [crm.orders]
      - deny: [db.table.select]
        on: [crm.orders.note]
  clerk:
    source: payroll
    permissions:
      - allow: [db.table.select, db.table.describe]
        on: ["*"]
  visitor:
    source: closed
    permissions:
      - allow: [db.table.select]
        on: ["*"]
identities:
  ana:
    kind: human
    grants:
      - {source: shop, roles: [analyst]}
      - {source: closed, roles: [visitor]}
  bob:
    kind: human
    grants: [{source: payroll, roles: [clerk]}]
`

var shopTables = []string{`
create schema crm;
create table crm.customers (id bigint primary key, name text, region text, ssn text);
insert into crm.customers values (1, 'Ada', 'north', '078-05-1120'), (9007199254740993, 'Bob', null, '219-09-9999');
create table crm.orders (id int primary key, customer bigint, total numeric(12,2), note text);
insert into crm.orders select n, 1, n * 1.10, 'secret' from generate_series(1, 50) n;`}

// TestGoverned runs everything that needs the shop, in front of one gateway.
func TestGoverned(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: shopTables, Governance: shop})
	t.Run("conversations", func(t *testing.T) {
		converse(t, "testdata/governed", strings.TrimSuffix(g.MCP, mcp.Path), g.Key("ana"))
	})
	t.Run("same in every version", func(t *testing.T) { sameInEveryVersion(t, g) })
	t.Run("listings equal verdicts", func(t *testing.T) { listingsEqualVerdicts(t, g) })
	t.Run("unknown identity", func(t *testing.T) { unknownIdentity(t, g) })
	t.Run("keep-alive", func(t *testing.T) { keepAlive(t, g) })
	t.Run("revoked key", func(t *testing.T) { revokedKey(t, g) })
}

// as returns a caller with the key of an identity.
func as(t *testing.T, g *gatewaytest.Gateway, identity, version string) caller {
	return caller{conversation{t: t, url: strings.TrimSuffix(g.MCP, mcp.Path), version: version, key: g.Key(identity)}}
}

// sameInEveryVersion: the verdict, the rows and the audit record depend neither on the protocol version nor on the
// door. That an older version was not authorised is a defect that others had.
func sameInEveryVersion(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), g.DSN("ana", "shop"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, sql := range []string{
		"select id, name, region from crm.customers order by id",
		"select id, total, id = 1 as first from crm.orders order by id limit 3",
		"select ssn from crm.customers",
		"select * from crm.customers",
		"select c from crm.customers c",
		"select name from crm.customers where ssn = '078-05-1120'",
		"select note from crm.orders",
		"select count(*) from crm.orders",
		"update crm.orders set total = total where id = 1 returning id, total",
		"delete from crm.orders",
		"select * from crm.nothing",
		"select pg_read_file('/etc/passwd')",
		"select id / 0 from crm.orders",
		"selec 1",
		"vacuum crm.orders",
	} {
		var first reply
		for _, version := range mcp.Versions {
			got := as(t, g, "ana", version).query("shop", sql)
			got.text, got.structured = string(stable([]byte(got.text))), stable(got.structured)
			if version == mcp.Versions[0] {
				first = got
				continue
			}
			if got.text != first.text || !bytes.Equal(got.structured, first.structured) || !slices.Equal(got.more, first.more) {
				t.Errorf("%q in %s:\n%+v\nin %s:\n%+v", sql, version, got, mcp.Versions[0], first)
			}
		}
		results, err := conn.Exec(t.Context(), sql).ReadAll()
		sameOnTheWire(t, sql, first, results, err)
		sameRecords(t, sql, g.Records(audit.Filter{Source: "shop"}))
	}
}

// sameOnTheWire compares what an agent got with what psql got.
func sameOnTheWire(t *testing.T, sql string, agent reply, results []*pgconn.Result, err error) {
	t.Helper()
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		if agent.reason.Message != refused.Message || agent.reason.SQLState != refused.Code {
			t.Errorf("%q: the agent got %s, psql %s: %s", sql, agent.body, refused.Code, refused.Message)
		}
		return
	}
	if err != nil || len(results) != 1 {
		t.Fatalf("%q: %d results, %v", sql, len(results), err)
	}
	var rows []json.RawMessage
	if err := json.Unmarshal([]byte(agent.text), &rows); err != nil || len(rows) != len(results[0].Rows) {
		t.Fatalf("%q: %v: the agent got %s, psql %d rows", sql, err, agent.text, len(results[0].Rows))
	}
	for i, row := range results[0].Rows {
		members := map[string]any{}
		decoder := json.NewDecoder(bytes.NewReader(rows[i]))
		decoder.UseNumber()
		if err := decoder.Decode(&members); err != nil {
			t.Fatal(err)
		}
		for j, field := range results[0].FieldDescriptions {
			want, got := string(row[j]), fmt.Sprint(members[field.Name])
			if row[j] == nil {
				want = "<nil>"
			}
			if printed, isBool := map[string]string{"t": "true", "f": "false"}[want]; isBool && field.DataTypeOID == 16 {
				want = printed
			}
			if got != want {
				t.Errorf("%q, row %d, %s: the agent got %s, psql %s", sql, i, field.Name, got, want)
			}
		}
	}
}

// sameRecords compares the last records, one for each version and one for the wire, but for what names the single
// request.
func sameRecords(t *testing.T, sql string, records []audit.View) {
	t.Helper()
	n := len(mcp.Versions) + 1
	if len(records) < n {
		t.Fatalf("%q left %d records", sql, len(records))
	}
	var first string
	for i, r := range records[len(records)-n:] {
		r.Seq, r.Time, r.ID, r.Door, r.ClientAddr, r.Session, r.Application = 0, time.Time{}, "", "", "", "", ""
		outcome := *r.Outcome
		outcome.Time, outcome.Duration, outcome.Bytes = time.Time{}, 0, 0
		r.Outcome = &outcome
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = string(b)
		} else if string(b) != first {
			t.Errorf("%q: record %d differs:\n%s\n%s", sql, i, first, b)
		}
	}
}

// TestValuesOfPostgreSQL holds the JSON form of every kind of value against the text that the server itself makes.
func TestValuesOfPostgreSQL(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{`
		create type mood as enum ('sad', 'ok');
		create domain cents as bigint check (value >= 0);
		create type pair as (a int, b text);`}})
	conn, err := pgx.Connect(t.Context(), g.Upstream)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	const asIs, quoted = true, false
	for expr, form := range map[string]bool{
		"9007199254740993::int8": asIs, "(-9223372036854775808)::int8": asIs, "32767::int2": asIs, "-1::int4": asIs,
		"123456789012345678901234567890.123456789012345678901234567890::numeric": asIs,
		"0.10::numeric(5,2)":  asIs,
		"1e-20::numeric":      asIs,
		"'NaN'::numeric":      quoted,
		"'Infinity'::numeric": quoted,
		"0.1::float8":         asIs,
		"1e300::float8":       asIs,
		"'-0'::float8":        asIs,
		"0.1::float4":         asIs,
		"'-Infinity'::float8": quoted,
		"'NaN'::float4":       quoted,
		`'{"b":9007199254740993,"a":1.10}'::jsonb`:      asIs,
		`'{"b": 1,  "b":12345678901234567890.0}'::json`: asIs,
		"'[1, null]'::jsonb":                            asIs,
		"'null'::jsonb":                                 asIs,
		"5::cents":                                      asIs,
		"'x\"\\\n\ty'::text":                            quoted,
		"'\u202e\u200bé😀'::text":                        quoted,
		"''::text":                                      quoted,
		"'ab'::char(5)":                                 quoted,
		"'\\x00ff'::bytea":                              quoted,
		"'2026-01-02 03:04:05.678901'::timestamp":       quoted,
		"'2026-01-02 03:04:05+02'::timestamptz":         quoted,
		"'infinity'::date":                              quoted,
		"'1 year 2 mons 03:04:05'::interval":            quoted,
		"array[1,null,3]::int[]":                        quoted,
		"array['a','b,\"c']::text[]":                    quoted,
		"row(1,'x y')::pair":                            quoted,
		"'[1,5)'::int4range":                            quoted,
		"'ok'::mood":                                    quoted,
		"'12.34'::money":                                quoted,
		"'4294967295'::oid":                             quoted,
		"'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid":  quoted,
		"'10.0.0.0/8'::cidr":                            quoted,
		"b'0101'::bit(4)":                               quoted,
		"'(1,2)'::point":                                quoted,
	} {
		var want string
		if err := conn.QueryRow(t.Context(), "select format('%s', "+expr+")").Scan(&want); err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		if form == quoted {
			b, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			want = string(b)
		}
		got := as(t, g, "ana", "2025-11-25").query("shop", "select "+expr+" as v")
		v := valueOf(t, got)
		if form == quoted {
			v = requote(t, v)
		}
		if v != want {
			t.Errorf("%s is %s, want %s (%s)", expr, v, want, got.text)
		}
	}
	if got := as(t, g, "ana", "2025-11-25").query("shop", "select true t, false f, null n, 1 as n, 2 as n"); got.text != `[{"t":true,"f":false,"n":null,"n_2":1,"n_3":2}]` {
		t.Errorf("got %s", got.text)
	}
}

// valueOf is the JSON text of the only value in the result, which text and structured content must have alike.
func valueOf(t *testing.T, r reply) string {
	t.Helper()
	var rows []struct{ V json.RawMessage }
	if err := json.Unmarshal([]byte(r.text), &rows); err != nil || len(rows) != 1 {
		t.Fatalf("%v in %s", err, r.body)
	}
	var structured struct{ Rows json.RawMessage }
	if err := json.Unmarshal(r.structured, &structured); err != nil || string(structured.Rows) != r.text {
		t.Errorf("structured rows %s, text %s", structured.Rows, r.text)
	}
	return string(rows[0].V)
}

// requote writes a JSON string the way the standard library does.
func requote(t *testing.T, v string) string {
	t.Helper()
	var s string
	if err := json.Unmarshal([]byte(v), &s); err != nil {
		t.Fatalf("%v in %s", err, v)
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestClosingCancelsUpstream: within a second after the client has gone, its statement is gone from the server, and
// the log says that it was cancelled. That holds for a reply in JSON and for a stream.
func TestClosingCancelsUpstream(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{})
	u, err := url.Parse(g.MCP)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), g.Upstream)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	// Its estimated cost is low: the server does not compile it, which could not be interrupted.
	const slow = "with recursive t(n) as (select 1 union all select n + 1 from t where n < 2000000000) select count(*) from t"
	running := func() (n int) {
		if err := conn.QueryRow(t.Context(), "select count(*) from pg_stat_activity where state = 'active' and query like $1", slow+"%").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	calls := slices.Concat(mcp.Versions, mcp.Versions)
	for i, version := range calls {
		client := dial(t, u.Host)
		raw := strings.ReplaceAll(rawCall(version, slow), "ana-key", g.Key("ana"))
		if i >= len(mcp.Versions) {
			raw = strings.Replace(raw, "application/json, text/event-stream", preferred, 1)
		}
		fmt.Fprint(client, raw)
		await(t, 5*time.Second, "the statement to run", func() bool { return running() == 1 })
		_ = client.Close()
		await(t, time.Second, version+": the statement to end", func() bool { return running() == 0 })
	}
	await(t, 5*time.Second, "the records", func() bool {
		return len(g.Records(audit.Filter{Status: audit.Canceled})) == len(calls)
	})
}

func await(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", limit, what)
		}
	}
}

// revokedKey: a key works until it is revoked, in every version, and its refusals are on record.
func revokedKey(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	for _, version := range mcp.Versions {
		c := as(t, g, "ana", version)
		if got := c.query("shop", "select 1 as one"); got.text != `[{"one":1}]` {
			t.Fatalf("%s: %s", version, got.body)
		}
		g.Revoke("ana")
		for _, tool := range mcp.ToolNames() {
			if got := c.call(tool, `{}`); got.reason.Status != "unauthenticated" {
				t.Errorf("%s: %s with a revoked key: %s", version, tool, got.body)
			}
		}
	}
}

// listingsEqualVerdicts: what the describing tools list can be read, and what they leave out cannot. Lists that
// are filtered while calls are not is a defect that others had.
func listingsEqualVerdicts(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	for _, identity := range []string{"ana", "bob"} {
		c := as(t, g, identity, modernVersion)
		var listed map[string]struct {
			Resources struct {
				Tables []struct {
					Table   string
					Columns []string
				}
			}
		}
		if err := json.Unmarshal([]byte(c.call("interlock_describe_access", `{}`).text), &listed); err != nil {
			t.Fatal(err)
		}
		for _, source := range []string{"shop", "payroll", "closed", "nowhere"} {
			readable := map[string]bool{}
			for _, table := range listed[source].Resources.Tables {
				for _, column := range table.Columns {
					readable[table.Table+"."+column] = true
				}
			}
			for _, column := range []string{"crm.customers.id", "crm.customers.name", "crm.customers.region", "crm.customers.ssn", "crm.orders.total", "crm.orders.note"} {
				at := strings.LastIndex(column, ".")
				got := c.query(source, "select "+column[at+1:]+" from "+column[:at])
				if ran := got.rpc == 0 && !got.isError; ran != readable[column] {
					t.Errorf("%s on %s: %s is listed: %v, but the query says %s", identity, source, column, readable[column], got.body)
				}
			}
		}
	}
}

// unknownIdentity: a good key of somebody who is no longer in the governance document.
func unknownIdentity(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	for _, version := range mcp.Versions {
		for _, tool := range mcp.ToolNames() {
			got := as(t, g, "ghost", version).call(tool, arguments[strings.TrimPrefix(tool, "agentgate_")])
			if got.rpc == 0 && !got.isError {
				t.Errorf("%s: %s answers %s", version, tool, got.body)
			}
		}
	}
}

var arguments = map[string]string{
	"interlock_show_approval":   `{"approval_id":"01"}`,
	"interlock_query":           `{"source_id":"shop","sql":"select 1"}`,
	"query":                     `{"source_id":"shop","sql":"select 1"}`,
	"interlock_describe_source": `{"source_id":"shop"}`,
	"describe_source":           `{"source_id":"shop"}`,
	"interlock_describe_access": `{}`,
	"interlock_list_sources":    `{}`,
	"list_sources":              `{}`,

	"interlock_discover":          `{"source_id":"shop"}`,
	"discover":                    `{"source_id":"shop"}`,
	"interlock_related_documents": `{"asset_id":"shop/crm.orders"}`,
	"related_documents":           `{"asset_id":"shop/crm.orders"}`,
}

// keepAlive: two dialects and two identities alternate on one connection, and each gets its own.
func keepAlive(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for i := range 12 {
		who, source := "ana", "shop"
		if i%2 == 1 {
			who, source = "bob", "payroll"
		}
		c := as(t, g, who, mcp.Versions[i%len(mcp.Versions)])
		c.client = client
		var sources map[string]any
		if err := json.Unmarshal([]byte(c.call("interlock_list_sources", `{}`).text), &sources); err != nil {
			t.Fatal(err)
		}
		if _, found := sources[source]; !found || len(sources) != 1 {
			t.Errorf("%s sees %v", who, sources)
		}
	}
}
