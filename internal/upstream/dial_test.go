package upstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"interlock/internal/pgtest"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

func TestTLSModes(t *testing.T) {
	srv := pgtest.Start(t)
	src := sourceOf(t, srv.DSN("postgres"))
	file := func(name string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ours := file("ca.pem", srv.CA())
	other := file("other.pem", otherAuthority(t))
	for _, test := range []struct {
		mode, ca, host string
		reason         sqlgov.OpenReason // "" opens
		secured        bool
	}{
		{"disable", "", "127.0.0.1", "", false},
		{"disable", "", "localhost", "", false},
		{"disable", "", srv.SocketDir(), "", false},
		{"", "", srv.SocketDir(), "", false},
		{"verify-full", "", srv.SocketDir(), sqlgov.OpenTLS, false},
		{"require", "", "127.0.0.1", "", true},
		{"require", ours, "127.0.0.1", "", true},
		{"require", other, "127.0.0.1", sqlgov.OpenTLS, false},
		{"verify-ca", ours, "127.0.0.1", "", true},
		{"verify-ca", ours, "127.0.0.2", "", true}, // the certificate is for another name
		{"verify-ca", other, "127.0.0.1", sqlgov.OpenTLS, false},
		{"verify-ca", "", "127.0.0.1", sqlgov.OpenTLS, false},
		{"verify-full", ours, "localhost", "", true},
		{"verify-full", ours, "127.0.0.1", "", true},
		{"", ours, "localhost", "", true},
		{"verify-full", ours, "127.0.0.2", sqlgov.OpenTLS, false},
		{"verify-full", other, "localhost", sqlgov.OpenTLS, false},
		{"", "", "localhost", sqlgov.OpenTLS, false}, // the system's authorities do not know it
		{"prefer", "", "localhost", sqlgov.OpenTLS, false},
		{"verify-full", file("empty.pem", nil), "localhost", sqlgov.OpenTLS, false},
	} {
		t.Run(test.mode+" "+filepath.Base(test.ca)+" "+test.host, func(t *testing.T) {
			p := newPool(t, Config{})
			src.Upstream.TLS, src.Upstream.CA, src.Upstream.Host, src.Upstream.Port = test.mode, test.ca, test.host, srv.Port()
			if test.host == "127.0.0.2" {
				src.Upstream.Port = detour(t, srv)
			}
			got, err := runOn(t, p, src, read("select ssl from pg_stat_ssl where pid = pg_backend_pid()"))
			if reasonOf(err) != test.reason || (err == nil) != (test.reason == "") {
				t.Fatalf("%v: %v", err, errors.Unwrap(err))
			}
			if err == nil && got.rows[0] != map[bool]string{true: "t", false: "f"}[test.secured] {
				t.Errorf("TLS in use: %s", got.rows[0])
			}
			if err == nil {
				w := open(t, p, src, sqlgov.OpenOptions{})
				send(t, w, &pgproto3.Query{String: "select pg_sleep(60)"})
				time.Sleep(20 * time.Millisecond)
				if err := w.Cancel(t.Context()); err != nil {
					t.Errorf("cancel: %v", err)
				}
				replies(t, w, 1)
			}
		})
	}
}

// detour makes the server reachable at 127.0.0.2 too, and returns the port.
func detour(t *testing.T, srv *pgtest.Server) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", net.JoinHostPort(srv.Host(), strconv.Itoa(srv.Port())))
			if err != nil {
				_ = here.Close()
				return
			}
			for from, to := range map[net.Conn]net.Conn{here: there, there: here} {
				go func() {
					_, _ = io.Copy(to, from)
					_ = to.Close()
				}()
			}
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// otherAuthority is a certificate that did not sign the server's.
func otherAuthority(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/other-authority.pem")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEnvironmentIgnored sets what libpq would obey.
func TestEnvironmentIgnored(t *testing.T) {
	src := sourceOf(t, pgtest.Start(t).Database(t))
	for name, value := range map[string]string{"PGHOST": "192.0.2.1", "PGPORT": "1", "PGUSER": "nobody", "PGDATABASE": "nowhere", "PGPASSWORD": "x", "PGSSLMODE": "verify-full",
		"PGOPTIONS": "-c search_path=evil", "PGAPPNAME": "evil", "PGTZ": "Asia/Tokyo", "PGTARGETSESSIONATTRS": "standby", "PGREQUIREAUTH": "scram-sha-256", "PGCONNECT_TIMEOUT": "1"} {
		t.Setenv(name, value)
	}
	got, err := runOn(t, newPool(t, Config{}), src, read("select current_user, current_database(), current_setting('application_name'), current_setting('search_path')"))
	if err != nil || got.rows[0] != "postgres|"+src.Upstream.Database+`|interlock pool|"$user", public` {
		t.Errorf("%+v, %v, %v", got, err, errors.Unwrap(err))
	}
}

func TestPasswords(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	srv.Exec(t, dsn, "create role upstream_scram login password 'right' in role "+pgtest.ScramGroup)
	src := sourceOf(t, dsn)
	src.Upstream.User = "upstream_scram"
	p := newPool(t, Config{})
	for password, reason := range map[string]sqlgov.OpenReason{"right": "", "wrong": sqlgov.OpenAuth, "": sqlgov.OpenAuth, "file:/nonexistent": sqlgov.OpenAuth} {
		for _, mode := range []string{"disable", "require"} {
			src.Upstream.Password, src.Upstream.TLS = password, mode
			_, err := runOn(t, p, src, read("select 1"))
			if reasonOf(err) != reason || (err == nil) != (reason == "") {
				t.Errorf("%q: %v: %v", password, err, errors.Unwrap(err))
			}
			if err != nil && (strings.Contains(err.Error(), "127.0.0.1") || strings.Contains(fmt.Sprint(errors.Unwrap(err)), "wrong")) {
				t.Errorf("%q: the text tells too much: %v", password, err)
			}
		}
	}
	// A server that lets anyone in has not proved that it knows the password, and over unverified TLS that is needed.
	src.Upstream.User, src.Upstream.Password, src.Upstream.TLS = "postgres", "right", "require"
	if _, err := runOn(t, p, src, read("select 1")); reasonOf(err) != sqlgov.OpenRejected {
		t.Errorf("no proof: %v: %v", err, errors.Unwrap(err))
	}
}

func TestServerSaysNo(t *testing.T) {
	srv := pgtest.Start(t)
	p := newPool(t, Config{DialTimeout: time.Second})
	src := sourceOf(t, srv.DSN("postgres"))
	for name, test := range map[string]struct {
		change func(*policy.UpstreamSpec)
		reason sqlgov.OpenReason
	}{
		"no such database": {func(u *policy.UpstreamSpec) { u.Database = "nowhere" }, sqlgov.OpenRejected},
		"no such login":    {func(u *policy.UpstreamSpec) { u.User = "nobody_here" }, sqlgov.OpenAuth},
		"closed port":      {func(u *policy.UpstreamSpec) { u.Port = 1 }, sqlgov.OpenUnreachable},
		"no such host":     {func(u *policy.UpstreamSpec) { u.Host = "host.invalid" }, sqlgov.OpenUnreachable},
		"no such socket":   {func(u *policy.UpstreamSpec) { u.Host = "/nonexistent" }, sqlgov.OpenUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			other := *src
			test.change(&other.Upstream)
			if _, err := p.Open(t.Context(), &other, sqlgov.OpenOptions{}); reasonOf(err) != test.reason {
				t.Errorf("%v: %v", err, errors.Unwrap(err))
			}
		})
	}
	if s := p.slots(src); s.used != 0 {
		t.Errorf("%d slots are lost", s.used)
	}
}

// TestServerRefusesSetting: the client reads what it would read without us.
func TestServerRefusesSetting(t *testing.T) {
	src := sourceOf(t, pgtest.Start(t).DSN("postgres"))
	direct, err := pgconn.ParseConfig(pgtest.Start(t).DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	p := newPool(t, Config{})
	for name, value := range map[string]string{"no_such_setting": "x", "TimeZone": "nowhere", "work_mem": "much", "shared_buffers": "1GB"} {
		direct.RuntimeParams = map[string]string{name: value}
		_, err := pgconn.ConnectConfig(t.Context(), direct)
		var want *pgconn.PgError
		var got *sqlgov.UpstreamError
		if !errors.As(err, &want) {
			t.Fatalf("%s: the server takes it: %v", name, err)
		}
		_, err = p.Open(t.Context(), src, sqlgov.OpenOptions{Parameters: direct.RuntimeParams})
		if !errors.As(err, &got) || got.Severity != want.Severity || got.SQLState != want.Code || got.Message != want.Message || got.Hint != want.Hint {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if s := p.slots(src); s.used != 0 {
		t.Errorf("%d slots are lost", s.used)
	}
}

func TestDisableOnlyOnLoopback(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1": true, "127.8.8.8": true, "::1": true, "10.0.0.1": false, "192.0.2.1": false, "::": false} {
		if got := local(&net.TCPAddr{IP: net.ParseIP(address)}); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

// rogue listens, and lets each peer that connects be served by a script.
func rogue(t *testing.T, script func(net.Conn)) *policy.SourceSpec {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				script(c)
			}()
		}
	}()
	return &policy.SourceSpec{ID: "rogue", Upstream: policy.UpstreamSpec{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, User: "u", Database: "d", TLS: "disable"}}
}

// readStartup reads a message without a type byte.
func readStartup(c net.Conn) {
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err == nil {
		_, _ = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(length[:]))-4)
	}
}

