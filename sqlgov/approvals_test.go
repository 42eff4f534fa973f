package sqlgov_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"interlock/audit"
	"interlock/internal/gatewaytest"
	"interlock/sqlgov"
)

const heldDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  everything:
    source: gov
    permissions:
      - allow: [db.table.select, db.table.insert, db.table.update, db.table.delete_rows, db.table.truncate, db.function.execute]
        on: ["public.*", "pg_catalog.nextval"]
identities:
  ana: {kind: human, grants: [{source: gov, roles: [everything]}]}
  dora: {kind: human, grants: [{source: gov, roles: [everything]}]}
  dirk: {kind: human}
  lena: {kind: human}
  eve: {kind: human, grants: [{source: gov, roles: [everything]}]}
groups:
  dba: [dora, dirk]
  legal: [lena]
policies:
  ask-first:
    when: statement.risk in ["medium", "high"] && !("public.free" in statement.writes)
    hold: {groups: [dba], max_rows: 3}
    message: writes are looked at
  law:
    when: '"public.law" in statement.writes'
    hold: {groups: [legal], expires: 10m}
  no-look:
    when: statement.kind == "select" && "public.kept" in statement.tables
    hold: {groups: [dba]}
`

const heldData = `
create table t (i int primary key, v text, j jsonb, d date);
insert into t select n, 'old', '{}', '2026-01-01' from generate_series(1, 10) n;
create table law (i int); insert into law values (1);
create table kept (i int);
create table free (i int);
create sequence s;`

// people is the HTTP API of people.
type people struct {
	t   testing.TB
	url string
	g   *gatewaytest.Gateway
}

func peopleOf(t testing.TB, g *gatewaytest.Gateway) *people { return &people{t, g.AdminURL(), g} }

func (p *people) do(who, method, path, body string, into any) int {
	p.t.Helper()
	req, err := http.NewRequest(method, p.url+"/v1/approvals"+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+p.g.Key(who))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		p.t.Fatalf("%s: %v", b, err)
	}
	return resp.StatusCode
}

func (p *people) show(who, id string) sqlgov.ApprovalView {
	p.t.Helper()
	var v sqlgov.ApprovalView
	if status := p.do(who, "GET", "/"+id, "", &v); status != http.StatusOK {
		p.t.Fatalf("%s sees approval %q: %d", who, id, status)
	}
	return v
}

func (p *people) approve(who, id string) (int, sqlgov.ApprovalView) {
	p.t.Helper()
	var v sqlgov.ApprovalView
	status := p.do(who, "POST", "/"+id+"/approve", `{"reason": "looks right"}`, &v)
	for status == http.StatusOK && (v.State == sqlgov.ApprovalApproved || v.State == sqlgov.ApprovalExecuting) {
		time.Sleep(10 * time.Millisecond)
		v = p.show(who, id)
	}
	return status, v
}

var approvalID = regexp.MustCompile(`Approval ([0-9A-Z]{26}) waits`)

// heldAs runs a statement that must be held and returns the id of its approval.
func heldAs(t testing.TB, err error) string {
	t.Helper()
	pe, ok := err.(*pgconn.PgError)
	if !ok || pe.Code != "42501" || approvalID.FindStringSubmatch(pe.Detail) == nil {
		t.Fatalf("not held: %#v", err)
	}
	id := approvalID.FindStringSubmatch(pe.Detail)[1]
	if !strings.Contains(pe.Hint, "interlock approval show "+id) || !strings.Contains(pe.Message, "was not executed") {
		t.Errorf("%+v", pe)
	}
	return id
}

func connectAs(t testing.TB, g *gatewaytest.Gateway, who string, settings ...string) *pgx.Conn {
	t.Helper()
	return pgxTo(t, g.DSN(who, "gov", settings...))
}

func pgxTo(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func startHeld(t testing.TB) (*gatewaytest.Gateway, *pgx.Conn, *people) {
	t.Helper()
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: heldDocument, Setup: []string{heldData}})
	return g, pgxTo(t, g.Upstream), peopleOf(t, g)
}

func one(t testing.TB, conn *pgx.Conn, sql string) string {
	t.Helper()
	var v string
	if err := conn.QueryRow(t.Context(), "select ("+sql+")::text").Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// A held write runs once, exactly as it was sent, after an approver of the group has said so, and never before.
func TestHeldWriteIsApprovedAndRun(t *testing.T) {
	g, direct, people := startHeld(t)
	ana := connectAs(t, g, "ana")
	for _, tc := range []struct {
		what  string
		run   func() error
		check string
		rows  int64
	}{
		{"simple", func() error {
			_, err := ana.Exec(t.Context(), "update t set v = 'simple' where i = 1", pgx.QueryExecModeSimpleProtocol)
			return err
		}, "select count(*) from t where v = 'simple'", 1},
		{"extended, binary and untyped parameters", func() error {
			_, err := ana.Exec(t.Context(), "update t set v = $1, j = $2 where i = any($3)", "x", map[string]any{"a": []int{1}}, []int32{2, 3})
			return err
		}, "select count(*) from t where v = 'x' and j = '{\"a\": [1]}'", 2},
		{"a null parameter", func() error {
			_, err := ana.Exec(t.Context(), "update t set v = $1 where i = $2", nil, 4)
			return err
		}, "select count(*) from t where v is null", 1},
		{"several statements", func() error {
			_, err := ana.Exec(t.Context(), "update t set v = 'two' where i = 5; ; -- and\n delete from t where i = 6 returning v;", pgx.QueryExecModeSimpleProtocol)
			return err
		}, "select count(*) from t where v = 'two' and not exists (select from t where i = 6)", 2},
		{"a write in a CTE", func() error {
			_, err := ana.Exec(t.Context(), "with gone as (delete from t where i = 7 returning i) insert into free select i from gone", pgx.QueryExecModeSimpleProtocol)
			return err
		}, "select count(*) from free where i = 7", 1},
	} {
		t.Run(tc.what, func(t *testing.T) {
			before := one(t, direct, "select md5(string_agg(t::text, ',' order by i)) from t")
			if tc.what == "a write in a CTE" {
				// its risk is that of the DELETE, and what it writes to as well is excepted
				_, err := ana.Exec(t.Context(), "with gone as (delete from t where i = 7 returning i) insert into free select i from gone")
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			id := heldAs(t, tc.run())
			if after := one(t, direct, "select md5(string_agg(t::text, ',' order by i)) from t"); after != before {
				t.Fatal("what is held has run")
			}
			if v := people.show("ana", id); v.State != sqlgov.ApprovalPending || v.MayApprove || v.Requester != "ana" || len(v.Holds) != 1 || v.Holds[0].Met {
				t.Errorf("%+v", v)
			}
			status, v := people.approve("dora", id)
			if status != http.StatusOK || v.State != sqlgov.ApprovalDone || v.Rows != tc.rows || v.Votes[0].Reason != "looks right" {
				t.Fatalf("%d %+v", status, v)
			}
			if got := one(t, direct, tc.check); got == "0" {
				t.Errorf("%s: %s", tc.check, got)
			}
			if status, _ := people.approve("dirk", id); status != http.StatusConflict {
				t.Errorf("a second approval: %d", status)
			}
			if run := g.Records(audit.Filter{ID: v.Run}); len(run) != 1 || run[0].Identity != "ana" || run[0].Status != audit.OK || run[0].Session != "approval "+id {
				t.Errorf("the execution is on record: %+v", run)
			}
		})
	}
}

// Through MCP, the agent hears that it is queued, which is no error, and what it must not do.
func TestHeldOverMCP(t *testing.T) {
	g, direct, people := startHeld(t)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"interlock_query","arguments":{"source_id":"gov","sql":"update t set v = 'mcp' where i = 1"}}}`
	call := func() (string, map[string]any) {
		req, err := http.NewRequest("POST", g.MCP, bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + g.Key("ana")} {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var answer struct {
			Result struct {
				IsError           bool
				Content           []struct{ Text string }
				StructuredContent map[string]any
			}
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		if answer.Result.IsError {
			t.Error("a queued write is not an error: clients retry those")
		}
		return answer.Result.Content[0].Text, answer.Result.StructuredContent
	}
	text, said := call()
	id, _ := said["approval_id"].(string)
	if said["status"] != "queued" || said["approval_state"] != "pending" || id == "" || said["message"] == "" {
		t.Errorf("%v", said)
	}
	if !strings.Contains(text, "was not executed") || !strings.Contains(text, "Do not send the statement again") || !strings.Contains(text, id) {
		t.Errorf("%s", text)
	}
	if _, again := call(); again["approval_id"] == id || again["status"] != "queued" {
		t.Errorf("the queue does not deduplicate: %v", again)
	}
	asked := strings.NewReplacer("interlock_query", "interlock_show_approval", `"source_id":"gov","sql":"update t set v = 'mcp' where i = 1"`, `"approval_id":"`+id+`"`)
	body = asked.Replace(body)
	if _, said := call(); said["approval_id"] != id || said["approval_state"] != "pending" {
		t.Errorf("%v", said)
	}
	if status, v := people.approve("dora", id); status != http.StatusOK || v.State != sqlgov.ApprovalDone || v.Door != sqlgov.MCP {
		t.Errorf("%d %+v", status, v)
	}
	if _, said := call(); said["approval_state"] != "done" || said["rows"] != 1.0 {
		t.Errorf("the agent hears how it ended: %v", said)
	}
	if got := one(t, direct, "select count(*) from t where v = 'mcp'"); got != "1" {
		t.Errorf("%s rows", got)
	}
}

// Who may see and decide: approvers of a group of each hold, never the requester, and nobody else learns that there is
// anything.
func TestWhoMayApprove(t *testing.T) {
	g, direct, people := startHeld(t)
	ana := connectAs(t, g, "ana")
	dora := connectAs(t, g, "dora")
	_, err := ana.Exec(t.Context(), "delete from law")
	id := heldAs(t, err)
	for _, tc := range []struct {
		who, verb string
		want      int
	}{
		{"", "approve", 401}, {"eve", "approve", 404}, {"ana", "approve", 403}, {"dora", "approve", 200}, {"dora", "approve", 409}, {"dirk", "approve", 200},
	} {
		if got := people.do(tc.who, "POST", "/"+id+"/"+tc.verb, "", nil); got != tc.want {
			t.Errorf("%q %ss: %d, want %d", tc.who, tc.verb, got, tc.want)
		}
	}
	if got := people.do("eve", "GET", "/"+id, "", nil); got != 404 {
		t.Errorf("eve sees it: %d", got)
	}
	var seen []sqlgov.ApprovalView
	if people.do("eve", "GET", "", "", &seen); len(seen) != 0 {
		t.Errorf("eve sees a list: %+v", seen)
	}
	if v := people.show("lena", id); v.State != sqlgov.ApprovalPending || !v.Holds[0].Met || v.Holds[1].Met || !v.MayApprove {
		t.Errorf("two approvals of one group do not meet the hold of the other: %+v", v)
	}
	if people.do("lena", "GET", "?state=pending", "", &seen); len(seen) != 1 {
		t.Errorf("lena sees what waits for her: %+v", seen)
	}
	if got := one(t, direct, "select count(*) from law"); got != "1" {
		t.Errorf("it has run before it was approved")
	}
	if status, v := people.approve("lena", id); status != 200 || v.State != sqlgov.ApprovalDone {
		t.Errorf("%d %+v", status, v)
	}
	// One that may approve cannot do so for herself.
	_, err = dora.Exec(t.Context(), "delete from t where i = 1")
	own := heldAs(t, err)
	if got, _ := people.approve("dora", own); got != 403 {
		t.Errorf("dora approves her own statement: %d", got)
	}
	if got := people.do("dirk", "POST", "/"+own+"/reject", `{"reason": "not on a Friday"}`, nil); got != 200 {
		t.Errorf("dirk rejects: %d", got)
	}
	if v := people.show("dora", own); v.State != sqlgov.ApprovalRejected || v.Votes[0].Reason != "not on a Friday" {
		t.Errorf("the reason reaches the requester: %+v", v)
	}
	if got, _ := people.approve("dirk", own); got != 409 {
		t.Errorf("what is rejected is approved: %d", got)
	}
	// A requester can take it back.
	_, err = ana.Exec(t.Context(), "delete from t where i = 2")
	mine := heldAs(t, err)
	if got := people.do("ana", "POST", "/"+mine+"/reject", "", nil); got != 200 {
		t.Errorf("ana withdraws: %d", got)
	}
	if got := one(t, direct, "select count(*) from t"); got != "10" {
		t.Errorf("%s rows are left", got)
	}
	for _, bad := range []string{`{"reason": 5}`, `{"why": "x"}`, `[]`, `{"reason": "` + strings.Repeat("x", 3000) + `"}`} {
		if got := people.do("dora", "POST", "/"+mine+"/approve", bad, nil); got != 400 {
			t.Errorf("%.20s: %d", bad, got)
		}
	}
}

// What has changed since the statement was held makes it void: it is not run.
func TestChangedMeaningVoids(t *testing.T) {
	for _, tc := range []struct {
		what   string
		change func(t *testing.T, g *gatewaytest.Gateway, direct *pgx.Conn)
		want   sqlgov.ApprovalState
	}{
		{"nothing", func(*testing.T, *gatewaytest.Gateway, *pgx.Conn) {}, sqlgov.ApprovalDone},
		{"the role is taken away", func(_ *testing.T, g *gatewaytest.Gateway, _ *pgx.Conn) {
			g.Apply(strings.Replace(heldDocument, "ana: {kind: human, grants: [{source: gov, roles: [everything]}]}", "ana: {kind: human}", 1))
		}, sqlgov.ApprovalVoid},
		{"the action is taken away", func(_ *testing.T, g *gatewaytest.Gateway, _ *pgx.Conn) {
			g.Apply(strings.Replace(heldDocument, "db.table.delete_rows, ", "", 1))
		}, sqlgov.ApprovalVoid},
		{"a policy refuses it", func(_ *testing.T, g *gatewaytest.Gateway, _ *pgx.Conn) {
			g.Apply(heldDocument + "  never: {when: statement.kind == \"delete\", refuse: true}\n")
		}, sqlgov.ApprovalVoid},
		{"a policy asks for more", func(_ *testing.T, g *gatewaytest.Gateway, _ *pgx.Conn) {
			g.Apply(heldDocument + "  more: {when: statement.kind == \"delete\", hold: {groups: [legal]}}\n")
		}, sqlgov.ApprovalVoid},
		{"a policy asks for nothing any more", func(_ *testing.T, g *gatewaytest.Gateway, _ *pgx.Conn) {
			g.Apply(strings.Replace(heldDocument, `statement.risk in ["medium", "high"]`, "false", 1))
		}, sqlgov.ApprovalDone},
		{"the key is revoked", func(_ *testing.T, g *gatewaytest.Gateway, _ *pgx.Conn) { g.Revoke("ana") }, sqlgov.ApprovalVoid},
		{"the table is another one", func(t *testing.T, g *gatewaytest.Gateway, direct *pgx.Conn) {
			rescan(t, g, direct, "alter table t rename to old; create table t (i int primary key, v text, j jsonb, d date); insert into t values (1)")
		}, sqlgov.ApprovalVoid},
		{"the table has a trigger", func(t *testing.T, g *gatewaytest.Gateway, direct *pgx.Conn) {
			rescan(t, g, direct, `create function f() returns trigger language plpgsql as 'begin return old; end';
				create trigger x before delete on t for each row execute function f()`)
		}, sqlgov.ApprovalVoid},
		{"another table is new", func(t *testing.T, g *gatewaytest.Gateway, direct *pgx.Conn) {
			rescan(t, g, direct, "create table unrelated (i int)")
		}, sqlgov.ApprovalDone},
		{"the source is disabled", func(_ *testing.T, g *gatewaytest.Gateway, _ *pgx.Conn) {
			g.Apply(strings.Replace(heldDocument, "kind: postgres", "kind: postgres\n    disabled: true", 1))
		}, sqlgov.ApprovalFailed},
	} {
		t.Run(tc.what, func(t *testing.T) {
			g, direct, people := startHeld(t)
			_, err := connectAs(t, g, "ana").Exec(t.Context(), "delete from t where i = 1")
			id := heldAs(t, err)
			tc.change(t, g, direct)
			status, v := people.approve("dora", id)
			if status != 200 || v.State != tc.want || tc.want != sqlgov.ApprovalDone && v.Note == "" {
				t.Errorf("%d %s %s, want %s", status, v.State, v.Note, tc.want)
			}
			left := map[bool]string{true: "0", false: "1"}[tc.want == sqlgov.ApprovalDone]
			if got := one(t, direct, "select count(*) from t where i = 1"); got != left {
				t.Errorf("%s rows are left, want %s", got, left)
			}
		})
	}
}

func rescan(t *testing.T, g *gatewaytest.Gateway, direct *pgx.Conn, ddl string) {
	t.Helper()
	if _, err := direct.Exec(t.Context(), ddl); err != nil {
		t.Fatal(err)
	}
	if err := g.Catalogs.Refresh(t.Context(), g.Rules.Current().Source("gov")); err != nil {
		t.Fatal(err)
	}
}

// A statement that changes more rows than the policy allows, or fails on the server, leaves nothing.
func TestHeldWriteThatFails(t *testing.T) {
	g, direct, people := startHeld(t)
	ana := connectAs(t, g, "ana")
	for sql, want := range map[string]string{
		"delete from t where i <= 4":                                             "more than the 3",
		"delete from t where i = 1; delete from t where i <= 4":                  "more than the 3",
		"delete from t where i <= 4 returning i":                                 "more than the 3",
		"delete from t where i = 9; update t set i = 2 where i = 1":              "duplicates a value",
		"update t set v = '1' where i = (select 1 / (i - 1) from t where i = 1)": "SQLSTATE 22012",
	} {
		_, err := ana.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		id := heldAs(t, err)
		if status, v := people.approve("dora", id); status != 200 || v.State != sqlgov.ApprovalFailed || !strings.Contains(v.Note, want) || v.Rows != 0 {
			t.Errorf("%s: %d %s %q, want %q", sql, status, v.State, v.Note, want)
		}
	}
	if got := one(t, direct, "select count(*) from t where v = 'old'"); got != "10" {
		t.Errorf("%s rows are as they were", got)
	}
}

// The settings of the session that shape values are those that the statement runs with.
func TestHeldWithTheSettingsOfItsSession(t *testing.T) {
	g, direct, people := startHeld(t)
	conn := connectAs(t, g, "ana", "timezone=Asia%2FTokyo")
	if _, err := conn.Exec(t.Context(), "set datestyle = 'ISO, DMY'"); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Exec(t.Context(), "update t set d = '02/03/2026', v = current_setting('timezone') where i = 1")
	if err == nil || !strings.Contains(err.Error(), "current_setting") {
		t.Fatalf("%v", err)
	}
	_, err = conn.Exec(t.Context(), "update t set d = '02/03/2026', v = '2026-01-01 00:00+00'::timestamptz::text where i = 1")
	id := heldAs(t, err)
	if status, v := people.approve("dora", id); status != 200 || v.State != sqlgov.ApprovalDone {
		t.Fatalf("%d %+v", status, v)
	}
	if got := one(t, direct, "select d::text || ' ' || v from t where i = 1"); got != "2026-03-02 2026-01-01 09:00:00+09" {
		t.Errorf("%s", got)
	}
}

// Settings of which the server does not tell are those of the session, too, however they were set; and where it is not
// known what they are, the statement cannot wait. Without that it would write another text than its requester saw.
func TestHeldWithUnreportedSettings(t *testing.T) {
	g, direct, people := startHeld(t)
	const sql = "update t set v = (0.1::float8 * 3)::text || ' ' || 'a'::bytea::text where i = 1"
	const usual, other = `0.30000000000000004 \x61`, `0.3 a`
	for _, tc := range []struct {
		settings string
		sent     []string
		want     string // what the server writes in such a session; "" if the statement cannot be held
	}{
		{"", nil, usual},
		{"Extra_Float_Digits=0&bytea_output=escape", nil, other},
		{"", []string{"set extra_float_digits = 0", "set bytea_output = 'escape'"}, other},
		{"", []string{"set extra_float_digits to 0; set bytea_output to escape"}, other},
		{"extra_float_digits=0&bytea_output=escape", []string{"set extra_float_digits = 1; set bytea_output = 'hex'", "reset extra_float_digits", "reset bytea_output"}, other},
		{"extra_float_digits=0&bytea_output=escape", []string{"set extra_float_digits = 1; set bytea_output = 'hex'", "reset all"}, other},
		{"extra_float_digits=0&bytea_output=escape", []string{"set bytea_output = 'hex'", "discard all"}, other},
		{"", []string{"begin", "set extra_float_digits = 0", "commit"}, ""},
		{"", []string{"begin; set extra_float_digits = 0; rollback"}, ""},
		{"", []string{"begin", "set extra_float_digits = 0", "rollback", "set extra_float_digits = 1"}, usual},
		{"", []string{"set extra_float_digits = 0; select 1/0"}, ""},
		{"", []string{"set extra_float_digits = 0; select 1/0", "reset extra_float_digits"}, usual},
		{"", []string{"begin", "set local bytea_output = 'escape'"}, ""},
	} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeDescribeExec} {
			conn := connectAs(t, g, "ana", strings.TrimPrefix(tc.settings+"&application_name=a", "&"))
			for _, text := range tc.sent {
				how := mode
				if strings.Contains(text, ";") {
					how = pgx.QueryExecModeSimpleProtocol
				}
				if _, err := conn.Exec(t.Context(), text, how); err != nil && !strings.Contains(text, "1/0") {
					t.Fatalf("%s: %v", text, err)
				}
			}
			_, err := conn.Exec(t.Context(), sql, mode)
			if tc.want == "" {
				if err == nil || !strings.Contains(err.Error(), "cannot wait for an approval: it is not known what") {
					t.Errorf("%q %q: %v", tc.settings, tc.sent, err)
				}
				continue
			}
			if status, v := people.approve("dora", heldAs(t, err)); status != 200 || v.State != sqlgov.ApprovalDone {
				t.Fatalf("%d %+v", status, v)
			}
			if got := one(t, direct, "select v from t where i = 1"); got != tc.want {
				t.Errorf("%q %q: %s, want %s", tc.settings, tc.sent, got, tc.want)
			}
		}
	}
}

