package introspect_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5/pgconn"
)

// toolQuery is what a tool asks.
type toolQuery struct{ tool, sql string }

func toolQueries(t *testing.T) []toolQuery {
	t.Helper()
	var all []toolQuery
	for _, part := range strings.Split(read(t, "testdata/introspection/tools.sql"), "-- == ")[1:] {
		tool, text, _ := strings.Cut(part, "\n")
		for sql := range strings.SplitSeq(text, ";\n") {
			if sql = strings.TrimSpace(sql); sql != "" {
				all = append(all, toolQuery{tool, sql})
			}
		}
	}
	return all
}

// answers runs a query by both protocols. What they answer must be the same.
func answers(t *testing.T, conn *pgconn.PgConn, q toolQuery) (string, error) {
	t.Helper()
	ctx := context.Background()
	results, err := conn.Exec(ctx, q.sql).ReadAll()
	extended := conn.ExecParams(ctx, q.sql, nil, nil, nil, nil).Read()
	if err != nil || extended.Err != nil {
		return "", fmt.Errorf("%w %w", err, extended.Err)
	}
	simple := fmt.Sprintf("%s", results[0].Rows)
	if got := fmt.Sprintf("%s", extended.Rows); got != simple {
		t.Errorf("%s: the protocols differ:\n%s\n%s", q.tool, simple, got)
	}
	return simple, nil
}

// Whoever may do everything sees what the server answers. Whoever may see a part is told no name of the rest, and gets no error.
func TestToolsLookAround(t *testing.T) {
	shopped := shop(t)
	attacked := gatewaytest.Start(t, gatewaytest.Options{Database: pgtest.Attacks(t), Governance: read(t, "testdata/attacks/governance.yaml")})
	direct, dba := dial(t, shopped.Upstream).PgConn(), dial(t, shopped.DSN("dba", "shop")).PgConn()
	ana, analyst := dial(t, shopped.DSN("ana", "shop")).PgConn(), dial(t, attacked.DSN("analyst", "gov")).PgConn()
	empty := dial(t, pgtest.Start(t).DSN("postgres")).PgConn()
	hidden := map[*pgconn.PgConn]map[string]bool{ana: forbidden(t, shopped, "ana", "shop"), analyst: forbidden(t, attacked, "analyst", "gov")}
	for _, names := range hidden {
		maps.DeleteFunc(names, func(name string, _ bool) bool { return len(name) == 1 }) // a kind or a bool is such a word too
	}
	leaks := 0
	for _, q := range toolQueries(t) {
		want, err := answers(t, direct, q)
		if err != nil {
			t.Fatalf("%s: the server: %v", q.tool, err)
		}
		if got, err := answers(t, dba, q); err != nil || got != want {
			t.Errorf("%s: the DBA sees something else: %v\n%s\nwant\n%s", q.tool, err, got, want)
		}
		own, err := answers(t, empty, q)
		if err != nil {
			t.Fatal(err)
		}
		for conn, names := range hidden {
			got, err := answers(t, conn, q)
			if err != nil {
				t.Errorf("%s: %v\n%s", q.tool, err, q.sql)
			}
			tells := func(text string) []string {
				return slices.DeleteFunc(told(text, names, q.sql), func(n string) bool { return slices.Contains(told(own, names, q.sql), n) })
			}
			if got := tells(got); len(got) > 0 {
				t.Errorf("%s tells %v", q.tool, got)
			}
			leaks += len(tells(want))
		}
	}
	if leaks == 0 {
		t.Error("without the gateway nothing is told either, so nothing is tested")
	}
}
