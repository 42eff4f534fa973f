package pgwire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/iotest"
	"time"

	"interlock/sqlgov"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/rs/zerolog"
)

// Whatever comes first, the connection ends within its time and nobody is let in.
func FuzzStartup(f *testing.F) {
	f.Add(startupMessage(version30, "user", "ana", "database", "shop", "options", `-c a=b\ c --d-e=f`))
	f.Add(append(code(gssRequest), startupMessage(3<<16|9999, "user", "ana", "_pq_.x", "")...))
	f.Add(code(sslRequest))
	f.Add(cancelPacket(1, []byte("key")))
	f.Add([]byte{0, 0, 0, 4, 0, 3, 0, 0})
	f.Add(append(startupMessage(version30, "user", "ana"), message('p', "SCRAM-SHA-256\x00\x00\x00\x00\x0dn,,n=u,r=abcd")...))
	core := &ungoverned{dsn: "host=/nonexistent"}
	s := &Server{Core: core, Authenticator: passwords{"ana": "secret"}, Log: zerolog.Nop(), Limits: Limits{StartupTime: 10 * time.Second}}
	s.prepare()
	f.Fuzz(func(t *testing.T, b []byte) {
		client, server := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			c := newConn(s, server)
			if s.join(c) {
				defer s.leave(c)
			}
			c.serve(s.base)
		}()
		go io.Copy(io.Discard, client)
		client.SetDeadline(time.Now().Add(5 * time.Second))
		client.Write(b)
		client.Close()
		<-done
		if len(core.opened) > 0 {
			t.Error("a session was opened")
		}
	})
}

func FuzzOptions(f *testing.F) {
	for _, s := range []string{"", "-c a=b", `--a-b=c\ d`, "-c", "--", `\`, "-ca=b -c  c=d"} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) {
		commandLine(s, map[string]string{})
		splitOptions(s)
	})
}

func FuzzScram(f *testing.F) {
	f.Add(rfcClientFirst, rfcClientFinal)
	f.Add("p=tls-server-end-point,,n=u,r=abc", "c=,r=,p=")
	exchange := rfcExchange(f, "other")
	f.Fuzz(func(t *testing.T, first, final string) {
		s := *exchange
		if _, bad := s.challenge(first); bad == nil {
			if who, _, ok, _ := s.finish(final); ok || who != nil {
				t.Error("accepted")
			}
		}
	})
}

// What is decoded of a message is what pgproto3 decodes of it; what we take for well-formed, so does pgproto3.
func FuzzMessages(f *testing.F) {
	for _, m := range []pgproto3.FrontendMessage{
		&pgproto3.Query{String: "select 1"}, &pgproto3.Parse{Name: "s", Query: "select $1", ParameterOIDs: []uint32{23, 0}},
		&pgproto3.Bind{DestinationPortal: "p", PreparedStatement: "s", Parameters: [][]byte{[]byte("x"), nil}},
		&pgproto3.Describe{ObjectType: 'S', Name: "s"}, &pgproto3.Execute{Portal: "p", MaxRows: 5},
		&pgproto3.Close{ObjectType: 'P', Name: "p"}, &pgproto3.Sync{}, &pgproto3.Flush{},
	} {
		b, err := m.Encode(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[0], b[frameHeader:])
	}
	f.Fuzz(func(t *testing.T, kind byte, content []byte) {
		frame := message(kind, string(content))
		switch kind {
		case 'Q':
			sql, bad := decodeQuery(frame)
			var m pgproto3.Query
			if agrees(t, bad, m.Decode(content)) && m.String != sql {
				t.Errorf("%q, %q", sql, m.String)
			}
		case 'P':
			p, bad := decodeParse(frame)
			var m pgproto3.Parse
			if agrees(t, bad, m.Decode(content)) && (m.Name != p.Name || m.Query != p.SQL || len(m.ParameterOIDs) != len(p.Types)) {
				t.Errorf("%+v, %+v", p, m)
			}
		case 'B':
			decodeBind(frame)
		case 'D':
			object, name, bad := decodeObject(frame, "DESCRIBE")
			var m pgproto3.Describe
			if agrees(t, bad, m.Decode(content)) && (m.ObjectType != object || m.Name != name) {
				t.Errorf("%c %q, %+v", object, name, m)
			}
		case 'E':
			portal, rows, bad := decodeExecute(frame)
			var m pgproto3.Execute
			if agrees(t, bad, m.Decode(content)) && (m.Portal != portal || m.MaxRows != rows) {
				t.Errorf("%q %d, %+v", portal, rows, m)
			}
		}
	})
}

// agrees demands that what is well-formed here is so there, and tells if it is.
func agrees(t *testing.T, bad *sqlgov.Refusal, err error) bool {
	if bad == nil && err != nil {
		t.Errorf("taken for well-formed: %v", err)
	}
	return bad == nil && err == nil
}

// A stream is cut into the same messages however it arrives.
func FuzzReader(f *testing.F) {
	f.Add(append(message('Q', "select 1\x00"), message('S', "")...))
	f.Add([]byte{'Q', 0x7f, 0xff, 0xff, 0xff, 1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		one, other := cut(newReader(bytes.NewReader(b))), cut(newReader(iotest.OneByteReader(bytes.NewReader(b))))
		if !bytes.Equal(one, other) {
			t.Errorf("%x, %x", one, other)
		}
	})
}

// cut reads messages until there is none, and marks where each ends.
func cut(in *reader) (all []byte) {
	for {
		n, err := in.length()
		if err != nil {
			return fmt.Append(all, errors.Is(err, errLength))
		}
		frame, err := in.take(n)
		if err != nil {
			return all
		}
		all = binary.BigEndian.AppendUint32(append(all, frame...), uint32(n))
	}
}
