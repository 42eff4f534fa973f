package pgwire

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// psql runs psql with a URI and returns what it printed.
func psql(t *testing.T, uri string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.Command("psql", append([]string{"-X", "-w", "-d", uri}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "PGPASSFILE=/nonexistent")
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func TestPsql(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).Database(t, `create table c (id int, name text); insert into c values (1, 'Ann'), (2, null)`))
	out, errs, err := psql(t, d.dsn("sslmode=disable"), "-At", "-c", "select * from c order by id", "-c", "select 1; select 2", "-c", `\echo :DBNAME :USER`)
	if want := "1|Ann\n2|\n1\n2\nshop ana\n"; err != nil || out != want {
		t.Errorf("printed %q, want %q\n%s%v", out, want, errs, err)
	}
}

func TestPsqlTLS(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"), withTLS(t), func(s *Server) { s.RequireTLS = true })
	for setting, want := range map[string]string{
		"sslmode=require":                         "",
		"sslmode=prefer":                          "",
		"sslmode=require&channel_binding=require": "",
		"sslmode=require&channel_binding=disable": "",
		"sslmode=disable":                         "this server accepts TLS connections only",
	} {
		_, errs, err := psql(t, d.dsn(setting), "-c", "select 1")
		if (err == nil) != (want == "") || !strings.Contains(errs, want) {
			t.Errorf("%s: %v %s", setting, err, errs)
		}
	}
}

func TestPsqlPreferWithoutTLS(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"))
	if _, errs, err := psql(t, d.dsn("sslmode=prefer"), "-c", "select 1"); err != nil {
		t.Errorf("%v %s", err, errs)
	}
}

func TestWrongPassword(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"))
	for _, user := range []string{"ana", "nobody"} {
		uri := strings.Replace(d.dsn("sslmode=disable"), "ana:secret", user+":wrong", 1)
		_, errs, err := psql(t, uri, "-c", "select 1")
		if err == nil || !strings.Contains(errs, `FATAL:  password authentication failed for user "`+user+`"`) {
			t.Errorf("%v %s", err, errs)
		}
	}
	if n := len(d.core.recorded); n != 2 {
		t.Errorf("%d refusals recorded, want 2", n)
	}
	if n := len(d.core.opened); n != 0 {
		t.Errorf("%d sessions opened", n)
	}
}

func TestPsqlInterrupt(t *testing.T) {
	for name, setup := range map[string][]func(*Server){"plain": nil, "TLS": {withTLS(t)}} {
		t.Run(name, func(t *testing.T) {
			d := startDoor(t, pgtest.Start(t).DSN("postgres"), setup...)
			cmd := exec.Command("psql", "-X", "-w", "-d", d.dsn(), "-c", "select pg_sleep(600) as "+name)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			awaitRunning(t, "select pg_sleep(600) as "+name, 1)
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil || !strings.Contains(errs.String(), "canceling statement due to user request") {
				t.Errorf("%v: %s", err, errs.String())
			}
		})
	}
}

func TestPgbench(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	bench := func(uri string, args ...string) {
		t.Helper()
		cmd := exec.Command("pgbench", append(args, uri)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("pgbench %v: %v\n%s", args, err, out)
		}
	}
	bench(dsn, "-i", "-q", "-s", "1")
	d := startDoor(t, dsn)
	for _, mode := range []string{"simple", "extended", "prepared"} {
		bench(d.dsn("sslmode=disable"), "-n", "-S", "-c", "8", "-j", "2", "-t", "50", "-M", mode)
		bench(d.dsn("sslmode=disable"), "-n", "-c", "8", "-j", "2", "-t", "20", "-M", mode)
	}
}

func connectPgx(t *testing.T, d *door, settings ...string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.dsn(settings...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func TestPgxModes(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"), withTLS(t))
	conn := connectPgx(t, d, "sslmode=require")
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for range 3 {
			var n int
			var s string
			if err := conn.QueryRow(t.Context(), "select $1::int + 1, $2::text", mode, 41, "ä'b").Scan(&n, &s); err != nil || n != 42 || s != "ä'b" {
				t.Errorf("%v: %d %q %v", mode, n, s, err)
			}
		}
	}
}

func TestPgxBatchAndPipeline(t *testing.T) {
	conn := connectPgx(t, startDoor(t, pgtest.Start(t).DSN("postgres")), "sslmode=disable")
	batch := &pgx.Batch{}
	for i := range 500 {
		batch.Queue("select $1::int", i)
	}
	results := conn.SendBatch(t.Context(), batch)
	for i := range 500 {
		var n int
		if err := results.QueryRow().Scan(&n); err != nil || n != i {
			t.Fatalf("result %d: %d %v", i, n, err)
		}
	}
	if err := results.Close(); err != nil {
		t.Fatal(err)
	}
	pipe := conn.PgConn().StartPipeline(t.Context())
	for range 3 {
		pipe.SendQueryParams("select 1/0", nil, nil, nil, nil)
		pipe.SendQueryParams("select 2", nil, nil, nil, nil)
		if err := pipe.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	var failed, synced int
	for synced < 3 {
		r, err := pipe.GetResults()
		var pg *pgconn.PgError
		switch {
		case errors.As(err, &pg) && pg.Code == "22012":
			failed++
		case err != nil:
			t.Fatal(err)
		}
		if _, ok := r.(*pgconn.PipelineSync); ok {
			synced++
		}
	}
	if failed != 3 {
		t.Errorf("%d errors, want 3", failed)
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPgxCancel(t *testing.T) {
	conn := connectPgx(t, startDoor(t, pgtest.Start(t).DSN("postgres")), "sslmode=disable")
	cancelled := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.Background(), "select pg_sleep(60)")
		cancelled <- err
	}()
	awaitRunning(t, "select pg_sleep(60)", 1)
	if err := conn.PgConn().CancelRequest(t.Context()); err != nil {
		t.Error(err)
	}
	var pg *pgconn.PgError
	if err := <-cancelled; !errors.As(err, &pg) || pg.Code != "57014" {
		t.Fatal(err)
	}
	var n int
	if err := conn.QueryRow(t.Context(), "select 7").Scan(&n); err != nil || n != 7 {
		t.Errorf("after the cancel: %d %v", n, err)
	}
}

// A large Bind goes up while large results come down; neither waits for the other.
func TestLargeBothWays(t *testing.T) {
	conn := connectPgx(t, startDoor(t, pgtest.Start(t).DSN("postgres"), withTLS(t)), "sslmode=require")
	big := strings.Repeat("x", 20<<20)
	var back string
	if err := conn.QueryRow(t.Context(), "select $1::text", big).Scan(&back); err != nil || back != big {
		t.Fatalf("%d bytes, %v", len(back), err)
	}
	batch := &pgx.Batch{}
	for range 40 {
		batch.Queue("select $1::text", big[:1<<20])
	}
	if err := conn.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
}
