package pgwire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"interlock/audit"
	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
	"interlock/pgwire"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const analyst = `
version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
  closed:
    kind: postgres
    disabled: true
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
  nowhere:
    kind: postgres
    upstream: {host: 127.0.0.1, port: 1, database: DATABASE, user: USER, tls: disable}
source_roles:
  analyst:
    source: shop
    permissions:
      - allow: [db.table.select]
        on: [crm.customers.id, crm.customers.name]
  closed: {source: closed, permissions: [{allow: [db.table.select], on: ["*"]}]}
  nowhere: {source: nowhere, permissions: [{allow: [db.table.select], on: ["*"]}]}
identities:
  ana:
    kind: human
    grants: [{source: shop, roles: [analyst]}, {source: closed, roles: [closed]}, {source: nowhere, roles: [nowhere]}]
  eve: {kind: human, grants: []}
`

const customers = `create schema crm; create table crm.customers (id int primary key, name text, ssn text);
	insert into crm.customers values (1, 'Ann', '123-45-6789'), (2, 'Bob', null)`

func psql(t *testing.T, uri string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.Command("psql", append([]string{"-X", "-w", "-v", "VERBOSITY=verbose", "-d", uri}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "PGPASSFILE=/nonexistent")
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func TestAnalyst(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{customers}, Governance: analyst, TLS: true})
	t.Run("psql", func(t *testing.T) { testPsql(t, g) })
	t.Run("refused connections", func(t *testing.T) { testRefusedConnections(t, g) })
	t.Run("refusal inside a transaction", func(t *testing.T) { testRefusalInsideTransaction(t, g) })
	t.Run("revoked key", func(t *testing.T) { testRevokedKey(t, g) })
}

// What an analyst sees in psql, and what the audit log has of it.
func testPsql(t *testing.T, g *gatewaytest.Gateway) {
	uri := g.DSN("ana", "shop", "sslmode=verify-full", "channel_binding=require", "sslrootcert="+g.CA(), "application_name=report")
	out, errs, err := psql(t, uri, "-At", "-c", "select id, name from crm.customers order by id")
	if err != nil || out != "1|Ann\n2|Bob\n" {
		t.Fatalf("%q %s %v", out, errs, err)
	}
	out, errs, err = psql(t, uri, "-c", "select ssn from crm.customers")
	for _, want := range []string{
		`ERROR:  42501: permission denied for column "ssn" of table "crm.customers"`,
		`DETAIL:  Your roles on source "shop" (analyst) allow select on crm.customers (id, name).`,
		"HINT:  ", " Decision ",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("psql prints no %q:\n%s", want, errs)
		}
	}
	if err == nil || out != "" {
		t.Errorf("%q %v", out, err)
	}
	_, id, _ := strings.Cut(errs, "Decision ")
	records := g.Records(audit.Filter{ID: strings.TrimSpace(id)})
	if len(records) != 1 || records[0].Status != audit.Refused || records[0].Identity != "ana" || records[0].Door != "pgwire" ||
		records[0].Source != "shop" || records[0].Application != "report" || records[0].Outcome.SQLState != "42501" {
		t.Errorf("audit: %+v", records)
	}
}

// A connection that cannot be had is FATAL, says why in its SQLSTATE, and is on record.
func testRefusedConnections(t *testing.T, g *gatewaytest.Gateway) {
	started := time.Now()
	for _, c := range []struct{ who, source, state string }{
		{"ana", "warehouse", "3D000"},
		{"eve", "shop", "3D000"}, // as if it did not exist
		{"ana", "closed", "08004"},
		{"ana", "nowhere", "08004"}, // never catalogued
		{"nobody", "shop", "28000"}, // has a key, but is in no document
	} {
		_, err := pgconn.Connect(t.Context(), g.DSN(c.who, c.source))
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Severity != "FATAL" || pg.Code != c.state || !strings.Contains(pg.Hint, "Decision ") {
			t.Errorf("%s at %s: %v", c.who, c.source, err)
		}
	}
	_, err := pgconn.Connect(t.Context(), strings.Replace(g.DSN("ana", "shop"), g.Key("ana"), "ilk_wrong", 1))
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "28P01" {
		t.Errorf("wrong key: %v", err)
	}
	if n := len(g.Records(audit.Filter{Since: started})); n != 6 {
		t.Errorf("%d records, want 6", n)
	}
}

func testRevokedKey(t *testing.T, g *gatewaytest.Gateway) {
	conn := connect(t, g.DSN("ana", "shop"))
	if _, err := conn.Exec(t.Context(), "select id from crm.customers"); err != nil {
		t.Fatal(err)
	}
	g.Revoke("ana")
	_, err := conn.Exec(t.Context(), "select id from crm.customers")
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "28000" || pg.Severity != "FATAL" {
		t.Errorf("after the revocation: %v", err)
	}
	settles(t, func() bool { return conn.IsClosed() })
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func settles(t *testing.T, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("does not settle")
		}
	}
}

func TestAllowed(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{customers}, TLS: true})
	t.Run("pgx", func(t *testing.T) { testPgx(t, g) })
	t.Run("cancel", func(t *testing.T) { testCancel(t, g) })
	t.Run("gone client", func(t *testing.T) { testGoneClient(t, g) })
}

