// Package gateway puts the parts together: it builds a gateway from its configuration, runs it, and stops it in order.
//
// It exists so that the program and the tests of the doors run the very same thing.
package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"interlock/audit"
	"interlock/catalog"
	"interlock/internal/admin"
	"interlock/internal/auditship"
	"interlock/internal/config"
	"interlock/internal/identity"
	"interlock/internal/shared"
	"interlock/internal/sockets"
	"interlock/internal/store"
	"interlock/internal/upstream"
	"interlock/mcp"
	"interlock/pgwire"
	"interlock/sqlgov"
	"interlock/sqlgov/analyze"
)

// Gateway is a running gateway.
type Gateway struct {
	Core     *sqlgov.Core
	Rules    *sqlgov.Rules
	Catalogs *sqlgov.Catalogs
	Keys     *identity.Keys
	Store    *store.Store
	Audit    *audit.Log
	Index    *store.Index // of the audit log
	Assets   *store.Assets

	cfg      *config.Config
	log      zerolog.Logger
	version  string
	started  time.Time
	upstream *upstream.Pool
	rates    *shared.Rates // nil if there is no Redis
	document documentState
	states   sourceStates
	shippers []*auditship.Shipper
	together *store.SharedPart // of the audit index that nodes share; nil if there is none
	webhook  *webhook          // nil if there is none

	pg    *pgwire.Server
	mcp   *mcp.Server
	admin *http.Server

	pgListener, mcpListener, adminListener net.Listener

	background sync.WaitGroup
	serving    sync.WaitGroup
	stop       context.CancelFunc
	failed     chan error
}

// Start builds a gateway and starts its listeners. Nothing is left running when it returns an error.
func Start(ctx context.Context, cfg *config.Config, version string, log zerolog.Logger) (*Gateway, error) {
	return start(ctx, cfg, version, log, func(*sqlgov.Core) {})
}

// start is Start with a last word on the core before it is used.
func start(ctx context.Context, cfg *config.Config, version string, log zerolog.Logger, last func(*sqlgov.Core)) (_ *Gateway, err error) {
	if err := analyze.StackOK(); err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, log: log, version: version, started: time.Now(), failed: make(chan error, 3)}
	defer func() {
		if err != nil {
			g.closeParts()
		}
	}()
	if err := g.buildCore(ctx); err != nil {
		return nil, err
	}
	last(g.Core)
	if err := g.applyAtStart(ctx); err != nil {
		return nil, err
	}
	if err := g.buildDoors(); err != nil {
		return nil, err
	}
	if err := g.listen(ctx); err != nil {
		return nil, err
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.stop = stop
	g.background.Go(func() { g.Catalogs.Run(background, g.Rules) })
	g.background.Go(func() { g.watchDocument(background) })
	g.background.Go(func() { g.watchOmitted(background) })
	g.background.Go(func() { g.Core.RunApprovals(background) })
	g.background.Go(func() { g.Core.KeepWriters(background) })
	if g.webhook != nil {
		g.background.Go(func() { g.webhook.run(background) })
	}
	g.runAudit(background)
	g.serve()
	return g, nil
}

func (g *Gateway) buildCore(ctx context.Context) (err error) {
	if g.Store, g.Keys, err = OpenControl(ctx, g.cfg); err != nil {
		return err
	}
	g.Store.Actor = "gateway"
	if err = g.openAudit(ctx); err != nil {
		return err
	}
	if g.Assets, err = store.OpenAssets(ctx, g.cfg.DataDir); err != nil {
		return err
	}
	if g.upstream, err = NewUpstream(g.cfg); err != nil {
		return err
	}
	g.Rules = &sqlgov.Rules{}
	g.Catalogs = &sqlgov.Catalogs{
		Scan:  g.scan,
		Stamp: g.upstream.CatalogStamp,
		StampFailed: func(source string, err error) {
			g.log.Warn().Err(err).Str("source", source).Msg("cannot ask if the catalog has changed; until that works, changes are found by scans and rechecks only")
		},
		Save:    g.Store.SaveCatalog,
		Newer:   g.Store.NewerCatalog,
		Changed: g.catalogChanged,
	}
	circuits := g.newBreaker()
	g.Core = &sqlgov.Core{
		Rules: g.Rules, Catalogs: g.Catalogs, Keys: g.Keys, Upstream: circuits, Circuit: circuits.Circuit, Audit: g.Audit, Log: g.log,
		Assets:           g.Assets,
		Secret:           config.Resolve,
		StrangerFailures: g.cfg.Limits.StrangerFailures,
		FactsBytes:       g.cfg.Limits.FactsCacheBytes,
		ResultBytes:      g.cfg.Limits.ResultCacheBytes,
		WriteLease:       g.cfg.Limits.WriteLease,
		Limits: analyze.Limits{
			Bytes:      int(g.cfg.Limits.MaxStatementBytes),
			Tokens:     g.cfg.Limits.MaxStatementTokens,
			Statements: g.cfg.Limits.MaxStatements,
		},
	}
	if err := g.holdForPeople(); err != nil {
		return err
	}
	return g.shareRates()
}

