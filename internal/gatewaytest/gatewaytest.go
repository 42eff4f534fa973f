// Package gatewaytest starts a whole gateway over a real PostgreSQL for tests.
//
//	g := gatewaytest.Start(t, gatewaytest.Options{
//		Setup: []string{`create table c (id int, ssn text)`},
//	})
//	conn, err := pgx.Connect(ctx, g.DSN("ana", "shop"))
//	req, err := http.NewRequest("POST", g.MCP, body) // with "Bearer " + g.Key("ana")
//
// The parts are those that run in production, put together as there, with their defaults.
package gatewaytest

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock/audit"
	"interlock/internal/config"
	"interlock/internal/gateway"
	"interlock/internal/identity"
	"interlock/internal/pgtest"

	"github.com/rs/zerolog"
)

// AllowAll is a governance document with one source, shop, on which ana and bob may read and change every table and
// call every function, those of the system among them, use every channel and large object. Only what the gateway itself does not support is refused.
const AllowAll = `
version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  everything:
    source: shop
    permissions:
      - allow: [db.table.select, db.table.insert, db.table.update, db.table.delete_rows, db.table.truncate, db.table.describe, db.function.execute]
        on: ["*", "pg_catalog.*"]
      - {allow: [db.channel.listen, db.channel.notify, db.large_object.read, db.large_object.write], on: ["*"]}
identities:
  ana: {kind: human, grants: [{source: shop, roles: [everything]}]}
  bob: {kind: human, grants: [{source: shop, roles: [everything]}]}
`

// Raw is AllowAll with an ana who may run anything, unanalysed.
var Raw = strings.Replace(AllowAll, "identities:\n  ana: {kind: human, grants: [{source: shop, roles: [everything]}]}",
	`  anything: {source: shop, permissions: [{allow: [db.execute_raw], on: ["*"]}]}
identities:
  ana: {kind: human, grants: [{source: shop, roles: [anything]}]}`, 1)

// Options say what gateway to start. The zero value of every field is useful.
type Options struct {
	// Setup runs in a new database, as superuser. Each text may hold several statements.
	Setup []string
	// Database is the DSN of a database that exists, instead of a new one. Setup is not run then.
	Database string
	// Governance is the governance document; AllowAll if empty. HOST, PORT, DATABASE and USER stand for the upstream,
	// USER being the superuser.
	Governance string
	// TLS demands TLS on the PostgreSQL door, with a certificate that is valid for 127.0.0.1 and localhost.
	TLS bool
	// Configure may change the configuration before the gateway starts.
	Configure func(*config.Config)
	Log       zerolog.Logger
}

// Gateway is a running gateway. Its methods may be called from several goroutines.
type Gateway struct {
	*gateway.Gateway
	PG       string // host:port of the PostgreSQL door
	MCP      string // URL of the MCP endpoint
	AuditDir string
	// Upstream is the DSN, as superuser, of the database that is governed.
	Upstream string

	t    testing.TB
	dir  string
	tls  bool
	once sync.Once

	mu   sync.Mutex
	keys map[string]key
}

type key struct{ id, secret string }

// Start starts a gateway, with its catalog scanned. It is stopped when t ends, and it is an error if it does not stop.
func Start(t testing.TB, opt Options) *Gateway {
	t.Helper()
	g := &Gateway{t: t, dir: t.TempDir(), tls: opt.TLS, Upstream: opt.Database, keys: map[string]key{}}
	if g.Upstream == "" {
		g.Upstream = pgtest.Start(t).Database(t, opt.Setup...)
	}
	if opt.Governance == "" {
		opt.Governance = AllowAll
	}
	cfg, err := g.configure(opt)
	if err == nil {
		g.Gateway, err = gateway.Start(context.Background(), cfg, "test", opt.Log)
	}
	if err != nil {
		t.Fatalf("gatewaytest: %v", err)
	}
	t.Cleanup(g.end)
	g.AuditDir = gateway.AuditConfig(cfg).Dir
	g.PG, g.MCP = g.PGAddr().String(), g.MCPURL()
	g.awaitCatalogs()
	return g
}

// configure writes what the configuration names.
func (g *Gateway) configure(opt Options) (*config.Config, error) {
	cfg := config.Default()
	cfg.DataDir = filepath.Join(g.dir, "data")
	cfg.Governance = g.documentPath()
	for _, l := range []*config.Listener{&cfg.Listeners.PGWire, &cfg.Listeners.MCP, &cfg.Listeners.Admin} {
		l.Address = "127.0.0.1:0"
	}
	if err := g.writeDocument(opt.Governance); err != nil {
		return nil, err
	}
	if opt.TLS {
		if err := g.writeCertificate(); err != nil {
			return nil, err
		}
		cfg.Listeners.PGWire.TLS = &config.TLS{Cert: g.file("server.crt"), Key: g.file("server.key")}
	}
	if opt.Configure != nil {
		opt.Configure(cfg)
	}
	return cfg, nil
}

