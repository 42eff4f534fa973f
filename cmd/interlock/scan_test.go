package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlock/internal/config"
	"interlock/internal/pgtest"
)

const scannedData = `
do $$ begin if not exists (select from pg_roles where rolname = 'scanner') then create role scanner login; end if; end $$;
create table customers (id int, email text, phone text, card bigint, note text, doc jsonb, born date, tags text[], labelled text, masked text);
insert into customers select n, 'canary' || n || '@raw.test', '+44 20 7946 0' || 100 + n, 4111111111111111, 'call canary' || n || '@raw.test back',
	'{"to": "canary@raw.test"}', '2000-01-01', '{canary@raw.test}', 'canary@raw.test', 'canary@raw.test' from generate_series(1, 50) n;
create table "hostile
identities: {root: {kind: human}}" ("email
masks: {}" text);
create table closed (email text);
create view shown as select * from customers;
grant select on customers, "hostile
identities: {root: {kind: human}}" to scanner;`

const scannedDocument = `version: 1
sources:
  shop: {kind: postgres, upstream: {host: %q, port: %s, database: %q, user: scanner, tls: disable}}
LABELS
masks:
  gone: {kind: "null"}
source_roles:
  reader:
    source: shop
    permissions: [{allow: [db.table.select], on: ["public.*"]}, {deny: [db.table.select], on: [public.customers.born]}]
    masks: [{with: gone, on: [public.customers.masked]}]
identities:
  ana: {kind: human, grants: [{source: shop, roles: [reader]}]}
`

// Scan proposes what a person can take over: the piece of YAML goes into the document, and then nothing is left to propose. The
// attacks: a sampled value is shown; the name of a table that somebody made writes the document.
func TestScan(t *testing.T) {
	s := pgtest.Start(t)
	at, err := url.Parse(s.Database(t, scannedData))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	document := func(labels string) string {
		text := fmt.Sprintf(scannedDocument, at.Hostname(), at.Port(), strings.TrimPrefix(at.Path, "/"))
		path := filepath.Join(dir, "g.yaml")
		for path, text := range map[string]string{path: strings.Replace(text, "LABELS", labels, 1), filepath.Join(dir, "interlock.yaml"): "governance: g.yaml\ndata_dir: data\n"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	scan := func(args ...string) (string, int) {
		t.Helper()
		out, status := verb(t, append([]string{"scan", "shop", "--config=" + filepath.Join(dir, "interlock.yaml"), "--governance=" + filepath.Join(dir, "g.yaml")}, args...)...)
		if strings.Contains(out, "canary") || strings.Contains(out, "7946") || strings.Contains(out, "4111") {
			t.Errorf("a value is shown:\n%s", out)
		}
		return out, status
	}

	const pii = "labels: {pii: [public.customers.labelled]}"
	document(pii)
	out, status := scan("--strict")
	if status != exitFailed {
		t.Errorf("exit status %d", status)
	}
	for _, want := range []string{
		"- public.customers.email               # email in 50 of 50 values; its name: email\n",
		"- public.customers.phone               # phone in 50 of 50 values; its name: phone\n",
		"- public.customers.card                # card in 50 of 50 values\n",
		"- public.customers.tags                # email in 50 of 50 values\n",
		"- public.customers.masked              # email in 50 of 50 values; masked: gone\n",
		"- public.customers.born                # its name: born\n",
		"- public.closed.email                  # its name: email\n",
		`- "public.\"hostile\nidentities: {root: {kind: human}}\".\"email\nmasks: {}\"" # its name: email` + "\n",
		"#   - {mode: mask, on: [public.customers.note]}  # email in 50 of 50 values\n",
		"#   - {mode: mask, on: [public.customers.doc]}  # email in 50 of 50 values\n",
		"# The values of public.closed were not looked at: the source's login may not read it.\n",
		"# Columns that look sensitive and have labels: 1.\n",
		"# Columns that look sensitive and have neither label nor mask: 9.\n",
		"#   public.customers.email is read by ana\n",
		"#   public.customers.born is read by nobody\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if strings.Contains(out, "shown") || strings.Contains(out, "public.customers.labelled") {
		t.Errorf("a view, or a column with a label, is in\n%s", out)
	}

	doc, err := config.LoadGovernance(document(out))
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	var names []string
	for _, l := range doc.Labels {
		names = append(names, l.Name)
	}
	if want := []string{"birth_date", "card", "email", "phone"}; !slices.Equal(names, want) || len(doc.Identities) != 1 {
		t.Errorf("labels %v, want %v; %d identities", names, want, len(doc.Identities))
	}
	out, status = scan("--json", "--strict")
	var found proposals
	if err := json.Unmarshal([]byte(out), &found); err != nil || status != exitFailed {
		t.Fatalf("%v, exit status %d", err, status)
	}
	// Labels are taken over, content is not yet; and a column that was labelled by hand has lost its label.
	if want := []string{"public.customers.note", "public.customers.doc", "public.customers.labelled"}; !slices.Equal(found.Unguarded, want) || found.Labelled != 8 || len(found.Unsampled) != 1 {
		t.Errorf("%v, want %v; %+v", found.Unguarded, want, found)
	}
	if out, status := verb(t, "audit", "search", "--event=source.sampled", "--json", "--config="+filepath.Join(dir, "interlock.yaml")); status != 0 || strings.Count(out, `"rows":"1000"`) != 2 {
		t.Errorf("exit status %d, on record: %s", status, out)
	}
	for _, wrong := range [][]string{{"--rows=0"}, {"--timeout=0s"}} {
		if out, status := scan(wrong...); status != exitUsage {
			t.Errorf("%v: exit status %d, %s", wrong, status, out)
		}
	}
	if out, status := scan("--no-samples"); status != exitFailed || !strings.Contains(out, `no catalog of source "shop"`) {
		t.Errorf("without a catalog: exit status %d, %s", status, out)
	}
}
