package sqlgov

import (
	"context"
	"errors"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"interlock/audit"
	"interlock/catalog"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// Where results are kept, every writer is announced to all nodes before it changes anything, until its change has been
// committed or undone. What cannot be announced is refused. Nothing of this is done for data of which no results are kept.

const (
	defaultWriteLease = 30 * time.Second
	// rawLease is the lease of what is run without being understood: it may have lifted its statement timeout.
	rawLease = time.Hour
)

// writer is a session, or a request without one, in so far as it changes data of which results are kept.
type writer struct {
	data string // name of the database that it is connected to
	// position tells in which segment the next message of the session will be, and if a transaction or a statement before
	// that is not at its end. Nil for a request.
	position func() (segment uint64, busy bool)

	announced atomic.Bool // id is set
	mu        sync.Mutex
	rules     *policy.Ruleset // of the last statement
	id        string          // by which it is announced, "" if it is not
	last      uint64          // segment of the newest message that may change something
	closed    bool            // the session is at its end
}

// announcements are the writers of this node.
type announcements struct {
	mu   sync.Mutex
	open map[string]announcement // by id
}

// announcement is a writer. One that has ended stays until the other nodes have been told.
type announcement struct {
	data  string
	lease time.Duration
	ended time.Time // zero while it writes
}

// announce tells all nodes of a statement that may change data of which results are kept.
func (c *Core) announce(ctx context.Context, a *admission) *Refusal {
	if !a.rules.Keeps() || a.rehearse {
		return nil
	}
	w := a.writer
	if w == nil {
		w = &writer{data: a.src.Upstream.Data()}
	}
	sources := a.rules.Kept(w.data)
	if sources == nil || !w.writes(a) {
		return nil
	}
	a.writer = w
	lease := c.leaseOf(sources) + time.Duration(max(1, len(a.judged.facts.Statements))-1)*statementTimeout(a.src)
	if a.raw {
		lease = max(lease, rawLease)
	}
	if err := c.beginWrite(ctx, w, lease); err != nil {
		return &Refusal{Kind: CacheUnavailable, SQLState: "58030", Err: err,
			Message: "the nodes that keep results of this source cannot be told that it changes, so nothing was run",
			Hint:    "Try again later, or tell your administrator."}
	}
	return nil
}

// leaseOf is how long a writer on some data counts when nothing is heard of it: until its statement must have ended.
func (c *Core) leaseOf(sources []*policy.SourceSpec) time.Duration {
	longest := time.Duration(0)
	for _, src := range sources {
		longest = max(longest, statementTimeout(src))
	}
	if c.WriteLease > 0 {
		return longest + c.WriteLease
	}
	return longest + defaultWriteLease
}

// writes reports if a statement makes its session or request a writer, and notes it. What a session has done under
// another ruleset was perhaps not looked at, so it counts. The commit of a writer is announced once more, for the lease
// may have ended unnoticed.
func (w *writer) writes(a *admission) bool {
	may := a.mayWrite(w.position != nil)
	segment, busy := uint64(0), false
	if w.position != nil {
		segment, busy = w.position()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	may = may || busy && w.rules != a.rules || w.id != "" && commits(a.judged.facts)
	w.rules = a.rules
	if may {
		w.last = segment
	}
	return may
}

func commits(f *analyze.Facts) bool {
	for i := range f.Statements {
		if f.Statements[i].Kind == analyze.Commit {
			return true
		}
	}
	return false
}

// mayWrite reports if it is not known that a statement changes no data. Functions of the system schemas change none in any
// table. Without a session, a statement that is taken for a read runs where the server refuses every change.
func (a *admission) mayWrite(session bool) bool {
	if a.raw || a.approved != nil || a.judged.names.changes {
		return true
	}
	if !session && a.obligations().ReadOnly {
		return false
	}
	for i := range a.judged.facts.Statements {
		s := &a.judged.facts.Statements[i]
		if callsOutside(s) || session && callsUnseen(s, a.index) {
			return true
		}
	}
	return false
}

// callsUnseen reports if a statement may call functions that the analysis does not show: those of views and of row
// security policies.
func callsUnseen(s *analyze.Statement, x *catalog.Index) bool {
	for i := range s.Reads {
		rel := x.Relation(s.Reads[i].Relation)
		if rel == nil || rel.RowSecurity || rel.Kind == catalog.View && !catalog.IsSystemSchema(rel.Schema) {
			return hasFunctions(x.Snapshot)
		}
	}
	return false
}

// hasFunctions reports if a database has functions of its own.
func hasFunctions(s *catalog.Snapshot) bool {
	for i := range s.Functions {
		if !catalog.IsSystemSchema(s.Functions[i].Schema) {
			return true
		}
	}
	return false
}

// beginWrite announces a writer. If that fails, it is not known if the others have heard of it.
func (c *Core) beginWrite(ctx context.Context, w *writer, lease time.Duration) error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return errSessionEnded
	}
	fresh := w.id == ""
	if fresh {
		w.id = audit.NewID()
		w.announced.Store(true)
	}
	id := w.id
	w.mu.Unlock()
	c.writing.note(id, announcement{data: w.data, lease: lease})
	err := c.generations().Begin(context.WithoutCancel(ctx), w.data, id, lease)
	if err != nil && fresh {
		c.endWrite(w, everything)
	}
	return err
}

