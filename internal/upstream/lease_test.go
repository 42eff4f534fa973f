package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock/internal/pgtest"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"

	"github.com/jackc/pgx/v5/pgproto3"
)

// shared returns a source in transaction mode with so many connections.
func shared(t *testing.T, dsn string, connections int) *policy.SourceSpec {
	src := sourceOf(t, dsn)
	src.Upstream.PoolMode, src.Limits.Connections = policy.PoolTransaction, connections
	return src
}

func openShared(t *testing.T, p *Pool, src *policy.SourceSpec, params map[string]string) sqlgov.Lease {
	t.Helper()
	return open(t, p, src, sqlgov.OpenOptions{Shared: true, Parameters: params}).(sqlgov.Lease)
}

func hold(t *testing.T, l sqlgov.Lease) {
	t.Helper()
	if err := l.Hold(t.Context()); err != nil {
		t.Fatal(err, errors.Unwrap(err))
	}
}

// asked runs a Query on a connection that is held and returns the values of its rows.
func asked(t *testing.T, l sqlgov.Lease, sql string) (values []string) {
	t.Helper()
	send(t, l, &pgproto3.Query{String: sql})
	for {
		r, err := l.Receive()
		if err != nil {
			t.Fatal(err)
		}
		switch r.Kind {
		case sqlgov.DataRow:
			row, ok := textRow(r.Frame[5:])
			if !ok {
				t.Fatalf("%q", r.Frame)
			}
			values = append(values, strings.Join(row, "|"))
		case sqlgov.ErrorResponse:
			values = append(values, r.Error.SQLState+" "+r.Error.Message)
		case sqlgov.ReadyForQuery:
			return values
		}
	}
}

// traces are what one session can leave to the next one on its connection: how it is done, how the next one finds it, and what a
// session of its own finds.
var traces = []struct{ name, leave, find, none string }{
	{"role", "set role other", "select current_user = 'other'", "f"},
	{"authorization", "set session authorization other", "select session_user = 'other'", "f"},
	{"search path", "set search_path = evil", "select current_schema()", "public"},
	{"setting", "set statement_timeout = 77", "select current_setting('statement_timeout')", "0"},
	{"own setting", "set my.thing = 'secret'", "select coalesce(current_setting('my.thing', true), '')", ""},
	{"read only", "set default_transaction_read_only = on", "select current_setting('transaction_read_only')", "off"},
	{"temporary table", "create temp table t as select 'secret' as x", "select to_regclass('pg_temp.t') is null", "t"},
	{"shadowing table", "create temp table n as select 'forged' as x", "select x from n", "true"},
	{"advisory lock", "select pg_advisory_lock(7)", "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()", "0"},
	{"cursor", "begin; declare c cursor with hold for select 'secret'; commit", "select count(*) from pg_cursors", "0"},
	{"channel", "listen c", "select count(*) from pg_listening_channels()", "0"},
	{"sequence", "select nextval('s')", "select lastval()", "55000 lastval is not yet defined in this session"},
}

// The attack: a session leaves something on its connection, and another one, which is given the connection, is changed by it or sees
// what it must not see. With the guard off, which is to say that nothing is left behind, it finds everything.
func TestNothingIsLeftToTheNextSession(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t, `create schema evil; create sequence s; create table n as select 'true' as x`)
	srv.Exec(t, dsn, `do $$ begin create role other; exception when duplicate_object then null; end $$`)
	src := shared(t, dsn, 1)
	for _, tc := range traces {
		t.Run(tc.name, func(t *testing.T) {
			for _, guarded := range []bool{false, true} {
				p := newPool(t, Config{})
				one, two := openShared(t, p, src, nil), openShared(t, p, src, nil)
				hold(t, one)
				pid := one.Process()
				asked(t, one, tc.leave)
				left := sqlgov.Left(0)
				if guarded {
					left = sqlgov.LeftTraces
				}
				one.Return(left)
				hold(t, two)
				if two.Process() != pid {
					t.Error("it is another connection")
				}
				if got := fmt.Sprint(asked(t, two, tc.find)); (got == "["+tc.none+"]") != guarded {
					t.Errorf("guarded %v: found %s", guarded, got)
				}
				_ = two.Close()
				_ = p.Close()
			}
		})
	}
}