// What cannot wait for people is refused.
func TestWhatCannotBeHeld(t *testing.T) {
	g, _, people := startHeld(t)
	ana := connectAs(t, g, "ana")
	for _, sql := range []string{
		"select * from kept",
		"begin; delete from t where i = 1; commit",
		"set datestyle = 'ISO'; delete from t where i = 1",
		"prepare p as delete from t; execute p",
	} {
		_, err := ana.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
		if pe, ok := err.(*pgconn.PgError); !ok || pe.Code != "42501" || !strings.Contains(pe.Message, "cannot wait for an approval") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	var seen []sqlgov.ApprovalView
	if people.do("dora", "GET", "", "", &seen); len(seen) != 0 {
		t.Errorf("%+v", seen)
	}
}

// A held statement fails its transaction, and what comes after it in the pipeline is skipped.
func TestHeldInATransaction(t *testing.T) {
	g, direct, people := startHeld(t)
	ana := connectAs(t, g, "ana")
	tx, err := ana.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "insert into free values (1)"); err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), "delete from t where i = 1")
	id := heldAs(t, err)
	if _, err := tx.Exec(t.Context(), "insert into free values (2)"); err == nil {
		t.Error("the transaction goes on")
	}
	if err := tx.Commit(t.Context()); err == nil {
		t.Error("the transaction is committed")
	}
	if got := one(t, direct, "select count(*) from free"); got != "0" {
		t.Errorf("%s rows", got)
	}
	if status, v := people.approve("dirk", id); status != 200 || v.State != sqlgov.ApprovalDone {
		t.Errorf("%d %+v", status, v)
	}
}

