package sqlgov

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"interlock/audit"
	"interlock/redact"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// SessionOptions are what a client asked for at start-up.
type SessionOptions struct {
	Source     string
	Parameters map[string]string // start-up parameters other than user and database
	// Waits is called, if it is not nil, before the goroutine of the client's messages waits for what Next has to see first.
	Waits func()
}

// Session is one client's connection to a source. The messages of the client go in through Query, Parse, Bind and
// their kin, called from one goroutine; what the client is to see comes out of Next, called from another.
//
// A refused message is replaced, in its place, by one that the server is certain to reject, and the server's error is
// replaced by the refusal on the way back. The server thus does everything that an error implies (it fails the
// transaction, skips to the next Sync, reports its real transaction status) and the order of replies is kept without
// a second state machine.
type Session struct {
	core   *Core
	caller Caller
	source string
	wire   Wire
	lease  *leased // see session_lease.go
	waits  func()  // SessionOptions.Waits
	// common is what the admissions of the session have in common; inSegment is acceptsInSegment. Made once, they cost no memory
	// for each statement.
	common    admission
	inSegment func(*analyze.Facts) *Refusal
	// process is the id that the client knows the session by; 0 if it was told none.
	process uint32

	mu       sync.Mutex
	progress *sync.Cond // signalled when a segment ends or the session breaks
	queue    []*op      // messages sent whose replies are not complete, oldest first
	slots    [8]*op     // where a short queue begins
	copies   *op        // the newest message with COPY FROM STDIN in it, nil once it has ended
	sent     uint64     // number of the segment that is being sent; a segment ends with a Sync or is one Query
	ended    uint64     // number of the newest segment whose ReadyForQuery has arrived
	txStatus byte
	skipping bool // the server skips everything up to the next Sync, which has not been sent yet
	// withholding is set when the server does not skip by itself, so that what it should skip must not be sent.
	withholding bool
	timedOut    atomic.Bool // what runs was cancelled because it has run for too long
	discreet    discreet
	broken      error
	names       namespace
	shape       shape

	replying context.Context // of the call of Next
	masked   []byte          // the row that Next has returned last
	tally    tally
	place    place
	writer   writer

	raw    bool // see raw.go
	asking asking
	piped  bool // there are messages since the last Sync or Query; of the goroutine that takes the client's messages
	path   pathState
}

// maxInFlight bounds the messages of a session whose replies are not complete. The server holds back up to 8 KiB of
// replies until a Sync, about 1,600 of the shortest, so a smaller bound could wait for ever.
const maxInFlight = 8192

// op is a message on its way to the server.
type op struct {
	kind    opKind
	segment uint64
	run     *admission // nil for messages that run nothing
	refusal *Refusal   // set when the message was replaced by one that fails
	unnamed bool       // a refused Parse of the unnamed statement
	effects []effect   // what its success changes in the namespace, by statement for Query and Execute

	statement int  // Query: index of the statement whose replies come now
	undone    bool // a statement of it was ROLLBACK, or a COMMIT that came to that
	finished  bool
	returned  bool // the current statement has returned rows
	rows      int64
	bytes     int64
	sqlstate  string

	copy    copying
	taken   *taken        // of the portal or the Query
	formats resultFormats // of the result that comes now
	masks   *redact.Row   // of statement masksOf-1, nil if nothing of it is masked
	masksOf int
	stopped *Refusal // why its rows are withheld from here on
	rest    int      // bytes withheld
	timer   atomic.Pointer[time.Timer]

	// Of a session that shares its connection: the message is ours, and the statement that it prepares or closes.
	silent           bool
	prepares, closes *leasedStatement

	asked  *asked      // of the portal
	ours   string      // replies to messages of ours that come before its own
	drops  uint64      // asking.drops when it was sent
	parts  []queryPart // of a Query that is sent by the extended protocol, or inText
	inText bool
	held   []byte
}

type opKind byte

const (
	opQuery opKind = iota
	opParse
	opBind
	opDescribe
	opExecute
	opClose
	opSync
)

// Output is what a door sends to its client next: exactly one of Frame, Refusal and Error is set.
type Output struct {
	Frame    []byte         // relay as it is: one message, or several rows; valid until the next call of Next
	Refusal  *Refusal       // encode as ErrorResponse
	Error    *UpstreamError // encode as ErrorResponse, or as NoticeResponse if Notice
	Notice   bool
	Fatal    bool // the session ends after this
	Ready    byte // transaction status if Frame is ReadyForQuery, else 0
	Buffered bool // another message can be had without waiting, so there is no need to flush yet
}

