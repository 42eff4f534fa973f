package introspect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
      - {allow: [db.table.select], on: [public.seen_0, public.seen_1, public.seen_2, public.seen_3]}
      - {allow: [db.table.insert], on: [public.written.a]}
identities:
  ana: {kind: human, grants: [{source: shop, roles: [reader]}]}
`

// stored is a way to keep a query under the name look.
type stored struct{ way, keep, run, drop string }

var ways = []stored{
	{"PREPARE", "prepare look as %s", "execute look", "deallocate look"},
	{"a cursor", "begin; declare look scroll cursor for %s", "move absolute 0 from look; fetch all from look", "rollback"},
	{"PREPARE of a parsed statement", "", "execute look", "deallocate look"},
	{"a parsed statement", "", "", "deallocate look"},
}

func (s stored) prepare(conn *pgconn.PgConn, sql string) error {
	if s.keep == "" {
		_, err := conn.Prepare(context.Background(), "look", sql, nil)
		return err
	}
	_, err := conn.Exec(context.Background(), fmt.Sprintf(s.keep, sql)).ReadAll()
	return err
}

func (s stored) execute(conn *pgconn.PgConn) (string, error) {
	if s.run == "" {
		r := conn.ExecPrepared(context.Background(), "look", nil, nil, nil).Read()
		return fmt.Sprintf("%s", r.Rows), r.Err
	}
	results, err := conn.Exec(context.Background(), s.run).ReadAll()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s", results[len(results)-1].Rows), nil
}

// The attack: a statement is prepared on the catalogs, and executed when what its caller may see has become less. PostgreSQL's
// error for a changed result makes drivers prepare again, and then it tells what there is now.
func TestStoredQueriesDoNotOutliveWhatTheyMayShow(t *testing.T) {
	setup := []string{"create table written (a int, b int)"}
	for i := range ways {
		setup = append(setup, fmt.Sprintf("create table seen_%d (a int, b int)", i))
	}
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: partly, Setup: setup})
	t.Run("in one text", func(t *testing.T) { storedInOneText(t, dial(t, g.DSN("ana", "shop")).PgConn()) })
	for i, s := range ways {
		t.Run(s.way, func(t *testing.T) {
			sql := fmt.Sprintf(`select c.relname || '.' || a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid
				where c.relkind = 'r' and attnum > 0 and not attisdropped and c.relname in ('seen_%d', 'unseen_%d', 'written') order by 1`, i, i)
			conn := dial(t, g.DSN("ana", "shop")).PgConn()
			prepare := func(want string) {
				t.Helper()
				if err := s.prepare(conn, sql); err != nil {
					t.Fatal(err)
				}
				want = strings.ReplaceAll(want, "seen", fmt.Sprintf("seen_%d", i))
				if got, err := s.execute(conn); err != nil || got != want {
					t.Fatalf("%s, want %s: %v", got, want, err)
				}
			}
			// What may only be written is visible too, by column.
			prepare("[[seen.a] [seen.b] [written.a]]")
			pgtest.Start(t).Exec(t, g.Upstream, fmt.Sprintf("alter table seen_%d rename to unseen_%d; create table seen_%d (c int)", i, i, i))
			deadline := time.Now().Add(time.Minute)
			var got string
			var err error
			for err == nil && time.Now().Before(deadline) {
				got, err = s.execute(conn)
				time.Sleep(20 * time.Millisecond) // the gateway looks once a second
			}
			if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Message != "cached plan must not change result type" {
				t.Fatalf("%s: %v", got, err)
			}
			if _, err := conn.Exec(context.Background(), s.drop).ReadAll(); err != nil {
				t.Fatal(err)
			}
			prepare("[[seen.c] [written.a]]")
		})
	}
}

// storedInOneText stores a query that is filtered and runs it by name in the same text, and then with arguments. One that could
// itself look something up is refused.
func storedInOneText(t *testing.T, conn *pgconn.PgConn) {
	const sql = "prepare p(oid, text) as select count(*), $2 from pg_class where oid > $1 and relname = 'written'; execute p(0, 'x')"
	answer := func(sql string, at int) string {
		t.Helper()
		results, err := conn.Exec(t.Context(), sql).ReadAll()
		if err != nil || len(results) <= at {
			t.Fatalf("%d results: %v", len(results), err)
		}
		return fmt.Sprintf("%s", results[at].Rows)
	}
	if got := answer(sql, 1); got != "[[1 x]]" {
		t.Error(got)
	}
	for args, want := range map[string]string{"16384, 'y'": "", "'16384', 1 || 'y'": "", "to_regclass('written')::oid, ''": "0A000",
		"'written'::regclass::oid, ''": "0A000", "0, pg_get_viewdef(0)": "0A000", "(select oid from pg_class limit 1), ''": "0A000"} {
		_, err := conn.Exec(t.Context(), "execute p("+args+")").ReadAll()
		if pg := (*pgconn.PgError)(nil); want == "" && err != nil || want != "" && (!errors.As(err, &pg) || pg.Code != want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	if got := answer("begin; declare c cursor for select relname from pg_class where relname ~ 'seen_0|written' order by 1; move c; fetch all c; commit", 3); got != "[[written]]" {
		t.Error(got)
	}
}
