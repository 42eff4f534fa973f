package sqlgov_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"interlock/audit"
	"interlock/internal/gatewaytest"
)

const largeDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  reads:
    source: gov
    permissions:
      - {allow: [db.large_object.read], on: ["*"]}
  writes:
    source: gov
    permissions:
      - {allow: [db.large_object.write], on: ["*"]}
      - {allow: [db.table.select], on: [public.people]}
    masks:
      - {on: [public.people.ssn], with: hidden}
  calls:
    source: gov
    permissions:
      - {allow: [db.function.execute, db.table.select], on: ["*", "pg_catalog.*"]}
masks:
  hidden: {kind: "null"}
identities:
  ana: {kind: human, grants: [{source: gov, roles: [reads]}]}
  bob: {kind: human, grants: [{source: gov, roles: [writes]}]}
  both: {kind: human, grants: [{source: gov, roles: [reads, writes]}]}
  eve: {kind: human, grants: [{source: gov, roles: [calls]}]}
`

// Large objects can be used by a permission of their own, to read and to write, in SQL and by the messages that libpq calls their
// functions with. Without the gateway, all of it works for whoever knows a number.
func TestLargeObjects(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: largeDocument, Setup: []string{
		`create table people (id int, ssn text); insert into people values (1, '078-05-1120');
		select lo_from_bytea(7000, 'the secret plan')`}})
	t.Run("psql", func(t *testing.T) { largeByPsql(t, g) })
	t.Run("verdicts", func(t *testing.T) { judgesLarge(t, g) })
	if left := ask(t, g.Upstream, "select string_agg(oid::text, ' ' order by oid) from pg_largeobject_metadata"); left != "7000 7001 7002" {
		t.Errorf("the large objects are %s", left) // 7001 by SQL, 7002 over MCP
	}
	if got := ask(t, g.Upstream, "select convert_from(lo_get(7000), 'UTF8') || convert_from(lo_get(7002), 'UTF8')"); got != "the better planfrom an agent" {
		t.Errorf("what was written is %q", got)
	}
}

func ask(t *testing.T, dsn, sql string) string {
	t.Helper()
	results, err := connectTo(t, dsn).Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return string(results[0].Rows[0][0])
}

// largeByPsql takes a file in, out and away by psql, whose library finds the functions in the catalog and calls them by messages.
func largeByPsql(t *testing.T, g *gatewaytest.Gateway) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	content := bytes.Repeat([]byte("0123456789abcdef\x00\xff\n"), 20_000)
	if err := os.WriteFile(in, content, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(who, command string) string {
		cmd := exec.Command("psql", "-X", "-w", "-d", g.DSN(who, "gov"), "-c", command)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "PGPASSFILE=/nonexistent")
		said, _ := cmd.CombinedOutput() // what it says tells if it failed
		return string(said)
	}
	said := run("both", `\lo_import `+in)
	made := regexp.MustCompile(`^lo_import (\d+)`).FindStringSubmatch(said)
	if made == nil {
		t.Fatal(said)
	}
	if said := run("bob", `\lo_export `+made[1]+" "+out); !strings.Contains(said, "permission denied to read large objects") {
		t.Errorf("to read without the permission: %s", said)
	}
	if said := run("ana", `\lo_export `+made[1]+" "+out); said != "lo_export\n" {
		t.Errorf("to read: %s", said)
	}
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if said := run("ana", `\lo_unlink `+made[1]); !strings.Contains(said, "permission denied to write large objects") {
		t.Errorf("to remove without the permission: %s", said)
	}
	if said := run("bob", `\lo_unlink `+made[1]); said != "lo_unlink "+made[1]+"\n" {
		t.Errorf("to remove: %s", said)
	}
	if said := run("eve", `\lo_export 7000 `+out); !strings.Contains(said, "permission denied to read large objects") {
		t.Errorf("without any permission: %s", said)
	}
}

func judgesLarge(t *testing.T, g *gatewaytest.Gateway) {
	const reads, writes = "permission denied to read large objects", "permission denied to write large objects"
	doors := map[string]door{}
	for _, who := range []string{"ana", "bob", "both", "eve"} {
		doors[who] = &wire{dsn: g.DSN(who, "gov"), oid: fixedOID}
		doors[who+" over MCP"] = &tool{url: g.MCP, key: g.Key(who)}
	}
	for _, tc := range []struct {
		who         string
		step        step
		state, says string
	}{
		{"ana", step{Q: "select convert_from(lo_get(7000), 'UTF8')"}, "", "the secret plan"},
		{"ana over MCP", step{Q: "select convert_from(lo_get(7000, 4, 6), 'UTF8')"}, "", "secret"},
		{"ana", step{Q: "select loread(lo_open(7000, 262144), 10)"}, "", ""},
		{"ana", step{Q: "select lowrite(lo_open(7000, 131072), 'x')"}, "42501", writes},
		{"ana", step{Q: "select lo_put(7000, 0, 'x')"}, "42501", writes},
		{"ana", step{Q: "select lo_unlink(7000)"}, "42501", writes},
		{"ana", step{Fastpath: "964", Args: []string{"7000"}}, "42501", writes},
		{"bob", step{Q: "select lo_put(7000, 4, 'better plan')"}, "", ""},
		{"both", step{Q: "select lo_truncate(lo_open(7000, 131072), 15)"}, "", ""},
		{"bob", step{Q: "select lo_create(7001)"}, "", "7001"},
		{"bob over MCP", step{Q: "select lo_from_bytea(7002, 'from an agent')"}, "", "7002"},
		{"bob", step{Q: "select lo_get(7000)"}, "42501", reads},
		{"bob over MCP", step{Q: "select lo_get(7000)"}, "42501", reads},
		{"bob", step{Fastpath: "3458", Args: []string{"7000"}}, "42501", reads},
		// Attacks: masked values, out by way of a large object or of its number; files of the server; every function by a pattern.
		{"bob", step{Q: "select lo_from_bytea(0, ssn::bytea) from people"}, "42501", "ssn"},
		{"bob", step{Q: "select lo_put(7001, 0, convert_to(ssn, 'UTF8')) from people"}, "42501", "ssn"},
		{"bob", step{Q: "select lo_create(replace(ssn, '-', '')::oid) from people"}, "42501", "ssn"},
		{"both", step{Q: "select lo_import('/etc/passwd')"}, "42501", ""},
		{"both", step{Q: "select lo_export(7000, '/tmp/x')"}, "42501", ""},
		{"both", step{Fastpath: "764", Args: []string{"/etc/passwd"}}, "42501", ""},
		{"both", step{Q: "select loid from pg_largeobject"}, "42501", ""},
		{"eve", step{Q: "select lo_get(7000)"}, "42501", reads},
		{"eve", step{Q: "select lo_open(7000, 262144)"}, "42501", reads},
		{"eve", step{Q: "select lo_creat(-1)"}, "42501", writes},
		{"eve", step{Fastpath: "957", Args: []string{"-1"}}, "42501", writes},
		{"eve", step{Fastpath: "952", Args: []string{"7000", "262144"}}, "42501", reads},
	} {
		got := doors[tc.who].run(t.Context(), tc.step)
		shown := got.message
		for _, row := range got.rows {
			shown += strings.Join(row, "")
		}
		if got.state != tc.state || !strings.Contains(shown, tc.says) {
			t.Errorf("%s: %+v: %q %s", tc.who, tc.step, got.state, shown)
		}
	}
	for _, d := range doors {
		d.close()
	}
	for _, v := range g.Records(audit.Filter{Identity: "bob"}) {
		if v.Judgement != nil && strings.Contains(v.Statement, "lo_create") && v.Outcome != nil && v.Outcome.Status == audit.OK && !v.Write {
			t.Errorf("%s is not on record as a change", v.Statement)
		}
	}
}

// fixedOID is for functions that are given by their number.
func fixedOID(number string) uint32 {
	n, _ := strconv.ParseUint(number, 10, 32) // the server knows no 0
	return uint32(n)
}
