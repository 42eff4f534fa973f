package introspect_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// dial opens a connection that ends with the test.
func dial(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// The attack on the trust of a BI tool: it hides tables by has_table_privilege and its kin, which know the server's login
// only. What they say must be what comes of trying.
func TestPrivilegesAreWhatComesOfTrying(t *testing.T) {
	g := shop(t)
	type place struct{ Table, Column string }
	rows, err := dial(t, g.Upstream).Query(t.Context(), `SELECT a.attrelid::regclass::text, quote_ident(attname) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.oid >= 16384 AND relkind IN ('r', 'v', 'p') AND attnum > 0 AND NOT attisdropped AND NOT relispartition`)
	if err != nil {
		t.Fatal(err)
	}
	places, err := pgx.CollectRows(rows, pgx.RowToStructByPos[place])
	if err != nil || len(places) < 20 {
		t.Fatal(len(places), err)
	}
	for _, who := range []string{"ana", "agent", "dba"} {
		conn := dial(t, g.DSN(who, "shop"))
		tables := map[string]bool{}
		for _, p := range places {
			_, tried := conn.Exec(t.Context(), fmt.Sprintf("select %s from %s limit 0", p.Column, p.Table))
			said := ask(t, conn, fmt.Sprintf("has_column_privilege('%s', '%s', 'select')", p.Table, strings.Trim(p.Column, `"`)))
			if (tried == nil) != (said == "true") {
				t.Errorf("%s on %s of %s: %s, but the error is %v", who, p.Column, p.Table, said, tried)
			}
			tables[p.Table] = tables[p.Table] || tried == nil
		}
		for table, some := range tables {
			_, tried := conn.Exec(t.Context(), "select t from "+table+" t limit 0")
			if said := ask(t, conn, fmt.Sprintf("has_table_privilege('%s', 'SELECT')", table)); (tried == nil) != (said == "true") {
				t.Errorf("%s on %s: %s, but the error is %v", who, table, said, tried)
			}
			if said := ask(t, conn, fmt.Sprintf("has_any_column_privilege(current_user, '%s', 'select')", table)); some != (said == "true") {
				t.Errorf("%s on a column of %s: %s", who, table, said)
			}
		}
	}
}

// ask returns "true", "false" or "NULL" for an expression.
func ask(t *testing.T, conn *pgx.Conn, expression string) string {
	t.Helper()
	var said *bool
	if err := conn.QueryRow(t.Context(), "select "+expression).Scan(&said); err != nil {
		t.Errorf("%s: %v", expression, err)
	}
	if said == nil {
		return "NULL"
	}
	return fmt.Sprint(*said)
}

// Roles of the document for the agent of the demo, and PostgreSQL's words for it.
func TestPrivilegesOnWritesAndOtherObjects(t *testing.T) {
	conn := dial(t, shop(t).DSN("agent", "shop"))
	for expression, want := range map[string]string{
		"has_column_privilege('support.tickets', 'note', 'INSERT')":              "true",
		"has_column_privilege('support.tickets', 'opened_at', 'INSERT')":         "false",
		"has_column_privilege('support.tickets', 'note', 'update')":              "true",
		"has_column_privilege('support.tickets', 'note', 'INSERT, UPDATE')":      "true",
		"has_table_privilege('support.tickets', 'SELECT WITH GRANT OPTION')":     "false",
		"has_table_privilege('support.tickets', 'DELETE')":                       "false",
		"has_table_privilege('support.tickets', 'INSERT')":                       "false",
		"has_any_column_privilege('support.tickets', 'INSERT')":                  "true",
		"has_table_privilege('postgres', 'support.tickets', 'SELECT')":           "false",
		"has_table_privilege('hr.salaries', 'SELECT')":                           "NULL",
		"has_table_privilege('hr.nosuch', 'SELECT')":                             "NULL",
		"has_schema_privilege('support', 'USAGE')":                               "true",
		"has_schema_privilege('hr', 'USAGE')":                                    "NULL",
		"has_schema_privilege('support', 'CREATE')":                              "false",
		"has_function_privilege('sales.lifetime_value(integer)', 'EXECUTE')":     "NULL",
		"has_function_privilege('pg_catalog.lower(text)', 'EXECUTE')":            "true",
		"has_database_privilege(current_database(), 'CONNECT')":                  "true",
		"pg_get_serial_sequence('crm.customers', 'id') IS NULL":                  "true",
		"pg_get_serial_sequence('support.tickets', 'id') IS NOT NULL":            "true",
		"bool_or(has_table_privilege(c.oid, 'DELETE')) from pg_class as c":       "false",
		"count(has_table_privilege(n, 'SELECT')) = 0 from (values (16384)) v(n)": "true",
	} {
		if said := ask(t, conn, expression); said != want {
			t.Errorf("%s: %s, want %s", expression, said, want)
		}
	}
}

// The attack: a parameter is turned into an object by the server itself, after the statement was judged. Names and numbers
// of hidden objects must be answered like those that nothing has.
func TestParametersFindNoHiddenObject(t *testing.T) {
	g := shop(t)
	var number string
	if err := dial(t, g.Upstream).QueryRow(t.Context(), "select 'hr.salaries'::regclass::oid::text").Scan(&number); err != nil {
		t.Fatal(err)
	}
	open := dial(t, g.Upstream).PgConn().ExecParams(t.Context(), "select $1::regclass", [][]byte{[]byte(number)}, nil, nil, nil).Read()
	if open.Err != nil || string(open.Rows[0][0]) != "hr.salaries" {
		t.Fatal("without the gateway nothing is told either, so nothing is tested")
	}
	conn := dial(t, g.DSN("ana", "shop")).PgConn()
	const regclass, oid = 2205, 26
	for _, sql := range []string{"select $1::regclass", "select cast($1 as regclass)::text", "select $1", "select pg_table_is_visible($1::regclass)",
		"select ($1::text)::regclass", "select $1::text::oid::regclass", "select relname from pg_class where oid = $1::regclass", "select pg_relation_size($1)"} {
		for _, declared := range [][]uint32{nil, {regclass}, {oid}} {
			bind := func(value string) string {
				r := conn.ExecParams(context.Background(), sql, [][]byte{[]byte(value)}, declared, nil, nil).Read()
				return fmt.Sprint(r.Rows, errorText(r.Err))
			}
			missing := bind("hr.nosuch")
			for _, value := range []string{"hr.salaries", number} {
				got := bind(value)
				if strings.Contains(got, "salaries") && value == number {
					t.Errorf("%s with %s declared %v tells %s", sql, value, declared, got)
				}
				if value != number && sql != "select $1" && got != strings.ReplaceAll(missing, "nosuch", "salaries") {
					t.Errorf("%s declared %v: %s for a hidden table, %s for none", sql, declared, got, missing)
				}
			}
		}
	}
	r := conn.ExecParams(context.Background(), "select $1::regclass", [][]byte{[]byte("crm.customers")}, nil, nil, nil).Read()
	if r.Err != nil || string(r.Rows[0][0]) != "crm.customers" {
		t.Errorf("a visible table: %v %v", r.Rows, r.Err)
	}
}

func errorText(err error) string {
	if pg := (*pgconn.PgError)(nil); err != nil && errors.As(err, &pg) {
		return pg.Code + " " + pg.Message
	}
	return fmt.Sprint(err)
}
