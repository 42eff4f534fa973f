package pgwire

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"interlock/internal/pgtest"
	"interlock/sqlgov"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// startupMessage is a StartupMessage of any version, from pairs of names and values.
func startupMessage(version uint32, pairs ...string) []byte {
	b := binary.BigEndian.AppendUint32(nil, version)
	for _, s := range pairs {
		b = append(append(b, s...), 0)
	}
	return packet(append(b, 0))
}

func packet(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...)
}

func code(c uint32) []byte { return packet(binary.BigEndian.AppendUint32(nil, c)) }

// exchange sends bytes on a new connection and says what came back, until the server closes or has said nothing for a
// while.
func exchange(t *testing.T, addr string, chunks ...[]byte) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i, b := range chunks {
		if i > 0 {
			time.Sleep(20 * time.Millisecond)
		}
		conn.Write(b)
	}
	return describe(conn)
}

// describe reads what a server says: N and S outside of messages, and messages in the notation of transcripts. A server that has
// asked for a password is given a while to go on, otherwise one that is slow is waited for.
func describe(conn net.Conn) string {
	var said []string
	for {
		patience := 30 * time.Second
		if len(said) > 0 && strings.HasPrefix(said[len(said)-1], "R(") {
			patience = 500 * time.Millisecond
		}
		conn.SetReadDeadline(time.Now().Add(patience))
		kind := make([]byte, 1)
		_, err := io.ReadFull(conn, kind)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return strings.Join(append(said, "..."), " ")
		case err != nil:
			return strings.Join(append(said, "EOF"), " ")
		case kind[0] == 'N' || kind[0] == 'S':
			said = append(said, string(kind))
			continue
		}
		m, err := readBody(conn, kind[0])
		if err != nil {
			return strings.Join(append(said, err.Error()), " ")
		}
		said = append(said, m)
	}
}

func readBody(conn io.Reader, kind byte) (string, error) {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return "", err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:])-4)
	if _, err := io.ReadFull(conn, body); err != nil {
		return "", err
	}
	switch kind {
	case 'E':
		var e pgproto3.ErrorResponse
		err := e.Decode(body)
		return fmt.Sprintf("E(%s %s %s)", e.Severity, e.Code, e.Message), err
	case 'R':
		return fmt.Sprintf("R(%d)", binary.BigEndian.Uint32(body)), nil
	case 'v':
		var v pgproto3.NegotiateProtocolVersion
		err := v.Decode(body)
		return fmt.Sprintf("v(%d.%d %q)", v.NewestMinorProtocol>>16, v.NewestMinorProtocol&0xffff, v.UnrecognizedOptions), err
	}
	return string(kind), nil
}

