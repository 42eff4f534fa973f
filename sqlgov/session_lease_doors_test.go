package sqlgov_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"interlock/audit"
	"interlock/internal/config"
	"interlock/internal/gatewaytest"
)

// pooledDocument is AllowAll with so many connections that sessions share.
func pooledDocument(connections int) string {
	return strings.Replace(gatewaytest.AllowAll, "tls: disable}", fmt.Sprintf("tls: disable, pool_mode: transaction}\n    limits: {connections: %d}", connections), 1)
}

const pooledData = `create table t (id serial primary key, who int, n int); create schema other; create table other.hidden (x int);
create function keeps(int) returns int language sql as 'select $1';
create table watched (id int);
create function leave() returns trigger language plpgsql as $$ begin
	perform set_config('search_path', 'other', false), set_config('TimeZone', 'Asia/Tokyo', false), pg_advisory_lock(99);
	create temp table left_behind as select 'secret' as x; return new; end $$;
create trigger leaves before insert on watched for each row execute function leave()`

func pooledGateway(t *testing.T, connections int, wait time.Duration) *gatewaytest.Gateway {
	return gatewaytest.Start(t, gatewaytest.Options{Governance: pooledDocument(connections), Setup: []string{pooledData},
		Configure: func(c *config.Config) { c.Limits.UpstreamWaitTimeout = wait }})
}

func sharedConn(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// says runs a statement by the simple protocol and returns the values of its rows, or the SQLSTATE.
func says(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg):
		return pg.Code
	case err != nil:
		t.Errorf("%s: %v", sql, err)
		return err.Error()
	}
	var values []string
	for _, r := range results {
		for _, row := range r.Rows {
			for _, v := range row {
				values = append(values, string(v))
			}
		}
	}
	return strings.Join(values, " ")
}

// Many clients on few connections find their statements, settings and transactions as if each had a connection of its own.
func TestManyClientsShareConnections(t *testing.T) {
	const clients, connections, rounds = 20, 2, 5
	g := pooledGateway(t, connections, 5*time.Minute)
	var all sync.WaitGroup
	for i := range clients {
		conn := sharedConn(t, g.DSN("ana", "shop", fmt.Sprint("application_name=client", i)))
		all.Go(func() {
			for round := range rounds {
				if err := pooledRound(t.Context(), conn, i, round); err != nil {
					t.Errorf("client %d, round %d: %v", i, round, err)
					return
				}
			}
		})
	}
	all.Wait()
	direct := sharedConn(t, g.Upstream)
	if got, want := says(t, direct, "select count(*), sum(n) from t"), fmt.Sprint(clients*rounds, " ", clients*rounds*(rounds-1)/2); got != want {
		t.Errorf("the table has %s, want %s", got, want)
	}
	if got := says(t, direct, "select count(*) <= 2 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and application_name <> 'interlock scan'"); got != "t" {
		t.Error("there are more connections than the source allows")
	}
}

// pooledRound is what a client does: prepared statements, which pgx keeps by name, a setting, a transaction that is committed and one that fails.
func pooledRound(ctx context.Context, conn *pgx.Conn, who, round int) error {
	zone := fmt.Sprintf("Etc/GMT+%d", 1+who%12)
	if round == 0 {
		if _, err := conn.Exec(ctx, "set time zone '"+zone+"'"); err != nil {
			return err
		}
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "insert into t (who, n) values ($1, $2)", who, round); err != nil {
		return err
	}
	var rows int
	if err := tx.QueryRow(ctx, "select count(*) from t where who = $1", who).Scan(&rows); err != nil || rows != round+1 {
		return fmt.Errorf("%d rows in the transaction: %w", rows, err)
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	if tx, err = conn.Begin(ctx); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "insert into t (id, who, n) select id, who, 1000 from t where who = $1", who); err == nil {
		return errors.New("a duplicate was accepted")
	}
	if err := tx.Rollback(ctx); err != nil {
		return err
	}
	var got, name string
	err = conn.QueryRow(ctx, "select current_setting('TimeZone'), current_setting('application_name') || $1", "").Scan(&got, &name)
	if err != nil || got != zone || name != fmt.Sprint("client", who) {
		return fmt.Errorf("it is in zone %s and called %s: %w", got, name, err)
	}
	return nil
}