func testPgx(t *testing.T, g *gatewaytest.Gateway) {
	conn := connect(t, g.DSN("ana", "shop"))
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for range 3 {
			var name string
			if err := conn.QueryRow(t.Context(), "select name from crm.customers where id = $1", mode, 2).Scan(&name); err != nil || name != "Bob" {
				t.Errorf("%v: %q %v", mode, name, err)
			}
		}
	}
	batch := &pgx.Batch{}
	for i := range 200 {
		batch.Queue("insert into crm.customers (id, name) values ($1, $2)", 1000+i, fmt.Sprint(i))
	}
	if err := conn.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Error(err)
	}
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "delete from crm.customers where id >= 1000"); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	var n int
	if err := conn.QueryRow(t.Context(), "select count(*) from crm.customers").Scan(&n); err != nil || n != 202 {
		t.Errorf("%d rows, %v", n, err)
	}
	if err := conn.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// A refusal inside a transaction fails it, also for a driver that tracks the state itself.
func testRefusalInsideTransaction(t *testing.T, g *gatewaytest.Gateway) {
	conn := connect(t, g.DSN("ana", "shop"))
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var pg *pgconn.PgError
	if _, err := tx.Exec(t.Context(), "select ssn from crm.customers"); !errors.As(err, &pg) || pg.Code != "42501" {
		t.Errorf("%v", err)
	}
	if _, err := tx.Exec(t.Context(), "select id from crm.customers"); !errors.As(err, &pg) || pg.Code != "25P02" {
		t.Errorf("%v", err)
	}
	if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("commit: %v", err)
	}
}

func TestPgbenchThroughGateway(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	bench := func(uri string, args ...string) string {
		t.Helper()
		out, err := exec.Command("pgbench", append(args, uri)...).CombinedOutput()
		if err != nil || strings.Contains(string(out), "ERROR") {
			t.Fatalf("pgbench %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	bench(dsn, "-i", "-q", "-s", "1")
	g := gatewaytest.Start(t, gatewaytest.Options{Database: dsn})
	for _, mode := range []string{"simple", "extended", "prepared"} {
		bench(g.DSN("ana", "shop"), "-n", "-S", "-c", "8", "-j", "2", "-t", "50", "-M", mode)
		bench(g.DSN("ana", "shop"), "-n", "-c", "8", "-j", "2", "-t", "10", "-M", mode)
	}
	var statements, failed int
	for _, v := range g.Records(audit.Filter{}) {
		if v.Judgement != nil && len(v.Kinds) > 0 {
			statements++
		}
		if v.Status != audit.OK {
			failed++
		}
	}
	// Each run first asks for the scale and for partitions; a transaction of TPC-B has seven statements.
	if sent := 3 * (2 + 8*50 + 2 + 8*10*7); statements != sent || failed > 0 {
		t.Errorf("%d statements on record, %d were sent; %d not ok", statements, sent, failed)
	}
}

func testCancel(t *testing.T, g *gatewaytest.Gateway) {
	started := time.Now()
	cmd := exec.Command("psql", "-X", "-w", "-d", g.DSN("ana", "shop"), "-c", "select pg_sleep(30)")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	settles(t, func() bool { return running(t, g, "pg_sleep(30)") == 1 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if !strings.Contains(errs.String(), "canceling statement due to user request") {
		t.Error(errs.String())
	}
	records := g.Records(audit.Filter{Since: started})
	if n := len(records); n != 1 || records[0].Status != audit.Canceled || records[0].Outcome.SQLState != "57014" {
		t.Errorf("audit: %+v", records)
	}
}

// running counts the server's backends that run a statement.
func running(t *testing.T, g *gatewaytest.Gateway, text string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), g.Upstream)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	err = conn.QueryRow(t.Context(), `select count(*) from pg_stat_activity where state = 'active' and datname = current_database()
		and pid <> pg_backend_pid() and query like '%' || $1 || '%'`, text).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A client that is gone leaves nothing behind: not its statement, not its connection, and no record without an end.
func testGoneClient(t *testing.T, g *gatewaytest.Gateway) {
	started := time.Now()
	cmd := exec.Command("psql", "-X", "-w", "-d", g.DSN("ana", "shop"), "-c", "select pg_sleep(30)")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	settles(t, func() bool { return running(t, g, "pg_sleep(30)") == 1 })
	cmd.Process.Kill()
	cmd.Wait()
	killed := time.Now()
	settles(t, func() bool { return running(t, g, "pg_sleep(30)") == 0 })
	if took := time.Since(killed); took > 2*time.Second {
		t.Errorf("the server was busy for %v", took)
	}
	settles(t, func() bool {
		records := g.Records(audit.Filter{Since: started})
		return len(records) == 1 && records[0].Status == audit.Canceled
	})
}

// TestSkippedHasOutcome: what is allowed and then skipped, because another message of its segment was refused, is on record as
// canceled. It was on record as running for ever.
func TestSkippedHasOutcome(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{})
	const talk = `F Parse "a" "select 4711"
F Parse "" "no statement"
F Bind "" "a"
F Execute "" 0
F Sync
F Query "select 1"
B ParseComplete
B Error ERROR 42601 "syntax error at or near \"no\"" at 1
B ReadyForQuery I
B RowDescription ?column?:23:-1
B DataRow "1"
B CommandComplete "SELECT 1"
B ReadyForQuery I
`
	for _, dsn := range []string{g.DSN("ana", "shop"), g.Upstream} {
		if got := pgwire.Converse(t, dsn, talk); got != talk {
			t.Errorf("%s", got)
		}
	}
	statuses := map[audit.Status]int{}
	for _, v := range g.Records(audit.Filter{}) {
		statuses[v.Status]++
	}
	if statuses[audit.Canceled] != 1 || statuses[audit.Refused] != 1 || statuses[audit.OK] != 1 || len(statuses) != 3 {
		t.Errorf("%v", statuses)
	}
}