// The answers to what a client may send first. Where PostgreSQL 15 is asked too, it gives the same answer, or the one
// that is noted: it offers older protocols, and has no opinion on TLS that is required here.
func TestStartupAnswers(t *testing.T) {
	pg := pgtest.Start(t)
	pg.Exec(t, pg.DSN("postgres"), `create role startup_ana login password 'secret' in role pgtest_scram`)
	d := startDoor(t, pg.DSN("postgres"), func(s *Server) {
		s.Authenticator = passwords{"startup_ana": "secret"}
	})
	postgres := fmt.Sprintf("%s:%d", pg.Host(), pg.Port())
	who := []string{"user", "startup_ana", "database", "postgres"}
	ok := startupMessage(version30, who...)
	const same = "same as PostgreSQL"
	for _, c := range []struct {
		name     string
		chunks   [][]byte
		want     string
		postgres string // "" is not asked
	}{
		{"login", [][]byte{ok}, "R(10) ...", same},
		{"by the byte", bytewise(ok), "R(10) ...", same},
		{"length 4+4 apart", [][]byte{ok[:4], ok[4:]}, "R(10) ...", same},
		{"length 0", [][]byte{{0, 0, 0, 0}}, "EOF", same},
		{"length 7", [][]byte{{0, 0, 0, 7, 0, 3, 0}}, "EOF", same},
		{"length 10005", [][]byte{append([]byte{0, 0, 0x27, 0x15, 0, 3, 0, 0}, make([]byte, 100)...)}, "EOF", same},
		{"length 2^31-1", [][]byte{{0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0}}, "EOF", same},
		{"HTTP", [][]byte{[]byte("GET / HTTP/1.1\r\n\r\n")}, "EOF", same},
		{"TLS where there is none", [][]byte{append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 40)...)}, "EOF", ""},
		{"version 2", [][]byte{startupMessage(2<<16, who...)}, "EOF", ""},
		{"version 4", [][]byte{startupMessage(4<<16, who...)},
			"E(FATAL 0A000 unsupported frontend protocol 4.0: server supports 3.0 to 3.2) EOF",
			"E(FATAL 0A000 unsupported frontend protocol 4.0: server supports 3.0 to 3.0) EOF"},
		{"version 3.2", [][]byte{startupMessage(version32, who...)}, "R(10) ...", "v(3.0 []) R(10) ..."},
		{"version 3.9999", [][]byte{startupMessage(3<<16|9999, append(who, "_pq_.test_protocol_negotiation", "")...)},
			`v(3.2 ["_pq_.test_protocol_negotiation"]) R(10) ...`, `v(3.0 ["_pq_.test_protocol_negotiation"]) R(10) ...`},
		{"three options", [][]byte{startupMessage(version30, append(who, "_pq_.a", "1", "_pq_.b", "", "_pq_.c", "x")...)},
			`v(3.0 ["_pq_.a" "_pq_.b" "_pq_.c"]) R(10) ...`, same},
		{"no user", [][]byte{startupMessage(version30, "database", "postgres")},
			"E(FATAL 28000 no PostgreSQL user name specified in startup packet) EOF", same},
		{"the last user counts", [][]byte{startupMessage(version30, append(who, "user", "")...)},
			"E(FATAL 28000 no PostgreSQL user name specified in startup packet) EOF", same},
		{"no terminator", [][]byte{packet([]byte("\x00\x03\x00\x00user\x00ana\x00"))},
			"E(FATAL 08P01 invalid startup packet layout: expected terminator as last byte) EOF", same},
		{"after the terminator", [][]byte{packet([]byte("\x00\x03\x00\x00user\x00ana\x00\x00more"))},
			"E(FATAL 08P01 invalid startup packet layout: expected terminator as last byte) EOF", same},
		{"name without value", [][]byte{packet([]byte("\x00\x03\x00\x00user\x00"))},
			"E(FATAL 08P01 invalid startup packet layout: expected terminator as last byte) EOF", same},
		{"SSLRequest", [][]byte{code(sslRequest), ok}, "N R(10) ...", ""},
		{"GSSENCRequest", [][]byte{code(gssRequest), ok}, "N R(10) ...", ""},
		{"GSS, SSL, startup", [][]byte{code(gssRequest), code(sslRequest), ok}, "N N R(10) ...", ""},
		{"SSL, GSS, startup", [][]byte{code(sslRequest), code(gssRequest), ok}, "N N R(10) ...", ""},
		{"SSLRequest twice", [][]byte{code(sslRequest), code(sslRequest)},
			"N E(FATAL 0A000 unsupported frontend protocol 1234.5679: server supports 3.0 to 3.2) EOF", ""},
		{"GSSENCRequest twice", [][]byte{code(gssRequest), code(gssRequest)},
			"N E(FATAL 0A000 unsupported frontend protocol 1234.5680: server supports 3.0 to 3.2) EOF", ""},
		{"SSLRequest and startup in one", [][]byte{append(code(sslRequest), ok...)},
			"N E(FATAL 08P01 received unencrypted data after SSL request) EOF", ""},
		{"GSSENCRequest and startup in one", [][]byte{append(code(gssRequest), ok...)},
			"N E(FATAL 08P01 received unencrypted data after GSSAPI encryption request) EOF", ""},
		{"unknown cancel key", [][]byte{packet([]byte("\x04\xd2\x16\x2e\x00\x00\x30\x39\x00\x00\x02\xa6"))}, "EOF", same},
		{"short cancel key", [][]byte{packet([]byte("\x04\xd2\x16\x2e\x00\x00\x30\x39"))}, "EOF", same},
		{"Query instead of an answer", [][]byte{ok, message('Q', "select 1\x00")},
			"R(10) E(FATAL 08P01 expected SASL response, got message type 81) EOF", same},
		{"unknown mechanism", [][]byte{ok, message('p', "OAUTHBEARER\x00\x00\x00\x00\x01x")},
			"R(10) E(FATAL 08P01 client selected an invalid SASL authentication mechanism) EOF", same},
		{"no first message", [][]byte{ok, message('p', "SCRAM-SHA-256\x00\xff\xff\xff\xff")}, "R(10) R(11) ...", same},
		{"garbage first message", [][]byte{ok, message('p', "SCRAM-SHA-256\x00\x00\x00\x00\x03abc")},
			"R(10) E(FATAL 08P01 malformed SCRAM message) EOF", same},
		{"length beside the message", [][]byte{ok, message('p', "SCRAM-SHA-256\x00\x00\x00\x00\x09abc")}, "R(10) E(FATAL 08P01 invalid message format) EOF", ""},
		{"2 GiB answer", [][]byte{ok, {'p', 0x7f, 0xff, 0xff, 0xff}}, "R(10) EOF", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := exchange(t, d.addr, c.chunks...); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			want := c.postgres
			if want == same {
				want = c.want
			}
			if want == "" {
				return
			}
			if got := exchange(t, postgres, c.chunks...); got != want {
				t.Errorf("PostgreSQL: %s, want %s", got, want)
			}
		})
	}
	t.Cleanup(func() {
		if len(d.core.opened) != 0 {
			t.Errorf("sessions were opened: %+v", d.core.opened)
		}
	})
}

