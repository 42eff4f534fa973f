package sqlgov

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"interlock/catalog"
	"interlock/sqlgov/policy"
)

// defaultScanInterval is how often a source is scanned when the governance document does not say.
const defaultScanInterval = 5 * time.Minute

// Catalogs holds the current catalog of every source and keeps it current: at start, on an interval, on demand, and
// when a statement names something unknown.
type Catalogs struct {
	// Scan reads a source's catalog.
	Scan func(context.Context, *policy.SourceSpec) (*catalog.Snapshot, error)
	// Stamp returns a text that changes whenever a source's catalog does. It is asked once a second, by a statement with
	// the given settings. Nil means that changes are found by scans only.
	Stamp func(ctx context.Context, src *policy.SourceSpec, pinned map[string]string) (string, error)
	// StampFailed is told, at most once a minute for each source, why a stamp could not be had. It may be nil.
	StampFailed func(source string, err error)
	// Save keeps a snapshot whose content is new.
	Save func(context.Context, *catalog.Snapshot) error
	// Newer returns the newest kept snapshot of a source if it was scanned after a time, else nil.
	Newer func(ctx context.Context, source string, after time.Time) (*catalog.Snapshot, error)
	// Changed is told of every new snapshot and of every failed scan. It may be nil.
	Changed func(source string, old, new *catalog.Snapshot, err error)

	mu      sync.Mutex
	sources map[string]*sourceCatalog
}

type sourceCatalog struct {
	scanning sync.Mutex
	demand   *rate.Limiter // scans that statements asked for: a burst of ten, then one a second

	mu      sync.RWMutex
	index   *catalog.Index
	scanned time.Time
	stamp   string    // of the server's catalog, read before the last scan
	current time.Time // when the server last had the catalog that index has

	failures rate.Sometimes // of stamps
}

// Index returns the current catalog of a source, or nil if it was never scanned.
func (c *Catalogs) Index(source string) *catalog.Index {
	s := c.source(source)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.index
}

func (c *Catalogs) source(id string) *sourceCatalog {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sources == nil {
		c.sources = make(map[string]*sourceCatalog)
	}
	s := c.sources[id]
	if s == nil {
		s = &sourceCatalog{demand: rate.NewLimiter(1, 10), failures: rate.Sometimes{Interval: time.Minute}}
		c.sources[id] = s
	}
	return s
}

// Current returns when a source's server is last known to have had the catalog that Index returns.
func (c *Catalogs) Current(source string) time.Time {
	s := c.source(source)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.current
}

// Refresh scans a source now. A scan that finds the same content changes nothing but the time of the scan.
func (c *Catalogs) Refresh(ctx context.Context, src *policy.SourceSpec) error {
	s := c.source(src.ID)
	s.scanning.Lock()
	defer s.scanning.Unlock()
	return c.scan(ctx, src, s)
}

// refreshUnknown scans a source because a statement judged against old named something unknown. It returns the newer
// catalog, or old when there is none: another statement's scan counts, and too many scans in a short time are not run.
func (c *Catalogs) refreshUnknown(ctx context.Context, src *policy.SourceSpec, old *catalog.Index) *catalog.Index {
	s := c.source(src.ID)
	asked := time.Now()
	s.scanning.Lock()
	defer s.scanning.Unlock()
	s.mu.RLock()
	scanned := s.scanned
	s.mu.RUnlock()
	if scanned.Before(asked) && s.demand.Allow() {
		if err := c.scan(ctx, src, s); err != nil {
			return old
		}
	}
	return c.Index(src.ID)
}

func (c *Catalogs) scan(ctx context.Context, src *policy.SourceSpec, s *sourceCatalog) error {
	begun, stamp := time.Now(), c.stampOf(ctx, src)
	snap, err := c.Scan(ctx, src)
	if err != nil {
		c.changed(src.ID, nil, nil, err)
		return fmt.Errorf("scanning source %s: %w", src.ID, err)
	}
	s.mu.Lock()
	s.stamp = stamp
	s.mu.Unlock()
	return c.install(ctx, s, snap, begun)
}