// What one client does to its session, another one on the same connection sees nothing of, and the client finds it again.
func TestSessionStateIsNotShared(t *testing.T) {
	g := pooledGateway(t, 1, 5*time.Minute)
	one, two := sharedConn(t, g.DSN("ana", "shop")), sharedConn(t, g.DSN("bob", "shop"))
	for _, tc := range []struct{ one, find, first, second string }{
		{"set role postgres", "select current_user = session_user", "t", "t"}, // which is refused
		{"set search_path = ''", "select count(*) from t", "42P01", "0"},
		{"reset search_path", "select count(*) from t", "0", "0"},
		{"set datestyle = 'german, dmy'", "select date '2026-02-01'", "01.02.2026", "2026-02-01"},
		{"set statement_timeout = 77000", "show statement_timeout", "77s", "5min"},
		{"set default_transaction_read_only = on", "insert into t (who) values (1)", "25006", ""},
		{"reset default_transaction_read_only", "select count(*) from t", "1", "1"},
		{"set application_name = 'mine'", "show application_name", "mine", "interlock"},
		{"insert into t (who) values (2)", "select lastval()", "55000", "55000"}, // nothing is told of sequences, not to the one either
		{"insert into watched values (1)", "select current_setting('search_path') || current_setting('TimeZone')", `"public"` + "Etc/UTC", `"public"` + "Etc/UTC"},
		{"discard all", "show statement_timeout", "5min", "5min"},
	} {
		says(t, one, tc.one)
		zoneless := func(s string) string { return strings.NewReplacer("Etc/UTC", "", "UTC", "", "GMT", "").Replace(s) }
		second := says(t, two, tc.find)
		if first := says(t, one, tc.find); zoneless(first) != zoneless(tc.first) || zoneless(second) != zoneless(tc.second) {
			t.Errorf("after %s, %s says %q to the one and %q to the other, want %q and %q", tc.one, tc.find, first, second, tc.first, tc.second)
		}
	}
	direct := sharedConn(t, g.Upstream)
	for _, sql := range []string{"select count(*) from pg_class where relname = 'left_behind'", "select count(*) from pg_locks where locktype = 'advisory'"} {
		if got := says(t, direct, sql); got != "0" {
			t.Errorf("a trigger left something behind: %s says %s", sql, got)
		}
	}
}

// What cannot be carried to another connection keeps the connection with its session, until that ends. Then nobody gets it.
func TestSessionsThatKeepTheirConnection(t *testing.T) {
	g := pooledGateway(t, 2, 5*time.Minute)
	two := sharedConn(t, g.DSN("bob", "shop"))
	direct := sharedConn(t, g.Upstream)
	for _, tc := range []struct{ begin, find, finds string }{
		{"select pg_advisory_lock(7)", "select pg_advisory_unlock(7)", "t"},
		{"declare c cursor with hold for select 'kept'", "fetch c", "kept"},
		{"prepare p as select 'prepared'", "execute p", "prepared"},
		{"listen events", "notify events", ""},
		{"select keeps(3)", "select 1", "1"},
	} {
		one := sharedConn(t, g.DSN("ana", "shop"))
		says(t, one, tc.begin)
		pid := says(t, one, "select pg_backend_pid()")
		for range 2 {
			if got := says(t, two, "select pg_backend_pid()"); got == pid {
				t.Errorf("%s: another session has the connection", tc.begin)
			}
		}
		if got := says(t, one, tc.find); got != tc.finds {
			t.Errorf("%s: afterwards %s says %q", tc.begin, tc.find, got)
		}
		if got := says(t, one, "select pg_backend_pid()"); got != pid {
			t.Errorf("%s: the session has another connection", tc.begin)
		}
		if tc.begin == "listen events" {
			if n, err := one.WaitForNotification(t.Context()); err != nil || n.Channel != "events" || n.PID != one.PgConn().PID() {
				t.Errorf("notification %+v, %v", n, err)
			}
		}
		_ = one.Close(t.Context())
		for end := time.Now().Add(time.Minute); says(t, direct, "select count(*) from pg_stat_activity where pid = "+pid) != "0"; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: the connection outlives its session", tc.begin)
			}
		}
	}
}

