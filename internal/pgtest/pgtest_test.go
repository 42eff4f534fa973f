package pgtest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestMain(m *testing.M) { Main(m) }

func queryRow[T any](t *testing.T, dsn, sql string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var v T
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDatabaseIsFresh(t *testing.T) {
	s := Start(t)
	a := s.Database(t, "create table x (id int); insert into x values (1)", "insert into x values (2)")
	b := s.Database(t)
	if n := queryRow[int](t, a, "select count(*) from x"); n != 2 {
		t.Errorf("rows = %d, want 2", n)
	}
	if n := queryRow[int](t, b, "select count(*) from pg_class where relname = 'x'"); n != 0 {
		t.Error("the second database holds the first's table")
	}
	if s != Start(t) {
		t.Error("a second server was started")
	}
}

func TestDatabaseGoesWithItsTest(t *testing.T) {
	s := Start(t)
	var name string
	t.Run("inner", func(t *testing.T) {
		name = queryRow[string](t, s.Database(t), "select current_database()")
	})
	if n := queryRow[int](t, s.DSN("postgres"), "select count(*) from pg_database where datname = '"+name+"'"); n != 0 {
		t.Errorf("database %s is still there", name)
	}
}

func TestSharedStays(t *testing.T) {
	s := Start(t)
	for range 2 {
		t.Run("use", func(t *testing.T) {
			if n := queryRow[int](t, s.Shared(t, "kept", "create table k as select 7 as n"), "select n from k"); n != 7 {
				t.Errorf("n = %d", n)
			}
		})
	}
}

func TestScramRole(t *testing.T) {
	s := Start(t)
	s.Exec(t, s.DSN("postgres"), "create role pgtest_ana login password 'pw' in role "+ScramGroup)
	if who := queryRow[string](t, s.As(s.DSN("postgres"), "pgtest_ana", "pw"), "select current_user"); who != "pgtest_ana" {
		t.Errorf("user = %s", who)
	}
	_, err := pgx.Connect(t.Context(), s.As(s.DSN("postgres"), "pgtest_ana", "wrong"))
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "28P01" {
		t.Errorf("wrong password: %v, want 28P01", err)
	}
}

func TestSpeaksTLS(t *testing.T) {
	s := Start(t)
	cfg, err := pgx.ParseConfig(strings.Replace(s.DSN("postgres"), "sslmode=disable", "sslmode=require", 1))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.CA()) {
		t.Fatal("CA is no PEM certificate")
	}
	cfg.TLSConfig = &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var on bool
	if err := conn.QueryRow(t.Context(), "select ssl from pg_stat_ssl where pid = pg_backend_pid()").Scan(&on); err != nil || !on {
		t.Errorf("ssl = %v, %v", on, err)
	}
}

func TestLogHoldsErrors(t *testing.T) {
	s := Start(t)
	if err := execute(s.DSN("postgres"), "select no_such_thing_41"); err == nil {
		t.Fatal("no error")
	}
	deadline := time.Now().Add(30 * time.Second)
	for !strings.Contains(s.Log(), "no_such_thing_41") {
		if time.Now().After(deadline) {
			t.Fatal("the error is not in the log")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestAttackSchema(t *testing.T) {
	s := Start(t)
	svc := s.As(Attacks(t), "gov_svc", "")
	if got := queryRow[string](t, svc, "select string_agg(name, ',' order by id) from app.customers"); got != "Alice,Bob,Carol,Victor" {
		t.Errorf("customers = %s", got)
	}
	// The foreign table reads through the server itself.
	if n := queryRow[int](t, svc, "select count(*) from app.customers_ft"); n != 1 {
		t.Errorf("foreign rows = %d", n)
	}
	Attacks(t)
}

// TestKilledBinaryLeavesNothing kills a process that holds a server and waits for server and directory to go.
func TestKilledBinaryLeavesNothing(t *testing.T) {
	if os.Getenv("PGTEST_CHILD") != "" {
		s := Start(t)
		os.Stdout.WriteString("dir=" + s.SocketDir() + "\n")
		time.Sleep(time.Hour)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledBinaryLeavesNothing$")
	cmd.Env = append(os.Environ(), "PGTEST_CHILD=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 300)
	n, err := out.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(strings.TrimPrefix(string(buf[:n]), "dir="))
	pidFile, err := os.ReadFile(dir + "/data/postmaster.pid")
	if err != nil {
		t.Fatalf("child said %q: %v", buf[:n], err)
	}
	pid, err := strconv.Atoi(strings.SplitN(string(pidFile), "\n", 2)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, statErr := os.Stat(dir)
		if os.IsNotExist(statErr) && syscall.Kill(pid, 0) == syscall.ESRCH {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("20 s after the kill: directory %v, process %v", statErr, syscall.Kill(pid, 0))
		}
		time.Sleep(20 * time.Millisecond)
	}
}