// everything is a segment that no message is behind.
const everything = math.MaxUint64

// endWrite takes back the announcement of a writer that has nothing under way behind a segment. It has no effect on one
// that is not announced.
func (c *Core) endWrite(w *writer, segment uint64) {
	if id := w.take(segment); id != "" {
		c.retract(id)
	}
}

// abandonWrite leaves the announcement of a writer to its lease: what it has sent may still be at work on the server.
func (c *Core) abandonWrite(w *writer) {
	if id := w.take(everything); id != "" {
		c.writing.forget(id)
	}
}

// closeWriter is for the end of a session, with something under way or not. A transaction that was open is undone.
func (c *Core) closeWriter(w *writer, underWay bool) {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	if underWay {
		c.abandonWrite(w)
	} else {
		c.endWrite(w, everything)
	}
}

func (w *writer) take(segment uint64) (id string) {
	if !w.announced.Load() {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last > segment {
		return ""
	}
	id, w.id = w.id, ""
	w.announced.Store(false)
	return id
}

// retract tells all nodes that a writer has ended. If they cannot be told, it counts on until they can.
func (c *Core) retract(id string) {
	said, known := c.writing.end(id)
	if !known {
		return
	}
	if err := c.generations().End(context.Background(), said.data, id, said.lease); err != nil {
		c.Log.Warn().Err(err).Msg("the end of a write cannot be told to the nodes that keep results; reads are not served from the cache until it can")
		return
	}
	c.writing.forget(id)
}

// wrote ends the announcement of a request.
func (a *admission) wrote(r *Refusal) {
	switch {
	case a.writer == nil:
	case r != nil && errors.Is(r, ErrOutcomeUnknown):
		a.core.abandonWrite(a.writer)
	default:
		a.core.endWrite(a.writer, everything)
	}
}

func (n *announcements) note(id string, said announcement) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open == nil {
		n.open = make(map[string]announcement)
	}
	said.lease = max(said.lease, n.open[id].lease)
	n.open[id] = said
}

func (n *announcements) end(id string) (said announcement, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if said, known = n.open[id]; known && said.ended.IsZero() {
		said.ended = time.Now()
		n.open[id] = said
	}
	return said, known
}

func (n *announcements) forget(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, id)
}

func (n *announcements) writes(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	said, known := n.open[id]
	return known && said.ended.IsZero()
}

func (n *announcements) all() map[string]announcement {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.open)
}

// KeepWriters makes the leases of this node's writers longer, and tells of those that have ended what could not be told
// before, until ctx ends.
func (c *Core) KeepWriters(ctx context.Context) {
	lease := c.WriteLease
	if lease <= 0 {
		lease = defaultWriteLease
	}
	tick := time.NewTicker(lease / 3)
	defer tick.Stop()
	c.lookAfter()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		c.lookAfter()
		for id, said := range c.writing.all() {
			c.keepWriter(ctx, id, said)
		}
	}
}

func (c *Core) keepWriter(ctx context.Context, id string, said announcement) {
	switch {
	case said.ended.IsZero():
		err := c.generations().Begin(ctx, said.data, id, said.lease)
		if err == nil && !c.writing.writes(id) { // it has ended meanwhile
			_ = c.generations().End(ctx, said.data, id, said.lease) // else its lease ends
		}
	case time.Since(said.ended) > said.lease:
		c.writing.forget(id)
	default:
		c.retract(id)
	}
}

func (c *Core) generations() Generations {
	if c.Generations != nil {
		return c.Generations
	}
	return &c.ownGenerations
}
