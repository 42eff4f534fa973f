package sqlgov_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"interlock/audit"
	"interlock/internal/gatewaytest"
)

const masksDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
masks:
  email: {kind: email, countable: true}
  last4: {kind: partial, last: 4}
  alias: {kind: hash, key: env:MASK_TEST_KEY, filterable: true}
  keyless: {kind: hash, key: env:MASK_TEST_NO_KEY}
  year: {kind: date, unit: year}
  thousands: {kind: number, step: 1000}
  fixed: {kind: fixed, value: hidden}
  inner: {kind: json, hide: [$.token]}
  gone: {kind: "null"}
labels:
  pii: ["*.*.ssn"]
source_roles:
  everything:
    source: gov
    permissions:
      - allow: [db.table.select, db.table.insert, db.table.update, db.table.delete_rows]
        on: ["public.*"]
    masks:
      - {with: email, on: [public.people.email], except: [public.endorsed.domain]}
      - {with: last4, on: [public.people.phone]}
      - {with: alias, labels: [pii]}
      - {with: keyless, on: [public.people.nokey]}
      - {with: year, on: [public.people.born]}
      - {with: thousands, on: [public.people.salary]}
      - {with: fixed, on: [public.people.nick]}
      - {with: inner, on: [public.people.doc]}
      - {with: gone, on: [public.letters.body]}
identities:
  ana: {kind: human, grants: [{source: gov, roles: [everything]}]}
policies:
  names-outside:
    when: client.address != "" && door == "mcp"
    mask: {with: gone, on: [public.people.name]}
  few-bytes:
    when: '"public.letters" in statement.tables'
    cap: {bytes: 1KiB}
`

const masksData = `
create table people (id int primary key, name text, email text unique, phone varchar(20), ssn text, nokey text, born date, salary numeric, nick text[], doc jsonb, note text);
insert into people values (1, 'Ada', 'ada@raw.test', '+49 170 5551234', 'raw-111', 'raw-nokey', '1985-12-10', 12345.67, '{raw-nick,null}', '{"token": "raw-token", "n": 1}', 'n'),
	(2, 'Bob', 'bob@raw.test', null, 'raw-222', 'raw-nokey', '1990-01-31', 999, '{}', '{}', 'n');