// Socket is the network connection to the server, beneath TLS.
func (s *Session) Socket() net.Conn { return s.wire.Socket() }

// Parameters returns the run-time parameters that the server reported at start, in its order.
func (s *Session) Parameters() []Parameter { return s.wire.Parameters() }

// InTransaction reports if the last known transaction status is in a transaction, failed or not.
func (s *Session) InTransaction() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.txStatus != 'I'
}

// Query takes a Query message. All its statements are judged before the first is sent.
func (s *Session) Query(ctx context.Context, sql string, frame []byte) error {
	s.minds(ctx)
	if s.raw {
		return s.rawQuery(ctx, sql, frame)
	}
	a := s.admission(&preparedStatement{sql: sql})
	if r := s.core.admit(ctx, a); r != nil {
		return s.reject(&op{kind: opQuery, refusal: r})
	}
	if s.path.standsAlone(a.judged.facts) {
		return s.sendAlone(ctx, a, frame)
	}
	s.tally.statements.Add(1)
	effects := s.effectsOf(a)
	o := &op{kind: opQuery, run: a, effects: effects, taken: s.takenFrom(a.judged.facts, effects, &taken{}), copy: copying{expected: copiesIn(a.judged.facts)}}
	o.effects = append(o.effects, effect{forget: unnamedObjects, statement: -1})
	switch q := a.recheckFor(true); {
	case s.deallocates(a.judged.facts):
		o.inText, o.ours, o.parts = true, "C", []queryPart{{ours: "C"}}
		return s.send(o, withText(frame, messageHeader, sql, deallocation))
	case q != nil && needsQuery(a.sent()):
		return s.sendInText(o, a, frame)
	case q != nil:
		return s.sendInParts(ctx, o, a)
	}
	return s.send(o, withText(frame, messageHeader, sql, lifted(a.text(), a.sent())))
}

// messageHeader is the length of a message's type and length.
const messageHeader = 5

// Parse is what the core has to know of a Parse message.
type Parse struct {
	Name  string
	SQL   string
	Types []uint32 // declared types of $1, $2, ...; 0 leaves one open
}

// Parse takes a Parse message. The statement is judged now and again each
// time it is executed.
func (s *Session) Parse(ctx context.Context, p Parse, frame []byte) error {
	s.minds(ctx)
	if s.raw {
		return s.rawParse(ctx, p, frame)
	}
	st := &preparedStatement{sql: p.SQL, params: oids(p.Types)}
	if isReserved(p.Name) {
		return s.Reject(ctx, false, reservedName())
	}
	if r := s.duplicate(p.Name); r != nil {
		return s.Reject(ctx, false, r)
	}
	a := s.admission(st)
	a.rehearse, a.accept = true, s.inSegment
	if r := s.core.admit(ctx, a); r != nil {
		return s.reject(&op{kind: opParse, refusal: r, unnamed: p.Name == ""})
	}
	st.judged, st.sent = a.judged, a.replacement()
	frame = withText(frame, messageHeader+len(p.Name)+1, p.SQL, lifted(a.text(), a.sent()))
	frame = s.leases(p, st, frame)
	return s.send(&op{kind: opParse, run: a, effects: []effect{{define: objectKey{'S', p.Name}, statementDef: st}}, prepares: st.leased}, frame)
}

// Bind takes a Bind message.
func (s *Session) Bind(ctx context.Context, portal, statement string, frame []byte) error {
	s.minds(ctx)
	if s.raw {
		return s.rawBind(portal, statement, frame)
	}
	st := s.lookup(objectKey{'S', statement}).statement
	if st == nil {
		return s.Reject(ctx, false, noStatement(statement))
	}
	if r := s.disabled(); r != nil {
		return s.Reject(ctx, false, r)
	}
	portalOf := &struct {
		statement preparedStatement
		taken     taken
		asked     asked
	}{statement: *st}
	bound := &portalOf.statement
	bound.taken, bound.asked = &portalOf.taken, &portalOf.asked
	bound.format = bindFrame(frame).formats()
	bound.bound = s.boundFrame(st, frame)
	if err := s.provide(st); err != nil {
		return err
	}
	frame = st.leased.named(statement, messageHeader+len(portal)+1, frame)
	return s.send(&op{kind: opBind, effects: []effect{{define: objectKey{'P', portal}, portalDef: bound}}}, frame)
}

