package gateway

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"interlock/audit"
	"interlock/catalog"
	"interlock/internal/admin"
	"interlock/internal/auditship"
	"interlock/internal/config"
	"interlock/internal/loop"
	"interlock/internal/store"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

// AuditConfig says where the audit log of a configuration is, and how it is written.
func AuditConfig(cfg *config.Config) audit.Config {
	node := cfg.Audit.Node
	if node == "" {
		node, _ = os.Hostname()
	}
	return audit.Config{
		Waits:              loop.Leave,
		Dir:                filepath.Join(cfg.DataDir, "audit"),
		HeadDir:            filepath.Join(cfg.DataDir, "audit-head"),
		Node:               node,
		SegmentBytes:       cfg.Audit.SegmentBytes,
		Sync:               audit.SyncMode(cfg.Audit.Sync),
		SyncInterval:       cfg.Audit.SyncInterval,
		RelaxedWindow:      cfg.Audit.RelaxedWindow,
		Compress:           cfg.Audit.Compression == "zstd",
		CompressLater:      cfg.Audit.CompressionBacklog,
		CheckpointInterval: cfg.Audit.CheckpointInterval,
	}
}

// AuditKeyFile is the file with the key by which checkpoints are signed.
func AuditKeyFile(cfg *config.Config) string { return filepath.Join(cfg.DataDir, "audit-signing.key") }

// AuditPositions is the directory with the positions of the sinks.
func AuditPositions(cfg *config.Config) string { return filepath.Join(cfg.DataDir, "audit-sinks") }

// openAudit opens the audit log, its index and the ways to its sinks.
func (g *Gateway) openAudit(ctx context.Context) (err error) {
	conf := AuditConfig(g.cfg)
	if conf.SigningKey, err = audit.LoadSigningKey(AuditKeyFile(g.cfg)); err != nil {
		return err
	}
	if g.Audit, err = audit.Open(conf); err != nil {
		return fmt.Errorf("opening the audit log: %w", err)
	}
	if g.Index, err = store.OpenIndex(ctx, g.cfg.DataDir); err != nil {
		return err
	}
	if g.together, err = OpenSharedPart(g.cfg); err != nil {
		return err
	}
	for i := range g.cfg.Audit.Sinks {
		s := &g.cfg.Audit.Sinks[i]
		to, err := sink(s, conf.Node)
		if err != nil {
			return fmt.Errorf("audit sink %s: %w", s.Name, err)
		}
		g.shippers = append(g.shippers, &auditship.Shipper{Name: s.Name, Node: conf.Node, Dir: conf.Dir, Sink: to,
			Positions: AuditPositions(g.cfg), OnlyCheckpoints: s.Only == "checkpoints", Limit: g.synced, Log: g.log})
	}
	return nil
}

// OpenSharedPart makes the part of this node in the index that nodes share; nil if the configuration has none. It does not wait
// for the database. The log is known by its signing key, whatever the node is called.
func OpenSharedPart(cfg *config.Config) (*store.SharedPart, error) {
	if cfg.Audit.SharedIndex.DSN == "" {
		return nil, nil
	}
	dsn, err := config.Resolve(cfg.Audit.SharedIndex.DSN)
	if err != nil {
		return nil, fmt.Errorf("audit.shared_index: %w", err)
	}
	key, err := audit.LoadSigningKey(AuditKeyFile(cfg))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(key.Public().(ed25519.PublicKey))
	return store.OpenSharedPart(dsn, hex.EncodeToString(sum[:16]), AuditConfig(cfg).Node)
}

// ReadShared opens the index that nodes share to read it.
func ReadShared(ctx context.Context, cfg *config.Config) (*store.SharedIndex, error) {
	if cfg.Audit.SharedIndex.DSN == "" {
		return nil, errors.New("there is no shared audit index: set audit.shared_index in the configuration")
	}
	dsn, err := config.Resolve(cfg.Audit.SharedIndex.DSN)
	if err != nil {
		return nil, fmt.Errorf("audit.shared_index: %w", err)
	}
	return store.ReadShared(ctx, dsn)
}

func sink(s *config.AuditSink, node string) (auditship.Sink, error) {
	authorities, err := authorities(s.CA)
	if err != nil {
		return nil, err
	}
	switch s.Kind {
	case "file":
		return &auditship.File{Path: s.Path}, nil
	case "http":
		h := &auditship.HTTP{URL: s.URL, TLS: authorities}
		if ref := s.Token; ref != "" {
			h.Token = func() (string, error) { return config.Resolve(ref) }
		}
		return h, nil
	default:
		return &auditship.Syslog{Address: s.Address, Host: node, TLS: authorities}, nil
	}
}

