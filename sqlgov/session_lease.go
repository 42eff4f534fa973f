package sqlgov

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// In transaction mode a session has a connection from the first message after a transaction's end to the ReadyForQuery that ends the
// next one. What a statement leaves behind decides what becomes of the connection then. Settings are asked of the server and set again
// on the next connection. Prepared statements of the protocol are prepared again where they are missing, under names of ours. What
// cannot be carried over keeps the connection with the session for good, and no other session gets it.

// leased is what a session knows of a connection that it shares with others. Nil if the connection is its own. Under the session's lock,
// but for ctx, which is of the goroutine that takes the client's messages.
type leased struct {
	wire    Lease
	ctx     context.Context // of the message that is under way
	held    bool            // there is a connection, or the lease answers itself
	open    bool            // messages may follow before a Sync
	leaving bool            // the connection is being given back
	kept    bool            // it stays with the session
	left    Left
	unnamed string // id of the unnamed statement that the connection has
}

// leasedStatement is a prepared statement of the protocol whose session may find itself on another connection.
type leasedStatement struct {
	id      string // its name on every connection
	unnamed bool   // it has no name there, and id only tells it from others
	segment uint64 // in which it was prepared last: there, or the server skips the rest of the segment
}

// leasedName begins the names that prepared statements have on a connection that sessions share.
const leasedName = "interlock statement "

// shares notes if the session's connection is shared.
func (s *Session) shares() {
	if lease, ok := s.wire.(Lease); ok {
		s.lease = &leased{wire: lease, ctx: context.Background()}
	}
}

// minds notes the context of the message that comes now, in which a connection may have to be waited for.
func (s *Session) minds(ctx context.Context) {
	if s.lease != nil {
		s.lease.ctx = ctx
	}
}

