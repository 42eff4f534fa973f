package pgwire_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"interlock/internal/gatewaytest"
	"interlock/pgwire"

	"golang.org/x/tools/txtar"
)

// The conversations that PostgreSQL had go the same way through the whole gateway, for an identity that may do
// everything.
func TestThroughGateway(t *testing.T) {
	converse(t, "testdata/*.txt", "", func(s string) string { return s })
}

// With a policy in force no decision stands on the roles alone, so that every statement that names a table is rechecked on its way:
// Queries go to the server in parts, and questions stand between a client's own messages. No conversation may show that.
func TestThroughGatewayRechecked(t *testing.T) {
	rechecked := gatewaytest.AllowAll + `
policies:
  not-bob:
    when: identity.name == "bob"
    refuse: true
`
	converse(t, "testdata/*.txt", rechecked, func(s string) string { return s })
}

// db.execute_raw makes the gateway a relay: what PostgreSQL said to a client of its own it says through it, whatever the statement.
func TestThroughGatewayRaw(t *testing.T) {
	whole := func(s string) string { return s }
	converse(t, "testdata/*.txt", gatewaytest.Raw, whole)
	converse(t, "testdata/raw/*.txt", gatewaytest.Raw, whole)
}

// Conversations with an identity that may not do everything. Of an error, the SQLSTATE is compared here: the texts are
// the policy's.
func TestGoverned(t *testing.T) {
	texts := regexp.MustCompile(`(?m)^(B Error \w+ \w+) .*`)
	converse(t, "testdata/governed/*.txt", "", func(s string) string { return texts.ReplaceAllString(s, "$1") })
}

func converse(t *testing.T, pattern, governance string, reduce func(string) string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel() // most of the time they wait for silence
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			g := gatewaytest.Start(t, gatewaytest.Options{
				Setup: []string{content(archive, "setup.sql")}, Governance: governance + content(archive, "governance.yaml")})
			for i, f := range archive.Files {
				if f.Name == "setup.sql" || f.Name == "governance.yaml" {
					continue
				}
				t.Run(f.Name, func(t *testing.T) {
					got := reduce(pgwire.Converse(t, g.DSN("ana", "shop"), string(f.Data)))
					if got != string(f.Data) && !updating() {
						t.Errorf("got:\n%s\nwant:\n%s", got, f.Data)
					}
					archive.Files[i].Data = []byte(got)
				})
			}
			if updating() {
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func updating() bool { return flag.Lookup("update").Value.String() == "true" }

func content(archive *txtar.Archive, name string) string {
	for _, f := range archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// Nor may any show that sessions share the connections of a source.
func TestThroughGatewayPooled(t *testing.T) {
	converse(t, "testdata/*.txt", pooled(gatewaytest.AllowAll), func(s string) string { return s })
}

// pooled is a governance document whose sources are in transaction mode.
func pooled(document string) string {
	return strings.ReplaceAll(document, "tls: disable}", "tls: disable, pool_mode: transaction}")
}
