package sqlgov_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"interlock/internal/gatewaytest"
)

const hiddenColumn = `
version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  analyst:
    source: shop
    permissions:
      - allow: [db.table.select]
        on: [public.c.id, public.c.name]
identities:
  ana: {kind: human, grants: [{source: shop, roles: [analyst]}]}
`

// pipe is a raw connection on which messages are sent in one write.
type pipe struct {
	t  *testing.T
	fe *pgproto3.Frontend
}

func newPipe(t *testing.T) *pipe {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: hiddenColumn, Setup: []string{
		`create table c (id int, name text, ssn text); insert into c values (7, 'Ada', 'secret-ssn')`}})
	return pipeOf(t, g.DSN("ana", "shop"))
}

func pipeOf(t *testing.T, dsn string) *pipe {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SyncConn(t.Context()); err != nil { // or bytes that it has read ahead are lost
		t.Fatal(err)
	}
	raw, err := conn.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Conn.Close() })
	return &pipe{t, raw.Frontend}
}

// send writes all messages at once and returns the replies up to the given number of ReadyForQuery, in short form.
func (p *pipe) send(ready int, messages ...pgproto3.FrontendMessage) string {
	p.t.Helper()
	for _, m := range messages {
		p.fe.Send(m)
	}
	if err := p.fe.Flush(); err != nil {
		p.t.Fatal(err)
	}
	var got []string
	for ready > 0 {
		m, err := p.fe.Receive()
		if err != nil {
			p.t.Fatalf("after %v: %v", got, err)
		}
		switch m := m.(type) {
		case *pgproto3.ParseComplete, *pgproto3.BindComplete, *pgproto3.CloseComplete:
		case *pgproto3.DataRow:
			got = append(got, "row "+string(m.Values[0]))
		case *pgproto3.ErrorResponse:
			got = append(got, "error "+m.Code)
		case *pgproto3.ReadyForQuery:
			got = append(got, "ready "+string(m.TxStatus))
			ready--
		case *pgproto3.CommandComplete:
			got = append(got, "done")
		case *pgproto3.RowDescription:
		default:
			got = append(got, fmt.Sprintf("%T", m))
		}
	}
	return strings.Join(got, ", ")
}

func parse(name, sql string) *pgproto3.Parse { return &pgproto3.Parse{Name: name, Query: sql} }
func bind(portal, statement string) *pgproto3.Bind {
	return &pgproto3.Bind{DestinationPortal: portal, PreparedStatement: statement}
}
func execute(portal string) *pgproto3.Execute { return &pgproto3.Execute{Portal: portal} }
func closing(name string) *pgproto3.Close     { return &pgproto3.Close{ObjectType: 'S', Name: name} }

var syncMsg = &pgproto3.Sync{}