// authorities trusts the certificates in a file alone; nil, which is the system's, if there is no file.
func authorities(file string) (*tls.Config, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return &tls.Config{RootCAs: pool}, nil
}

// synced is the last entry that is on the disk: nobody is told of one that a power cut may take away.
func (g *Gateway) synced() uint64 { return g.Audit.Stats().Synced }

// runAudit runs what works behind the audit log.
func (g *Gateway) runAudit(ctx context.Context) {
	g.background.Go(func() { g.watchActs(ctx) })
	g.background.Go(func() {
		g.Index.Follow(ctx, AuditConfig(g.cfg).Dir, g.synced, func(err error) { g.log.Error().Err(err).Msg("audit index") })
	})
	if g.together != nil {
		g.background.Go(func() {
			g.together.Follow(ctx, AuditConfig(g.cfg).Dir, g.synced, func(err error) {
				g.log.Error().Err(err).Msg("the shared audit index does not take entries; it is tried again")
			})
		})
	}
	for _, s := range g.shippers {
		g.background.Go(func() {
			if err := s.Run(ctx); err != nil {
				g.log.Error().Err(err).Str("sink", s.Name).Msg("audit sink")
			}
		})
	}
}

func (g *Gateway) auditStatus() admin.AuditStatus {
	stats := g.Audit.Stats()
	st := admin.AuditStatus{Written: stats.Seq, Synced: stats.Synced, Waiting: stats.Waiting, Failing: stats.Err != nil, Sinks: []admin.AuditSink{}}
	if at, err := g.Index.Position(context.Background()); err == nil {
		st.Indexed = at.Seq
	}
	for _, s := range g.shippers {
		p := s.Status()
		st.Sinks = append(st.Sinks, admin.AuditSink{Name: p.Name, Sent: p.Sent, Lag: p.Lag, Failing: p.Err != ""})
	}
	if g.together != nil {
		taken, err := g.together.Taken()
		st.Shared = &admin.AuditShared{Indexed: taken, Lag: stats.Synced - min(taken, stats.Synced), Failing: err != nil, Reason: store.SharedReason(err)}
	}
	return st
}

// auditProblems are what operators should look at.
func auditProblems(st *admin.AuditStatus) []string {
	var problems []string
	for _, p := range st.Sinks {
		if p.Failing {
			problems = append(problems, fmt.Sprintf("audit sink %s does not take entries; %d are waiting", p.Name, p.Lag))
		}
	}
	if s := st.Shared; s != nil && s.Failing {
		problem := fmt.Sprintf("the shared audit index does not take entries; %d are waiting", s.Lag)
		if s.Reason != "" {
			problem += "; " + s.Reason
		}
		problems = append(problems, problem)
	}
	return problems
}

// actor says who runs this process, for administrative acts.
func actor() string {
	u, err := user.Current()
	if err != nil {
		return "local"
	}
	return "local:" + u.Username
}

// event records something that is no request.
func (g *Gateway) event(name, source string, attributes map[string]string) error {
	rec := &audit.Record{ID: audit.NewID(), Time: time.Now(), Source: source}
	return g.Audit.Event(context.Background(), rec, &audit.Event{Name: name, Attributes: attributes})
}

// note records an event about something that has happened and cannot be undone.
func (g *Gateway) note(name, source string, attributes map[string]string) {
	if err := g.event(name, source, attributes); err != nil {
		g.log.Error().Err(err).Str("event", name).Str("source", source).Msg("event not recorded")
	}
}

// rulesetEvent records that a ruleset is about to be put in force, which it is not if that fails.
func (g *Gateway) rulesetEvent(rs *policy.Ruleset, by string) error {
	return g.event(audit.RulesetApplied, "", map[string]string{"number": strconv.FormatInt(rs.Number, 10), "digest": rs.Digest, "by": by})
}

// rulesetBroken records that the document on disk is not in force. What is wrong with it may quote it, so only the place
// is told.
func (g *Gateway) rulesetBroken(digest []byte, err error) {
	a := map[string]string{"digest": hex.EncodeToString(digest)}
	var problems config.Problems
	if errors.As(err, &problems) && len(problems) > 0 {
		a["problems"] = strconv.Itoa(len(problems))
		a["at"] = fmt.Sprintf("%d:%d", problems[0].Line, problems[0].Column)
	}
	g.note(audit.RulesetBroken, "", a)
}

