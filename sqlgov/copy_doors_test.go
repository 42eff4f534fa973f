package sqlgov_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"interlock/audit"
	"interlock/internal/gatewaytest"
)

const copyDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  some:
    source: gov
    permissions:
      - allow: [db.table.select]
        on: [public.n, public.people.id, public.people.name, public.wide]
      - allow: [db.table.insert]
        on: [public.people.id, public.people.name, public.n]
identities:
  ana: {kind: human, grants: [{source: gov, roles: [some]}]}
policies:
  few-rows:
    when: '"public.n" in statement.tables && statement.kind == "select"'
    cap: {rows: 5}
  few-bytes:
    when: '"public.wide" in statement.tables'
    cap: {bytes: 10KiB}
  no-seven:
    when: statement.command == "copy_out" && "public.people" in statement.tables
    refuse: true
    message: people are not exported
`

const copyData = `
create table n (i int); insert into n select generate_series(1, 10000);
create table wide (t text); insert into wide select repeat('x', 4096) from generate_series(1, 10);
create table people (id int primary key, name text, ssn text default 'secret-1', constraint known_ssn check (id <> 7 or ssn <> 'secret-1'));`

func copyGateway(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.Start(t, gatewaytest.Options{Governance: copyDocument, Setup: []string{copyData}})
}

func connectTo(t *testing.T, dsn string) *pgconn.PgConn {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func stateOf(err error) string {
	var pe *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &pe):
		return pe.Code
	}
	return err.Error()
}

// A cap counts the rows of a COPY in every format, and not what is around them; past it the server is made to stop.
func TestCopyOutIsCounted(t *testing.T) {
	g := copyGateway(t)
	conn := connectTo(t, g.DSN("ana", "gov"))
	for _, tc := range []struct {
		sql, state string
		rows       int64
	}{
		{"copy (select i from n order by i limit 5) to stdout", "", 5},
		{"copy (select i from n order by i limit 6) to stdout", "54000", 5},
		{"copy (select i from n order by i limit 5) to stdout (format csv, header)", "", 5},
		{"copy (select i from n order by i limit 6) to stdout (format csv, header)", "54000", 5},
		{"copy (select i from n order by i limit 5) to stdout (format csv, header off)", "", 5},
		{"copy (select i from n order by i limit 5) to stdout (format binary)", "", 5},
		{"copy (select i from n order by i limit 6) to stdout (format binary)", "54000", 5},
		{"copy (select i from n limit 0) to stdout (format binary)", "", 0},
		{"copy (select from n limit 5) to stdout (format binary)", "", 5},
		{"copy n to stdout", "54000", 5},
		{"copy (select a.i from n a, n b, n c) to stdout", "54000", 5}, // would take for ever
		{"copy (select t from wide limit 2) to stdout", "", 2},
		{"copy wide to stdout", "54000", 2},
		{"select a.i from n a, n b, n c", "54000", 5},
		{"select 1; copy (select i from n limit 1) to stdout; select 2", "", 3},
	} {
		var out bytes.Buffer
		_, err := conn.CopyTo(t.Context(), &out, tc.sql)
		if stateOf(err) != tc.state {
			t.Errorf("%s: %v", tc.sql, err)
		}
		last := lastStatement(g)
		if want := map[bool]audit.Status{true: audit.OK, false: audit.Refused}[tc.state == ""]; last.Status != want || last.Outcome.Rows != tc.rows {
			t.Errorf("%s: %s with %d rows on record, want %d", tc.sql, last.Status, last.Outcome.Rows, tc.rows)
		}
		if tc.state == "" && last.Outcome.Bytes < int64(out.Len()) {
			t.Errorf("%s: %d bytes on record of %d", tc.sql, last.Outcome.Bytes, out.Len())
		}
	}
}

// What may be copied is what may be selected and inserted, and policies see both what is done and how.
func TestCopyIsGoverned(t *testing.T) {
	g := copyGateway(t)
	conn := connectTo(t, g.DSN("ana", "gov"))
	server := connectTo(t, g.Upstream)
	for _, tc := range []struct{ sql, data, state, says string }{
		{"copy people (id, name) from stdin", "1\tAda\n2\tBob\n", "", ""},
		{"copy people from stdin", "3\tEve\tx\n", "42501", "permission denied"},
		{"copy people (id, ssn) from stdin", "3\tx\n", "42501", "ssn"},
		{"copy people (id, name) from stdin where ssn = 'secret-1'", "3\tx\n", "42501", "ssn"},
		{"copy people (id, name) from stdin", "7\tEve\n", "23514", "violates a check constraint"},
		{"copy people (id, name) from stdin", "1\tEve\n", "23505", "must be unique"},
		{"copy people (id, name) from stdin", "x\tEve\n", "22P02", "refused a value"},
		{"copy wide from stdin", "x\n", "42501", "permission denied"},
		{"copy people (id, name) to stdout", "", "42501", "people are not exported"},
		{"copy n from stdin", "1\n2\n", "", ""}, // the cap is for reading
		{"copy people to '/tmp/people'", "", "0A000", ""},
		{"copy people from program 'echo 1'", "", "0A000", ""},
	} {
		var err error
		if tc.data != "" {
			_, err = conn.CopyFrom(t.Context(), strings.NewReader(tc.data), tc.sql)
		} else {
			_, err = conn.CopyTo(t.Context(), &bytes.Buffer{}, tc.sql)
		}
		said := fmt.Sprintf("%+v", err)
		if pe := (*pgconn.PgError)(nil); errors.As(err, &pe) {
			said = strings.Join([]string{pe.Message, pe.Detail, pe.Hint, pe.Where, pe.ConstraintName, pe.ColumnName}, "|")
		}
		if stateOf(err) != tc.state || !strings.Contains(said, tc.says) {
			t.Errorf("%s of %q: %s", tc.sql, tc.data, said)
		}
		for _, hidden := range []string{"secret-1", "known_ssn", "Failing row", "people_pkey"} {
			if strings.Contains(said, hidden) {
				t.Errorf("%s tells %q: %s", tc.sql, hidden, said)
			}
		}
	}
	// Without the gateway the server shows the hidden column of the row that fails.
	_, err := server.CopyFrom(t.Context(), strings.NewReader("7\tEve\n"), "copy people (id, name) from stdin")
	if pe := (*pgconn.PgError)(nil); !errors.As(err, &pe) || !strings.Contains(pe.Detail, "secret-1") {
		t.Errorf("the server says %v", err)
	}
	rows, err := server.Exec(t.Context(), "select string_agg(id || name || ssn, ',') from people").ReadAll()
	if err != nil || string(rows[0].Rows[0][0]) != "1Adasecret-1,2Bobsecret-1" {
		t.Errorf("%v %v", rows, err)
	}
}

// What comes in is on record: how many rows, how many bytes, and how it ended.
func TestCopyInIsRecorded(t *testing.T) {
	g := copyGateway(t)
	conn := connectTo(t, g.DSN("ana", "gov"))
	data := strings.Repeat("1\n", 200_000)
	tag, err := conn.CopyFrom(t.Context(), strings.NewReader(data), "copy n from stdin")
	if err != nil || tag.RowsAffected() != 200_000 {
		t.Fatal(tag, err)
	}
	last := lastStatement(g)
	if last.Status != audit.OK || last.Outcome.Rows != 200_000 || last.Outcome.Bytes < int64(len(data)) || strings.Join(last.Kinds, "") != "copy_in" {
		t.Errorf("on record: %v %+v", last.Kinds, last.Outcome)
	}
	_, err = conn.CopyFrom(t.Context(), strings.NewReader("1\nx\n"+data), "copy n from stdin")
	if last := lastStatement(g); stateOf(err) != "22P02" || last.Status != audit.Failed || last.Outcome.SQLState != "22P02" || last.Outcome.Rows != 0 {
		t.Errorf("%v, on record: %+v", err, last.Outcome)
	}
}

// A message of a client that would be too large to hold fails its COPY, and the session lives on.
func TestCopyDataTooLarge(t *testing.T) {
	g := copyGateway(t)
	conn := connectTo(t, g.DSN("ana", "gov"))
	raw, err := conn.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Conn.Close() }()
	query := func(sql string) []byte {
		return append(append(binary.BigEndian.AppendUint32([]byte{'Q'}, uint32(len(sql)+5)), sql...), 0)
	}
	const size = 70 << 20
	if _, err := raw.Conn.Write(append(query("copy n from stdin"), binary.BigEndian.AppendUint32([]byte{'d'}, size+4)...)); err != nil {
		t.Fatal(err)
	}
	for sent := 0; sent < size; sent += 1 << 20 {
		if _, err := raw.Conn.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := raw.Conn.Write(append([]byte{'c', 0, 0, 0, 4}, query("select 1")...)); err != nil {
		t.Fatal(err)
	}
	if conn, err = pgconn.Construct(raw); err != nil {
		t.Fatal(err)
	}
	heard := ""
	for range 10 {
		m, err := conn.ReceiveMessage(t.Context())
		if err != nil {
			heard += err.Error()
			break
		}
		heard += fmt.Sprintf("%T ", m)
		if strings.Contains(heard, "DataRow") {
			break
		}
	}
	if want := "*pgproto3.CopyInResponse *pgproto3.ErrorResponse *pgproto3.ReadyForQuery *pgproto3.RowDescription *pgproto3.DataRow "; heard != want {
		t.Errorf("heard %s", heard)
	}
}