create view contacts as select id, email as address, lower(email) as folded from people;
create view endorsed as select id, split_part(email, '@', 2) as domain from people;
create table child () inherits (people); insert into child(id, name, email) values (3, 'Cleo', 'cleo@raw.test');
create table letters (id int, body text); insert into letters values (1, repeat('raw-nick ', 200));
create table notes (body text);`

func startMasked(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	t.Setenv("MASK_TEST_KEY", "a secret of the tests")
	return gatewaytest.Start(t, gatewaytest.Options{Governance: masksDocument, Setup: []string{masksData}})
}

type namedDoor struct {
	name string
	door
}

func maskedDoors(g *gatewaytest.Gateway) []namedDoor {
	oid := func(string) uint32 { return 0 }
	return []namedDoor{
		{"mcp", &tool{url: g.MCP, key: g.Key("ana")}},
		{"simple", &wire{dsn: g.DSN("ana", "gov"), oid: oid}},
		{"extended", &wire{dsn: g.DSN("ana", "gov"), extended: true, oid: oid}},
	}
}

// What is shown in the place of the values is written by hand from the document; hashes only have to be equal where the
// values are.
func TestMasksThroughBothDoors(t *testing.T) {
	g := startMasked(t)
	type masked struct {
		sql  string
		want [][]string
	}
	cases := []masked{
		{"select id, email from people where id < 3 order by id", [][]string{{"1", "a***@***"}, {"2", "b***@***"}}},
		{"select e.x as y from (select email as x from people where id = 1) e", [][]string{{"a***@***"}}},
		{"with q as (select email from people where id = 1) select email from q union all select 'lit'", [][]string{{"a***@***"}, {"***"}}},
		{"select phone, born, salary from people where id = 1", [][]string{{"***1234", "1985-01-01", "12000.00"}}},
		{"select phone from people where id = 2", [][]string{{null}}},
		{"select nick from people where id = 1", [][]string{{`{hidden,NULL}`}}},
		{"select length(email), upper(email) || 'x' from people where id = 1", [][]string{{null, null}}},
		{"select address, folded from contacts where id = 1", [][]string{{"a***@***", null}}},
		{"select domain from endorsed where id = 1", [][]string{{"raw.test"}}},
		{"select email from child", [][]string{{"c***@***"}}},
		{"select count(email), count(*) from people", [][]string{{"3", "3"}}},
		{"select name is null from people where id = 1 and email is not null", [][]string{{"f"}}},
		{"insert into people(id, email) values (8, 'new@raw.test') returning email", [][]string{{"n***@***"}}},
		{"update people set email = 'newer@raw.test' where id = 8 returning email, id", [][]string{{"n***@***", "8"}}},
		{"delete from people where id = 8 returning email", [][]string{{"n***@***"}}},
		{"select id, body from letters", [][]string{{"1", null}}}, // a cap that is for the result tells nothing of what is hidden
	}
	for _, d := range maskedDoors(g) {
		for _, tc := range cases {
			if d.name == "mcp" && strings.Contains(tc.sql, "name is null") {
				continue // the policy for that door hides it
			}
			tr := oneStep(t, d.door, step{Q: tc.sql})
			got := tr.replies[0].rows
			if d.name == "mcp" && len(got) == 1 && strings.HasPrefix(got[0][0], "[") {
				got = [][]string{{`{hidden,NULL}`}} // arrays are JSON there
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("%s at %s: %s %s %v, want %v", tc.sql, d.name, tr.replies[0].state, tr.replies[0].message, got, tc.want)
			}
			hearsNothingRaw(t, d.name, tc.sql, tr)
		}
	}
}

// oneStep takes a step in a session of its own.
func oneStep(t *testing.T, d door, s step) *transcript {
	t.Helper()
	if w, ok := d.(*wire); ok {
		d = &wire{dsn: w.dsn, extended: w.extended, oid: w.oid}
	}
	r := d.run(t.Context(), s)
	tr := d.close()
	tr.replies = []reply{r}
	return tr
}

// hearsNothingRaw looks for every planted value in the bytes that arrived. The endorsed domain is no secret.
func hearsNothingRaw(t *testing.T, where, sql string, tr *transcript) {
	t.Helper()
	for _, raw := range []string{"ada@", "bob@", "cleo@", "raw-111", "raw-222", "raw-nokey", "raw-nick", "raw-token", "12345", "5551", "12-10"} {
		if bytes.Contains(tr.heard, []byte(raw)) && !strings.Contains(sql, raw) {
			t.Errorf("%s at %s: %q is heard", sql, where, raw)
		}
	}
}

// The attacks: a value is found out, or lost, by something else than reading it.
func TestWhatMasksDoNotAllow(t *testing.T) {
	g := startMasked(t)
	for _, tc := range []struct{ sql, says string }{
		{"select name from people where email like 'a%'", `column "email" of table "public.people" is masked and cannot be used here`},
		{"select id from contacts where address = 'ada@raw.test'", `column "address" of table "public.contacts" is masked`},
		{"select id from people order by email", "is masked"},
		{"select distinct email from people", "is masked"},
		{"select max(email) from people", "is masked"},
		{"select born + 1 from people", "is masked"},
		{"select count(phone) from people", "may not be counted or tested for NULL"},
		{"select id from people where phone is null", "may not be counted or tested for NULL"},
		{"select id from people where (select p.email from people p where p.id = 1) = 'x'", "is masked"},
		{"insert into notes select email from people", "cannot be written anywhere"},
		{"update people set note = email where id = 1", "cannot be written anywhere"},
		{"insert into notes select note from people where ssn = 'x' union all select ssn from people", "cannot be written anywhere"},
		{"update people set email = 'a***@***' where id = 1", "is what its mask shows"},
		{"update people set phone = '***1234'::varchar where id = 1", "is what its mask shows"},
		{"explain select email from people", "EXPLAIN would show it"},
		{"explain (analyze, costs off) select email from people", "EXPLAIN would show it"},
		{"explain (costs off) select id from people where email = 'x'", "is masked"},
	} {
		for _, d := range maskedDoors(g) {
			tr := oneStep(t, d.door, step{Q: tc.sql})
			if r := tr.replies[0]; r.state != "42501" || !strings.Contains(strings.ReplaceAll(r.message, `\"`, `"`), tc.says) {
				t.Errorf("%s at %s: %s %s", tc.sql, d.name, r.state, r.message)
			}
			hearsNothingRaw(t, d.name, tc.sql, tr)
		}
	}
}

// A filterable mask lets statements compare and group; equal values are shown as equal ones, and as nothing else.
func TestFilterableMasks(t *testing.T) {
	g := startMasked(t)
	for _, d := range maskedDoors(g) {
		sql := "select ssn, count(*) from people where ssn = 'raw-111' or ssn > 'raw-2' group by ssn order by ssn"
		tr := oneStep(t, d.door, step{Q: sql})
		rows := tr.replies[0].rows
		if len(rows) != 2 || rows[0][0] == rows[1][0] || len(rows[0][0]) != 32 || rows[0][1] != "1" {
			t.Errorf("%s: %v %s", d.name, rows, tr.replies[0].message)
		}
		hearsNothingRaw(t, d.name, sql, tr)
	}
}

func TestPolicyMasksDependOnCircumstances(t *testing.T) {
	g := startMasked(t)
	for _, d := range maskedDoors(g) {
		want := "[[Ada]]"
		if d.name == "mcp" {
			want = "[[" + null + "]]"
		}
		tr := oneStep(t, d.door, step{Q: "select name from people where id = 1"})
		if got := fmt.Sprint(tr.replies[0].rows); got != want {
			t.Errorf("%s: %s %s, want %s", d.name, got, tr.replies[0].message, want)
		}
		if state := oneStep(t, d.door, step{Q: "select id from people where name = 'Ada'"}).replies[0].state; (state == "42501") != (d.name == "mcp") {
			t.Errorf("%s: a predicate on the name is answered %q", d.name, state)
		}
	}
}

// Formats come with Bind, for all columns or for each; several statements of a Query have masks of their own, and so has what
// EXECUTE runs.
func TestMasksInEveryShape(t *testing.T) {
	g := startMasked(t)
	conn, err := pgconn.Connect(t.Context(), g.DSN("ana", "gov"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	year1985 := []byte{0xff, 0xff, 0xea, 0x9a} // 1985-01-01 is 5478 days before 2000-01-01
	for _, tc := range []struct {
		formats []int16
		want    [][]byte
	}{
		{nil, [][]byte{[]byte("1"), []byte("a***@***"), []byte("1985-01-01")}},
		{[]int16{1}, [][]byte{{0, 0, 0, 1}, []byte("a***@***"), year1985}},
		{[]int16{0, 1, 1}, [][]byte{[]byte("1"), []byte("a***@***"), year1985}},
		{[]int16{1, 0, 0}, [][]byte{{0, 0, 0, 1}, []byte("a***@***"), []byte("1985-01-01")}},
	} {
		r := conn.ExecParams(t.Context(), "select id, email, born from people where id = $1", [][]byte{[]byte("1")}, nil, nil, tc.formats).Read()
		if r.Err != nil || len(r.Rows) != 1 || !slices.EqualFunc(r.Rows[0], tc.want, bytes.Equal) {
			t.Errorf("formats %v: %q, %v", tc.formats, r.Rows, r.Err)
		}
	}
	results, err := conn.Exec(t.Context(), "select note from people where id = 1; prepare p as select email, note from people where id = 1; execute p; select phone, email from people where id = 1").ReadAll()
	var got []string
	for _, r := range results {
		for _, row := range r.Rows {
			got = append(got, texts(row)...)
		}
	}
	if want := []string{"n", "a***@***", "n", "***1234", "a***@***"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	_, err = conn.Exec(t.Context(), "begin; select note from people; select id from people where email = 'x'").ReadAll()
	if err == nil {
		t.Error("a Query is run though one of its statements is refused")
	}
}

// The attack: the mask that a client reads is written back by a parameter, over the data.
func TestPlaceholdersAreNotWrittenBack(t *testing.T) {
	g := startMasked(t)
	conn, err := pgconn.Connect(t.Context(), g.DSN("ana", "gov"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	for value, state := range map[string]string{"a***@***": "42501", "ada@raw.test": ""} {
		r := conn.ExecParams(t.Context(), "update people set note = 'x', email = $1 where id = 1", [][]byte{[]byte(value)}, nil, nil, nil).Read()
		if got := failed(r.Err); got.state != state {
			t.Errorf("%s: %s %s, want %q", value, got.state, got.message, state)
		}
	}
}

// The attacks: a mask that fails lets the value through; a result is passed on though its mask has no key.
func TestAMaskThatFailsWithholdsTheRow(t *testing.T) {
	g := startMasked(t)
	oid := func(string) uint32 { return 0 }
	for _, extended := range []bool{false, true} {
		w := &wire{dsn: g.DSN("ana", "gov"), extended: extended, oid: oid}
		if r := w.run(t.Context(), step{Q: "set datestyle = 'German'"}); r.state != "" {
			t.Fatal(r.message)
		}
		r := w.run(t.Context(), step{Q: "select id, born from people where id = 1"})
		after := w.run(t.Context(), step{Q: "select id from people where id = 1"})
		tr := w.close()
		if r.state != "XX000" || len(r.rows) > 0 || bytes.Contains(tr.heard, []byte("10.12.1985")) {
			t.Errorf("extended %t: %s %s %v", extended, r.state, r.message, r.rows)
		}
		if fmt.Sprint(after.rows) != "[[1]]" {
			t.Errorf("extended %t: the next statement is answered %s %s", extended, after.state, after.message)
		}
	}
	for _, d := range maskedDoors(g) {
		tr := oneStep(t, d.door, step{Q: "select nokey from people"})
		if r := tr.replies[0]; r.state == "" || len(r.rows) > 0 {
			t.Errorf("%s: %s %v", d.name, r.state, r.rows)
		}
		hearsNothingRaw(t, d.name, "", tr)
	}
}

// The attack: the text of an error shows what the mask hides.
func TestErrorsBesideMaskedColumnsAreReduced(t *testing.T) {
	g := startMasked(t)
	for _, sql := range []string{
		"select id from people where ssn::int = 1",      // 22P02 quotes the value; the mask of ssn is filterable
		"select to_regconfig(ssn) from people",          // not reviewed
		"select id from people where ssn::date is null", // 22007 quotes the value
		"insert into people(id, email) values (1, 'ada@raw.test')",
	} {
		for _, d := range maskedDoors(g) {
			tr := oneStep(t, d.door, step{Q: sql})
			if tr.replies[0].state == "" {
				t.Errorf("%s at %s runs", sql, d.name)
			}
			hearsNothingRaw(t, d.name, sql, tr)
		}
	}
	for _, d := range maskedDoors(g) { // a name that nobody may see is NULL, not an error
		sql := "select id from people where ssn::regclass is null"
		hearsNothingRaw(t, d.name, sql, oneStep(t, d.door, step{Q: sql}))
	}
}

// The audit log says what was masked, and holds no value.
func TestMasksAreOnRecord(t *testing.T) {
	g := startMasked(t)
	for _, d := range maskedDoors(g) {
		oneStep(t, d.door, step{Q: "select id, email, length(email) from people"})
	}
	records := g.Records(audit.Filter{Kind: "select"})
	if len(records) != 3 {
		t.Fatalf("%d records", len(records))
	}
	for _, r := range records {
		if got, want := fmt.Sprintf("%+v", r.Outcome.Masks), "[{Mask:email Columns:[public.people.email] Values:3} {Mask:null Columns:[public.people.email] Values:3}]"; got != want {
			t.Errorf("%s: %s", r.Record.Door, got)
		}
		if !strings.Contains(string(r.Record.Judgement.Reasons), `"mask":"email"`) {
			t.Errorf("the reasons do not name the mask: %s", r.Record.Judgement.Reasons)
		}
	}
}