// OpenControl opens the control store of a configuration and the keys in it, and makes the data directory if there is
// none.
func OpenControl(ctx context.Context, cfg *config.Config) (*store.Store, *identity.Keys, error) {
	for _, dir := range []string{cfg.DataDir, cfg.StoreDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, nil, fmt.Errorf("making the data directory: %w", err)
		}
	}
	st, err := store.Open(ctx, cfg.StoreDir())
	if err != nil {
		return nil, nil, err
	}
	secret, err := identity.LoadSecret(cfg.StoreDir())
	if err != nil {
		return nil, nil, errors.Join(err, st.Close())
	}
	st.Actor = actor()
	return st, identity.New(st, secret), nil
}

// NewUpstream makes the way to the sources' servers.
func NewUpstream(cfg *config.Config) (*upstream.Pool, error) {
	return upstream.NewPool(upstream.Config{
		Secret:      config.Resolve,
		DialTimeout: cfg.Limits.UpstreamConnectTimeout,
		WaitTimeout: cfg.Limits.UpstreamWaitTimeout,
		IdleTimeout: cfg.Limits.UpstreamIdleTimeout,
		Lifetime:    cfg.Limits.UpstreamLifetime,
		Peer:        sockets.Bounds{Idle: cfg.Limits.PeerIdleTimeout, Stalled: cfg.Limits.PeerStalledTimeout},
	})
}

// catalogChanged logs what a scan found.
func (g *Gateway) catalogChanged(source string, old, new *catalog.Snapshot, err error) {
	if err == nil {
		g.catalogEvent(source, old, new)
	}
	switch {
	case err != nil:
		g.log.Error().Err(err).Str("source", source).Msg("scanning the catalog")
	case old == nil:
		g.log.Info().Str("source", source).Str("catalog", new.Version).Int("relations", len(new.Relations)).Msg("catalog scanned")
		for _, w := range new.Warnings() {
			g.log.Warn().Str("source", source).Msg(w)
		}
	default:
		for _, d := range catalog.Differences(old, new) {
			g.log.Info().Str("source", source).Str("catalog", new.Version).Msg("catalog changed: " + d)
		}
	}
}

// wireCore gives the PostgreSQL door the core's sessions by the interface that it declares.
type wireCore struct{ *sqlgov.Core }

func (c wireCore) OpenSession(ctx context.Context, caller sqlgov.Caller, opt sqlgov.SessionOptions) (pgwire.Session, error) {
	s, err := c.Core.OpenSession(ctx, caller, opt)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (g *Gateway) buildDoors() error {
	limits := &g.cfg.Limits
	pgTLS, err := serverTLS(g.cfg.Listeners.PGWire.TLS)
	if err != nil {
		return fmt.Errorf("pgwire TLS: %w", err)
	}
	g.pg = &pgwire.Server{Core: wireCore{g.Core}, Authenticator: g.Keys, TLS: pgTLS, RequireTLS: pgTLS != nil, Log: g.log,
		Limits: pgwire.Limits{
			StartupTime:     limits.LoginTimeout,
			IdleTime:        limits.IdleTimeout,
			Peer:            sockets.Bounds{Idle: limits.PeerIdleTimeout, Stalled: limits.PeerStalledTimeout},
			Connections:     limits.MaxConnections,
			PerIdentity:     limits.MaxConnectionsPerIdentity,
			Unauthenticated: limits.MaxUnauthenticated,
			MessageBytes:    int(limits.MaxMessageBytes),
		}}
	g.mcp = &mcp.Server{Core: g.Core, Authenticator: g.Keys, AllowedOrigins: g.cfg.MCP.AllowedOrigins,
		AllowedHosts: g.cfg.MCP.AllowedHosts, MaxBodyBytes: limits.MCPBodyBytes, MaxConcurrent: limits.MCPConcurrency,
		Version: g.version, Log: g.log}
	people := &admin.People{Core: g.Core, Authenticator: g.Keys}
	g.admin = &http.Server{Handler: admin.Handler(g.status, people), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	return nil
}

func serverTLS(t *config.TLS) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("loading the certificate: %w", err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if t.ClientCA == "" {
		return conf, nil
	}
	pem, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("reading the authority of client certificates: %w", err)
	}
	conf.ClientCAs, conf.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !conf.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", t.ClientCA)
	}
	return conf, nil
}

func (g *Gateway) listen(ctx context.Context) (err error) {
	for _, l := range []struct {
		name string
		conf config.Listener
		wrap bool // in TLS; the PostgreSQL door negotiates its own
		to   *net.Listener
	}{
		{"pgwire", g.cfg.Listeners.PGWire, false, &g.pgListener},
		{"mcp", g.cfg.Listeners.MCP, true, &g.mcpListener},
		{"admin", g.cfg.Listeners.Admin, true, &g.adminListener},
	} {
		if l.conf.Disabled {
			continue
		}
		var lc net.ListenConfig
		if *l.to, err = lc.Listen(ctx, "tcp", l.conf.Address); err != nil {
			return fmt.Errorf("%s listener: %w", l.name, err)
		}
		if !l.wrap {
			continue
		}
		conf, err := serverTLS(l.conf.TLS)
		if err != nil {
			return fmt.Errorf("%s TLS: %w", l.name, err)
		}
		if conf != nil {
			*l.to = tls.NewListener(*l.to, conf)
		}
	}
	return nil
}