// The attack: make the gateway believe that a name stands for one statement while the server has another, by
// definitions that fail, are skipped, or are still under way when the name is used.
func TestNamesStandForWhatTheServerHas(t *testing.T) {
	const (
		id   = "select id from c"
		name = "select name from c"
		ssn  = "select ssn from c"
	)
	for _, tc := range []struct {
		what     string
		ready    int
		messages []pgproto3.FrontendMessage
		want     string
	}{
		{"a refused definition defines nothing", 2,
			[]pgproto3.FrontendMessage{parse("s", ssn), syncMsg, bind("", "s"), execute(""), syncMsg},
			"error 42501, ready I, error 26000, ready I"},
		{"a second definition of a name fails and leaves the first", 3,
			[]pgproto3.FrontendMessage{parse("s", id), syncMsg, parse("s", name), syncMsg, bind("", "s"), execute(""), syncMsg},
			"ready I, error 42P05, ready I, row 7, done, ready I"},
		{"a definition that the server skips leaves the unnamed statement as it was", 3,
			[]pgproto3.FrontendMessage{parse("", id), syncMsg, parse("x", "selec"), parse("", name), syncMsg, bind("", ""), execute(""), syncMsg},
			"ready I, error 42601, ready I, row 7, done, ready I"},
		{"a definition that fails drops the unnamed statement", 3,
			[]pgproto3.FrontendMessage{parse("", id), syncMsg, parse("", "select nosuch(id) from c"), syncMsg, bind("", ""), execute(""), syncMsg},
			"ready I, error 42501, ready I, error 26000, ready I"},
		{"a Close that the server skips closes nothing", 3,
			[]pgproto3.FrontendMessage{parse("s", id), syncMsg, parse("x", "selec"), closing("s"), syncMsg, bind("", "s"), execute(""), syncMsg},
			"ready I, error 42601, ready I, row 7, done, ready I"},
		{"a Query inside a skipped segment is skipped and owed nothing", 1,
			[]pgproto3.FrontendMessage{parse("x", "selec"), &pgproto3.Query{String: id}, syncMsg},
			"error 42601, ready I"},
		{"SQL's PREPARE and DEALLOCATE share the names", 4,
			[]pgproto3.FrontendMessage{&pgproto3.Query{String: "prepare s as " + id}, bind("", "s"), execute(""), syncMsg,
				&pgproto3.Query{String: "deallocate s"}, bind("", "s"), execute(""), syncMsg},
			"done, ready I, row 7, done, ready I, done, ready I, error 26000, ready I"},
		{"PREPARE of what may not be read is refused, and EXECUTE of it finds nothing", 2,
			[]pgproto3.FrontendMessage{&pgproto3.Query{String: "prepare s as " + ssn}, &pgproto3.Query{String: "execute s"}},
			"error 42501, ready I, error 26000, ready I"},
		{"a Query drops the unnamed statement", 3,
			[]pgproto3.FrontendMessage{parse("", id), syncMsg, &pgproto3.Query{String: "select 1"}, bind("", ""), execute(""), syncMsg},
			"ready I, row 1, done, ready I, error 26000, ready I"},
		{"a refusal in a transaction fails it on the server", 4,
			[]pgproto3.FrontendMessage{&pgproto3.Query{String: "begin"}, parse("", ssn), syncMsg, &pgproto3.Query{String: id}, &pgproto3.Query{String: "commit"}},
			"done, ready T, error 42501, ready E, error 25P02, ready E, done, ready I"},
		{"a portal keeps the statement that it was bound from", 2,
			[]pgproto3.FrontendMessage{&pgproto3.Query{String: "begin"}, parse("s", id), bind("p", "s"), closing("s"), parse("s", name), execute("p"), syncMsg},
			"done, ready T, row 7, done, ready T"},
		{"several statements in one Parse are left to the server, which refuses them", 1,
			[]pgproto3.FrontendMessage{parse("", id+"; "+name), syncMsg}, "error 42601, ready I"},
		{"one refused statement keeps all others of its Query from running", 1,
			[]pgproto3.FrontendMessage{&pgproto3.Query{String: id + "; " + ssn}}, "error 42501, ready I"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			if got := newPipe(t).send(tc.ready, tc.messages...); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// A client may send far more than the server has answered. Nothing may wait for ever, and every message is answered.
func TestLongPipelines(t *testing.T) {
	p := newPipe(t)
	var messages []pgproto3.FrontendMessage
	for range 20_000 {
		messages = append(messages, parse("", "select id from c"))
	}
	messages = append(messages, bind("", ""), execute(""), syncMsg)
	if got, want := p.send(1, messages...), "row 7, done, ready I"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	messages = messages[:0]
	messages = append(messages, parse("", "selec"))
	for range 20_000 {
		messages = append(messages, bind("", ""), execute(""))
	}
	messages = append(messages, syncMsg, &pgproto3.Query{String: "select id from c"})
	if got, want := p.send(2, messages...), "error 42601, ready I, row 7, done, ready I"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
