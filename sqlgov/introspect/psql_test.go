package introspect_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// read returns a file of the repository.
func read(t testing.TB, name string) string {
	t.Helper()
	path, err := pgtest.File(name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// shop starts a gateway over the business of the demo, under the demo's own rules.
func shop(t testing.TB) *gatewaytest.Gateway {
	t.Helper()
	setup := strings.NewReplacer(":'gateway_password'", "'x'", "DATABASE shop", "DATABASE introspect_shop").Replace(read(t, "cmd/interlock/demo/shop.sql"))
	dsn := pgtest.Start(t).Shared(t, "introspect_shop", setup)
	rules := strings.NewReplacer("{{.UpstreamHost}}", "HOST", "{{.UpstreamPort}}", "PORT", "database: shop", "database: DATABASE",
		"      password: file:{{.UpstreamPasswordFile}}\n", "").Replace(read(t, "cmd/interlock/demo/governance.yaml"))
	return gatewaytest.Start(t, gatewaytest.Options{Database: dsn, Governance: rules})
}

// run gives commands to psql and returns what each printed, errors included.
func run(t *testing.T, dsn string, commands []string) []string {
	t.Helper()
	const mark = "=== end of command"
	cmd := exec.Command("psql", "-X", "-w", "-d", dsn)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n\\echo '"+mark+"'\n") + "\n\\echo '" + mark + "'\n")
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "PGPASSFILE=/nonexistent")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("psql: %v\n%s", err, out.String())
	}
	parts := strings.Split(out.String(), mark+"\n")
	if len(parts) != len(commands)+1 {
		t.Fatalf("psql printed %d parts for %d commands:\n%s", len(parts)-1, len(commands), out.String())
	}
	return parts[:len(commands)]
}

// commands are those of psql that list or describe. Those with a name go through the schemas of the test.
func commands(t testing.TB, schemas ...string) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(read(t, "testdata/introspection/psql.txt")) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.Contains(line, "SCHEMA"):
			for _, s := range schemas {
				all = append(all, strings.ReplaceAll(line, "SCHEMA", s))
			}
		default:
			all = append(all, line)
		}
	}
	return all
}

// forbidden returns the names that an identity must not see: every name in the catalogs that belongs to nothing the
// identity may see and to nothing of PostgreSQL's own.
func forbidden(t *testing.T, g *gatewaytest.Gateway, identity, source string) map[string]bool {
	t.Helper()
	access := g.Rules.Current().Access(identity, source, g.Catalogs.Index(source))
	columns, functions := []string{}, []string{}
	for _, table := range access.Tables {
		for _, c := range table.Describe {
			columns = append(columns, table.Relation.Schema+"."+table.Relation.Name+"."+c.Name)
		}
	}
	for _, f := range access.Functions {
		functions = append(functions, f.Schema+"."+f.Name)
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, g.Upstream)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, read(t, "testdata/introspection/names.sql"), columns, functions)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]bool{}
	for _, n := range list {
		set[n] = true
	}
	return set
}

// told returns the names in what a command printed that are in the set, each once, but for those that the command names.
func told(text string, set map[string]bool, command string) []string {
	var found []string
	seen := map[string]bool{}
	for _, w := range wordsOf(command) {
		seen[w] = true
	}
	for _, w := range wordsOf(text) {
		if set[w] && !seen[w] {
			seen[w] = true
			found = append(found, w)
		}
	}
	return found
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool {
		return r < 0x80 && !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '$')
	})
}

// hold runs psql's commands as an identity: none may fail, and none may tell a forbidden name.
func hold(t *testing.T, g *gatewaytest.Gateway, identity, source string, list []string) {
	t.Helper()
	set := forbidden(t, g, identity, source)
	if len(set) == 0 {
		t.Fatal("nothing is forbidden, so nothing is tested")
	}
	// What a database prints that holds nothing is PostgreSQL's own: "email" is a kind of token to its text search.
	for i, out := range run(t, pgtest.Start(t).DSN("postgres"), list) {
		for _, name := range told(out, set, list[i]) {
			delete(set, name)
		}
	}
	leaks := 0
	quiet(t, g.DSN(identity, source), list, set)
	for i, out := range run(t, g.Upstream, list) {
		leaks += len(told(out, set, list[i]))
	}
	if leaks == 0 {
		t.Error("without the gateway nothing is told either, so nothing is tested")
	}
}

// quiet runs commands, none of which may fail or tell a name of the set.
func quiet(t *testing.T, dsn string, list []string, set map[string]bool) {
	t.Helper()
	for i, out := range run(t, dsn, list) {
		if strings.Contains(out, "ERROR:") || strings.Contains(out, "FATAL:") {
			t.Errorf("%s:\n%s", list[i], out)
		}
		if names := told(out, set, list[i]); len(names) > 0 {
			t.Errorf("%s tells %v:\n%s", list[i], names, out)
		}
	}
}

// The attack: an analyst who may read some columns lists and describes everything by psql.
func TestPsqlTellsAnaWhatSheMaySee(t *testing.T) {
	g := shop(t)
	list := commands(t, "crm", "sales", "hr", "support")
	hold(t, g, "ana", "shop", append(list, `\sf sales.lifetime_value`, `\sf+ sales.lifetime_value`, `\sv crm.customer_directory`,
		`\sv+ sales.revenue_by_region`, `\d crm.customers_pkey`, `\d hr.salaries`, `\d support.tickets_id_seq`))
	for i, out := range run(t, g.DSN("ana", "shop"), []string{`\d crm.customers`, `\d+ crm.customer_directory`, `\df sales.*`}) {
		want := []string{`"customers_pkey" PRIMARY KEY, btree (id)`, "FROM crm.customers;", "lifetime_value"}[i]
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

// The attack: the same on a database made to be attacked, as a caller with single columns of a few tables.
func TestPsqlTellsAnAnalystWhatSheMaySee(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Database: pgtest.Attacks(t), Governance: read(t, "testdata/attacks/governance.yaml")})
	hold(t, g, "analyst", "gov", commands(t, "app", "hr", "attacker", "public"))
}