var welcome = appendMessage(appendMessage(appendMessage(nil, 'R', "\x00\x00\x00\x00"), 'K', "\x00\x00\x00\x01abcd"), 'Z', "I")

func TestRogueStart(t *testing.T) {
	authOK := appendMessage(nil, 'R', "\x00\x00\x00\x00")
	for name, answer := range map[string][]byte{
		"http":                 []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"nothing":              nil,
		"huge length":          {'R', 0x7f, 0xff, 0xff, 0xff},
		"negative length":      {'R', 0xff, 0xff, 0xff, 0xff},
		"short length":         {'R', 0, 0, 0, 3},
		"cut off":              {'R', 0, 0, 0, 8, 0},
		"ready before auth":    appendMessage(nil, 'Z', "I"),
		"copy":                 appendMessage(nil, 'H', "\x00\x00\x00"),
		"clear password":       appendMessage(nil, 'R', "\x00\x00\x00\x03"),
		"endless parameters":   append(authOK, []byte(strings.Repeat(string(appendMessage(nil, 'S', strings.Repeat("n", 1000), "\x00v\x00")), 2000))...),
		"endless iterations":   appendMessage(nil, 'R', "\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00"),
		"dropped setting":      append(append(authOK[:len(authOK):len(authOK)], appendMessage(nil, 'S', "standard_conforming_strings\x00off\x00")...), welcome...),
		"error with an E only": {'E'},
	} {
		t.Run(name, func(t *testing.T) {
			src := rogue(t, func(c net.Conn) {
				readStartup(c)
				_, _ = c.Write(answer)
				if name == "endless iterations" {
					var msg [512]byte
					n, _ := c.Read(msg[:])
					nonce := string(msg[strings.Index(string(msg[:n]), "r=")+2 : n])
					_, _ = c.Write(appendMessage(nil, 'R', "\x00\x00\x00\x0br="+nonce+"x,s=AAAA,i=2000000000"))
				}
				_, _ = c.Read(make([]byte, 100))
			})
			src.Upstream.Password = "hidden"
			begun := time.Now()
			p := newPool(t, Config{DialTimeout: 500 * time.Millisecond})
			_, err := p.Open(t.Context(), src, sqlgov.OpenOptions{Pinned: map[string]string{"standard_conforming_strings": "on"}})
			if err == nil || reasonOf(err) == "" {
				t.Errorf("%v", err)
			}
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("took %s", took)
			}
			if used := p.slots(src).used; used != 0 {
				t.Errorf("%d slots are lost", used)
			}
		})
	}
}

