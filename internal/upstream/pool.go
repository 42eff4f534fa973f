package upstream

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"interlock/catalog"
	"interlock/internal/loop"
	"interlock/internal/sockets"
	"interlock/sqlgov/policy"

	"github.com/jackc/pgx/v5"
)

// Config is what a Pool needs to know. Only Secret has no default.
type Config struct {
	// Secret resolves a reference to a secret (env:NAME, file:PATH) to its value. It is asked at every dial, so a
	// changed password takes effect with the next connection. Certificates are read through it as file:PATH.
	Secret func(ref string) (string, error)
	// DialTimeout bounds a dial, from name resolution to the server being ready; 10 s.
	DialTimeout time.Duration
	// WaitTimeout bounds the wait for one of a source's connections while all are in use; 10 s.
	WaitTimeout time.Duration
	// IdleTimeout is how long a pooled connection stays open unused; 5 minutes.
	IdleTimeout time.Duration
	// Lifetime is how long a pooled connection is used; 1 hour.
	Lifetime time.Duration
	// Peer bounds how long a server may be silent that has vanished or does not read; 2 and 10 minutes.
	Peer sockets.Bounds
	// MaxMessage bounds one message of a server in bytes; 1 GiB - 1, which is what PostgreSQL itself can send.
	MaxMessage int
}

func (c *Config) setDefaults() {
	defaultTo(&c.DialTimeout, 10*time.Second)
	defaultTo(&c.WaitTimeout, 10*time.Second)
	defaultTo(&c.IdleTimeout, 5*time.Minute)
	defaultTo(&c.Lifetime, time.Hour)
	defaultTo(&c.Peer.Idle, 2*time.Minute)
	defaultTo(&c.Peer.Stalled, 10*time.Minute)
	defaultTo(&c.MaxMessage, 1<<30-1)
}

func defaultTo[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Pool reaches the governed databases. It implements sqlgov.Upstream and is safe for concurrent use.
//
// All connections to a source, those that wire sessions own and those that Run shares, count against the source's
// limit. Cancel requests and catalog scans do not: they must get through when the source is busiest.
type Pool struct {
	cfg      Config
	template *pgx.ConnConfig
	stop     chan struct{}
	reaping  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	sources map[string]*slots
}

// NewPool makes a Pool. It owns a goroutine that closes idle connections, until Close.
func NewPool(cfg Config) (*Pool, error) {
	cfg.setDefaults()
	// Everything that this could take from the environment is set again for each connection.
	template, err := pgx.ParseConfig("host=localhost user=unset passfile=/dev/null sslmode=disable")
	if err != nil {
		return nil, fmt.Errorf("reading the PG* variables of the environment: %w", err)
	}
	p := &Pool{cfg: cfg, template: template, stop: make(chan struct{}), sources: map[string]*slots{}}
	p.reaping.Go(p.reap)
	return p, nil
}

// Close closes all pooled connections and waits for the Pool's goroutine. Connections in use are closed when they
// are given back.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	all := p.sources
	p.sources = map[string]*slots{}
	p.mu.Unlock()
	close(p.stop)
	p.reaping.Wait()
	for _, s := range all {
		s.retire()
	}
	return nil
}

func (p *Pool) reap() {
	tick := time.NewTicker(max(p.cfg.IdleTimeout/4, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case now := <-tick.C:
			for _, s := range p.all() {
				s.closeIdle(now.Add(-p.cfg.IdleTimeout))
			}
		}
	}
}

func (p *Pool) all() []*slots {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*slots, 0, len(p.sources))
	for _, s := range p.sources {
		all = append(all, s)
	}
	return all
}

// slots returns the connections of a source. When the source's definition has changed since, the old connections are
// retired: idle ones at once, others when they are given back.
func (p *Pool) slots(src *policy.SourceSpec) *slots {
	limit := src.Limits.Connections
	if limit <= 0 {
		limit = 50
	}
	p.mu.Lock()
	s := p.sources[src.ID]
	if s != nil && s.spec == src.Upstream && s.limit == limit {
		p.mu.Unlock()
		return s
	}
	old := s
	s = &slots{spec: src.Upstream, limit: limit, wait: p.cfg.WaitTimeout, retired: p.closed}
	if !p.closed {
		p.sources[src.ID] = s
	}
	p.mu.Unlock()
	if old != nil {
		old.retire()
	}
	return s
}

// ScanCatalog reads a source's catalog over a connection of its own.
func (p *Pool) ScanCatalog(ctx context.Context, src *policy.SourceSpec) (*catalog.Snapshot, error) {
	loop.Leave(ctx)
	conn, err := reach(ctx, p, src, func(ctx context.Context, t *target) (*pgx.Conn, error) {
		cfg := p.connConfig(t, map[string]string{"application_name": scanName, "default_transaction_read_only": "on"})
		cfg.MaxProtocolMessageBodyLen = p.cfg.MaxMessage
		return pgx.ConnectConfig(ctx, cfg)
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	return Scan(ctx, conn, src.ID)
}

// milliseconds is d as statement_timeout takes it: at least 1, because 0 means no limit there.
func milliseconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return min(max(d.Milliseconds(), 1), math.MaxInt32)
}
