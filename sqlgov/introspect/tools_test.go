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

// looker asks through the gateway what may not tell him any of some names, and what the server tells whoever asks it.
type looker struct {
	conn, direct *pgconn.PgConn
	hidden       map[string]bool
	leaks        int // names that the server tells
}

func lookerAs(t *testing.T, g *gatewaytest.Gateway, identity, source string) *looker {
	names := forbidden(t, g, identity, source)
	maps.DeleteFunc(names, func(name string, _ bool) bool { return len(name) == 1 }) // a kind or a bool is such a word too
	return &looker{conn: dial(t, g.DSN(identity, source)).PgConn(), direct: dial(t, g.Upstream).PgConn(), hidden: names}
}

// look asks a query. own is what a database without anything answers: names in it are PostgreSQL's.
func (l *looker) look(t *testing.T, q toolQuery, own string) {
	t.Helper()
	tells := func(text string) []string {
		return slices.DeleteFunc(told(text, l.hidden, q.sql), func(n string) bool { return slices.Contains(told(own, l.hidden, q.sql), n) })
	}
	got, err := answers(t, l.conn, q)
	if err != nil {
		t.Errorf("%s: %v\n%s", q.tool, err, q.sql)
	}
	if names := tells(got); len(names) > 0 {
		t.Errorf("%s tells %v", q.tool, names)
	}
	if got, err = answers(t, l.direct, q); err != nil {
		t.Fatalf("%s: the server: %v", q.tool, err)
	}
	l.leaks += len(tells(got))
}

// Whoever may do everything sees what the server answers. Whoever may see a part is told no name of the rest, and gets no error.
func TestToolsLookAround(t *testing.T) {
	shopped := shop(t)
	attacked := gatewaytest.Start(t, gatewaytest.Options{Database: pgtest.Attacks(t), Governance: read(t, "testdata/attacks/governance.yaml")})
	dba, empty := dial(t, shopped.DSN("dba", "shop")).PgConn(), dial(t, pgtest.Start(t).DSN("postgres")).PgConn()
	lookers := []*looker{lookerAs(t, shopped, "ana", "shop"), lookerAs(t, attacked, "analyst", "gov")}
	for _, q := range toolQueries(t) {
		want, err := answers(t, lookers[0].direct, q)
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
		for _, l := range lookers {
			l.look(t, q, own)
		}
	}
	for i, l := range lookers {
		if l.leaks == 0 {
			t.Errorf("looker %d is told nothing without the gateway either, so nothing is tested", i)
		}
	}
}