// Prepared statements are there on whichever connection, and their names mean what they mean on one.
func TestPreparedStatementsOnOtherConnections(t *testing.T) {
	g := pooledGateway(t, 2, 5*time.Minute)
	one, two := sharedConn(t, g.DSN("ana", "shop")), sharedConn(t, g.DSN("bob", "shop"))
	pid := func() string {
		r := one.PgConn().ExecPrepared(t.Context(), "pid", nil, nil, nil).Read()
		if r.Err != nil || len(r.Rows) != 1 {
			t.Fatal(r.Err)
		}
		return string(r.Rows[0][0])
	}
	if _, err := one.PgConn().Prepare(t.Context(), "pid", "select pg_backend_pid()", nil); err != nil {
		t.Fatal(err)
	}
	first := pid()
	says(t, two, "begin; select 1") // takes the connection that was used last
	if pid() == first {
		t.Fatal("it is the connection on which the statement was prepared")
	}
	says(t, two, "commit")
	for _, tc := range []struct{ sql, says string }{
		{"execute pid", "0A000"}, {"select 1; deallocate pid", "0A000"}, {"prepare pid as select 1", "42P05"}, {"deallocate nosuch", "26000"},
		{"begin; savepoint a", ""}, {"deallocate pid", ""}, {"rollback", ""}, {"deallocate pid", "26000"},
	} {
		if got := says(t, one, tc.sql); got != tc.says {
			t.Errorf("%s: %q, want %q", tc.sql, got, tc.says)
		}
	}
	if r := one.PgConn().ExecPrepared(t.Context(), "pid", nil, nil, nil).Read(); r.Err == nil || !strings.Contains(r.Err.Error(), "26000") {
		t.Errorf("after DEALLOCATE: %v", r.Err)
	}
	if _, err := one.PgConn().Prepare(t.Context(), "pid", "select 'again'", nil); err != nil {
		t.Fatal(err)
	}
	if got := pid(); got != "again" {
		t.Errorf("the name stands for %q", got)
	}
	says(t, two, "deallocate all") // drops what the connections have of other sessions too
	says(t, two, "deallocate all")
	if got := pid(); got != "again" {
		t.Errorf("after another session's DEALLOCATE ALL: %q", got)
	}
	if err := one.PgConn().Deallocate(t.Context(), "pid"); err != nil {
		t.Fatal(err)
	}
	if r := one.PgConn().ExecPrepared(t.Context(), "pid", nil, nil, nil).Read(); r.Err == nil || !strings.Contains(r.Err.Error(), "26000") {
		t.Errorf("after Close: %v", r.Err)
	}
}

// A cancel request is for what its own session runs: it ends a wait for a connection, and does not reach who has the connection now.
func TestCancelOnSharedConnections(t *testing.T) {
	g := pooledGateway(t, 1, 5*time.Minute)
	one, two := sharedConn(t, g.DSN("ana", "shop")), sharedConn(t, g.DSN("bob", "shop"))
	says(t, one, "select 1")
	running := make(chan string)
	go func() { running <- says(t, two, "select 'done' from pg_sleep(0.5)") }()
	for range 5 {
		if err := one.PgConn().CancelRequest(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := <-running; got != "done" {
		t.Errorf("a cancel request of another session has ended the statement: %s", got)
	}
	says(t, one, "begin; select 1")
	go func() { running <- says(t, two, "select 1") }()
	got := ""
	for got == "" {
		if err := two.PgConn().CancelRequest(t.Context()); err != nil {
			t.Error(err)
		}
		select {
		case got = <-running:
		case <-time.After(10 * time.Millisecond):
		}
	}
	if got != "57014" {
		t.Errorf("a wait that was cancelled: %s", got)
	}
	says(t, one, "commit")
	if got := says(t, two, "select 'well'"); got != "well" {
		t.Errorf("afterwards: %s", got)
	}
}

// Who has waited for a connection for too long is told so, and goes on.
func TestWaitForASharedConnectionIsBounded(t *testing.T) {
	g := pooledGateway(t, 1, 100*time.Millisecond)
	one := sharedConn(t, g.DSN("ana", "shop"))
	two := sharedConn(t, g.DSN("bob", "shop"))
	says(t, one, "begin; select 1")
	if got := says(t, two, "select 1"); got != "53300" {
		t.Errorf("without a connection: %s", got)
	}
	if _, err := two.Exec(t.Context(), "select $1::int", 1); err == nil || !strings.Contains(err.Error(), "53300") {
		t.Errorf("in the extended protocol: %v", err)
	}
	failed := g.Records(audit.Filter{SQLState: "53300"})
	if len(failed) != 2 || failed[0].Status != audit.Failed || failed[1].Status != audit.Failed {
		t.Errorf("on record are %+v", failed)
	}
	says(t, one, "commit")
	if got := says(t, two, "select 'well'"); got != "well" {
		t.Errorf("afterwards: %s", got)
	}
}

// Messages that are sent without waiting find a connection as long as there is something to answer.
func TestPipelinesOnSharedConnections(t *testing.T) {
	g := pooledGateway(t, 1, 5*time.Minute)
	pipes := []*pipe{pipeOf(t, g.DSN("ana", "shop")), pipeOf(t, g.DSN("bob", "shop"))}
	for round := range 3 {
		for _, p := range pipes {
			if got, want := p.send(4, parse(fmt.Sprint("s", round), "select 7 as n"), bind("", fmt.Sprint("s", round)), execute(""), syncMsg,
				bind("", "s0"), execute(""), &pgproto3.Flush{}, syncMsg, parse("s0", "select 1"), execute("x"), syncMsg, &pgproto3.Query{String: "select 7"}),
				"row 7, done, ready I, row 7, done, ready I, error 42P05, ready I, row 7, done, ready I"; got != want {
				t.Errorf("round %d: %s, want %s", round, got, want)
			}
		}
	}
}
