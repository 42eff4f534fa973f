package pgwire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"interlock/internal/gatewaytest"

	"github.com/jackc/pgx/v5/pgconn"
)

// What a session begins with, behind the authentication, is what PostgreSQL begins one with: the same parameters in the same order, a
// key, and ReadyForQuery. Only a client that gives no name of its own is called after the gateway.
func TestSessionsBeginAsInPostgreSQL(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: gatewaytest.AllowAll})
	for _, tc := range []struct {
		version, settings string
		key               int // bytes of BackendKeyData behind the gateway; those of PostgreSQL 15 are 8
	}{
		{"3.0", "", 8},
		{"3.0", "application_name=probe", 8},
		{"3.0", "options=-c extra_float_digits=2 -c DateStyle=German", 8},
		{"3.0", "TimeZone=Europe/Berlin", 8},
		{"3.2", "", 36}, // PostgreSQL 15 has 3.0 only, and says so
	} {
		direct, through := begun(t, g.Upstream, tc.version, tc.settings), begun(t, g.DSN("ana", "shop"), tc.version, tc.settings)
		if !strings.HasSuffix(direct[len(direct)-2], " 8 bytes") || through[len(through)-2] != fmt.Sprintf("BackendKeyData %d bytes", tc.key) {
			t.Errorf("%s %s: %s; %s", tc.version, tc.settings, direct[len(direct)-2], through[len(through)-2])
		}
		if i := slices.Index(through, "application_name=interlock"); i >= 0 {
			through[i] = "application_name="
		}
		direct, through = slices.Delete(direct, len(direct)-2, len(direct)-1), slices.Delete(through, len(through)-2, len(through)-1)
		if !slices.Equal(direct, through) {
			t.Errorf("%s %s:\nPostgreSQL: %q\nthrough the gateway: %q", tc.version, tc.settings, direct, through)
		}
	}
}

// begun lists the messages of a server from AuthenticationOk to ReadyForQuery.
func begun(t *testing.T, dsn, version, settings string) []string {
	t.Helper()
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxProtocolVersion = version
	if name, value, ok := strings.Cut(settings, "="); ok {
		config.RuntimeParams[name] = value
	}
	var heard bytes.Buffer
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return listened{conn, &heard}, err
	}
	conn, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	all := heard.Bytes()
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	var said []string
	for len(all) > 0 {
		size := 1 + int(binary.BigEndian.Uint32(all[1:]))
		said = append(said, begins(all[0], all[5:size]))
		all = all[size:]
	}
	return said[slices.Index(said, "AuthenticationOk"):]
}

func begins(kind byte, body []byte) string {
	switch {
	case kind == 'R' && binary.BigEndian.Uint32(body) == 0:
		return "AuthenticationOk"
	case kind == 'S':
		return strings.TrimSuffix(strings.Replace(string(body), "\x00", "=", 1), "\x00")
	case kind == 'K':
		return fmt.Sprintf("BackendKeyData %d bytes", len(body))
	}
	return fmt.Sprintf("%c %q", kind, body)
}

// listened is a connection of which is kept what comes in. It has one reader.
type listened struct {
	net.Conn
	heard io.Writer
}

func (l listened) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	_, _ = l.heard.Write(b[:n]) // into memory
	return n, err
}
