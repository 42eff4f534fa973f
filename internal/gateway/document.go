package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"interlock/audit"
	"interlock/internal/config"
	"interlock/internal/store"
	"interlock/sqlgov/policy"
)

// watchInterval is how often the governance document is looked at.
const watchInterval = time.Second

// documentState is what is known of the governance document on disk.
type documentState struct {
	mu     sync.Mutex
	digest [sha256.Size]byte // of the bytes that were read last
	err    error             // why they are not in force
}

func (d *documentState) lastError() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		return ""
	}
	return d.err.Error()
}

// applyAtStart puts the governance document in force, or the last good ruleset if the document is broken.
func (g *Gateway) applyAtStart(ctx context.Context) error {
	_, err := g.applyDocument(ctx)
	if err == nil {
		return nil
	}
	last, _, lastErr := g.Store.CurrentRuleset(ctx)
	if lastErr != nil || last == nil {
		return fmt.Errorf("the governance document cannot be applied, and there is no earlier ruleset: %w", err)
	}
	g.log.Error().Err(err).Int64("ruleset", last.Number).Msg("the governance document is broken; the last good ruleset stays in force")
	if err := g.rulesetEvent(last, "last good"); err != nil {
		return err
	}
	g.Rules.Set(last)
	return nil
}

// applyDocument reads the governance document and, if it has changed, stores it as a new ruleset and puts that in force.
func (g *Gateway) applyDocument(ctx context.Context) (changed bool, err error) {
	text, err := os.ReadFile(g.cfg.Governance)
	digest := sha256.Sum256(text)
	g.document.mu.Lock()
	defer g.document.mu.Unlock()
	if err == nil && bytes.Equal(digest[:], g.document.digest[:]) {
		return false, g.document.err
	}
	if err == nil {
		err = g.apply(ctx, text)
	}
	changed = g.document.err == nil || err == nil || g.document.err.Error() != err.Error()
	if g.document.err = err; !errors.Is(err, audit.ErrUnavailable) { // what could not be recorded is tried again
		g.document.digest = digest
	}
	if changed && err != nil {
		g.rulesetBroken(digest[:], err)
	}
	return changed, err
}

func (g *Gateway) apply(ctx context.Context, text []byte) error {
	doc, err := config.ParseGovernance(g.cfg.Governance, filepath.Dir(g.cfg.Governance), text)
	if err != nil {
		return err
	}
	rs, err := policy.Compile(doc)
	if err != nil {
		return err
	}
	how := store.Applied{By: "governance document", Texts: map[string]string{g.cfg.Governance: string(text)}}
	if err := g.Store.SaveRuleset(ctx, rs, how); err != nil {
		return err
	}
	if err := g.rulesetEvent(rs, how.By); err != nil {
		return err
	}
	g.Rules.Set(rs)
	g.log.Info().Int64("ruleset", rs.Number).Str("digest", rs.Digest).Msg("ruleset in force")
	return nil
}

// watchDocument applies the document when it changes. A broken one changes nothing but is logged, once.
func (g *Gateway) watchDocument(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if changed, err := g.applyDocument(ctx); changed && err != nil {
			g.log.Error().Err(err).Msg("the governance document is broken; the last good ruleset stays in force")
		}
	}
}
