package sqlgov

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"interlock/audit"
	"interlock/catalog"
	"interlock/internal/lru"
	"interlock/redact"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// Results of reads over MCP are kept for sources that say so, in the form in which callers get them: masked, and within
// their caps. A read takes all steps before its execution all the same; only the execution is left out.
//
// A read asks for the generation of its data before anything else, and its result is kept under it. When that generation
// is still the present one and there is no writer, nothing has been changed since. So nobody has to find and drop results,
// and one that is kept too late harms nobody: its generation is not asked for again.

const defaultResultBytes = 64 << 20

// resultKey is everything that a result depends on. The generation stands for the data, and the digest of the ruleset for
// what masks do.
type resultKey struct {
	source, sql      string
	decision         [sha256.Size]byte // what the caller's roles and policies make of the statement
	ruleset, catalog string
	data, generation string
	maxRows          int
	maxBytes         int64
}

// keptResult is a result that may be served again. It is not changed any more.
type keptResult struct {
	result     Result
	ending     ending
	maskedRows int64
	found      redact.Found
	until      time.Time
}

// results are those that this node keeps.
type results struct {
	once  sync.Once
	cache *lru.Cache[resultKey, *keptResult]

	mu    sync.Mutex
	known map[string]acquaintance // by data
}

// acquaintance is since when results of some data are kept without a break, as far as this node knows.
type acquaintance struct {
	since time.Time
	rules *policy.Ruleset
}

// answer runs an admitted statement, or serves the result that it had before.
func (c *Core) answer(ctx context.Context, a *admission, maxRows int) (*Result, ending, *Refusal) {
	begun := time.Now()
	key, ok := c.resultKey(ctx, a, maxRows)
	if !ok {
		return c.run(ctx, a, maxRows)
	}
	if kept, found := c.keptResults().Get(key); found && begun.Before(kept.until) {
		if r := a.spends.spend(ctx, kept.ending.rows, kept.ending.bytes); r != nil {
			return nil, ending{status: audit.Refused, sqlstate: r.SQLState, refusal: r}, r
		}
		res, e := kept.result, kept.ending
		res.DecisionID, res.Cached, e.cache = a.id, true, audit.CacheHit
		a.maskedRows, a.found = kept.maskedRows, kept.found
		return &res, e, nil
	}
	res, e, r := c.run(ctx, a, maxRows)
	if r == nil {
		kept := &keptResult{result: *res, ending: e, maskedRows: a.maskedRows, found: a.found, until: begun.Add(a.src.Cache.TTL)}
		c.keptResults().Add(key, kept, kept.cost(len(key.sql)))
	}
	return res, e, r
}

// resultKey returns where the result of an admitted statement is kept. ok is false if it is neither served from there nor
// kept: the statement is none whose result depends on data alone, or that data is or may be changing.
func (c *Core) resultKey(ctx context.Context, a *admission, maxRows int) (key resultKey, ok bool) {
	if a.src.Cache.TTL <= 0 || a.writer != nil || a.written != nil || !a.repeatable() {
		return key, false
	}
	decision, err := json.Marshal(struct {
		Roles       []string
		Obligations policy.Obligations
	}{a.decision.Roles, a.decision.Obligations})
	if err != nil {
		return key, false
	}
	data := a.src.Upstream.Data()
	lease := c.leaseOf(a.rules.Kept(data))
	if !c.results.settled(data, a.rules, lease) {
		return key, false
	}
	generation, quiet, err := c.generations().Generation(ctx, data, lease)
	if err != nil || !quiet {
		return key, false
	}
	col := newCollector(a, maxRows)
	return resultKey{source: a.source, sql: a.sql, decision: sha256.Sum256(decision), ruleset: a.rules.Digest,
		catalog: a.index.Snapshot.Version, data: data, generation: generation, maxRows: col.res.Limit, maxBytes: col.maxBytes}, true
}

