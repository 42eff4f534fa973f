package pgwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// closedWithin tells how long the server took to hang up.
func closedWithin(t *testing.T, conn net.Conn, most time.Duration) time.Duration {
	t.Helper()
	started := time.Now()
	conn.SetReadDeadline(started.Add(most))
	if _, err := io.Copy(io.Discard, conn); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("still open after %v: %v", most, err)
	}
	return time.Since(started)
}

// One byte now and then does not keep a connection.
func TestSlowClientIsCut(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"), withTLS(t), func(s *Server) { s.Limits.StartupTime = 500 * time.Millisecond })
	drip := map[string][]byte{
		"startup":  startupMessage(version30, "user", "ana", "database", strings.Repeat("x", 100)),
		"TLS":      append([]byte{tlsRecord, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 200)...),
		"password": append(startupMessage(version30, "user", "ana"), message('p', strings.Repeat("x", 100))...),
		"nothing":  nil,
	}
	for _, b := range drip {
		conn, err := net.Dial("tcp", d.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			for i := range b {
				if _, err := conn.Write(b[i : i+1]); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
		closedWithin(t, conn, 30*time.Second) // who is not cut has sent all by then, and is asked for more
	}
}

func TestOldestSilentClientMakesRoom(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"), func(s *Server) { s.Limits.Unauthenticated = 5 })
	var silents []net.Conn
	for range 8 {
		conn, err := net.Dial("tcp", d.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silents = append(silents, conn)
		time.Sleep(5 * time.Millisecond)
	}
	for _, conn := range silents[:3] {
		if said := describe(conn); !strings.Contains(said, "53300") {
			t.Errorf("it is told %s", said)
		}
	}
	connectPgx(t, d, "sslmode=disable") // takes the place of the fourth
	closedWithin(t, silents[3], 30*time.Second)
	for _, conn := range silents[5:] {
		conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		var timeout net.Error
		if _, err := conn.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("a younger one was cut: %v", err)
		}
	}
}

// When everybody's claim is being looked at, a new client is told that there is no room, in the clear or inside TLS, and can cancel what
// its own session runs; however many say nothing, the newest is heard.
func TestNoRoomAmongClaimants(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"), withTLS(t), func(s *Server) { s.Limits.Unauthenticated = 2 })
	session, err := pgconn.Connect(t.Context(), d.dsn("sslmode=disable"))
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(context.Background())
	for range 2 {
		conn, err := net.Dial("tcp", d.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.Write(startupMessage(version30, "user", "ana"))
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * maxUnwelcome {
		conn, err := net.Dial("tcp", d.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	for _, mode := range []string{"sslmode=disable", "sslmode=require"} {
		_, err := pgconn.Connect(t.Context(), d.dsn(mode))
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Severity != "FATAL" || pg.Code != "53300" || pg.Message != "sorry, too many clients already" {
			t.Errorf("%s: %v", mode, err)
		}
	}
	cancelled := make(chan error, 1)
	go func() {
		_, err := session.Exec(context.Background(), "select pg_sleep(600) as claimants").ReadAll()
		cancelled <- err
	}()
	awaitRunning(t, "select pg_sleep(600) as claimants", 1)
	if err := session.CancelRequest(t.Context()); err != nil {
		t.Error(err)
	}
	var pg *pgconn.PgError
	if err := <-cancelled; !errors.As(err, &pg) || pg.Code != "57014" {
		t.Errorf("cancel: %v", err)
	}
}

func TestConnectionLimits(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"), func(s *Server) { s.Limits.Connections, s.Limits.PerIdentity = 3, 2 })
	refused := func(user, want string) {
		t.Helper()
		_, err := pgconn.Connect(t.Context(), strings.Replace(d.dsn("sslmode=disable"), "ana:", user+":", 1))
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "53300" || pg.Message != want {
			t.Errorf("%s: %v, want %s", user, err, want)
		}
	}
	connect := func(user string) *pgconn.PgConn {
		t.Helper()
		conn, err := pgconn.Connect(t.Context(), strings.Replace(d.dsn("sslmode=disable"), "ana:", user+":", 1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		return conn
	}
	first := connect("ana")
	connect("ana")
	refused("ana", `too many connections for role "ana"`)
	connect("bob")
	refused("bob", "sorry, too many clients already")

	// The full house can still be asked to cancel.
	cancelled := make(chan error, 1)
	go func() {
		_, err := first.Exec(context.Background(), "select pg_sleep(20)").ReadAll()
		cancelled <- err
	}()
	awaitRunning(t, "select pg_sleep(20)", 1)
	if err := first.CancelRequest(t.Context()); err != nil {
		t.Error(err)
	}
	var pg *pgconn.PgError
	if err := <-cancelled; !errors.As(err, &pg) || pg.Code != "57014" {
		t.Errorf("cancel: %v", err)
	}
	first.Close(t.Context())
	settles(t, func() bool { d.mu.Lock(); defer d.mu.Unlock(); return d.sessions == 2 })
	connect("ana")
}

// settles waits for something that happens soon after another has been seen.
func settles(t testing.TB, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("does not settle")
		}
	}
}

// awaitRunning waits until so many sessions of the test's server run a text, which no other test may use.
func awaitRunning(t testing.TB, text string, n int) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, pgtest.Start(t).DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	settles(t, func() bool {
		got := 0
		err := conn.QueryRow(ctx, "select count(*) from pg_stat_activity where state = 'active' and query = $1", text).Scan(&got)
		return err == nil && got == n
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Claims of two gigabytes, before and after the login, cost nothing.
func TestHugeLengthsCostNothing(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"))
	before := heap()
	for i := range 200 {
		conn, err := net.Dial("tcp", d.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%2 == 0 {
			conn.Write(startupMessage(version30, "user", "ana"))
		}
		conn.Write([]byte{'p', 0x7f, 0xff, 0xff, 0xff})
	}
	for range 20 {
		raw := rawSession(t, d.dsn("sslmode=disable"))
		raw.Conn.Write([]byte{'Q', 0x03, 0xff, 0xff, 0xff})
	}
	time.Sleep(200 * time.Millisecond)
	if grown := int64(heap()) - int64(before); grown > 20<<20 {
		t.Errorf("%d bytes more", grown)
	}
}

// A message over the limit is refused in its place, and the connection lives on.
func TestLargeMessageIsSkipped(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"), func(s *Server) { s.Limits.MessageBytes = 1 << 16 })
	conn := connectPgx(t, d, "sslmode=disable")
	big := strings.Repeat("x", 1<<17)
	for name, err := range map[string]error{
		"Query": func() error { _, err := conn.PgConn().Exec(t.Context(), "select '"+big+"'").ReadAll(); return err }(),
		"Parse": func() error { _, err := conn.PgConn().Prepare(t.Context(), "s", "select '"+big+"'", nil); return err }(),
		"Bind":  conn.PgConn().ExecParams(t.Context(), "select $1::text", [][]byte{[]byte(big)}, nil, nil, nil).Read().Err,
	} {
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "54000" || pg.Severity != "ERROR" || !strings.Contains(pg.Detail, "65536") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var n int
	if err := conn.QueryRow(t.Context(), "select 7").Scan(&n); err != nil || n != 7 {
		t.Errorf("afterwards: %d %v", n, err)
	}
}

func TestIdleSessionEnds(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"), func(s *Server) { s.Limits.IdleTime = 300 * time.Millisecond })
	idle, busy, open := rawSession(t, d.dsn("sslmode=disable")), connectPgx(t, d, "sslmode=disable"), connectPgx(t, d, "sslmode=disable")
	if _, err := open.Exec(t.Context(), "begin"); err != nil {
		t.Fatal(err)
	}
	if _, err := busy.Exec(t.Context(), "select pg_sleep(1)"); err != nil {
		t.Errorf("a running statement is not idle: %v", err)
	}
	if got := describe(idle.Conn); got != "E(FATAL 57P05 terminating connection due to idle-session timeout) EOF" {
		t.Error(got)
	}
	if _, err := open.Exec(t.Context(), "commit"); err != nil {
		t.Errorf("a transaction is not idle: %v", err)
	}
}

func TestShutdownDrains(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"))
	idle, busy, open := rawSession(t, d.dsn("sslmode=disable")), connectPgx(t, d, "sslmode=disable"), connectPgx(t, d, "sslmode=disable")
	silentOne, err := net.Dial("tcp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silentOne.Close()
	if _, err := open.Exec(t.Context(), "begin"); err != nil {
		t.Fatal(err)
	}
	finished := make(chan error, 1)
	go func() {
		_, err := busy.Exec(context.Background(), "select pg_sleep(2)")
		finished <- err
	}()
	awaitRunning(t, "select pg_sleep(2)", 1)
	ctx, deadline := context.WithCancel(context.Background())
	defer deadline()
	stopped := make(chan error, 1)
	go func() { stopped <- d.Shutdown(ctx) }()
	const goodbye = "E(FATAL 57P01 terminating connection due to administrator command) EOF"
	if got := describe(idle.Conn); got != goodbye {
		t.Errorf("idle: %s", got)
	}
	if err := <-finished; err != nil {
		t.Errorf("the running statement was not waited for: %v", err)
	}
	if _, err := open.Exec(t.Context(), "select 1"); err != nil {
		t.Errorf("the open transaction was not waited for: %v", err)
	}
	if got := exchangeOrRefused(d.addr); got != "refused" {
		t.Errorf("new connection: %s", got)
	}
	deadline()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v", err)
	}
	_, err = open.Exec(t.Context(), "commit")
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "57P01" {
		t.Errorf("the transaction after the deadline: %v", err)
	}
}

func exchangeOrRefused(addr string) string {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "refused"
	}
	conn.Close()
	return "accepted"
}

func TestShutdownOfStuckClient(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"))
	raw := rawSession(t, d.dsn("sslmode=disable"))
	b, _ := (&pgproto3.Query{String: "select repeat('x', 1000) from generate_series(1, 1000000)"}).Encode(nil)
	raw.Conn.Write(b) // and never reads
	time.Sleep(300 * time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	started := time.Now()
	if err := d.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown: %v", err)
	}
	if took := time.Since(started); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

// Who hangs up in the middle of a statement stops it.
func TestGoneClientStopsStatement(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"))
	for name, leave := range map[string]func(net.Conn){
		"close":   func(c net.Conn) { c.Close() },
		"reset":   func(c net.Conn) { c.(*net.TCPConn).SetLinger(0); c.Close() },
		"goodbye": func(c net.Conn) { c.Write(message('X', "")); c.Close() },
	} {
		raw := rawSession(t, d.dsn("sslmode=disable"))
		raw.Conn.Write(message('Q', fmt.Sprintf("select pg_sleep(600) as %s\x00", name)))
		awaitRunning(t, "select pg_sleep(600) as "+name, 1)
		leave(raw.Conn)
		settles(t, func() bool { return d.core.open.Load() == 0 })
	}
}

// What was asked before the goodbye is done, as by PostgreSQL.
func TestGoodbyeWaitsForStatement(t *testing.T) {
	dsn := pgtest.Start(t).Database(t, "create table t (id int)")
	d := startDoor(t, dsn, func(s *Server) { s.Limits.SettleTime = time.Minute })
	raw := rawSession(t, d.dsn("sslmode=disable"))
	raw.Conn.Write(append(message('Q', "insert into t select 1 from pg_sleep(0.3)\x00"), message('X', "")...))
	raw.Conn.Close()
	settles(t, func() bool { return d.core.open.Load() == 0 })
	var n int
	if err := connectPgx(t, d, "sslmode=disable").QueryRow(t.Context(), "select count(*) from t").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestUpstreamLost(t *testing.T) {
	pg := pgtest.Start(t)
	dsn := pg.Database(t)
	d := startDoor(t, dsn)
	raw := rawSession(t, d.dsn("sslmode=disable"))
	pg.Exec(t, pg.DSN("postgres"), fmt.Sprintf("select pg_terminate_backend(pid) from pg_stat_activity where datname = '%s'", databaseOf(t, dsn)))
	if got := describe(raw.Conn); got != "E(FATAL 57P01 terminating connection due to administrator command) EOF" {
		t.Error(got)
	}
	settles(t, func() bool { return d.core.open.Load() == 0 })
}

func databaseOf(t *testing.T, dsn string) string {
	cfg, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Database
}