// stampOf returns the stamp of a source's catalog, or "" when it cannot be had.
func (c *Catalogs) stampOf(ctx context.Context, src *policy.SourceSpec) string {
	index := c.Index(src.ID)
	if c.Stamp == nil || index == nil {
		return ""
	}
	stamp, err := c.Stamp(ctx, src, pinned(index))
	if err != nil {
		if ctx.Err() == nil && c.StampFailed != nil {
			c.source(src.ID).failures.Do(func() { c.StampFailed(src.ID, err) })
		}
		return ""
	}
	return stamp
}

func (c *Catalogs) install(ctx context.Context, s *sourceCatalog, snap *catalog.Snapshot, scanned time.Time) error {
	s.mu.Lock()
	old := s.index
	s.scanned, s.current = scanned, scanned
	if old != nil && old.Snapshot.Version == snap.Version {
		s.mu.Unlock()
		return nil
	}
	s.index = catalog.NewIndex(snap)
	s.mu.Unlock()
	var before *catalog.Snapshot
	if old != nil {
		before = old.Snapshot
	}
	c.changed(snap.Source, before, snap, nil)
	if err := c.Save(ctx, snap); err != nil {
		return fmt.Errorf("keeping the catalog of source %s: %w", snap.Source, err)
	}
	return nil
}

func (c *Catalogs) changed(source string, old, new *catalog.Snapshot, err error) {
	if c.Changed != nil {
		c.Changed(source, old, new, err)
	}
}

// Run keeps the catalogs of all enabled sources current until ctx ends. It looks at the ruleset once a second, so a
// new source is scanned at once, and takes over snapshots that another process has kept.
func (c *Catalogs) Run(ctx context.Context, rules *Rules) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var scans sync.WaitGroup
	defer scans.Wait()
	for {
		for _, src := range due(rules.Current()) {
			c.scanIfDue(ctx, src, &scans)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func due(rs *policy.Ruleset) []*policy.SourceSpec {
	if rs == nil {
		return nil
	}
	var enabled []*policy.SourceSpec
	for i := range rs.Document.Sources {
		if src := &rs.Document.Sources[i]; !src.Disabled {
			enabled = append(enabled, src)
		}
	}
	return enabled
}

// scanIfDue starts a scan unless one is running or the last one is recent. A source that has never been scanned
// answers from the kept snapshot meanwhile.
func (c *Catalogs) scanIfDue(ctx context.Context, src *policy.SourceSpec, scans *sync.WaitGroup) {
	s := c.source(src.ID)
	if !s.scanning.TryLock() {
		return
	}
	s.mu.RLock()
	last, has := s.scanned, s.index != nil
	s.mu.RUnlock()
	interval := src.ScanInterval
	if interval <= 0 {
		interval = defaultScanInterval
	}
	if !has {
		interval = time.Second
	}
	if time.Since(last) < interval && !has {
		s.scanning.Unlock()
		return
	}
	scans.Go(func() {
		defer s.scanning.Unlock()
		if time.Since(last) < interval && !c.stampChanged(ctx, src, s) {
			c.adoptKept(ctx, src.ID, s)
			return
		}
		if err := c.scan(ctx, src, s); err != nil {
			s.mu.Lock()
			s.scanned = time.Now()
			s.mu.Unlock()
			c.adoptKept(ctx, src.ID, s)
		}
	})
}

// stampChanged reports if the server's catalog is known to have changed since the last scan.
func (c *Catalogs) stampChanged(ctx context.Context, src *policy.SourceSpec, s *sourceCatalog) bool {
	asked, stamp := time.Now(), c.stampOf(ctx, src)
	s.mu.Lock()
	defer s.mu.Unlock()
	if stamp != "" && stamp == s.stamp {
		s.current = asked
	}
	if s.stamp == "" {
		s.stamp = stamp // the first scan had no settings to ask with
		return stamp != ""
	}
	return stamp != "" && stamp != s.stamp
}

// adoptKept takes over a snapshot that is newer than ours: "interlock source scan" in another process kept it.
func (c *Catalogs) adoptKept(ctx context.Context, source string, s *sourceCatalog) {
	s.mu.RLock()
	var have time.Time
	if s.index != nil {
		have = s.index.Snapshot.ScannedAt
	}
	s.mu.RUnlock()
	snap, err := c.Newer(ctx, source, have)
	if err != nil || snap == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index == nil || snap.ScannedAt.After(s.index.Snapshot.ScannedAt) {
		s.index = catalog.NewIndex(snap)
	}
}
