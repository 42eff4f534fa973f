package introspect_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5/pgconn"
)

const partly = `
version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  reader:
    source: shop
    permissions:
      - {allow: [db.table.select], on: [public.seen]}
      - {allow: [db.table.insert], on: [public.written.a]}
identities:
  ana: {kind: human, grants: [{source: shop, roles: [reader]}]}
`

// The attack: a statement is prepared on the catalogs, and executed when what its caller may see has become less. PostgreSQL's
// error for a changed result makes drivers prepare again, and then it tells what there is now.
func TestPreparedStatementsDoNotOutliveWhatTheyMayShow(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: partly, Setup: []string{`create table seen (a int, b int); create table written (a int, b int)`}})
	conn, ctx := dial(t, g.DSN("ana", "shop")).PgConn(), context.Background()
	const sql = "select c.relname || '.' || a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid where c.relkind = 'r' and attnum > 0 and c.oid >= 16384 order by 1"
	execute := func() (string, error) {
		r := conn.ExecPrepared(ctx, "look", nil, nil, nil).Read()
		return fmt.Sprintf("%s", r.Rows), r.Err
	}
	prepare := func(want string) {
		t.Helper()
		if _, err := conn.Prepare(ctx, "look", sql, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := execute(); err != nil || got != want {
			t.Fatalf("%s, want %s: %v", got, want, err)
		}
	}
	// What may only be written is visible too, by column.
	prepare("[[seen.a] [seen.b] [written.a]]")
	pgtest.Start(t).Exec(t, g.Upstream, `alter table seen rename to unseen; create table seen (c int)`)
	deadline := time.Now().Add(time.Minute)
	var got string
	var err error
	for err == nil && time.Now().Before(deadline) {
		got, err = execute()
		time.Sleep(20 * time.Millisecond) // the gateway looks once a second
	}
	if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Message != "cached plan must not change result type" {
		t.Fatalf("%s: %v", got, err)
	}
	if err := conn.Deallocate(ctx, "look"); err != nil {
		t.Fatal(err)
	}
	prepare("[[seen.c] [written.a]]")
}