// Every step of the life is in the audit log, by whom, and no value of the statement anywhere in it.
func TestLifeOfAnApprovalIsOnRecord(t *testing.T) {
	g, _, people := startHeld(t)
	ana := connectAs(t, g, "ana")
	var ids []string
	for _, end := range []string{"approve", "reject"} {
		_, err := ana.Exec(t.Context(), "update t set v = $1 where i = 1", "hunter2-"+end)
		ids = append(ids, heldAs(t, err))
		people.do("dora", "POST", "/"+ids[len(ids)-1]+"/"+end, `{"reason": "hunter2 in the reason"}`, nil)
	}
	want := [][]string{{"approval.queued by ana", "approval.vote by dora", "approval.approved by dora", "approval.claimed by node", "approval.executed by node"},
		{"approval.queued by ana", "approval.vote by dora", "approval.rejected by dora"}}
	for i, id := range ids {
		var life []string
		for deadline := time.Now().Add(time.Minute); len(life) < len(want[i]) && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			life = nil
			for _, v := range g.Records(audit.Filter{Events: true}) {
				if v.Event != nil && v.Event.Attributes["approval"] == id {
					by := v.Event.Attributes["by"]
					if by != "ana" && by != "dora" {
						by = "node"
					}
					life = append(life, v.Event.Name+" by "+by)
				}
			}
		}
		if !slices.Equal(life, want[i]) {
			t.Errorf("%q\nwant %q", life, want[i])
		}
	}
	for _, v := range g.Records(audit.Filter{}) {
		if text := fmt.Sprintf("%+v %+v %+v", v, v.Event, v.Outcome); strings.Contains(text, "hunter2") {
			t.Errorf("a value is on record: %s", text)
		}
	}
}