func (g *Gateway) serve() {
	for _, d := range []struct {
		name     string
		listener net.Listener
		serve    func(net.Listener) error
	}{{"pgwire", g.pgListener, g.pg.Serve}, {"mcp", g.mcpListener, g.mcp.Serve}, {"admin", g.adminListener, g.admin.Serve}} {
		if d.listener == nil {
			continue
		}
		g.log.Info().Str("listener", d.name).Str("address", d.listener.Addr().String()).Msg("serving")
		g.serving.Go(func() { g.report(d.name, d.serve(d.listener)) })
	}
}

func (g *Gateway) report(name string, err error) {
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		g.failed <- fmt.Errorf("%s: %w", name, err)
	}
}

// Failed yields an error if a listener stops by itself.
func (g *Gateway) Failed() <-chan error { return g.failed }

// PGAddr is the address of the PostgreSQL door, which must not be disabled.
func (g *Gateway) PGAddr() *net.TCPAddr { return g.pgListener.Addr().(*net.TCPAddr) }

// MCPURL is the URL of the MCP endpoint, which must not be disabled.
func (g *Gateway) MCPURL() string { return url(g.mcpListener, g.cfg.Listeners.MCP.TLS) + mcp.Path }

// AdminURL is the base URL of the operators' endpoints, which must not be disabled.
func (g *Gateway) AdminURL() string { return url(g.adminListener, g.cfg.Listeners.Admin.TLS) }

func url(l net.Listener, t *config.TLS) string {
	scheme := "http"
	if t != nil {
		scheme = "https"
	}
	return scheme + "://" + l.Addr().String()
}

// Shutdown stops taking requests, lets those that run end until ctx does, and then stops everything: doors first, then
// the upstream connections, then the audit log and the store.
func (g *Gateway) Shutdown(ctx context.Context) error {
	var doors sync.WaitGroup
	errs := make(chan error, 3)
	doors.Go(func() { errs <- g.pg.Shutdown(ctx) })
	doors.Go(func() { errs <- g.mcp.Shutdown(ctx) })
	doors.Go(func() { errs <- g.admin.Shutdown(ctx) })
	doors.Wait()
	close(errs)
	g.serving.Wait()
	g.stop()
	g.Core.FinishApprovals(ctx)
	g.background.Wait()
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(append(all, g.closeParts())...)
}

func (g *Gateway) closeParts() error {
	var errs []error
	for _, l := range []net.Listener{g.pgListener, g.mcpListener, g.adminListener} {
		if l != nil {
			l.Close() // closed already after a Shutdown
		}
	}
	if g.upstream != nil {
		g.upstream.Close()
	}
	if g.rates != nil {
		errs = append(errs, g.rates.Close())
	}
	if g.Audit != nil {
		errs = append(errs, g.Audit.Close())
	}
	if g.Index != nil {
		errs = append(errs, g.Index.Close())
	}
	if g.together != nil {
		errs = append(errs, g.together.Close())
	}
	if g.Assets != nil {
		errs = append(errs, g.Assets.Close())
	}
	if g.Store != nil {
		errs = append(errs, g.Store.Close())
	}
	return errors.Join(errs...)
}

// status is what operators see.
func (g *Gateway) status(context.Context) admin.Status {
	s := admin.Status{Version: g.version, Started: g.started, Sources: []admin.SourceStatus{}}
	rs := g.Rules.Current()
	s.Ruleset = admin.Ruleset{Number: rs.Number, Digest: rs.Digest, LastError: g.document.lastError()}
	if s.Ruleset.LastError != "" {
		s.Problems = append(s.Problems, "the governance document is broken; the last good ruleset is in force: "+s.Ruleset.LastError)
	}
	s.Ready = true
	if g.Audit.Stats().Err != nil {
		s.Ready = false
		s.Problems = append(s.Problems, "the audit log cannot be written, so nothing is served")
	}
	s.Audit = g.auditStatus()
	s.Problems = append(s.Problems, auditProblems(&s.Audit)...)
	if g.webhook != nil && g.webhook.failing.Load() {
		s.Problems = append(s.Problems, "the webhook of approvals does not take changes")
	}
	s.Problems = append(s.Problems, g.limitProblems()...)
	for i := range rs.Document.Sources {
		src := &rs.Document.Sources[i]
		st := admin.SourceStatus{ID: src.ID, Enabled: !src.Disabled}
		if x := g.Catalogs.Index(src.ID); x != nil {
			st.Catalog, st.ScannedAt = x.Snapshot.Version, &x.Snapshot.ScannedAt
			if at := g.Catalogs.Current(src.ID); !at.IsZero() {
				st.CurrentAt = &at
			}
		} else if st.Enabled {
			s.Ready = false
			s.Problems = append(s.Problems, "source "+src.ID+" has not been catalogued yet")
		}
		s.Sources = append(s.Sources, st)
	}
	return s
}