func bytewise(b []byte) [][]byte {
	chunks := make([][]byte, len(b))
	for i := range b {
		chunks[i] = b[i : i+1]
	}
	return chunks
}

func dialTLS(t *testing.T, addr string, direct bool, protocols ...string) (*tls.Conn, error) {
	t.Helper()
	raw, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	raw.SetDeadline(time.Now().Add(30 * time.Second))
	if !direct {
		raw.Write(code(sslRequest))
		answer := make([]byte, 1)
		if _, err := io.ReadFull(raw, answer); err != nil || answer[0] != 'S' {
			t.Fatalf("answer to SSLRequest: %q %v", answer, err)
		}
	}
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
	if err := conn.Handshake(); err != nil {
		return nil, err
	}
	return conn, nil
}

func TestTLSAndALPN(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"), withTLS(t))
	login := startupMessage(version30, "user", "ana", "database", "shop")
	for _, c := range []struct {
		direct    bool
		protocols []string
		want      string
	}{
		{false, nil, "R(10) ..."},
		{false, []string{"postgresql"}, "R(10) ..."},
		{false, []string{"h2", "postgresql"}, "R(10) ..."},
		{false, []string{"h2"}, "handshake"},
		{true, []string{"postgresql"}, "R(10) ..."},
		{true, nil, "EOF"},
		{true, []string{"http/1.1"}, "handshake"},
	} {
		got := "handshake"
		if conn, err := dialTLS(t, d.addr, c.direct, c.protocols...); err == nil {
			conn.Write(login)
			got = describe(conn)
		}
		if got != c.want {
			t.Errorf("direct %v, ALPN %q: %s, want %s", c.direct, c.protocols, got, c.want)
		}
	}
}