// TestRogueTLS meets servers that answer a request for TLS with something else, or with more.
func TestRogueTLS(t *testing.T) {
	for name, answer := range map[string]string{"refused": "N", "error": "E\x00\x00\x00\x09SFATAL\x00\x00", "text behind it": "S" + string(welcome), "nothing": ""} {
		t.Run(name, func(t *testing.T) {
			got := make(chan []byte, 1)
			src := rogue(t, func(c net.Conn) {
				readStartup(c)
				_, _ = io.WriteString(c, answer)
				if answer == "" {
					_ = c.Close()
				}
				b, _ := io.ReadAll(c)
				got <- b
			})
			src.Upstream.TLS, src.Upstream.Password = "require", "hidden"
			_, err := newPool(t, Config{DialTimeout: time.Second}).Open(t.Context(), src, sqlgov.OpenOptions{})
			if reasonOf(err) != sqlgov.OpenTLS {
				t.Errorf("%v: %v", err, errors.Unwrap(err))
			}
			if b := <-got; strings.Contains(string(b), "user") || strings.Contains(string(b), "hidden") {
				t.Errorf("sent in clear: %q", b)
			}
		})
	}
}

// TestRogueSession meets a server that goes wrong after the start. Receive and Run must say so, in bounded memory.
func TestRogueSession(t *testing.T) {
	for name, answer := range map[string][]byte{
		"huge length":       append([]byte{'D', 0x3f, 0xff, 0xff, 0xff}, make([]byte, 1000)...),
		"too long":          {'D', 0x7f, 0xff, 0xff, 0xff},
		"short length":      {'D', 0, 0, 0, 0},
		"negative":          {'D', 0xff, 0xff, 0xff, 0xfe},
		"cut off":           {'D', 0, 0},
		"authentication":    appendMessage(nil, 'R', "\x00\x00\x00\x03"),
		"key":               appendMessage(nil, 'K', "\x00\x00\x00\x01abcd"),
		"unknown":           appendMessage(nil, 'q', "x"),
		"status":            appendMessage(nil, 'Z', "X"),
		"status length":     appendMessage(nil, 'Z', ""),
		"tag":               appendMessage(nil, 'C', "SELECT 1"),
		"error":             appendMessage(nil, 'E', "SERROR"),
		"parameter":         appendMessage(nil, 'S', "x\x00"),
		"fields":            appendMessage(nil, 'T', "\xff\xffid\x00"),
		"fields cut off":    appendMessage(nil, 'T', "\x00\x01id\x00\x00\x00\x00\x00"),
		"fields and more":   appendMessage(nil, 'T', "\x00\x00more"),
		"fields without":    appendMessage(nil, 'T', ""),
		"field without end": appendMessage(nil, 'T', "\x00\x01aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
	} {
		t.Run(name, func(t *testing.T) {
			src := rogue(t, func(c net.Conn) {
				readStartup(c)
				_, _ = c.Write(welcome)
				_, _ = c.Read(make([]byte, 100))
				_, _ = c.Write(answer)
			})
			p := newPool(t, Config{})
			w := open(t, p, src, sqlgov.OpenOptions{})
			send(t, w, &pgproto3.Query{String: "select 1"})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := w.Receive(); !errors.Is(err, sqlgov.ErrConnectionLost) {
				t.Errorf("Receive: %v", err)
			}
			runtime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
				t.Errorf("%d bytes were allocated", grown)
			}
			if _, err := runOn(t, p, src, read("select 1")); !errors.Is(err, sqlgov.ErrConnectionLost) {
				t.Errorf("Run: %v", err)
			}
			_ = w.Close()
			if used := p.slots(src).used; used != 0 {
				t.Errorf("%d slots are lost", used)
			}
		})
	}
}

