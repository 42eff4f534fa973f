package sqlgov

import (
	"encoding/binary"
	"errors"
	"sync"

	"interlock/audit"
	"interlock/catalog"
	"interlock/internal/lru"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/introspect"
	"interlock/sqlgov/policy"
)

// defaultFactsBytes bounds the cache of facts.
const defaultFactsBytes = 64 << 20

// factsKey is everything that facts depend on. The catalog stands for the search path too: both come from one scan.
type factsKey struct {
	sql    string
	params string // declared parameter types
	index  *catalog.Index
}

// judged is a text's facts with what follows from them. It is shared by all requests with the same text and catalog.
type judged struct {
	facts *analyze.Facts
	index *catalog.Index
	names recordNames
	*standing
	// template is set for facts that were found in another text with the same template.
	template bool
}

// standing is what follows from facts and is found when it is first needed: decisions by identity, and the question to the
// server. It is shared by all texts with the same facts.
type standing struct {
	askOnce sync.Once
	ask     *Recheck

	decisions [2]sync.Map // by door; identity -> ruledDecision; at most one entry an identity
}

func newJudged(facts *analyze.Facts, index *catalog.Index) *judged {
	return &judged{facts: facts, index: index, names: namesOf(facts), standing: &standing{}}
}

// of is what was judged for another text with the same template.
func (j *judged) of(sql string) *judged {
	return &judged{facts: j.facts.Of(sql), index: j.index, names: j.names, standing: j.standing, template: true}
}

// ruledDecision is a decision under one ruleset, with what the audit log says of it.
type ruledDecision struct {
	*policy.Decision
	rules     *policy.Ruleset
	footing   policy.Footing
	judgement *audit.Judgement
	compiled  maskCache
	// needs is set when the statement must be rewritten to see no more of the catalogs than the identity may.
	needs *introspect.Needs
}

// judge sets a.judged to the facts of a.sql. Facts that depend on the session are not cached.
func (c *Core) judge(a *admission) *analyze.Error {
	if a.call != nil {
		if err := a.call.write(a); err != nil {
			return err
		}
	}
	if a.judged != nil && a.judged.index == a.index && !a.judged.facts.SessionBound {
		return nil
	}
	key := factsKey{a.sql, paramsKey(a.params), a.index}
	if j, ok := c.cache().Get(key); ok {
		a.judged = j
		return nil
	}
	if template, ok := analyze.Template(a.sql); ok {
		return c.judgeTemplate(a, key, template)
	}
	return c.judgeText(a, key)
}

// judgeTemplate sets a.judged by a text with the same template, if there was one. The first one is kept for all.
func (c *Core) judgeTemplate(a *admission, key factsKey, template string) *analyze.Error {
	shared := key
	shared.sql = template
	if j, ok := c.cache().Get(shared); ok {
		a.judged = j.of(a.sql)
		return nil
	}
	if err := c.judgeText(a, key); err != nil {
		return err
	}
	if a.judged.facts.Shared(a.sql) {
		c.cache().Add(shared, a.judged, cost(template, a.judged.facts))
	}
	return nil
}

// judgeText sets a.judged to the facts of a.sql itself.
func (c *Core) judgeText(a *admission, key factsKey) *analyze.Error {
	facts, e := c.analyseText(a, a.sql, false)
	if e != nil {
		return e
	}
	a.judged = newJudged(facts, a.index)
	if !facts.SessionBound {
		c.cache().Add(key, a.judged, cost(a.sql, facts))
	}
	return nil
}

// analyseText analyses a text in the place of the admission's. What it executes or fetches from is taken as the caller wrote
// it, or as it was sent.
func (c *Core) analyseText(a *admission, text string, sent bool) (*analyze.Facts, *analyze.Error) {
	names := storedTexts{a.stored, sent}
	facts, err := analyze.Analyze(text, analyze.Env{
		Catalog:    a.index,
		ParamTypes: a.params,
		SearchPath: a.index.Snapshot.SearchPath,
		Prepared:   names.prepared,
		Cursor:     names.cursor,
		Limits:     c.Limits,
		Watched:    introspect.Watched,
		Ahead:      a.rehearse,
	})
	if err != nil {
		var e *analyze.Error
		if !errors.As(err, &e) {
			e = &analyze.Error{SQLState: "XX000", Message: "the statement cannot be analysed"}
		}
		return nil, e
	}
	return facts, nil
}

func paramsKey(params []catalog.OID) string {
	if len(params) == 0 {
		return ""
	}
	key := make([]byte, 0, 4*len(params))
	for _, p := range params {
		key = binary.BigEndian.AppendUint32(key, uint32(p))
	}
	return string(key)
}

func (c *Core) cache() *lru.Cache[factsKey, *judged] {
	c.factsOnce.Do(func() {
		limit := c.FactsBytes
		if limit <= 0 {
			limit = defaultFactsBytes
		}
		c.facts = lru.New[factsKey, *judged](limit)
	})
	return c.facts
}

// cost estimates the bytes that cached facts hold: the text, its normal form, and a rough size for every list entry
// together with its name in the audit record.
func cost(sql string, f *analyze.Facts) int64 {
	n := 1024 + len(sql) + len(f.Normalized)
	for i := range f.Statements {
		s := &f.Statements[i]
		n += 256 + 160*(len(s.Reads)+len(s.Writes)) + 64*(len(s.Functions)+len(s.Channels)) + 112*(len(s.Uses)+len(s.Stored))
		for _, o := range s.Output {
			n += 96 + 64*len(o.Columns) + 112*len(o.Sources)
		}
		for _, assigned := range s.Assigned {
			n += 96 + len(assigned.Text)
		}
	}
	return int64(n)
}

// decide returns the decision for the admission's identity, from the cache while the ruleset stands.
func (j *judged) decide(a *admission) *ruledDecision {
	decisions := &j.decisions[0]
	if a.caller.Door == MCP {
		decisions = &j.decisions[1]
	}
	if d, ok := decisions.Load(a.caller.Identity); ok && d.(*ruledDecision).rules == a.rules {
		return d.(*ruledDecision)
	}
	in := a.input(j.facts)
	d := a.ruled(a.rules.Decide(in), a.rules.Labels(in))
	d.needs = needsOf(d.Decision)
	decisions.Store(a.caller.Identity, d)
	return d
}

// ruled is a decision on the admission's facts, which have labels, with what the audit log says of it.
func (a *admission) ruled(decision *policy.Decision, labels []string) *ruledDecision {
	d := &ruledDecision{Decision: decision, rules: a.rules, judgement: &audit.Judgement{}}
	a.nameVersions(d.judgement)
	a.judged.fill(d.judgement)
	d.judgement.Verdict, d.judgement.Labels = string(d.Verdict), labels
	if d.Verdict != policy.Refused {
		d.footing = a.rules.Footing(a.input(a.judged.facts))
	}
	d.judgement.Reasons = recorded(d.Reasons)
	return d
}
