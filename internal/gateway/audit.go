package gateway

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"time"

	"interlock/audit"
	"interlock/catalog"
	"interlock/internal/config"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

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
		if err := g.takeActs(ctx); err != nil && ctx.Err() == nil {
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
func (g *Gateway) takeActs(ctx context.Context) error {
	for {
		acts, err := g.Store.ActsToTake(ctx)
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
			err := g.Audit.Event(ctx, &audit.Record{ID: a.ID, Time: a.At}, &audit.Event{Name: a.Name, Attributes: attributes})
			if err != nil {
				return err
			}
			if err := g.Store.TakeActs(ctx, a.Number); err != nil {
				return err
			}
		}
	}
}