// TestRogueRows meets rows that do not fit their description.
func TestRogueRows(t *testing.T) {
	description := appendMessage(nil, 'T', "\x00\x02a\x00", strings.Repeat("\x00", 18), "b\x00", strings.Repeat("\x00", 18))
	for name, row := range map[string]string{
		"too few": "\x00\x01\xff\xff\xff\xff", "too many": "\x00\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "empty": "",
		"negative": "\x00\x02\xff\xff\xff\xff\xff\xff\xff\xfe", "too long": "\x00\x02\xff\xff\xff\xff\x00\x00\x00\x05abcd", "more": "\x00\x02\xff\xff\xff\xff\x00\x00\x00\x01ab", "missing": "\x00\x02\xff\xff\xff\xff",
	} {
		src := rogue(t, func(c net.Conn) {
			readStartup(c)
			_, _ = c.Write(welcome)
			_, _ = c.Read(make([]byte, 100))
			_, _ = c.Write(append(appendMessage(slices.Clone(description), 'D', row), appendMessage(appendMessage(nil, 'C', "SELECT 1\x00"), 'Z', "I")...))
		})
		got, err := runOn(t, newPool(t, Config{}), src, read("select 1"))
		if !errors.Is(err, sqlgov.ErrConnectionLost) || len(got.rows) > 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
