package pgwire_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock/audit"
	"interlock/internal/gatewaytest"

	"github.com/jackc/pgx/v5"
)

const warehouse = `create table item (id int primary key, name text, made timestamptz, data bytea, tags text[]);
	insert into item select i, 'item ' || i, timestamptz '2026-01-01' + i * interval '1 hour', decode(lpad(to_hex(i), 8, '0'), 'hex'), array['a', 'b' || i]
	from generate_series(1, 5000) i; create table back (like item including all)`

// psql's \copy takes a table out and in again as it is, in every format.
func TestPsqlCopy(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{warehouse}})
	for _, format := range []string{"text", "csv, header", "binary"} {
		file := filepath.Join(t.TempDir(), "item")
		_, errs, err := psql(t, g.DSN("ana", "shop"), "-v", "ON_ERROR_STOP=1", "-c", `\copy item to `+file+` (format `+format+`)`,
			"-c", "truncate back", "-c", `\copy back from `+file+` (format `+format+`)`)
		if err != nil {
			t.Fatalf("%s: %v %s", format, err, errs)
		}
		direct := filepath.Join(t.TempDir(), "item")
		out, errs, err := psql(t, g.Upstream, "-At", "-v", "ON_ERROR_STOP=1", "-c", `\copy item to `+direct+` (format `+format+`)`,
			"-c", "select count(*) from (table item except table back) x", "-c", "select count(*) from back")
		if err != nil || !strings.HasSuffix(out, "0\n5000\n") {
			t.Errorf("%s: %v %s%s", format, err, out, errs)
		}
		ours, _ := os.ReadFile(file)
		theirs, _ := os.ReadFile(direct)
		if len(theirs) == 0 || string(ours) != string(theirs) {
			t.Errorf("%s: %d bytes through the gateway, %d without", format, len(ours), len(theirs))
		}
	}
}

// A row that the server refuses in the middle ends the COPY while the client is still sending, and the session goes on.
func TestPgxCopyFrom(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{warehouse}})
	conn := connect(t, g.DSN("ana", "shop"))
	for _, bad := range []int{0, 500} {
		n, err := conn.CopyFrom(t.Context(), pgx.Identifier{"back"}, []string{"id", "name"}, pgx.CopyFromSlice(200_000, func(i int) ([]any, error) {
			if i == bad && bad > 0 {
				i-- // there already
			}
			return []any{i, "a name that is rather long, so that there are many messages"}, nil
		}))
		if (err != nil) != (bad > 0) || err == nil && n != 200_000 {
			t.Errorf("%d rows, %v", n, err)
		}
		var rows int
		if err := conn.QueryRow(t.Context(), "select count(*) from back").Scan(&rows); err != nil || rows != map[bool]int{false: 200_000}[bad > 0] {
			t.Errorf("%d rows, %v", rows, err)
		}
		if _, err := conn.Exec(t.Context(), "truncate back"); err != nil {
			t.Fatal(err)
		}
	}
}

// A client that goes away amid its data leaves no rows and no statement behind.
func TestGoneAmidCopy(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{warehouse}})
	conn := connect(t, g.DSN("ana", "shop"))
	raw, err := conn.PgConn().Hijack()
	if err != nil {
		t.Fatal(err)
	}
	const sql = "copy back (id) from stdin"
	if _, err := raw.Conn.Write([]byte("Q\x00\x00\x00\x1e" + sql + "\x00d\x00\x00\x00\x061\n")); err != nil {
		t.Fatal(err)
	}
	settles(t, func() bool { return running(t, g, sql) == 1 })
	raw.Conn.Close()
	settles(t, func() bool { return running(t, g, sql) == 0 })
	settles(t, func() bool {
		records := g.Records(audit.Filter{})
		last := records[len(records)-1]
		return len(records) > 0 && last.Outcome != nil && last.Status == audit.Canceled
	})
	if out, errs, err := psql(t, g.Upstream, "-At", "-c", "select count(*) from back"); err != nil || out != "0\n" {
		t.Errorf("%v %s%s", err, out, errs)
	}
}

// psql reads a large result piece by piece, through a cursor.
func TestPsqlFetchCount(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{warehouse}})
	out, errs, err := psql(t, g.DSN("ana", "shop"), "-At", "-v", "FETCH_COUNT=100", "-c", "select id from item order by id")
	if err != nil || strings.Count(out, "\n") != 5000 || !strings.HasSuffix(out, "\n5000\n") {
		t.Errorf("%v %s %d lines", err, errs, strings.Count(out, "\n"))
	}
}
