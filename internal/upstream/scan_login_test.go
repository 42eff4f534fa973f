package upstream

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock/catalog"
	"interlock/internal/pgtest"
)

// TestScanNeedsNoPrivilege: a login that may do nothing reads the same catalog as a superuser.
func TestScanNeedsNoPrivilege(t *testing.T) {
	dsn := fixture(t)
	srv := pgtest.Start(t)
	all, little := scanned(t), scan(t, connect(t, srv.As(dsn, "scan_nobody", "")))
	if got := catalog.Differences(all, little); !slices.Equal(got, []string{"login postgres is now scan_nobody"}) {
		t.Errorf("differences: %q", got)
	}
}

func TestScanLogin(t *testing.T) {
	dsn := fixture(t)
	srv := pgtest.Start(t)
	login := func(role string) *catalog.Snapshot {
		t.Helper()
		return scan(t, connect(t, srv.As(dsn, role, "")))
	}
	if s := login("scan_nobody"); !equalLogin(s.Login, catalog.Login{Name: "scan_nobody"}) || len(s.Warnings()) != 0 {
		t.Errorf("%+v %q", s.Login, s.Warnings())
	}
	if s := login("postgres"); !s.Login.Superuser || s.Login.Owns == 0 || !strings.Contains(s.Warnings()[0], "superuser") {
		t.Errorf("%+v %q", s.Login, s.Warnings())
	}
	s := login("scan_power")
	want := catalog.Login{
		Name: "scan_power", BypassRLS: true, CreateRole: true, CreateDB: true, Replication: true,
		MemberOf: []string{"pg_monitor", "pg_read_all_data", "pg_read_all_settings", "pg_read_all_stats", "pg_read_server_files",
			"pg_stat_scan_tables", "scan_boss", "scan_group", "scan_owner"},
		Elevated: []string{"scan_boss"},
	}
	conn := connect(t, dsn)
	want.Owns = list[int](t, conn, `select count(*) from pg_class c where relkind in ('r','p','v','m','f','S')
		and relowner in ('scan_power'::regrole, 'scan_owner'::regrole)`)[0]
	if want.Owns == 0 || !equalLogin(s.Login, want) {
		t.Errorf("\n got %+v\nwant %+v", s.Login, want)
	}
	for _, part := range []string{"BYPASSRLS", "CREATEROLE", "CREATEDB", "REPLICATION", "owns", `"scan_boss"`, "pg_read_all_data", "pg_read_server_files", "pg_monitor"} {
		if !strings.Contains(strings.Join(s.Warnings(), "\n"), part) {
			t.Errorf("no warning about %s", part)
		}
	}
}

func equalLogin(a, b catalog.Login) bool {
	same := slices.Equal(a.MemberOf, b.MemberOf) && slices.Equal(a.Elevated, b.Elevated)
	a.MemberOf, b.MemberOf, a.Elevated, b.Elevated = nil, nil, nil, nil
	return same && fmt.Sprint(a) == fmt.Sprint(b)
}

func TestScanLoginOwnsDatabase(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t, `create role scan_dbowner login; do $$begin execute format('alter database %I owner to scan_dbowner', current_database()); end$$`)
	s := scan(t, connect(t, srv.As(dsn, "scan_dbowner", "")))
	if !slices.Contains(s.Login.MemberOf, "pg_database_owner") {
		t.Errorf("member of %v", s.Login.MemberOf)
	}
}

func TestScanSearchPath(t *testing.T) {
	dsn := fixture(t)
	srv := pgtest.Start(t)
	for _, c := range []struct {
		role, set string
		want      []string
	}{
		{"postgres", "", []string{"public"}},
		{"postgres", "set search_path = crm, nowhere, public, pg_catalog", []string{"crm", "public", "pg_catalog"}},
		{"postgres", `set search_path = pg_temp, "Odd ""Schema"; create temp table x (i int)`, []string{`Odd "Schema`}},
		{"postgres", "set search_path = ''", []string{}},
		{"scan_path", "", []string{"scan_path", "public"}}, // "$user", and crm of ALTER ROLE, which it may not use
	} {
		conn := connect(t, srv.As(dsn, c.role, ""))
		if c.set != "" {
			run(t, conn, c.set)
		}
		if got := scan(t, conn).SearchPath; !slices.Equal(got, c.want) {
			t.Errorf("%s after %q: %q, want %q", c.role, c.set, got, c.want)
		}
	}
}

// TestScanIsNotFooled: objects of the same names earlier on the search_path, and session settings that change what is printed or how
// strings are read, change nothing.
func TestScanIsNotFooled(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t, `create schema evil;
		create table evil.pg_class as select * from pg_class limit 0;
		create table evil.pg_namespace as select * from pg_namespace limit 0;
		create function evil.current_schemas(boolean) returns name[] language sql as $$select '{fooled}'::name[]$$;
		create function evil.row_to_json(anyelement) returns json language sql as $$select '{}'::json$$;
		create function evil.alwaysfalse(name, text) returns bool language sql as 'select false';
		create operator evil.!~ (function = evil.alwaysfalse, leftarg = name, rightarg = text);
		create view public.v as select now() > '2026-03-04 05:06:07+02' as late, 0.1::float8 as tenth, '1 mon 2 days'::interval as gap, '\x00'::bytea as raw`)
	clean, odd := connect(t, dsn), connect(t, dsn)
	run(t, odd, `set search_path = evil, public, pg_catalog; set datestyle = 'German'; set timezone = 'Asia/Tokyo'; set intervalstyle = 'iso_8601';
		set extra_float_digits = -10; set bytea_output = 'escape'; set quote_all_identifiers = on; set standard_conforming_strings = off;
		create temp table pg_proc (i int)`)
	a, b := scan(t, clean), scan(t, odd)
	want := []string{"search_path public is now evil, public, pg_catalog"}
	if got := catalog.Differences(a, b); !slices.Equal(got, want) {
		t.Errorf("differences: %q", got)
	}
}

