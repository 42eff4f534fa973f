package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

var update = flag.Bool("update", false, "write docs/schema anew")

var published = []struct {
	file string
	text func() []byte
}{{"interlock.schema.json", Schema}, {"governance.schema.json", GovernanceSchema}}

// The published schemas are those of the parser's shapes. After a change: go test ./internal/config -update
func TestPublishedSchemas(t *testing.T) {
	for _, p := range published {
		path := filepath.Join("..", "..", "docs", "schema", p.file)
		if *update {
			if err := os.WriteFile(path, p.text(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(file, p.text()) {
			t.Errorf("%s is not what the parser reads (%v); run this test with -update", path, err)
		}
	}
}

func compileSchema(t *testing.T, file string) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "schema", file))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(file, parsed); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// decodeJSON gives a YAML text as an editor that validates it sees it.
func decodeJSON(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if v == nil {
		v = map[string]any{}
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// An independent validator judges documents by the published schema as the parser does. Cases: a document; both must
// accept it or both refuse it.
func TestSchemaAgreesWithParser(t *testing.T) {
	for _, tc := range []struct {
		file      string
		parse     func(doc string) error
		base      string
		good, bad []string // "old => new" changes of base, or whole documents
	}{
		{"interlock.schema.json", func(doc string) error { _, err := parse("f", []byte(doc), environ); return err },
			strings.ReplaceAll(full, "${NUMBER9}", "9"),
			[]string{"", "data_dir: x", "limits: {}", "limits: {max_connections: '${NUMBER}'}", "limits: {idle_timeout: 1h30m}", "limits: {max_message_bytes: 1048576}",
				"listeners: {mcp: {tls: {cert: c, key: k}}}", "listeners: {pgwire: {disabled: true, address: ':1'}}", "mcp: {allowed_hosts: []}"},
			[]string{"- a", "data_dir: 5", "data_dir: ''", "data_dir: null", "limits: null", "limits: []", "limits: {max_connections: '5'}", "limits: {max_connections: 5.5}", "limits: {max_connections: 0}",
				"limits: {max_connections: true}", "limits: {max_message_bytes: 64MB}", "limits: {max_message_bytes: 1}", "limits: {login_timeout: 30}", "limits: {login_timeout: soon}", "limits: {login_timeout: 1.5s}",
				"limits: {unknown: 1}", "unknown: 1", "log: {level: loud}", "log: {level: }", "store: {driver: oracle}", "audit: {sync: never}", "listeners: {mcp: {tls: {cert: c}}}", "listeners: {mcp: {tls: true}}",
				"listeners: {mcp: {disabled: 'true'}}", "listeners: {mcp: {address: nowhere}}", "listeners: {web: {}}", "mcp: {allowed_origins: ['x']}", "mcp: {allowed_hosts: x}", "mcp: {allowed_hosts: [1]}"}},
		{"governance.schema.json", func(doc string) error { _, err := parseGovernance("f", []byte(doc), environ); return err }, shop,
			[]string{"version: 1", "kind: agent => kind: service", "rows: 50 => rows: '${NUMBER}'", "password: file:pw, => ", "file:pw => env:PW", "file:pw => '${REF}'", "crm.customers.id => '*'", "crm.customers.id => Crm.*",
				`crm.customers.id => 'crm."a.b""c".id'`, "crm.customers.id => äbc.d$1._e", "crm.customers.id => '*.*.id'", "grants: [{source: shop, roles: [analyst]}] => grants: []"},
			[]string{"", "version: 2", "version: '1'", "kind: agent => kind: robot", "kind: agent => name: x", "rows: 50 => rows: 0", "rows: 50 => rows: many", "rows: 50 => row: 5", "file:pw => hunter2", "file:pw => 'env:'",
				"crm.customers.id => customers", "crm.customers.id => a.b.c.d", "crm.customers.id => 'crm.'", "crm.customers.id => crm.a-b", "crm.customers.id => crm.1a", "crm.customers.id => 'crm.\"\"'", "crm.customers.id => 'crm.\"x'",
				"crm.customers.id => crm.cust*", "crm.customers.id => 5", "allow: [db.table.select] => allow: []", "allow: [db.table.select] => allow: [db.table.slect]", "allow: [db.table.select] => allow: db.table.select",
				"allow: [db.table.select] => permit: [db.table.select]", "deny: [db.table.select, db.table.describe] => allow: [db.table.select]\n        deny: [db.table.select]", "on: [\"*.*.ssn\"] => on: []", "        on: [\"*.*.ssn\"]\n => ",
				"roles: [analyst] => roles: []", "roles: [analyst] => role: analyst", "roles: [analyst] => roles: analyst", "kind: postgres => kind: oracle", "    kind: postgres\n    desc =>     desc", "host: => hots:",
				"scan_interval: 1m => scan_interval: 60", "ca: ca.pem => tls: maybe", "  bot: {kind: agent} =>   bot x: {kind: agent}", "  bot: {kind: agent} =>   bot:", "  bot: {kind: agent} =>   bot: agent"}},
	} {
		s := compileSchema(t, tc.file)
		for i, change := range append(append([]string{tc.base}, tc.good...), tc.bad...) {
			doc := change
			if old, replacement, isChange := strings.Cut(change, " => "); isChange {
				if doc = strings.Replace(tc.base, old, replacement, 1); doc == tc.base {
					t.Fatalf("%q is not in the document", old)
				}
			}
			valid, parsed := s.Validate(decodeJSON(t, doc)), tc.parse(doc)
			if good := i <= len(tc.good); (valid == nil) != good || (parsed == nil) != good {
				t.Errorf("%s: %q\nschema: %v\nparser: %v", tc.file, change, valid, parsed)
			}
		}
	}
}

// Every key of every document that the parser accepts in the tests is described.
func TestSchemaDescribesEverything(t *testing.T) {
	for _, p := range published {
		var root map[string]any
		if err := json.Unmarshal(p.text(), &root); err != nil {
			t.Fatal(err)
		}
		undescribed(t, p.file, root)
	}
}

func undescribed(t *testing.T, path string, s map[string]any) {
	properties, _ := s["properties"].(map[string]any)
	for key, value := range properties {
		property := value.(map[string]any)
		if text, _ := property["description"].(string); len(text) < 10 {
			t.Errorf("%s.%s has no description", path, key)
		}
		undescribed(t, path+"."+key, property)
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := s[key].(map[string]any); ok {
			undescribed(t, path+"."+key, inner)
		}
	}
}