// Describe takes a Describe message for a statement ('S') or a portal ('P').
func (s *Session) Describe(ctx context.Context, object byte, name string, frame []byte) error {
	s.minds(ctx)
	if s.raw {
		return s.rawDescribe(ctx, object, name, frame)
	}
	found := s.lookup(objectKey{object, name})
	st := found.statement
	if st == nil {
		if object == 'P' {
			return s.Reject(ctx, false, noPortal(name))
		}
		return s.Reject(ctx, false, noStatement(name))
	}
	if st.cursor { // to be told of its columns takes what it takes to fetch from it
		st = &preparedStatement{sql: "fetch from " + quoteName(name), asked: &asked{}}
	}
	a := s.admission(st)
	a.rehearse, a.sentBefore = true, &st.sent
	if !s.stands(a) {
		if r := s.core.admit(ctx, a); r != nil {
			return s.reject(&op{kind: opDescribe, refusal: r})
		}
	}
	if object == 'P' {
		st.asked.described = s.sent
	} else if err := s.provide(st); err != nil {
		return err
	} else {
		frame = st.leased.named(name, messageHeader+1, frame)
	}
	return s.sendAsked(&op{kind: opDescribe, run: a, asked: st.asked}, s.recheckPortal(a, st.asked), frame)
}

// stands reports if what was decided at Parse still holds, and takes that decision over: neither the ruleset nor the
// catalog is another. A description shows names and types only; the key is checked when the statement is executed.
func (s *Session) stands(a *admission) bool {
	a.core, a.id, a.started = s.core, audit.NewID(), time.Now()
	a.rules, a.index = s.core.Rules.Current(), s.core.indexFor(a)
	if a.judged == nil || a.judged.facts.SessionBound || a.judged.index != a.index || !a.rules.Granted(s.caller.Identity, s.source) {
		return false
	}
	if d := a.judged.decide(a); d.Verdict == policy.Allowed {
		a.decision = d
	}
	return a.decision != nil && s.core.rewrite(a) == nil
}

// Execute takes an Execute message. The portal's statement is judged again under the ruleset, the key and the catalog
// of now.
func (s *Session) Execute(ctx context.Context, portal string, _ uint32, frame []byte) error {
	s.minds(ctx)
	if s.raw {
		return s.rawExecute(ctx, portal, frame)
	}
	st := s.lookup(objectKey{'P', portal}).statement
	if st == nil {
		return s.Reject(ctx, false, noPortal(portal))
	}
	if st.cursor {
		return s.Reject(ctx, false, notByProtocol(portal))
	}
	a := s.admission(st)
	a.continues, a.portal, a.sentBefore, a.accept = st.ran, true, &st.sent, s.inSegment
	if r := s.core.admit(ctx, a); r != nil {
		return s.reject(&op{kind: opExecute, refusal: r})
	}
	st.ran = true
	s.tally.statements.Add(1)
	effects := s.effectsOf(a)
	o := &op{kind: opExecute, run: a, effects: effects, taken: s.takenFrom(a.judged.facts, effects, st.taken), asked: st.asked, formats: st.format,
		copy: copying{expected: copiesIn(a.judged.facts)}}
	return s.sendAsked(o, s.recheckPortal(a, st.asked), frame)
}

// CloseObject takes a Close message for a statement ('S') or a portal ('P').
func (s *Session) CloseObject(ctx context.Context, object byte, name string, frame []byte) error {
	s.minds(ctx)
	if r := s.disabled(); r != nil {
		return s.Reject(ctx, false, r)
	}
	if isReserved(name) && !s.raw {
		return s.Reject(ctx, false, reservedName())
	}
	o := &op{kind: opClose, effects: []effect{{forget: objectKey{object, name}}}}
	if object == 'S' {
		o.closes = s.leasedUnder(name)
		frame = o.closes.named(name, messageHeader+1, frame)
	}
	return s.send(o, frame)
}

// disabled is the refusal, with which the session ends, if its source has been disabled.
func (s *Session) disabled() *Refusal {
	rs := s.core.Rules.Current()
	if rs == nil {
		return nil // what runs something is refused for that
	}
	if src := rs.Source(s.source); src == nil || !src.Disabled {
		return nil
	}
	return disabled(s.source)
}

