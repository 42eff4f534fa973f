package upstream

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock/internal/pgtest"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// result collects what Run hands out.
type result struct {
	fields []string
	rows   []string
	sqlgov.Summary
}

func (r *result) sink() sqlgov.Sink {
	return sqlgov.Sink{
		Fields: func(fields []sqlgov.Field) error {
			for _, f := range fields {
				r.fields = append(r.fields, f.Name)
			}
			return nil
		},
		Row: func(values [][]byte) error {
			text := make([]string, len(values))
			for i, v := range values {
				text[i] = string(v)
				if v == nil {
					text[i] = "NULL"
				}
			}
			r.rows = append(r.rows, strings.Join(text, "|"))
			return nil
		},
	}
}

func runOn(t *testing.T, p *Pool, src *policy.SourceSpec, req sqlgov.RunRequest) (*result, error) {
	t.Helper()
	r := &result{}
	var err error
	r.Summary, err = p.Run(t.Context(), src, req, r.sink())
	return r, err
}

func read(sql string) sqlgov.RunRequest { return sqlgov.RunRequest{SQL: sql, ReadOnly: true} }

func stateOf(err error) string {
	var e *sqlgov.UpstreamError
	if errors.As(err, &e) {
		return e.SQLState
	}
	return ""
}

func TestRunReads(t *testing.T) {
	p, src := newPool(t, Config{}), sourceOf(t, pgtest.Start(t).Database(t))
	got, err := runOn(t, p, src, read("select 9007199254740993 as big, null as nothing, '' as empty, 1.10::numeric as n union all select 2, 'x', 'y', 'nan' order by 1"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.fields, []string{"big", "nothing", "empty", "n"}) || !slices.Equal(got.rows, []string{"2|x|y|NaN", "9007199254740993|NULL||1.10"}) ||
		got.Tag != "SELECT 2" || got.Rows != 2 {
		t.Errorf("%+v", got)
	}
	if got, err = runOn(t, p, src, read("select 1 where false")); err != nil || len(got.fields) != 1 || got.Tag != "SELECT 0" {
		t.Errorf("no rows: %+v, %v", got, err)
	}
	if got, err = runOn(t, p, src, read("select")); err != nil || len(got.fields) != 0 || !slices.Equal(got.rows, []string{""}) {
		t.Errorf("no columns: %+v, %v", got, err)
	}
}

func TestRunRefusesMoreThanItShould(t *testing.T) {
	p, src := newPool(t, Config{}), sourceOf(t, pgtest.Start(t).Database(t, "create table t (id int)"))
	for sql, state := range map[string]string{
		"select 1; select 2":         "42601", // one statement
		"insert into t values (1)":   "25006", // a read does not write
		"select nextval('pg_x')":     "42P01",
		"select 1\x00; drop table t": "22021",
		"select 1/0":                 "22012",
		"copy t to stdout":           "",
		"copy t from stdin":          "25006",
		"begin":                      "", // leaves a transaction open
		"select $1::int":             "08P01",
	} {
		if _, err := runOn(t, p, src, read(sql)); err == nil || stateOf(err) != state {
			t.Errorf("%q: %v", sql, err)
		}
		if got, err := runOn(t, p, src, read("select count(*) from t")); err != nil || !slices.Equal(got.rows, []string{"0"}) {
			t.Errorf("after %q: %+v, %v", sql, got, err)
		}
	}
}

func TestRunWrites(t *testing.T) {
	p, src := newPool(t, Config{}), sourceOf(t, pgtest.Start(t).Database(t, "create table t (id int unique deferrable initially deferred)"))
	write := func(sql string) (*result, error) { return runOn(t, p, src, sqlgov.RunRequest{SQL: sql}) }
	if got, err := write("insert into t values (1), (2)"); err != nil || got.Tag != "INSERT 0 2" || got.Rows != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := write("update t set id = id + 10 where id = 2 returning id"); err != nil || got.Tag != "UPDATE 1" || !slices.Equal(got.rows, []string{"12"}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := write("insert into t values (1)"); stateOf(err) != "23505" { // found out by COMMIT
		t.Errorf("deferred: %v", err)
	}
	if _, err := write("insert into t select 1/0"); stateOf(err) != "22012" {
		t.Errorf("error: %v", err)
	}
	enough := errors.New("enough")
	_, err := p.Run(t.Context(), src, sqlgov.RunRequest{SQL: "insert into t select g from generate_series(100, 200) g returning id"},
		sqlgov.Sink{Row: func([][]byte) error { return enough }})
	if !errors.Is(err, enough) {
		t.Errorf("sink: %v", err)
	}
	_, err = p.Run(t.Context(), src, sqlgov.RunRequest{SQL: "insert into t values (77) returning id"}, sqlgov.Sink{Fields: func([]sqlgov.Field) error { return enough }})
	if !errors.Is(err, enough) {
		t.Errorf("sink: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = p.Run(ctx, src, sqlgov.RunRequest{SQL: "insert into t values (88) returning id"}, sqlgov.Sink{Row: func([][]byte) error { cancel(); return nil }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if got, err := runOn(t, p, src, read("select id from t order by 1")); err != nil || !slices.Equal(got.rows, []string{"1", "12"}) {
		t.Errorf("in the end: %+v, %v", got, err)
	}
}

// TestRunCommitLost kills the server process while it commits: nobody can tell then if the write happened.
func TestRunCommitLost(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t, "create table t (id int)", `create function stall() returns trigger language plpgsql as $$begin perform pg_sleep(60); return null; end$$;
		create constraint trigger slow after insert on t deferrable initially deferred for each row execute function stall()`)
	p, src := newPool(t, Config{}), sourceOf(t, dsn)
	done := make(chan error, 1)
	go func() {
		_, err := p.Run(context.Background(), src, sqlgov.RunRequest{SQL: "insert into t values (1)"}, sqlgov.Sink{})
		done <- err
	}()
	eventually(t, func() bool { return sessions(t, dsn, "query = 'commit' and wait_event = 'PgSleep'") == 1 })
	srv.Exec(t, dsn, "select pg_terminate_backend(pid) from pg_stat_activity where query = 'commit'")
	if err := <-done; !errors.Is(err, sqlgov.ErrOutcomeUnknown) {
		t.Errorf("%v", err)
	}
}

func TestRunMaxRows(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	p, src := newPool(t, Config{}), sourceOf(t, dsn)
	for sql, tag := range map[string]string{
		"select g from generate_series(1, 10) g": "SELECT 10",
		"select g from generate_series(1, 11) g": "",
		"select generate_series(1, 30000000)":    "",
	} {
		begun := time.Now()
		req := read(sql)
		req.MaxRows = 10
		got, err := runOn(t, p, src, req)
		if err != nil || len(got.rows) != 10 || got.Rows != 10 || got.Tag != tag {
			t.Errorf("%s: %d rows, %+v, %v", sql, len(got.rows), got.Summary, err)
		}
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("%s took %s", sql, took)
		}
		if got, err := runOn(t, p, src, read("select 'unharmed'")); err != nil || !slices.Equal(got.rows, []string{"unharmed"}) {
			t.Errorf("afterwards: %+v, %v", got, err)
		}
	}
	if n := sessions(t, dsn, "true"); n != 1 {
		t.Errorf("%d connections, so one was not used again", n)
	}
}

func TestRunStops(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	p, src := newPool(t, Config{}), sourceOf(t, dsn)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Run(ctx, src, read("select pg_sleep(60)"), sqlgov.Sink{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("context: %v", err)
	}
	req := read("select pg_sleep(60)")
	req.Timeout = 100 * time.Millisecond
	if _, err := runOn(t, p, src, req); stateOf(err) != "57014" {
		t.Errorf("statement_timeout: %v", err)
	}
	enough := errors.New("enough")
	rows := 0
	_, err := p.Run(t.Context(), src, read("select repeat('x', 1000), generate_series(1, 100000000)"),
		sqlgov.Sink{Row: func([][]byte) error {
			if rows++; rows == 5 {
				return enough
			}
			return nil
		}})
	if err != enough || rows != 5 {
		t.Errorf("sink: %v after %d rows", err, rows)
	}
	eventually(t, func() bool { return sessions(t, dsn, "state = 'active'") == 0 })
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
	if n := sessions(t, dsn, "true"); n != 1 {
		t.Errorf("%d connections, so one was not used again", n)
	}
}

// TestRunLeavesNothingBehind checks that one caller's session state does not reach the next.
func TestRunLeavesNothingBehind(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t, "create sequence s; create table t (id int)", `create function meddle() returns text language sql as
		$$select set_config('search_path', 'evil', false) || set_config('my.secret', 'ssn', false) || set_config('TimeZone', 'Asia/Tokyo', false) || pg_advisory_lock(7)$$`)
	p, src := newPool(t, Config{}), sourceOf(t, dsn)
	var req sqlgov.RunRequest
	for _, meddle := range []string{
		"select meddle()", // changes a setting that the server reports
		"select set_config('search_path', 'evil', false) || set_config('my.secret', 'ssn', false) || pg_advisory_lock(7)",
	} {
		req = read(meddle)
		req.Pinned = map[string]string{"search_path": "public", "TimeZone": "UTC"}
		if _, err := runOn(t, p, src, req); err != nil {
			t.Fatal(err)
		}
		look := req
		look.SQL = "select current_setting('search_path'), coalesce(current_setting('my.secret', true), ''), current_setting('TimeZone'), current_setting('statement_timeout'), (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid())"
		if got, err := runOn(t, p, src, look); err != nil || !slices.Equal(got.rows, []string{"public||UTC|0|0"}) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	other := req
	other.SQL, other.Pinned = "select current_setting('search_path')", map[string]string{"search_path": "pg_catalog"}
	if got, err := runOn(t, p, src, other); err != nil || !slices.Equal(got.rows, []string{"pg_catalog"}) {
		t.Errorf("other pins: %+v, %v", got, err)
	}
}

func TestRunTimeouts(t *testing.T) {
	p, src := newPool(t, Config{}), sourceOf(t, pgtest.Start(t).Database(t))
	for _, timeout := range []time.Duration{time.Minute, 0, time.Microsecond * 1500000, time.Minute} {
		for _, readOnly := range []bool{true, false} {
			req := sqlgov.RunRequest{SQL: "select current_setting('statement_timeout'), current_setting('transaction_read_only')", ReadOnly: readOnly, Timeout: timeout}
			want := map[time.Duration]string{time.Minute: "1min", 0: "0", time.Microsecond * 1500000: "1500ms"}[timeout] + map[bool]string{true: "|on", false: "|off"}[readOnly]
			for _, req.Stateless = range []bool{false, true, true} {
				if got, err := runOn(t, p, src, req); err != nil || !slices.Equal(got.rows, []string{want}) {
					t.Errorf("%s: %+v, %v, want %s", timeout, got, err, want)
				}
			}
		}
	}
}

// TestRunAfterKill checks that connections which the server has closed while they were idle are noticed.
func TestRunAfterKill(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	p, src := newPool(t, Config{}), sourceOf(t, dsn)
	for range 3 {
		if _, err := runOn(t, p, src, read("select 1")); err != nil {
			t.Fatal(err)
		}
		srv.Exec(t, dsn, "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
		eventually(t, func() bool { return sessions(t, dsn, "true") == 0 })
	}
}

func TestRunKilledMidResult(t *testing.T) {
	p, src := newPool(t, Config{}), sourceOf(t, pgtest.Start(t).Database(t))
	got, err := runOn(t, p, src, read("select g, case when g = 5000 then pg_terminate_backend(pg_backend_pid()) end from generate_series(1, 10000) g"))
	if stateOf(err) != "57P01" || got.Tag != "" {
		t.Errorf("%+v, %v", got.Summary, err)
	}
}

func TestConnectionLimit(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	p, src := newPool(t, Config{WaitTimeout: 100 * time.Millisecond}), sourceOf(t, dsn)
	src.Limits.Connections = 2
	if _, err := runOn(t, p, src, read("select 1")); err != nil { // leaves one idle, which must give way
		t.Fatal(err)
	}
	one, two := open(t, p, src, sqlgov.OpenOptions{}), open(t, p, src, sqlgov.OpenOptions{})
	begun := time.Now()
	if _, err := p.Open(t.Context(), src, sqlgov.OpenOptions{}); reasonOf(err) != sqlgov.OpenBusy || time.Since(begun) < 90*time.Millisecond {
		t.Errorf("Open: %v after %s", err, time.Since(begun))
	}
	if _, err := runOn(t, p, src, read("select 1")); reasonOf(err) != sqlgov.OpenBusy {
		t.Errorf("Run: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.Open(ctx, src, sqlgov.OpenOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a deadline: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = one.Close() })
	if _, err := runOn(t, p, src, read("select 1")); err != nil {
		t.Errorf("after a slot came free: %v", err)
	}
	_ = two.Close()
	_ = p.Close()
	p = newPool(t, Config{})
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if i%4 == 0 {
				w, err := p.Open(context.Background(), src, sqlgov.OpenOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				_ = w.Close()
			} else if _, err := runOn(t, p, src, read(fmt.Sprintf("select %d", i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s := p.slots(src)
	if s.used != len(s.idle) || s.used > 2 || len(s.waiting) > 0 {
		t.Errorf("%d slots used, %d idle, %d waiting", s.used, len(s.idle), len(s.waiting))
	}
	eventually(t, func() bool { return sessions(t, dsn, "true") == len(s.idle) })
}

func TestIdleAndRetired(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	p, src := newPool(t, Config{IdleTimeout: 50 * time.Millisecond}), sourceOf(t, dsn)
	if _, err := runOn(t, p, src, read("select 1")); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return sessions(t, dsn, "true") == 0 })

	p = newPool(t, Config{})
	if _, err := runOn(t, p, src, read("select 1")); err != nil {
		t.Fatal(err)
	}
	changed := *src
	changed.Limits.Connections = 7
	if _, err := runOn(t, p, &changed, read("select 1")); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return sessions(t, dsn, "true") == 1 })
	_ = p.Close()
	eventually(t, func() bool { return sessions(t, dsn, "true") == 0 })
	if _, err := runOn(t, p, src, read("select 1")); err != nil {
		t.Errorf("after Close: %v", err)
	}
	eventually(t, func() bool { return sessions(t, dsn, "true") == 0 })
}

func TestScanCatalog(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t, "create table t (id int)")
	s, err := newPool(t, Config{}).ScanCatalog(t.Context(), sourceOf(t, dsn))
	if err != nil || s.Source != "shop" {
		t.Fatalf("%+v, %v", s, err)
	}
	eventually(t, func() bool { return sessions(t, dsn, "true") == 0 })
}

func BenchmarkRun(b *testing.B) {
	b.Run("reset", func(b *testing.B) { benchmarkRun(b, read("select 1")) })
	b.Run("stateless", func(b *testing.B) {
		benchmarkRun(b, sqlgov.RunRequest{SQL: "select 1", ReadOnly: true, Stateless: true})
	})
}

func benchmarkRun(b *testing.B, req sqlgov.RunRequest) {
	b.Helper()
	srv := pgtest.Start(b)
	p, err := NewPool(Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	src := &policy.SourceSpec{ID: "x", Upstream: policy.UpstreamSpec{Host: srv.Host(), Port: srv.Port(), User: "postgres", Database: "postgres", TLS: "disable"}}
	for b.Loop() {
		if _, err := p.Run(b.Context(), src, req, sqlgov.Sink{}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNoLeaks uses everything that starts a goroutine or opens a connection, and looks for what is left.
func TestNoLeaks(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	before := runtime.NumGoroutine()
	p, src := newPool(t, Config{}), sourceOf(t, dsn)
	for i := range 10 {
		w := open(t, p, src, sqlgov.OpenOptions{})
		send(t, w, &pgproto3.Query{String: "select pg_sleep(60)"})
		if i%2 == 0 {
			_ = w.Cancel(t.Context())
		}
		_ = w.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, _ = p.Run(ctx, src, read("select pg_sleep(60)"), sqlgov.Sink{})
		_, _ = p.Open(ctx, src, sqlgov.OpenOptions{})
		cancel()
	}
	_ = p.Close()
	eventually(t, func() bool { return runtime.NumGoroutine() <= before })
	eventually(t, func() bool { return sessions(t, dsn, "true") == 0 })
}

// BenchmarkPlain is the same statement over a plain connection, for comparison with BenchmarkRun.
func BenchmarkPlain(b *testing.B) {
	pc, err := pgconn.Connect(b.Context(), pgtest.Start(b).DSN("postgres"))
	if err != nil {
		b.Fatal(err)
	}
	defer pc.Close(context.Background())
	for b.Loop() {
		if r := pc.ExecParams(b.Context(), "select 1", nil, nil, nil, nil).Read(); r.Err != nil {
			b.Fatal(r.Err)
		}
	}
}
