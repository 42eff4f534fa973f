package sqlgov

import (
	"slices"
	"sync"

	"interlock/catalog"
	"interlock/internal/lru"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/introspect"
	"interlock/sqlgov/policy"
)

// rewritten is what is sent in the place of a text that asks PostgreSQL's catalogs.
type rewritten struct {
	*introspect.Text
	facts   *analyze.Facts // of what is sent: the second witness holds results against it. Nil if that is the caller's own text
	problem *introspect.Problem
}

// rewrites keeps what identities may see and what their texts were rewritten to. Both follow from what they are keyed by.
type rewrites struct {
	once   sync.Once
	sights *lru.Cache[sightKey, *introspect.Sight]
	texts  *lru.Cache[rewriteKey, *rewritten]
}

type sightKey struct {
	rules    *policy.Ruleset
	index    *catalog.Index
	identity string
	source   string
}

type rewriteKey struct {
	sightKey
	judged *judged
}

// Bounds of the two caches, in bytes.
const (
	sightBytes   = 64 << 20
	rewriteBytes = 64 << 20
)

func (r *rewrites) open() {
	r.once.Do(func() {
		r.sights = lru.New[sightKey, *introspect.Sight](sightBytes)
		r.texts = lru.New[rewriteKey, *rewritten](rewriteBytes)
	})
}

// needsOf is what a decision allows for being filtered; nil if that is nothing.
func needsOf(d *policy.Decision) *introspect.Needs {
	var n *introspect.Needs
	for i := range d.Reasons {
		r := &d.Reasons[i]
		if !r.Filtered {
			continue
		}
		if n == nil {
			n = &introspect.Needs{Relations: map[catalog.OID]bool{}, Functions: map[catalog.OID]bool{}}
		}
		if r.Need.Function != 0 {
			n.Functions[r.Need.Function] = true
		} else {
			n.Relations[r.Need.Relation] = true
		}
	}
	return n
}

// rewrite finds what is sent for an allowed statement. It refuses what cannot be written so that it shows no more than
// the identity may see.
func (c *Core) rewrite(a *admission) *Refusal {
	a.written = nil
	if a.decision.needs == nil {
		return a.stale()
	}
	if r := c.storedStill(a); r != nil {
		return r
	}
	w := c.writtenOnce(a)
	if p := w.problem; p != nil {
		r := &Refusal{Kind: Denied, SQLState: p.SQLState, Message: p.Message, Hint: p.Hint, Position: characters(a.sql, p.Position)}
		if p.SQLState == "0A000" {
			r.Kind = Unsupported
		}
		return r
	}
	if w.facts != nil {
		a.written = w
	}
	return a.stale()
}

// storedStill checks that the queries which a text runs by name were sent as they would be now. What the text itself stores is
// rewritten with it.
func (c *Core) storedStill(a *admission) *Refusal {
	here := map[objectKey]bool{}
	for i := range a.judged.facts.Statements {
		st := &a.judged.facts.Statements[i]
		key := objectKey{'P', st.Name}
		switch st.Kind {
		case analyze.Prepare:
			here[objectKey{'S', st.Name}] = true
			continue
		case analyze.Declare:
			here[key] = true
			continue
		case analyze.Execute:
			key.kind = 'S'
		case analyze.Fetch, analyze.Move:
		default:
			continue
		}
		if here[key] {
			continue
		}
		def := storedTexts{stored: a.stored}.get(key)
		if def == nil {
			return outdated()
		}
		if sent, ok := c.sentNow(a, def); !ok || sent != def.sent {
			return outdated()
		}
	}
	return nil
}

// store notes what is sent for a query that a statement of a text stores under a name.
func (c *Core) store(a *admission, st *preparedStatement) *preparedStatement {
	if a.decision != nil && a.decision.needs != nil {
		st.sent, _ = c.sentNow(a, st)
	}
	return st
}

// sentNow is what would be sent now for a query that is stored under a name, "" for its own text. It is not ok if the query is not
// allowed now.
func (c *Core) sentNow(a *admission, st *preparedStatement) (sent string, ok bool) {
	now := *a
	now.sql, now.params, now.judged, now.written, now.sentBefore = st.sql, st.params, nil, nil, nil
	if e := c.judge(&now); e != nil {
		return "", false
	}
	now.decision = now.judged.decide(&now)
	if now.decision.Verdict == policy.Refused || now.decision.needs == nil {
		return "", now.decision.Verdict != policy.Refused
	}
	now.written = c.writtenOnce(&now)
	return now.replacement(), now.written.problem == nil
}