// maxDifferences bounds the differences between catalogs that one event lists.
const maxDifferences = 20

// catalogEvent records what a scan found.
func (g *Gateway) catalogEvent(source string, old, new *catalog.Snapshot) {
	a := map[string]string{"version": new.Version, "relations": strconv.Itoa(len(new.Relations))}
	if old != nil {
		found := catalog.Differences(old, new)
		a["before"], a["changes"] = old.Version, strconv.Itoa(len(found))
		a["first"] = strings.Join(found[:min(len(found), maxDifferences)], "; ")
	}
	g.note(audit.CatalogChanged, source, a)
}

// sourceStates remembers which sources could be scanned last time.
type sourceStates struct {
	mu   sync.Mutex
	lost map[string]bool
}

// changed notes the state of a source and reports if it is new. A source begins as available.
func (s *sourceStates) changed(source string, lost bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil {
		s.lost = map[string]bool{}
	}
	was, known := s.lost[source]
	s.lost[source] = lost
	return was != lost || !known
}

// scan reads a source's catalog and records when the source is lost and found again.
func (g *Gateway) scan(ctx context.Context, src *policy.SourceSpec) (*catalog.Snapshot, error) {
	snap, err := g.upstream.ScanCatalog(ctx, src)
	if ctx.Err() != nil || !g.states.changed(src.ID, err != nil) {
		return snap, err
	}
	if err == nil {
		g.note(audit.SourceAvailable, src.ID, nil)
		return snap, nil
	}
	reason := "scan failed" // the text of the error can carry addresses
	var oe *sqlgov.OpenError
	var ue *sqlgov.UpstreamError
	switch {
	case errors.As(err, &oe):
		reason = string(oe.Reason)
	case errors.As(err, &ue):
		reason = "SQLSTATE " + ue.SQLState
	}
	g.note(audit.SourceLost, src.ID, map[string]string{"reason": reason})
	return nil, err
}

// watchActs takes the administrative acts of all processes over into the audit log.
func (g *Gateway) watchActs(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		if err := takeActs(ctx, g.Store, g.Audit); err != nil && ctx.Err() == nil {
			g.log.Error().Err(err).Msg("administrative acts not recorded")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// takeActs records what waits. An act whose event is written, and that could not be marked as taken, is written again
// with the same id.
func takeActs(ctx context.Context, st *store.Store, log *audit.Log) error {
	for {
		acts, err := st.ActsToTake(ctx)
		if err != nil || len(acts) == 0 {
			return err
		}
		for _, a := range acts {
			attributes := map[string]string{"act": strconv.FormatInt(a.Number, 10)}
			for name, value := range a.Attributes {
				attributes[name] = value
			}
			if a.Actor != "" {
				attributes["by"] = a.Actor
			}
			err := log.Event(ctx, &audit.Record{ID: a.ID, Time: a.At}, &audit.Event{Name: a.Name, Attributes: attributes})
			if err != nil {
				return err
			}
			if err := st.TakeActs(ctx, a.Number); err != nil {
				return err
			}
		}
	}
}

// actTimeout is how long RecordAct waits for the gateway.
const actTimeout = 15 * time.Second

// RecordAct brings an administrative act of this process into the audit log and returns when it is there. If a gateway
// writes the log, it takes the act over; otherwise the log is opened for it.
func RecordAct(ctx context.Context, cfg *config.Config, name string, attributes map[string]string) (id string, err error) {
	st, _, err := OpenControl(ctx, cfg)
	if err != nil {
		return "", err
	}
	defer st.Close()
	act := store.Act{ID: audit.NewID(), At: time.Now(), Name: name, Attributes: attributes}
	number, err := st.AddAct(ctx, act)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	for {
		taken, err := st.ActsTaken(ctx)
		if err != nil || taken >= number {
			return act.ID, err
		}
		err = takeActsHere(ctx, cfg, st)
		if err != nil && !errors.Is(err, audit.ErrLocked) {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("the gateway has not taken the act into the audit log: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func takeActsHere(ctx context.Context, cfg *config.Config, st *store.Store) error {
	conf := AuditConfig(cfg)
	var err error
	if conf.SigningKey, err = audit.LoadSigningKey(AuditKeyFile(cfg)); err != nil {
		return err
	}
	log, err := audit.Open(conf)
	if err != nil {
		return err
	}
	return errors.Join(takeActs(ctx, st, log), log.Close())
}
