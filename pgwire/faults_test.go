package pgwire_test

import (
	"errors"
	"io"
	"testing"

	"interlock/audit"
	"interlock/internal/gatewaytest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// However a connection ends, from either side and at whatever point, the other side ends too, what was not committed is undone,
// every record has an end, and the next client is served.
func TestConnectionsThatBreak(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{"create table t (id int); create table big as select g, repeat('x', 500) x from generate_series(1, 40000) g"}})
	t.Run("all", func(t *testing.T) {
		for name, breaks := range map[string]func(*testing.T, *gatewaytest.Gateway, *pgconn.PgConn){
			"client gone mid-result":      goneMidResult,
			"client gone mid-COPY":        goneMidCopy,
			"client gone mid-transaction": goneMidTransaction,
			"goodbye mid-statement":       goneWithGoodbye,
			"client gone mid-pipeline":    goneMidPipeline,
			"server killed mid-result":    killedMidResult,
			"server killed mid-write":     killedMidWrite,
			"server killed while idle":    killedWhileIdle,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				conn, err := pgconn.Connect(t.Context(), g.DSN("ana", "shop", "application_name=breaks"))
				if err != nil {
					t.Fatal(err)
				}
				breaks(t, g, conn)
				again := connect(t, g.DSN("ana", "shop"))
				if _, err := again.Exec(t.Context(), "select 1"); err != nil {
					t.Error(err)
				}
			})
		}
	})
	nothingIsLeft(t, g)
}

func nothingIsLeft(t *testing.T, g *gatewaytest.Gateway) {
	admin, err := pgx.Connect(t.Context(), g.Upstream)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	settles(t, func() bool {
		var left int
		err := admin.QueryRow(t.Context(), "select count(*) from pg_stat_activity where application_name = 'breaks'").Scan(&left)
		return err == nil && left == 0
	})
	var rows int
	if err := admin.QueryRow(t.Context(), "select count(*) from t").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows of what was never committed, %v", rows, err)
	}
	settles(t, func() bool {
		for _, v := range g.Records(audit.Filter{}) {
			if v.Judgement != nil && v.Outcome == nil {
				return false
			}
		}
		return true
	})
}

// firstRow asks for a large result and reads the first row of it.
func firstRow(t *testing.T, conn *pgconn.PgConn) *pgconn.MultiResultReader {
	t.Helper()
	rows := conn.Exec(t.Context(), "select * from big")
	if !rows.NextResult() || !rows.ResultReader().NextRow() {
		t.Fatal("no row")
	}
	return rows
}

func succeeds(t *testing.T, conn *pgconn.PgConn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

func goneMidResult(t *testing.T, _ *gatewaytest.Gateway, conn *pgconn.PgConn) {
	firstRow(t, conn)
	conn.Conn().Close()
}

// goneWithGoodbye says goodbye behind a statement that would go on for long.
func goneWithGoodbye(t *testing.T, g *gatewaytest.Gateway, conn *pgconn.PgConn) {
	conn.Exec(t.Context(), "insert into t select 1 from pg_sleep(600)")
	settles(t, func() bool { return running(t, g, "insert into t select 1 from pg_sleep(600)") == 1 })
	conn.Conn().Write([]byte{'X', 0, 0, 0, 4})
	conn.Conn().Close()
}

func goneMidTransaction(t *testing.T, _ *gatewaytest.Gateway, conn *pgconn.PgConn) {
	succeeds(t, conn, "begin; insert into t values (1)")
	conn.Conn().Close()
}

func goneMidPipeline(t *testing.T, _ *gatewaytest.Gateway, conn *pgconn.PgConn) {
	succeeds(t, conn, "begin")
	pipeline := conn.StartPipeline(t.Context())
	pipeline.SendQueryParams("insert into t values (1)", nil, nil, nil, nil)
	if err := pipeline.Flush(); err != nil {
		t.Fatal(err)
	}
	conn.Conn().Close()
}

// goneMidCopy closes the socket when the server has taken some of the data.
func goneMidCopy(t *testing.T, g *gatewaytest.Gateway, conn *pgconn.PgConn) {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := conn.CopyFrom(t.Context(), r, "copy t from stdin")
		done <- err
	}()
	if _, err := w.Write(fifties(10_000)); err != nil {
		t.Fatal(err)
	}
	settles(t, func() bool { return running(t, g, "copy t from stdin") == 1 })
	conn.Conn().Close()
	w.Close()
	if err := <-done; err == nil {
		t.Error("the copy has ended well")
	}
}

// fifties is n rows for t.
func fifties(n int) []byte {
	var b []byte
	for range n {
		b = append(b, "50\n"...)
	}
	return b
}

// kill ends the server's process of a connection.
func kill(t *testing.T, g *gatewaytest.Gateway, query string) {
	t.Helper()
	admin, err := pgx.Connect(t.Context(), g.Upstream)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	settles(t, func() bool {
		var killed int
		err := admin.QueryRow(t.Context(), "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'breaks' and query = $1", query).Scan(&killed)
		return err == nil && killed == 1
	})
}

// killedMidResult ends a server that computes between its rows.
func killedMidResult(t *testing.T, g *gatewaytest.Gateway, conn *pgconn.PgConn) {
	isShutDown(t, killedAfterFirstRow(t, g, conn, "select pg_sleep(0.01), a.* from big a"))
}

// killedMidWrite ends a server that waits for its client to read. Whether such a server still says why it goes depends on whether
// it is in the middle of a message.
func killedMidWrite(t *testing.T, g *gatewaytest.Gateway, conn *pgconn.PgConn) {
	err := killedAfterFirstRow(t, g, conn, "select a.* from big a, big b")
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "57P01" && pg.Code != "08006" || pg.Severity != "FATAL" {
		t.Errorf("%v", err)
	}
}

func killedAfterFirstRow(t *testing.T, g *gatewaytest.Gateway, conn *pgconn.PgConn, query string) error {
	t.Helper()
	rows := conn.Exec(t.Context(), query)
	if !rows.NextResult() || !rows.ResultReader().NextRow() {
		t.Fatal("no row")
	}
	kill(t, g, query)
	for rows.ResultReader().NextRow() {
	}
	return rows.Close()
}

func killedWhileIdle(t *testing.T, g *gatewaytest.Gateway, conn *pgconn.PgConn) {
	succeeds(t, conn, "select 'idle'")
	kill(t, g, "select 'idle'")
	isShutDown(t, conn.WaitForNotification(t.Context()))
}

// isShutDown holds for what PostgreSQL says when it is told to end a session.
func isShutDown(t *testing.T, err error) {
	t.Helper()
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "57P01" || pg.Severity != "FATAL" {
		t.Errorf("%v", err)
	}
}
