package introspect_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5"
)

// standard are queries on every relation of the information_schema that the server's login may read and the gateway shows.
// Options of foreign servers and the views behind the views are for nobody.
func standard(t *testing.T, g *gatewaytest.Gateway, login string) []string {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, g.Upstream)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT format('select * from information_schema.%s%s;', relname, ' where ' || (
  SELECT quote_ident(attname) || $$ not in ('pg_catalog', 'information_schema')$$ FROM pg_attribute WHERE attrelid = c.oid AND attname ~ 'schema$' ORDER BY attnum LIMIT 1))
FROM pg_class c WHERE relnamespace = 'information_schema'::regnamespace
AND relkind IN ('r', 'v') AND relname !~ '^_|options$|^sql_|^user_mappings$|^element_types$' -- element_types takes seconds, of which the gateway adds none
 AND has_table_privilege($1, oid, 'select') ORDER BY relname`, login)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(list) < 50 {
		t.Fatal(len(list), err)
	}
	return list
}

// The attack: the information_schema shows everyone what the server's login may use.
func TestInformationSchemaTellsAnAnalystWhatSheMaySee(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Database: pgtest.Attacks(t), Governance: read(t, "testdata/attacks/governance.yaml")})
	list, set := standard(t, g, "gov_svc"), forbidden(t, g, "analyst", "gov")
	quiet(t, g.DSN("analyst", "gov"), list, set)
	for i, out := range run(t, g.Upstream, list) {
		if strings.Contains(list[i], "_schema.columns ") && len(told(out, set, list[i])) == 0 {
			t.Error("without the gateway nothing is told either, so nothing is tested")
		}
	}
}

// Who may do everything is told byte for byte what the server tells the gateway's own login.
func TestWhoMayDoEverythingSeesWhatTheServerShows(t *testing.T) {
	g := shop(t)
	list := slices.DeleteFunc(append(commands(t, "crm", "sales", "hr", "support"), standard(t, g, "gateway")...), func(command string) bool {
		return strings.HasPrefix(command, `\l`) // sizes of other tests' databases
	})
	want := run(t, pgtest.Start(t).As(g.Upstream, "gateway", "x"), list)
	for i, got := range run(t, g.DSN("dba", "shop"), list) {
		if got != want[i] {
			t.Errorf("%s:\n%s\nthe server says:\n%s", list[i], got, want[i])
		}
	}
}