// lookAfter notes of which data results are kept.
func (c *Core) lookAfter() {
	rules := c.Rules.Current()
	if rules == nil {
		return
	}
	for data, sources := range rules.AllKept() {
		c.results.settled(data, rules, c.leaseOf(sources))
	}
}

// settled reports if every write that could have begun before this node looked after the data has ended: for one lease
// after the start, and after a ruleset in between may have kept no results, some write may not have been announced.
func (r *results) settled(data string, rules *policy.Ruleset, lease time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = make(map[string]acquaintance)
	}
	was, now := r.known[data], time.Now()
	switch {
	case was.rules == rules:
	case was.rules != nil && was.rules.Number+1 == rules.Number:
		r.known[data] = acquaintance{since: was.since, rules: rules}
	default:
		r.known[data] = acquaintance{since: now, rules: rules}
	}
	return now.Sub(r.known[data].since) >= lease
}

func (c *Core) keptResults() *lru.Cache[resultKey, *keptResult] {
	c.results.once.Do(func() {
		limit := c.ResultBytes
		if limit <= 0 {
			limit = defaultResultBytes
		}
		c.results.cache = lru.New[resultKey, *keptResult](limit)
	})
	return c.results.cache
}

// cost is about how many bytes a result holds.
func (k *keptResult) cost(sql int) int64 {
	n := 1024 + sql
	for _, col := range k.result.Columns {
		n += 96 + len(col.Name) + len(col.Mask) + len(col.TypeName)
	}
	for _, row := range k.result.Rows {
		n += 24
		for _, v := range row {
			n += 24 + cap(v)
		}
	}
	return int64(n)
}

// repeatable reports if a statement gives the same as long as the data is the same: one plain query on tables, of
// functions that know neither the clock nor chance nor the session.
func (a *admission) repeatable() bool {
	statements := a.judged.facts.Statements
	if len(statements) != 1 || a.judged.facts.SessionBound {
		return false
	}
	s := &statements[0]
	switch {
	case s.Kind != analyze.Select, !s.ReadOnly(), s.Locks, len(s.SessionValues) > 0:
		return false
	// Raises is set where a value is read from the text of another, which may be "now".
	case s.System.Raises, len(s.System.Conversions) > 0, len(s.System.Calls) > 0, len(s.System.References) > 0:
		return false
	case slices.ContainsFunc(s.Functions, func(f *catalog.Function) bool { return !policy.Steady(f) }):
		return false
	}
	for i := range s.Reads {
		if !plainTable(s.Reads[i].Relation, a.index) {
			return false
		}
	}
	for _, oid := range s.Tables {
		if !plainTable(oid, a.index) {
			return false
		}
	}
	return !timely(a.sql)
}

// plainTable reports if nothing but rows of this database decides what is read from a relation.
func plainTable(oid catalog.OID, x *catalog.Index) bool {
	rel := x.Relation(oid)
	if rel == nil || rel.RowSecurity || catalog.IsSystemSchema(rel.Schema) {
		return false
	}
	switch rel.Kind {
	case catalog.Table, catalog.PartitionedTable:
		return !slices.ContainsFunc(x.Children(oid), func(child catalog.OID) bool { return !plainTable(child, x) })
	case catalog.MaterializedView:
		return true
	}
	return false
}

// timelyWords are in every text that tells of the moment without a function: CURRENT_DATE and kin, the literals 'now' and
// 'today', times of day in a time zone, whose offset depends on the date. A backslash or U& can write any of them.
var timelyWords = []string{"current_", "localtime", "now", "today", "tomorrow", "yesterday", "timetz", "zone", `\`, "u&", "tablesample"}

// timely reports if a text may depend on the moment. It may be wrong about a text that does not.
func timely(sql string) bool {
	lower := strings.ToLower(sql)
	return slices.ContainsFunc(timelyWords, func(w string) bool { return strings.Contains(lower, w) })
}