func (g *Gateway) file(name string) string { return filepath.Join(g.dir, name) }
func (g *Gateway) documentPath() string    { return g.file("governance.yaml") }

// CA is the file with the certificate by which to verify the PostgreSQL door.
func (g *Gateway) CA() string { return g.file("ca.crt") }

func (g *Gateway) writeCertificate() error {
	ca, cert, key, err := pgtest.Certificate()
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(g.CA(), ca, 0o600), os.WriteFile(g.file("server.crt"), cert, 0o600),
		os.WriteFile(g.file("server.key"), key, 0o600))
}

// writeDocument replaces the governance document in one step, so that it is never read half-written.
func (g *Gateway) writeDocument(document string) error {
	u, err := url.Parse(g.Upstream)
	if err != nil {
		return err
	}
	text := strings.NewReplacer("HOST", u.Hostname(), "PORT", u.Port(), "DATABASE", strings.TrimPrefix(u.Path, "/"),
		"USER", pgtest.Superuser).Replace(document)
	if err := os.WriteFile(g.documentPath()+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(g.documentPath()+".new", g.documentPath())
}

// awaitCatalogs waits for the first scan of every source, which under the race detector takes more than a second. One that cannot
// be scanned is a case of its own.
func (g *Gateway) awaitCatalogs() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rs := g.Rules.Current()
	for i := range rs.Document.Sources {
		src := &rs.Document.Sources[i]
		for n := 0; n < 1000 && !src.Disabled && g.Catalogs.Index(src.ID) == nil; n++ {
			time.Sleep(10 * time.Millisecond)
		}
		if src.Disabled || g.Catalogs.Index(src.ID) != nil {
			continue
		}
		if err := g.Catalogs.Refresh(ctx, src); err != nil { // after the scan that is under way
			g.t.Logf("gatewaytest: %v", err)
		}
	}
}

// Apply puts another governance document in force.
func (g *Gateway) Apply(document string) {
	g.t.Helper()
	before := g.Rules.Current()
	if err := g.writeDocument(document); err != nil {
		g.t.Fatalf("gatewaytest: %v", err)
	}
	for deadline := time.Now().Add(time.Minute); g.Rules.Current() == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			g.t.Fatal("gatewaytest: the governance document is not applied")
		}
	}
	g.awaitCatalogs()
}

// Key returns an API key of an identity, always the same.
func (g *Gateway) Key(who string) string {
	g.t.Helper()
	return g.key(who).secret
}

// Revoke revokes the key that Key has returned. The next call of Key makes a new one.
func (g *Gateway) Revoke(who string) {
	g.t.Helper()
	k := g.key(who)
	if _, err := g.Keys.Revoke(context.Background(), k.id); err != nil {
		g.t.Fatalf("gatewaytest: %v", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.keys, who)
}

func (g *Gateway) key(who string) key {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if k, ok := g.keys[who]; ok {
		return k
	}
	secret, info, err := g.Keys.Create(context.Background(), who, identity.CreateOptions{Name: "test"})
	if err != nil {
		g.t.Fatalf("gatewaytest: %v", err)
	}
	g.keys[who] = key{info.ID, secret}
	return g.keys[who]
}

// DSN is a URI of the PostgreSQL door for an identity, with its key; for libpq and pgx alike. Settings are added to it
// as they are: "application_name=x".
func (g *Gateway) DSN(who, source string, settings ...string) string {
	g.t.Helper()
	if !strings.Contains(strings.Join(settings, "&"), "sslmode=") {
		settings = append(settings, map[bool]string{false: "sslmode=disable", true: "sslmode=require"}[g.tls])
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(who, g.Key(who)), Host: g.PG, Path: "/" + source,
		RawQuery: strings.Join(settings, "&")}
	return u.String()
}

// Records returns what the audit log says of every request that f selects, oldest first.
func (g *Gateway) Records(f audit.Filter) []audit.View {
	g.t.Helper()
	f.OldestFirst = true
	var all []audit.View
	err := audit.Search(context.Background(), g.AuditDir, f, func(v audit.View) bool {
		all = append(all, v)
		return true
	})
	if err != nil {
		g.t.Fatalf("gatewaytest: %v", err)
	}
	return all
}

// Stop stops the gateway before the end of the test: what runs may finish until ctx ends. It may be called once.
func (g *Gateway) Stop(ctx context.Context) (err error) {
	g.once.Do(func() { err = g.Shutdown(ctx) })
	return err
}

// end stops the gateway at the end of a test, by when some clients have not said goodbye yet.
func (g *Gateway) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- g.Stop(ctx) }()
	select {
	case err := <-done:
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			g.t.Errorf("gatewaytest: %v", err)
		}
	case <-time.After(20 * time.Second):
		g.t.Error("gatewaytest: the gateway does not stop")
	}
}