// The settings of a session are its own on whichever connection it finds itself; RESET gives it back those that it began with.
func TestSettingsAreOfTheSession(t *testing.T) {
	src := shared(t, pgtest.Start(t).Database(t), 1)
	p := newPool(t, Config{})
	one := openShared(t, p, src, map[string]string{"application_name": "it's one\n", "TimeZone": "Asia/Tokyo"})
	two := openShared(t, p, src, map[string]string{"TimeZone": "Asia/Tokyo"})
	name := func(l sqlgov.Lease) string {
		i := slices.IndexFunc(l.Parameters(), func(p sqlgov.Parameter) bool { return p.Name == "application_name" })
		return l.Parameters()[i].Value
	}
	if name(one) != "it's one?" || name(two) != appName {
		t.Errorf("the parameters name the programs %q and %q", name(one), name(two))
	}
	const show = `select concat_ws(',', current_setting('application_name'), current_setting('TimeZone'), current_setting('DateStyle'),
		current_setting('extra_float_digits'), current_setting('lock_timeout'), current_setting('default_transaction_isolation'), current_setting('search_path'))`
	const fresh = `,Asia/Tokyo,ISO, MDY,1,0,read committed,"$user", public`
	for _, step := range []struct{ set, one, two string }{
		{"select", "it's one?" + fresh, appName + fresh},
		{"set datestyle = german; set extra_float_digits = -2; set lock_timeout = '3min'; set session characteristics as transaction isolation level serializable",
			"it's one?,Asia/Tokyo,German, DMY,-2,180000,serializable," + `"$user", public`, appName + fresh},
		{"set time zone interval '+02:30' hour to minute; select set_config('search_path', '', false); set application_name = 'two''s'",
			"two's,<+02:30>-02:30,German, DMY,-2,180000,serializable,", appName + fresh},
		{"begin; set local datestyle = sql; set lock_timeout = 1; rollback", "two's,<+02:30>-02:30,German, DMY,-2,180000,serializable,", appName + fresh},
		{"reset all", "it's one?" + fresh, appName + fresh},
	} {
		hold(t, one)
		asked(t, one, step.set)
		one.Return(sqlgov.LeftSettings)
		for _, of := range []struct {
			l    sqlgov.Lease
			want string
		}{{two, step.two}, {one, step.one}} {
			hold(t, of.l)
			if got := asked(t, of.l, show); len(got) != 1 || strings.Replace(got[0], "3min", "180000", 1) != of.want {
				t.Errorf("after %s: %q, want %q", step.set, got, of.want)
			}
			of.l.Return(0)
		}
	}
}

// Where there is no connection, the lease says so as a server would, and nothing comes of what was sent.
func TestLeaseAnswersWithoutConnection(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	p, src := newPool(t, Config{WaitTimeout: 50 * time.Millisecond}), shared(t, dsn, 1)
	one, two := openShared(t, p, src, nil), openShared(t, p, src, nil)
	hold(t, one)
	parse := &pgproto3.Parse{Query: "select 1"}
	for _, tc := range []struct {
		messages []pgproto3.FrontendMessage
		want     string
	}{
		{[]pgproto3.FrontendMessage{&pgproto3.Query{String: "select 1"}}, "EZ"},
		{[]pgproto3.FrontendMessage{parse, &pgproto3.Query{String: "select 1"}, &pgproto3.Bind{}, &pgproto3.Sync{}}, "EZ"},
		{[]pgproto3.FrontendMessage{&pgproto3.Sync{}}, "EZ"},
	} {
		if err := two.Hold(t.Context()); reasonOf(err) != sqlgov.OpenBusy {
			t.Fatalf("Hold: %v", err)
		}
		two.Answer(&sqlgov.UpstreamError{Severity: "ERROR", SQLState: "53300", Message: "none", Hint: "wait"})
		send(t, two, tc.messages...)
		frames, status := replies(t, two, 1)
		var e pgproto3.ErrorResponse
		if err := e.Decode(frames[5 : len(frames)-6]); err != nil || e.Code != "53300" || e.Hint != "wait" || kinds(frames) != tc.want || status != 'I' {
			t.Errorf("%v: %s %c %+v %v", tc.messages, kinds(frames), status, e, err)
		}
		two.Return(0)
	}
	one.Return(0)
	hold(t, two)
	if got := asked(t, two, "select 'well'"); fmt.Sprint(got) != "[well]" {
		t.Errorf("afterwards: %v", got)
	}
}

