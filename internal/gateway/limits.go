package gateway

import (
	"context"
	"fmt"
	"os"
	"time"

	"interlock/audit"
	"interlock/internal/breaker"
	"interlock/internal/config"
	"interlock/internal/shared"
)

// newBreaker puts circuits before the way to the sources' servers.
func (g *Gateway) newBreaker() *breaker.Upstream {
	return &breaker.Upstream{Next: g.upstream, Failures: g.cfg.Breaker.Failures, Pause: g.cfg.Breaker.Pause, Changed: g.circuitChanged}
}

func (g *Gateway) circuitChanged(source string, open bool) {
	if open {
		g.log.Error().Str("source", source).Dur("pause", g.cfg.Breaker.Pause).Msg("circuit open: the source's server cannot be reached")
		g.note(audit.SourceLost, source, map[string]string{"reason": "circuit_open"})
		return
	}
	g.log.Info().Str("source", source).Msg("circuit closed: the source's server is reached again")
	g.note(audit.SourceAvailable, source, map[string]string{"reason": "circuit_closed"})
}

// shareRates makes the core count in Redis, if there is one.
func (g *Gateway) shareRates() error {
	c := &g.cfg.Redis
	if c.URL == "" {
		return nil
	}
	url, err := config.Resolve(c.URL)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	conf := shared.Config{URL: url, Prefix: c.Prefix, Timeout: c.Timeout, LostShare: c.LostShare, Log: g.log}
	if c.CA != "" {
		if conf.CA, err = os.ReadFile(c.CA); err != nil {
			return fmt.Errorf("reading the authorities for Redis: %w", err)
		}
	}
	if g.rates, err = shared.New(conf); err != nil {
		return err
	}
	g.Core.Rates, g.Core.Budgets, g.Core.Generations = g.rates, g.rates.Budgets(), g.rates.Generations()
	return nil
}

// omittedInterval is how often it is recorded how many failures were not recorded one by one.
const omittedInterval = 10 * time.Second

func (g *Gateway) watchOmitted(ctx context.Context) {
	tick := time.NewTicker(omittedInterval)
	defer tick.Stop()
	defer g.Core.RecordOmitted()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.Core.RecordOmitted()
		}
	}
}

// limitProblems are what operators should look at.
func (g *Gateway) limitProblems() []string {
	var problems []string
	if g.rates != nil && g.rates.Lost() {
		problems = append(problems, fmt.Sprintf("Redis is lost: this node grants %d %% of each rate limit by itself", g.cfg.Redis.LostShare))
		if g.Rules.Current().Keeps() {
			problems = append(problems, "Redis is lost: nothing is served from caches, and writes to the data of sources with a cache are refused")
		}
	}
	rs := g.Rules.Current()
	for i := range rs.Document.Sources {
		id := rs.Document.Sources[i].ID
		if again, open := g.Core.Circuit(id); open {
			problems = append(problems, fmt.Sprintf("the circuit of source %s is open: its server could not be reached; it is tried again in %s", id, again.Round(time.Second)))
		}
	}
	return problems
}