// hold sees to it that there is a connection for what is sent next.
func (s *Session) hold() {
	l := s.lease
	if l == nil {
		return
	}
	s.mu.Lock()
	for l.leaving && s.broken == nil {
		s.wait()
	}
	held := l.held
	l.open, l.held = true, true
	s.mu.Unlock()
	if held {
		return
	}
	err := l.wire.Hold(l.ctx)
	if err != nil {
		l.wire.Answer(s.unheld(err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropRecheck()
	s.asking.prepared = err == nil && l.wire.Statements().Asks()
	l.unnamed = ""
}

// unheld is what the client hears when there is no connection for its message.
func (s *Session) unheld(err error) *UpstreamError {
	if errors.Is(err, context.Canceled) {
		return &UpstreamError{Severity: "ERROR", SQLState: "57014", Message: "canceling statement due to user request"}
	}
	r := s.core.unreachable(s.source, err)
	return &UpstreamError{Severity: "ERROR", SQLState: r.SQLState, Message: r.Message, Hint: r.Hint}
}

// sending notes a message that is about to be sent. With the session's lock held.
func (l *leased) sending(s *Session, o *op) {
	if o.kind == opQuery || o.kind == opSync {
		l.open = false
	}
	if o.run == nil || o.run.rehearse {
		return
	}
	left, keeps := leaves(o.run)
	l.left |= left
	if keeps != "" && !l.kept {
		l.kept = true
		s.core.Log.Info().Str("source", s.source).Str("session", s.caller.Session).Str("because", keeps).Msg("session keeps its connection")
	}
}

// giveBack gives the connection back when a segment has ended and nothing holds on to it. What the client is to see next was read from
// the connection, so it is copied before that.
func (s *Session) giveBack(frame []byte) []byte {
	l := s.lease
	s.mu.Lock()
	if s.txStatus != 'I' || s.broken != nil || !l.held || l.open || l.kept || len(s.queue) > 0 {
		s.mu.Unlock()
		return frame
	}
	l.leaving = true
	left := l.left
	l.left = 0
	l.wire.Statements().SetAsks(s.asking.prepared)
	s.mu.Unlock()
	frame = bytes.Clone(frame)
	l.wire.Return(left)
	s.mu.Lock()
	l.leaving, l.held = false, false
	s.progress.Broadcast()
	s.mu.Unlock()
	return frame
}

// unheldFlush reports if a Flush message would find nothing to flush, and no connection.
func (s *Session) unheldFlush() bool {
	if s.lease == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.lease.open && len(s.queue) == 0
}

// leases gives a statement that is prepared the name that it has on every connection, and returns the message with it.
func (s *Session) leases(p Parse, st *preparedStatement, frame []byte) []byte {
	if s.lease == nil {
		return frame
	}
	st.leased = &leasedStatement{id: leasedName + strconv.FormatUint(s.core.leasedNames.Add(1), 10), unnamed: p.Name == "", segment: s.sent}
	return st.leased.named(p.Name, messageHeader, frame)
}

// named is a message with the name that a statement has on the connection in the place of the client's. Nil is a statement that has
// the client's own name there.
func (n *leasedStatement) named(name string, offset int, frame []byte) []byte {
	if n == nil || n.unnamed {
		return frame
	}
	return withText(frame, offset, name, n.id)
}

// duplicate refuses to prepare a statement under a name that is taken, which the server could not tell.
func (s *Session) duplicate(name string) *Refusal {
	if s.lease == nil || name == "" || s.lookup(objectKey{'S', name}).statement == nil {
		return nil
	}
	return &Refusal{Kind: InvalidInput, SQLState: "42P05", Message: fmt.Sprintf("prepared statement %q already exists", name)}
}

// provide prepares a statement on the connection that is held, if it is not there.
func (s *Session) provide(st *preparedStatement) error {
	n := st.leased
	if s.lease == nil || n == nil {
		return nil
	}
	s.hold()
	s.mu.Lock()
	there := n.segment == s.sent || s.lease.has(n)
	n.segment = s.sent
	s.mu.Unlock()
	if there {
		return nil
	}
	o := &op{kind: opParse, silent: true, ours: "3", prepares: n}
	if err := s.enqueue(o); err != nil || s.withheld(o) {
		return err
	}
	named := &NamedStatement{SQL: st.text(true), Types: st.params}
	if !n.unnamed {
		named.Name = n.id
	}
	return s.wire.SendPart(Part{Statement: named})
}

func (l *leased) has(n *leasedStatement) bool {
	if n.unnamed {
		return l.unnamed == n.id
	}
	return l.wire.Statements().Has(n.id)
}

// confirmed notes what the success of a message, or of one of its statements, has done to the prepared statements of the connection.
// With the session's lock held.
func (l *leased) confirmed(o *op, statement int) {
	switch {
	case o.prepares == nil:
	case o.prepares.unnamed:
		l.unnamed = o.prepares.id
	default:
		l.wire.Statements().Add(o.prepares.id)
	}
	if o.closes != nil && o.closes.unnamed {
		l.unnamed = ""
	} else if o.closes != nil {
		l.wire.Statements().Forget(o.closes.id)
	}
	for i := range o.effects {
		if e := &o.effects[i]; e.forget == allStatements && (statement < 0 || e.statement == statement) {
			l.wire.Statements().Clear()
		}
	}
}

// acceptsNames refuses statements that name a prepared statement of the protocol, whose name on the server is another. DEALLOCATE in
// a Query of its own is what there is to be had.
func (s *Session) acceptsNames(f *analyze.Facts, inSegment bool) *Refusal {
	if s.lease == nil {
		return nil
	}
	for i := range f.Statements {
		st := &f.Statements[i]
		switch st.Kind {
		case analyze.Prepare:
			if s.leasedUnder(st.Name) != nil {
				return s.duplicate(st.Name)
			}
		case analyze.Execute, analyze.Deallocate:
			if s.leasedUnder(st.Name) != nil && (st.Kind == analyze.Execute || inSegment || len(f.Statements) > 1) {
				return &Refusal{Kind: Unsupported, SQLState: "0A000",
					Message: fmt.Sprintf("prepared statement %q was made by the protocol, and this source shares its connections (pool_mode: transaction)", st.Name),
					Hint:    "Use it by Bind, Execute and Close messages, send DEALLOCATE as a simple query of its own, or make it by PREPARE."}
			}
		}
	}
	return nil
}

// leasedUnder returns the statement of the protocol that has a name, nil if there is none.
func (s *Session) leasedUnder(name string) *leasedStatement {
	if name == "" {
		return nil
	}
	if st := s.lookup(objectKey{'S', name}).statement; st != nil {
		return st.leased
	}
	return nil
}

// deallocates reports if a text is DEALLOCATE of a statement of the protocol. It is sent as the same of one that the connection is
// certain to have; the session forgets the one that was meant.
func (s *Session) deallocates(f *analyze.Facts) bool {
	return s.lease != nil && len(f.Statements) == 1 && f.Statements[0].Kind == analyze.Deallocate && s.leasedUnder(f.Statements[0].Name) != nil
}

// deallocation is what is sent for DEALLOCATE of a statement of the protocol. The first statement is ours.
const deallocation = `prepare "` + leasedName + `none" as select; deallocate "` + leasedName + `none"`

// leaves tells what the statements of an admission may leave behind: what can be kept or taken away, and, in a word, what keeps the
// connection with the session. What is not known keeps it.
func leaves(a *admission) (left Left, keeps string) {
	for i := range a.judged.facts.Statements {
		l, k := leftBy(&a.judged.facts.Statements[i], a.index)
		left |= l
		if k != "" {
			keeps = k
		}
	}
	return left, keeps
}

func leftBy(st *analyze.Statement, x *catalog.Index) (left Left, keeps string) {
	switch st.Kind {
	case analyze.Select, analyze.Insert, analyze.Update, analyze.Delete, analyze.Truncate, analyze.Merge, analyze.Explain, analyze.CopyOut, analyze.CopyIn,
		analyze.Begin, analyze.Commit, analyze.Rollback, analyze.Savepoint, analyze.Release, analyze.Show, analyze.Execute, analyze.Deallocate,
		analyze.Fetch, analyze.Move, analyze.Close, analyze.Lock, analyze.Unlisten, analyze.Constrain, analyze.Notify, analyze.Empty:
	case analyze.Set, analyze.Discard:
		left |= LeftSettings
	case analyze.Declare:
		if st.Held {
			keeps = "cursor with hold"
		}
	default: // LISTEN, PREPARE
		keeps = string(st.Kind)
	}
	if len(st.Writes) > 0 || readsMore(st, x) {
		left |= LeftTraces
	}
	for _, f := range st.Functions {
		l, k := leftByCall(f)
		left |= l
		if k != "" {
			keeps = k
		}
	}
	return left, keeps
}

// readsMore reports if a statement reads a relation that may call functions by itself. Those of PostgreSQL's own views leave nothing.
func readsMore(st *analyze.Statement, x *catalog.Index) bool {
	for i := range st.Reads {
		if rel := x.Relation(st.Reads[i].Relation); (rel == nil || !isPlain(rel)) && !catalog.IsSystemSchema(st.Reads[i].Schema) {
			return true
		}
	}
	return false
}

// isPlain reports if reading a relation calls no functions that the statement does not name.
func isPlain(rel *catalog.Relation) bool {
	return !rel.RowSecurity && (rel.Kind == catalog.Table || rel.Kind == catalog.PartitionedTable || rel.Kind == catalog.MaterializedView)
}

func leftByCall(f *catalog.Function) (left Left, keeps string) {
	if !catalog.IsSystemSchema(f.Schema) {
		return 0, "function " + f.Schema + "." + f.Name
	}
	switch policy.Builtin(f) {
	case policy.BuiltinPure, policy.BuiltinVolatile, policy.BuiltinSession, policy.BuiltinCatalog, policy.BuiltinSetting, policy.BuiltinServer,
		policy.BuiltinTransaction, policy.BuiltinSleep, policy.BuiltinNotify, policy.BuiltinLargeRead, policy.BuiltinLargeWrite, policy.BuiltinLargeOpen:
		return 0, ""
	case policy.BuiltinSequence:
		return LeftTraces, ""
	case policy.BuiltinLock:
		if strings.Contains(f.Name, "_xact_") || strings.Contains(f.Name, "unlock") {
			return 0, ""
		}
		return 0, "advisory lock"
	}
	return 0, "function " + f.Name
}
