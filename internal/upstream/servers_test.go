package upstream

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock/internal/cluster"
	"interlock/internal/pgtest"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"

	"github.com/jackc/pgx/v5/pgproto3"
)

// whereSQL tells which server answers, and if it is a standby.
const whereSQL = "select current_setting('port') || ' ' || pg_is_in_recovery()"

func onServers(target string, servers ...string) *policy.SourceSpec {
	return &policy.SourceSpec{ID: "shop", Kind: "postgres", Upstream: policy.UpstreamSpec{
		Host: strings.Join(servers, ","), Database: "postgres", User: pgtest.Superuser, TLS: "disable", Target: target}}
}

func at(c *cluster.Cluster) string { return fmt.Sprintf("%s:%d", c.Host(), c.Port()) }

// answering tells which server answers.
func answering(t *testing.T, p *Pool, src *policy.SourceSpec) (string, error) {
	t.Helper()
	got, err := runOn(t, p, src, read(whereSQL))
	if err != nil {
		return "", err
	}
	return got.rows[0], nil
}

// TestServers holds the choice among a primary, its standby and a server of other data against what libpq's
// target_session_attrs means, before the primary is lost, while it is, and when the standby has been promoted.
func TestServers(t *testing.T) {
	primary, standby := pgtest.Pair(t, "create table fence (id int)")
	first, second := fmt.Sprintf("%d false", primary.Port()), fmt.Sprintf("%d true", standby.Port())
	nowhere := "127.0.0.1:1"
	other := fmt.Sprintf("127.0.0.1:%d", pgtest.Start(t).Port())

	choose := func(name, target, want string, servers ...string) {
		t.Run(name+" "+target, func(t *testing.T) {
			p, src := newPool(t, Config{}), onServers(target, servers...)
			got, err := answering(t, p, src)
			if want == "" {
				if reasonOf(err) != sqlgov.OpenUnreachable {
					t.Fatalf("%q, %v", got, err)
				}
				return
			}
			if err != nil || got != want {
				t.Fatalf("%q, %v (%v), not %q", got, err, errors.Unwrap(err), want)
			}
		})
	}
	for _, c := range []struct{ target, want string }{
		{"", second}, {"any", second}, {"read-write", first}, {"primary", first}, {"read-only", second}, {"standby", second}, {"prefer-standby", second},
	} {
		choose("both", c.target, c.want, nowhere, at(standby), at(primary))
	}
	choose("no standby", "standby", "", at(primary))
	choose("no standby", "prefer-standby", first, nowhere, at(primary))
	choose("no standby", "read-only", "", at(primary))

	// A server whose transactions are read-only by default is not for writes, whatever our own sessions ask for.
	pgtest.Start(t).Exec(t, primary.DSN(pgtest.Superuser, "postgres"), "alter database postgres set default_transaction_read_only = on")
	choose("fenced", "read-write", "", at(primary))
	choose("fenced", "read-only", first, at(primary))
	choose("fenced", "primary", first, at(primary))
	pgtest.Start(t).Exec(t, primary.DSN(pgtest.Superuser, "postgres"), "begin read write; alter database postgres reset default_transaction_read_only; commit")

	t.Run("a primary is lost", func(t *testing.T) { loses(t, primary, standby, other) })
}

func loses(t *testing.T, primary, standby *cluster.Cluster, other string) {
	p := newPool(t, Config{})
	src := onServers("primary", at(primary), at(standby))
	w := open(t, p, src, sqlgov.OpenOptions{})
	send(t, w, &pgproto3.Query{String: "select pg_sleep(600)"})
	if _, err := answering(t, p, src); err != nil {
		t.Fatal(err)
	}
	if err := primary.Stop(); err != nil {
		t.Fatal(err)
	}
	for err := error(nil); err == nil; _, err = w.Receive() {
	}
	until(t, func() bool { _, err := answering(t, p, src); return reasonOf(err) == sqlgov.OpenUnreachable })

	pgtest.Start(t).Exec(t, standby.DSN(pgtest.Superuser, "postgres"), "select pg_promote()")
	want := fmt.Sprintf("%d false", standby.Port())
	until(t, func() bool { got, err := answering(t, p, src); return err == nil && got == want })
	if _, err := p.ScanCatalog(t.Context(), src); err != nil {
		t.Errorf("scan: %v", err)
	}

	// The key of a cancel request belongs to the server that gave it.
	w = open(t, p, src, sqlgov.OpenOptions{})
	send(t, w, &pgproto3.Query{String: "select pg_sleep(600)"})
	running := "select count(*) from pg_stat_activity where query = 'select pg_sleep(600)' and state = 'active'"
	until(t, func() bool { got, err := runOn(t, p, src, read(running)); return err == nil && got.rows[0] == "1" })
	if err := w.Cancel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if frames, _ := replies(t, w, 1); !strings.Contains(string(frames), "57014") {
		t.Errorf("after the cancel request: %q", frames)
	}

	// Attack: the name of the lost server comes to mean a database that is no copy of it.
	src.Upstream.Host = strings.Join([]string{at(standby), other}, ",")
	if got, err := answering(t, p, src); err != nil || got != want {
		t.Fatalf("%q, %v", got, err)
	}
	if err := standby.Stop(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { _, err := answering(t, p, src); return reasonOf(err) == sqlgov.OpenRejected })
	if _, err := p.ScanCatalog(t.Context(), src); reasonOf(err) != sqlgov.OpenRejected || !strings.Contains(errors.Unwrap(err).Error(), "no copy") {
		t.Errorf("scan: %v", err)
	}
	if _, err := answering(t, p, onServers("primary", other)); err != nil {
		t.Errorf("the same by itself, without the guard: %v", err)
	}
}

// until waits for a condition.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never came to that")
		}
	}
}

// TestServersTLS shows that each server has to prove its own name.
func TestServersTLS(t *testing.T) {
	srv := pgtest.Start(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, srv.CA(), 0o600); err != nil {
		t.Fatal(err)
	}
	unnamed := fmt.Sprintf("127.0.0.2:%d", detour(t, srv)) // the certificate is for another name
	named := fmt.Sprintf("localhost:%d", srv.Port())
	for _, c := range []struct {
		servers string
		reason  sqlgov.OpenReason
	}{
		{unnamed + "," + named, ""},
		{named + "," + unnamed, ""},
		{unnamed + ",127.0.0.2:1", sqlgov.OpenUnreachable},
	} {
		src := onServers("", c.servers)
		src.Upstream.TLS, src.Upstream.CA = "verify-full", ca
		p := newPool(t, Config{})
		got, err := runOn(t, p, src, read("select ssl from pg_stat_ssl where pid = pg_backend_pid()"))
		if reasonOf(err) != c.reason || err == nil && got.rows[0] != "t" {
			t.Errorf("%s: %v", c.servers, err)
		}
	}
}