// A wait ends with Interrupt, with its context and with Close, and a connection that comes too late is not lost.
func TestWaitForAConnectionEnds(t *testing.T) {
	p, src := newPool(t, Config{WaitTimeout: time.Minute}), shared(t, pgtest.Start(t).Database(t), 1)
	one := openShared(t, p, src, nil)
	others := make([]sqlgov.Lease, 3)
	for i := range others {
		others[i] = openShared(t, p, src, nil)
	}
	ctx, cancel := context.WithCancel(t.Context())
	hold(t, one)
	ended := make(chan error, len(others))
	for i, l := range others {
		go func() {
			if i == 0 {
				ended <- l.Hold(ctx)
			} else {
				ended <- l.Hold(context.Background())
			}
		}()
	}
	s := p.slots(src)
	eventually(t, func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.waiting) == len(others) })
	cancel()
	if !others[1].Interrupt() || one.Interrupt() {
		t.Error("who waits and who does not is mixed up")
	}
	_ = others[2].Close()
	for range others {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the wait ended with %v", err)
		}
	}
	one.Return(0)
	hold(t, others[1])
}

// A connection keeps the statements of sessions up to a bound; those that were not used for longest go.
func TestStatementsOfAConnectionAreBounded(t *testing.T) {
	p, src := newPool(t, Config{}), shared(t, pgtest.Start(t).Database(t), 1)
	l := openShared(t, p, src, nil)
	hold(t, l)
	for i := range keptStatements + 10 {
		name := fmt.Sprint("s", i)
		if err := l.SendPart(sqlgov.Part{Statement: &sqlgov.NamedStatement{Name: name, SQL: "select 1"}, Sync: true}); err != nil {
			t.Fatal(err)
		}
		send(t, l)
		if frames, _ := replies(t, l, 1); kinds(frames) != "31Z" {
			t.Fatal(kinds(frames))
		}
		l.Statements().Add(name)
	}
	if !l.Statements().Has("s0") { // which is a use of it
		t.Error("a statement of the transaction is gone")
	}
	l.Return(0)
	hold(t, l)
	if got := asked(t, l, "select count(*), min(name) from pg_prepared_statements where name in ('s0', 's1', 's10', 's11', 's12') or name > 's2'"); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if got := asked(t, l, "select count(*) from pg_prepared_statements"); fmt.Sprint(got) != fmt.Sprintf("[%d]", keptStatements) {
		t.Errorf("the server keeps %v statements", got)
	}
	for name, want := range map[string]bool{"s0": true, "s1": false, "s10": false, "s11": true, "s265": true} {
		if l.Statements().Has(name) != want {
			t.Errorf("%s: kept is %v", name, !want)
		}
	}
}

// Sessions with other start-up parameters do not share connections, and who finds none of its kind takes the place of an idle one.
func TestKindsOfSessions(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	p, src := newPool(t, Config{WaitTimeout: time.Minute}), shared(t, dsn, 2)
	kinds := []sqlgov.OpenOptions{{Shared: true}, {Shared: true, ReadOnly: true}, {Shared: true, Parameters: map[string]string{"TimeZone": "UTC"}}}
	var leases []sqlgov.Lease
	for _, opt := range kinds {
		leases = append(leases, open(t, p, src, opt).(sqlgov.Lease))
	}
	for range 2 {
		for i, l := range leases {
			hold(t, l)
			if got, want := fmt.Sprint(asked(t, l, "select current_setting('transaction_read_only')")), []string{"[off]", "[on]", "[off]"}[i]; got != want {
				t.Errorf("session %d is read-only: %s", i, got)
			}
			asked(t, l, "reset all")
			if got, want := fmt.Sprint(asked(t, l, "select current_setting('transaction_read_only')")), []string{"[off]", "[on]", "[off]"}[i]; got != want {
				t.Errorf("after RESET ALL session %d is read-only: %s", i, got)
			}
			l.Return(sqlgov.LeftSettings)
		}
	}
	if _, err := runOn(t, p, src, read("select 1")); err != nil {
		t.Error(err)
	}
	eventually(t, func() bool { return sessions(t, dsn, "true") == 2 })
}

// A connection that the server has closed while nobody used it is nobody's loss, and a session that is in the middle of something keeps
// what it has from others.
func TestLostAndBusyConnectionsAreNotPassedOn(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	p, src := newPool(t, Config{}), shared(t, dsn, 1)
	one, two := openShared(t, p, src, nil), openShared(t, p, src, nil)
	hold(t, one)
	lost := one.Process()
	one.Return(0)
	srv.Exec(t, dsn, fmt.Sprintf("select pg_terminate_backend(%d, 10000)", lost))
	hold(t, two)
	if two.Process() == lost {
		t.Error("the connection should be lost")
	}
	asked(t, two, "begin; set role other")
	pid := two.Process()
	_ = two.Close()
	hold(t, one)
	if one.Process() == pid || fmt.Sprint(asked(t, one, "select current_user = session_user")) != "[t]" {
		t.Error("the connection of a transaction was passed on")
	}
}