// writtenOnce writes the admission's text, or takes what was written for the same facts before.
func (c *Core) writtenOnce(a *admission) *rewritten {
	c.rewrites.open()
	key := rewriteKey{sightKey{a.rules, a.index, a.caller.Identity, a.source}, a.judged}
	if w, ok := c.rewrites.texts.Get(key); ok {
		return w
	}
	w := c.written(a, key.sightKey)
	if !a.judged.facts.SessionBound {
		c.rewrites.texts.Add(key, w, w.cost())
	}
	return w
}

func (w *rewritten) cost() int64 {
	n := int64(1024)
	if w.Text != nil && w.Changed {
		n += int64(2*len(w.SQL)) + cost(w.SQL, w.facts)
	}
	return n
}

func (c *Core) written(a *admission, key sightKey) *rewritten {
	text, problem := c.sight(key).Rewrite(a.sql, a.judged.facts, *a.decision.needs)
	if problem != nil || !text.Changed && !a.judged.facts.SessionBound {
		return &rewritten{Text: text, problem: problem}
	}
	facts, e := c.analyseText(a, text.SQL, true)
	if e != nil || !sameResult(a.judged.facts, facts) {
		c.Log.Debug().Str("source", a.source).AnErr("cause", asError(e)).Msg("a statement on the catalogs cannot be rewritten")
		return &rewritten{problem: &introspect.Problem{SQLState: "0A000", Message: "this way of reading the system catalogs is not supported by this gateway",
			Hint: "Name the catalog in a plain FROM item with an alias, and its columns by that alias."}}
	}
	return &rewritten{Text: text, facts: facts}
}

func asError(e *analyze.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// sight is what an identity may see.
func (c *Core) sight(key sightKey) *introspect.Sight {
	s, ok := c.rewrites.sights.Get(key)
	if !ok {
		s = introspect.See(key.index, key.rules.Access(key.identity, key.source, key.index))
		c.rewrites.sights.Add(key, s, s.Bytes())
	}
	return s
}

// sameResult reports if a text that was rewritten does what the caller's does: the same statements with the same result
// columns, which change the same and read the same of everything outside the system schemas.
func sameResult(before, after *analyze.Facts) bool {
	return slices.EqualFunc(before.Statements, after.Statements, func(x, y analyze.Statement) bool {
		return x.Kind == y.Kind && slices.Equal(x.Writes, y.Writes) && slices.Equal(userColumns(x.Reads), userColumns(y.Reads)) &&
			slices.EqualFunc(x.Output, y.Output, func(a, b analyze.Output) bool { return a.Name == b.Name && a.Type == b.Type })
	})
}

func userColumns(reads []analyze.Column) []analyze.Column {
	return slices.DeleteFunc(slices.Clone(reads), func(c analyze.Column) bool { return catalog.IsSystemSchema(c.Schema) })
}

// text is what is sent to the server.
func (a *admission) text() string {
	if a.written != nil {
		return a.written.SQL
	}
	return a.sql
}

// replacement is what is sent instead of the caller's text, "" if nothing is.
func (a *admission) replacement() string {
	if a.written != nil && a.written.problem == nil && a.written.Changed {
		return a.written.SQL
	}
	return ""
}

// sent are the facts of what is sent to the server.
func (a *admission) sent() *analyze.Facts {
	if a.written != nil {
		return a.written.facts
	}
	return a.judged.facts
}

// moved reports if positions in the server's messages are of another text than the caller's.
func (a *admission) moved() bool { return a.written != nil }

// placed turns the position in a server's message into one of the caller's text.
func (a *admission) placed(e *UpstreamError) *UpstreamError {
	if a.written == nil || e.Position == 0 {
		return e
	}
	moved := *e
	moved.Position = int32(a.written.Position(int(e.Position)))
	return &moved
}

// stale refuses to run a prepared statement that was rewritten for what the identity could see then, when that is not what
// it can see now. Clients prepare a statement again for this error, which PostgreSQL gives for changed results.
func (a *admission) stale() *Refusal {
	if a.sentBefore == nil || *a.sentBefore == a.replacement() {
		return nil
	}
	return outdated()
}

func outdated() *Refusal {
	return &Refusal{Kind: Unsupported, SQLState: "0A000", Message: "cached plan must not change result type",
		Detail: "What you may see of the system catalogs has changed since the statement was prepared.", Hint: "Prepare it again."}
}