// Sync takes a Sync message, which ends a segment. PostgreSQL ignores one that comes amid the data of a COPY FROM STDIN: it
// is not answered. Whether it does is known here, so that such a message is not sent at all.
func (s *Session) Sync(frame []byte) error {
	if taking, err := s.TakesCopy(); taking || err != nil {
		return err
	}
	return s.send(&op{kind: opSync}, frame)
}

// FlushRequest takes a Flush message, which PostgreSQL ignores amid the data of a COPY as well.
func (s *Session) FlushRequest(frame []byte) error {
	if taking, err := s.TakesCopy(); taking || err != nil || s.unheldFlush() {
		return err
	}
	return s.wire.Send(frame)
}

// Reject answers a message that the door turns down itself, in its place in the order of replies. It is recorded.
// simple says that the message is answered with a ReadyForQuery of its own, as Query and FunctionCall are.
func (s *Session) Reject(ctx context.Context, simple bool, r *Refusal) error {
	s.minds(ctx)
	s.core.RecordRefusal(ctx, s.caller, s.source, r)
	kind := opParse
	if simple {
		kind = opQuery
	}
	return s.reject(&op{kind: kind, refusal: r})
}

func (s *Session) reject(o *op) error {
	s.hold()
	if err := s.enqueue(o); err != nil {
		return err
	}
	switch {
	case s.withheld(o):
		return nil
	case o.kind == opQuery:
		return s.wire.SendRejected(RejectedQuery)
	case o.unnamed:
		return s.wire.SendRejected(RejectedUnnamedParse)
	}
	return s.wire.SendRejected(RejectedOther)
}

func (s *Session) send(o *op, frame []byte) error { return s.sendAsked(o, nil, frame) }

// enqueue notes a message that is about to be sent. One that the server will skip gets no reply, so it is not noted;
// if it would have run a statement, that never ran.
func (s *Session) enqueue(o *op) error {
	_, err := s.TakesCopy() // any other message amid the data of a COPY ends the session, as PostgreSQL does
	if err == nil {
		err = s.makeRoom()
	}
	if err != nil {
		s.finish(context.Background(), o, audit.Canceled)
		return err
	}
	s.piped = o.kind != opQuery && o.kind != opSync
	s.mu.Lock()
	if s.lease != nil {
		s.lease.sending(s, o)
	}
	o.segment = s.sent
	skipped := s.skipping && o.kind != opSync
	if !skipped {
		s.skipping = false
		if len(s.queue) == 0 {
			s.queue = s.slots[:0]
		}
		s.queue = append(s.queue, o)
		s.names.stage(o)
		s.shape.send(o)
		if o.copy.expected > 0 {
			s.copies = o
		}
		s.discreet.note(o)
		if o.parts == nil && slices.ContainsFunc(o.effects, func(e effect) bool { return e.forget == allStatements }) {
			s.dropRecheck()
		}
		if o.kind == opQuery || o.kind == opSync {
			s.sent++
		}
	}
	s.mu.Unlock()
	if skipped {
		s.finish(context.Background(), o, audit.Canceled)
	}
	return nil
}

// withheld reports if a message must not reach the server, which would not skip it.
func (s *Session) withheld(o *op) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.kind == opSync {
		s.withholding = false
	}
	return s.withholding
}

// makeRoom waits while too many messages are in flight. Meanwhile the client has to wait as well.
func (s *Session) makeRoom() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.await(func() bool { return len(s.queue) < maxInFlight })
}

// await waits with the session's lock held until something has happened on the server, which may need what is queued for
// that. It returns why the session is broken, if it is.
func (s *Session) await(happened func() bool) error {
	for !happened() && s.broken == nil {
		s.mu.Unlock()
		err := s.wire.Flush()
		s.mu.Lock()
		if err != nil {
			return err
		}
		if !happened() && s.broken == nil {
			s.wait()
		}
	}
	return s.broken
}

// wait waits for a signal of progress, with the session's lock held before and after. Who serves the session is told before.
func (s *Session) wait() {
	if s.waits != nil {
		s.waits()
	}
	s.progress.Wait()
}

// Push sends what is queued to the server.
func (s *Session) Push() error { return s.wire.Flush() }

// position tells in which segment the next message of the client will be, and if a transaction or a statement before it is
// not at its end.
func (s *Session) position() (segment uint64, busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent, s.txStatus != 'I' || slices.ContainsFunc(s.queue, func(o *op) bool { return o.run != nil && !o.run.rehearse })
}