// What is in the buffer when TLS begins was not said by the client that TLS proves.
func TestPlaintextBeforeTLS(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"), withTLS(t))
	for name, glued := range map[string][]byte{
		"startup": startupMessage(version30, "user", "ana"), "query": message('Q', "select 1\x00"), "a byte": {0x16},
	} {
		want := "N E(FATAL 08P01 received unencrypted data after SSL request) EOF"
		if got := exchange(t, d.addr, append(code(sslRequest), glued...)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	conn, err := dialTLS(t, d.addr, false)
	if err != nil {
		t.Fatal(err)
	}
	conn.Write(code(sslRequest))
	if got, want := describe(conn), "E(FATAL 0A000 unsupported frontend protocol 1234.5679: server supports 3.0 to 3.2) EOF"; got != want {
		t.Errorf("SSLRequest inside TLS: %s, want %s", got, want)
	}
}

func TestRefusedAtStart(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"))
	d.core.refuses = func(opt sqlgov.SessionOptions) error {
		return &sqlgov.Refusal{Kind: sqlgov.UnknownSource, Message: `database "` + opt.Source + `" does not exist`}
	}
	for setting, want := range map[string]string{
		"sslmode=disable":                    `3D000 database "shop" does not exist`,
		"client_encoding=LATIN1":             `0A000 client_encoding "LATIN1" is not supported`,
		"client_encoding=utf-8":              `3D000 database "shop" does not exist`,
		"client_encoding=SQL_ASCII":          `3D000 database "shop" does not exist`,
		"options=--client-encoding%3Dlatin1": `0A000 client_encoding "latin1" is not supported`,
		"replication=database":               `0A000 replication connections are not supported`,
		"replication=off":                    `3D000 database "shop" does not exist`,
		"options=-c%20work_mem":              `42601 work_mem requires a value`,
		"options=-d5":                        `42601 invalid command-line argument for server process: -d5`,
		"application_name=%ff":               `22021 invalid byte sequence for encoding "UTF8": 0xff`,
	} {
		_, err := pgconn.Connect(t.Context(), d.dsn(setting))
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code+" "+pg.Message != want || pg.Severity != "FATAL" {
			t.Errorf("%s: %v, want %s", setting, err, want)
		}
	}
	for _, caller := range d.core.callers {
		if caller.Identity != "ana" || caller.KeyID != "key of ana" || caller.Door != sqlgov.PGWire || caller.Session == "" {
			t.Errorf("caller %+v", caller)
		}
	}
}

// What PostgreSQL makes of "options" is what we make of it.
func TestOptionsAsPostgreSQL(t *testing.T) {
	d := startDoor(t, pgtest.Start(t).DSN("postgres"))
	direct := func(options string) *pgconn.Config {
		cfg, err := pgconn.ParseConfig(d.core.dsn)
		if err != nil {
			t.Fatal(err)
		}
		cfg.RuntimeParams["options"] = options
		return cfg
	}
	for _, options := range []string{
		"", "  ", `-c application_name=one`, `-capplication_name=two`, `--application-name=three`, `-c application_name=a\ b`,
		`-c application_name=a\\b`, `-c application_name=one -c  application_name=two`, "-c\tapplication_name=tab", `--application_name=`,
		`-c application_name='q'`, `-c APPLICATION_NAME=upper --extra-float-digits=2`, `-c application_name=a=b`, `-c`, `--`, `-c application_name`,
		`--application_name`, `nonsense`, `-c application_name=x\`,
	} {
		through, err := pgconn.ParseConfig(d.dsn("sslmode=disable"))
		if err != nil {
			t.Fatal(err)
		}
		through.RuntimeParams["options"] = options
		want, got := applicationName(t, direct(options)), applicationName(t, through)
		if got != want {
			t.Errorf("%q: %s, PostgreSQL has %s", options, got, want)
		}
	}
}

func applicationName(t *testing.T, cfg *pgconn.Config) string {
	conn, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		var pg *pgconn.PgError
		errors.As(err, &pg)
		return "error " + pg.Code
	}
	defer conn.Close(t.Context())
	r := conn.ExecParams(t.Context(), "select current_setting('application_name') || ' ' || current_setting('extra_float_digits')", nil, nil, nil, nil).Read()
	return string(r.Rows[0][0])
}