func TestScanLeavesTemporaryOut(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	mine, other := connect(t, dsn), connect(t, dsn)
	before := scan(t, mine)
	for _, conn := range []struct{ run func(string) }{{func(q string) { run(t, mine, q) }}, {func(q string) { run(t, other, q) }}} {
		conn.run(`create temp table tmp (id serial primary key, t text); create temp view tv as select * from tmp;
			create type pg_temp.tt as (a int); create function pg_temp.tf() returns int language sql as 'select 1';
			create domain pg_temp.td as text check (value <> 'x'); create temp table kid () inherits (tmp)`)
	}
	after := scan(t, mine)
	if after.Version != before.Version {
		t.Errorf("temporary objects changed the catalog: %q", catalog.Differences(before, after))
	}
}

func TestScanVersion(t *testing.T) {
	srv := pgtest.Start(t)
	conn := connect(t, srv.Database(t, "create table t (id int primary key, v text)"))
	first := scan(t, conn)
	run(t, conn, "insert into t select g, 'x' from generate_series(1, 1000) g")
	run(t, conn, "analyze t")
	same := scan(t, conn)
	x, y := catalog.NewIndex(first).RelationNamed("public", "t"), catalog.NewIndex(same).RelationNamed("public", "t")
	if first.Version != same.Version || x.RowEstimate == y.RowEstimate || y.RowEstimate != 1000 {
		t.Errorf("rows: version %s and %s, estimate %v and %v", first.Version, same.Version, x.RowEstimate, y.RowEstimate)
	}
	run(t, conn, `alter table t add c int; create view v as select id from t; create type mood as enum ('a');
		create table u (i int); create function f() returns int language sql as 'select 1'`)
	second := scan(t, conn)
	run(t, conn, `comment on column t.c is 'x'; create or replace view v as select id + 0 as id from t; alter view v set (security_invoker = on);
		alter type mood rename to temper; create rule r as on delete to u do nothing; alter function f() security definer;
		alter table t enable row level security`)
	third := scan(t, conn)
	for _, c := range []struct {
		from, to *catalog.Snapshot
		want     []string
	}{
		{first, second, []string{"table public.t: column c added", "view public.v added", "table public.u added", "type public.mood added", "function public.f() added"}},
		{second, third, []string{"table public.t: row-level security enabled, column c changed", "view public.v: definition changed",
			"table public.u: changed", "type public.temper added", "type public.mood dropped", "function public.f(): changed"}},
	} {
		if got := catalog.Differences(c.from, c.to); c.from.Version == c.to.Version || !slices.Equal(got, c.want) {
			t.Errorf("\n got %q\nwant %q", got, c.want)
		}
	}
}

// TestScanDuringDDL scans while another session creates and drops objects: each scan succeeds and sees one moment.
func TestScanDuringDDL(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t, "create schema s")
	worker, conn := connect(t, dsn), connect(t, dsn)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			// One transaction each: whoever sees the view sees the table too.
			for _, sql := range []string{
				"create table s.a (id int primary key, e text generated always as (id::text) stored); create view s.b as select id from s.a; create type s.c as (x s.a)",
				"drop schema s cascade; create schema s",
			} {
				if _, err := worker.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
					t.Errorf("%s: %v", sql, err)
					return
				}
			}
		}
	})
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		s, err := Scan(t.Context(), conn, "x")
		if err != nil {
			t.Fatal(err)
		}
		x := catalog.NewIndex(s)
		a, b, c := x.RelationNamed("s", "a"), x.RelationNamed("s", "b"), x.TypeNamed("s", "c")
		if (a == nil) != (b == nil) || (a == nil) != (c == nil) || !x.HasSchema("s") {
			t.Fatalf("two moments in one snapshot: table %v, view %v, type %v", a, b, c)
		}
		if a != nil && (len(a.Columns) != 2 || len(a.UniqueIndexes) != 1 || b.Definition == "" || !strings.Contains(b.Definition, "s.a")) {
			t.Fatalf("half an object: %+v %+v", a, b)
		}
	}
}

// TestScanAttackSchema keeps the snapshot of a large schema and reads it again, and says what a scan costs.
func TestScanAttackSchema(t *testing.T) {
	conn := connect(t, pgtest.Start(t).As(pgtest.Attacks(t), "gov_svc", ""))
	start := time.Now()
	s := scan(t, conn)
	t.Logf("%d functions, %d relations, %d types in %v", len(s.Functions), len(s.Relations), len(s.Types), time.Since(start))
	data, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := catalog.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := catalog.Differences(s, again); len(d) != 0 || !again.ScannedAt.Equal(s.ScannedAt) || again.Version != s.Version {
		t.Errorf("read back: %q", d)
	}
	t.Logf("%d bytes encoded", len(data))
	if s.Login.Owns == 0 || len(s.Warnings()) == 0 {
		t.Errorf("gov_svc owns what it governs, but: %+v", s.Login)
	}
}
