package sqlgov_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"interlock/internal/gatewaytest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const deferredDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  booker:
    source: gov
    permissions:
      - {allow: [db.table.select], on: [public.booked.id]}
      - {allow: [db.table.insert], on: [public.booked.id, public.booked.during]}
identities:
  ana: {kind: human, grants: [{source: gov, roles: [booker]}]}
`

// TestDeferredErrors. Attack: to learn from a constraint that is checked when the transaction ends what is in a column that one may
// write and not read. The server's error quotes it.
func TestDeferredErrors(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: deferredDocument, Setup: []string{
		`create table booked (id int, during int4range, exclude using gist (during with &&) deferrable initially deferred);
		insert into booked values (1, '[3,9)')`}})
	const insert = "insert into booked (id, during) values (2, '[1,5)')"
	ways := map[string]func(*pgx.Conn) error{
		"commit": func(c *pgx.Conn) error {
			_, err := c.PgConn().Exec(t.Context(), "begin; "+insert).ReadAll()
			if err == nil {
				_, err = c.PgConn().Exec(t.Context(), "commit").ReadAll()
			}
			return err
		},
		"commit by the extended protocol": func(c *pgx.Conn) error {
			for _, sql := range []string{"begin", insert, "commit"} {
				if r := c.PgConn().ExecParams(t.Context(), sql, nil, nil, nil, nil).Read(); r.Err != nil {
					return r.Err
				}
			}
			return nil
		},
		"wanting it checked": func(c *pgx.Conn) error {
			_, err := c.PgConn().Exec(t.Context(), "begin; set constraints all deferred; "+insert).ReadAll()
			if err == nil {
				_, err = c.PgConn().Exec(t.Context(), "set constraints all immediate").ReadAll()
			}
			return err
		},
		"end of a Query": func(c *pgx.Conn) error {
			_, err := c.PgConn().Exec(t.Context(), insert+"; select 1").ReadAll()
			return err
		},
		"Sync": func(c *pgx.Conn) error {
			return c.PgConn().ExecParams(t.Context(), insert, nil, nil, nil, nil).Read().Err
		},
		"pipeline": func(c *pgx.Conn) error {
			b := &pgconn.Batch{}
			b.ExecParams(insert, nil, nil, nil, nil)
			b.ExecParams("select 1", nil, nil, nil, nil)
			_, err := c.PgConn().ExecBatch(t.Context(), b).ReadAll()
			return err
		},
	}
	for name, way := range ways {
		for _, dsn := range []string{g.Upstream, g.DSN("ana", "gov")} {
			conn, err := pgx.Connect(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			var told *pgconn.PgError
			if err := way(conn); !errors.As(err, &told) || told.Code != "23P01" {
				t.Fatalf("%s: %v", name, err)
			}
			leak := strings.Contains(told.Message+told.Detail+told.Hint+told.Where, "[3,9)")
			if direct := dsn == g.Upstream; leak != direct {
				t.Errorf("%s, directly %v: %s: %s", name, direct, told.Message, told.Detail)
			}
			if err := conn.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
}
