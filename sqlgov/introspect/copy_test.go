package introspect_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5/pgconn"
)

// copied runs a query by COPY and returns its rows as PostgreSQL writes them in text format, in order of the text.
func copied(conn *pgconn.PgConn, sql string) (string, error) {
	var out bytes.Buffer
	_, err := conn.CopyTo(context.Background(), &out, "copy ("+sql+") to stdout")
	lines := strings.SplitAfter(out.String(), "\n")
	slices.Sort(lines)
	return strings.Join(lines, ""), err
}

// asCopied runs a query as it is and writes its rows as COPY would (manual, "COPY", text format).
func asCopied(conn *pgconn.PgConn, sql string) (string, error) {
	result := conn.ExecParams(context.Background(), sql, nil, nil, nil, nil).Read()
	escape := strings.NewReplacer(`\`, `\\`, "\b", `\b`, "\f", `\f`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\v", `\v`)
	var lines []string
	for _, row := range result.Rows {
		var values []string
		for _, v := range row {
			if v == nil {
				values = append(values, `\N`)
			} else {
				values = append(values, escape.Replace(string(v)))
			}
		}
		lines = append(lines, strings.Join(values, "\t")+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, ""), result.Err
}

// The attack: what a query on the catalogs may not show is copied instead. A COPY shows what the query shows, to whoever asks.
func TestCopyShowsWhatTheQueryShows(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Database: pgtest.Attacks(t), Governance: read(t, "testdata/attacks/governance.yaml")})
	ana, server, hidden := dial(t, g.DSN("analyst", "gov")).PgConn(), dial(t, g.Upstream).PgConn(), forbidden(t, g, "analyst", "gov")
	leaks := 0
	for _, q := range toolQueries(t) {
		if word := strings.ToLower(strings.Fields(q.sql)[0]); word != "select" && word != "with" || strings.Contains(q.sql, "pg_stat_activity") {
			continue // sessions that come and go are others each time
		}
		want, err := asCopied(ana, q.sql)
		got, err2 := copied(ana, q.sql)
		if err != nil || err2 != nil || got != want {
			t.Errorf("%s: %v %v\n%s\ncopied\n%s\nselected\n%s", q.tool, err, err2, q.sql, got, want)
		}
		all, err := copied(server, q.sql)
		if err != nil {
			t.Fatal(err)
		}
		if all != want && len(told(all, hidden, q.sql)) > 0 {
			leaks++
		}
	}
	if leaks == 0 {
		t.Error("the server itself copies nothing that is hidden, so nothing is tested")
	}
	for _, sql := range []string{"copy pg_class to stdout", "copy pg_catalog.pg_attribute (attname) to stdout", "copy (select c from pg_class c) to stdout",
		"explain select relname from pg_class"} {
		_, err := ana.CopyTo(t.Context(), new(bytes.Buffer), sql)
		if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != "0A000" && pg.Code != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
