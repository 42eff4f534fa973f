package interlock

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "interlock/"

// allowed says which of our packages each package may import, outside its tests. A package that is not listed may not
// exist. Imports point one way: doors to the core, the core to what it is made of, adapters to the core, and only cmd
// to all of them. So no door can reach a database, and no decision needs one.
var allowed = map[string][]string{
	"audit":             {},
	"catalog":           {},
	"redact":            {},
	"sqlgov/typing":     {"catalog"},
	"sqlgov/analyze":    {"catalog", "sqlgov/typing"},
	"sqlgov/policy":     {"catalog", "redact", "sqlgov/analyze"},
	"sqlgov/labels":     {"catalog", "redact", "sqlgov/policy"},
	"sqlgov/introspect": {"catalog", "sqlgov/analyze", "sqlgov/policy"},
	"sqlgov":            {"audit", "catalog", "internal/lru", "internal/ratelimit", "redact", "sqlgov/analyze", "sqlgov/introspect", "sqlgov/policy"},
	"pgwire":            {"internal/loop", "internal/sockets", "sqlgov"},
	"mcp":               {"catalog", "sqlgov"},

	"internal/admin":     {"sqlgov"},
	"internal/auditship": {"audit"},
	"internal/cluster":   {},
	"internal/loop":      {},
	"internal/lru":       {},
	"internal/ratelimit": {"internal/loop"},
	"internal/sockets":   {},
	"internal/shared":    {"internal/loop", "internal/ratelimit"},
	"internal/breaker":   {"sqlgov", "sqlgov/policy"},
	"internal/config":    {"redact", "sqlgov/policy"},
	"internal/identity":  {"sqlgov"},
	"internal/store":     {"audit", "catalog", "sqlgov", "sqlgov/policy"},
	"internal/upstream":  {"catalog", "internal/loop", "internal/sockets", "sqlgov", "sqlgov/policy"},

	// Only tests and the bench import these five; gateway puts all parts together, for cmd and for tests.
	"internal/oracle":      {"catalog"},
	"internal/pgtest":      {"internal/cluster"},
	"internal/redistest":   {},
	"internal/bench":       {"audit", "internal/cluster", "internal/tally"}, // a program of its own
	"internal/tally":       {"audit", "internal/upstream", "sqlgov/analyze"},
	"internal/gatewaytest": {"audit", "internal/config", "internal/gateway", "internal/identity", "internal/pgtest"},
	"internal/gateway": {"audit", "catalog", "internal/admin", "internal/auditship", "internal/breaker", "internal/config", "internal/identity", "internal/loop", "internal/shared", "internal/sockets",
		"internal/store", "internal/upstream", "mcp", "pgwire", "sqlgov", "sqlgov/analyze", "sqlgov/policy"},
	"cmd/interlock": {"audit", "catalog", "internal/admin", "internal/auditship", "internal/cluster", "internal/config", "internal/gateway", "internal/identity",
		"internal/store", "internal/upstream", "sqlgov", "sqlgov/analyze", "sqlgov/labels", "sqlgov/policy"},
}

// confined says which packages may import an outside package, or one below it.
var confined = map[string][]string{
	"github.com/jackc/pgx/v5/pgproto3":       {"pgwire", "internal/upstream", "internal/pgtest"},
	"github.com/jackc/pgx/v5":                {"pgwire", "internal/upstream", "internal/pgtest", "internal/oracle", "internal/bench", "internal/store", "cmd/interlock"},
	"github.com/pganalyze/pg_query_go":       {"sqlgov/analyze"},
	"cel.dev/cel-go":                         {"sqlgov/policy"},
	"database/sql":                           {"internal/store"},
	"modernc.org/sqlite":                     {"internal/store"},
	"go.yaml.in/yaml":                        {"internal/config"},
	"github.com/redis/go-redis":              {"internal/shared"},
	"github.com/sony/gobreaker":              {"internal/breaker"},
	"github.com/klauspost/compress":          {"audit"},
	"github.com/spf13/cobra":                 {"cmd/interlock"},
	"net/http":                               {"mcp", "internal/admin", "internal/auditship", "internal/bench", "internal/identity", "internal/gateway", "cmd/interlock"},
	"flag":                                   {"cmd/interlock", "internal/bench"},
	"text/template":                          {}, // a program that runs templates keeps every method of every type, which are ten megabytes
	"os":                                     {"audit", "cmd/interlock", "internal/bench", "internal/auditship", "internal/cluster", "internal/config", "internal/gateway", "internal/gatewaytest", "internal/identity", "internal/loop", "internal/pgtest", "internal/store"},
	"github.com/santhosh-tekuri/jsonschema/": {},
}

type goPackage struct {
	ImportPath string
	Name       string
	Doc        string
	Imports    []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Name,Doc,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("reading go list: %v", err)
		}
		if p.ImportPath != strings.TrimSuffix(module, "/") {
			all = append(all, p)
		}
	}
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		may, listed := allowed[name]
		if !listed {
			t.Errorf("package %s is not in the table of imports", name)
		}
		for _, path := range p.Imports {
			ours, isOurs := strings.CutPrefix(path, module)
			if isOurs && !slices.Contains(may, ours) {
				t.Errorf("%s must not import %s", name, ours)
			}
		}
	}
}

func TestOutsidePackagesAreConfined(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		for _, path := range p.Imports {
			if by, rule := confinement(path); rule && !slices.Contains(by, name) {
				t.Errorf("%s must not import %s, which is confined to %v", name, path, by)
			}
		}
	}
}

// confinement finds the rule for an import: that of the longest listed path that it is or lies below.
func confinement(path string) (by []string, found bool) {
	longest := ""
	for prefix, packages := range confined {
		if len(prefix) > len(longest) && (path == prefix || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/")) && path != "os/exec" {
			longest, by, found = prefix, packages, true
		}
	}
	return by, found
}

func TestEveryPackageHasADoc(t *testing.T) {
	for _, p := range packages(t) {
		want := "Package " + p.Name
		if p.Name == "main" {
			want = "Command "
		}
		if !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: the package doc must start with %q, not %q", p.ImportPath, want, p.Doc)
		}
	}
}
