package sqlgov

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"interlock/audit"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// The messages of ours that come before those of a client are answered before them. What answers them is noted as message
// types in op.ours, and taken away from there as it comes.
const (
	repliesToBind    = "12"  // ParseComplete, BindComplete
	repliesToPrepare = "31"  // CloseComplete, ParseComplete
	repliesToLock    = "13"  // ParseComplete, CloseComplete
	repliesToRecheck = "2C3" // BindComplete, CommandComplete, CloseComplete

	// To statements in the text of a Query: PREPARE and DEALLOCATE; a RowDescription and a CommandComplete.
	repliesToLockText, repliesToRecheckText = "CC", "TC"
)

// asking is what a session knows of the statement by which a Recheck asks.
type asking struct {
	prepared bool   // it is there
	segment  uint64 // in which it was prepared last: there, or the server skips the rest of the segment
	drops    uint64 // how often all prepared statements have been dropped, and one
}

// recheckFor returns what has to be asked before a statement of an admission runs, nil if nothing. described says that
// the server describes its result first.
func (a *admission) recheckFor(described bool) *Recheck {
	switch a.decision.footing {
	case policy.OnRoles:
		return nil
	case policy.OnResult:
		if described {
			return nil
		}
	}
	return a.judged.recheck()
}

// asked is what the server has been asked about a portal. Its plan is made and its tables are locked when it is bound, so one
// answer is enough. What has only been sent counts in its own segment: if the server skips it, it skips the rest too.
type asked struct {
	about     *judged
	segment   uint64
	described uint64                 // the segment in which the server describes the result
	answered  atomic.Pointer[judged] // the facts that the server has confirmed
}

// recheckPortal returns what has to be asked before a portal or statement is described or run. asked is nil for a
// statement.
func (s *Session) recheckPortal(a *admission, asked *asked) *Recheck {
	if asked == nil {
		return a.recheckFor(true)
	}
	if asked.answered.Load() == a.judged || asked.about == a.judged && asked.segment == s.sent {
		return nil
	}
	q := a.recheckFor(asked.described == s.sent)
	if q != nil {
		asked.about, asked.segment = a.judged, s.sent
	}
	return q
}

// prepareRecheck reports if the statement by which a Recheck asks has to be prepared first.
func (s *Session) prepareRecheck(o *op) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.drops == 0 {
		o.drops = s.asking.drops
	}
	if s.asking.prepared || s.asking.segment == s.sent {
		return false
	}
	s.asking.segment = s.sent
	return true
}

// dropRecheck notes that all prepared statements are dropped. Callers hold s.mu.
func (s *Session) dropRecheck() {
	s.asking = asking{drops: s.asking.drops + 1}
}

// ask makes the part that asks, and what answers it.
func (s *Session) ask(o *op, q *Recheck) (p Part, replies string) {
	p.Recheck, p.Prepare = q, s.prepareRecheck(o)
	if p.Prepare {
		replies = repliesToPrepare
	}
	if q.Lock != "" {
		replies += repliesToLock
	}
	return p, replies + repliesToRecheck
}

// sendAsked sends a message, and in front of it a question if there is one.
func (s *Session) sendAsked(o *op, q *Recheck, frame []byte) error {
	s.hold()
	var part Part
	if q != nil {
		part, o.ours = s.ask(o, q)
	}
	if err := s.enqueue(o); err != nil {
		return err
	}
	if s.withheld(o) {
		return nil
	}
	if q != nil {
		if err := s.wire.SendPart(part); err != nil {
			return err
		}
	}
	err := s.wire.Send(frame)
	s.limitTime(o)
	return err
}

// sendInParts sends a Query by the extended protocol, so that its statements can be rechecked when the server has
// resolved their names and before they run. What the client sees is the same: the transaction is (one for all
// statements, as long as they do not end it themselves), and what it is not told in a Query is taken away.
func (s *Session) sendInParts(ctx context.Context, o *op, a *admission) error {
	if r := s.fitsParts(a.judged.facts); r != nil {
		s.core.abandon(ctx, a, r)
		return s.reject(&op{kind: opQuery, refusal: r})
	}
	s.hold()
	parts := s.partsOf(o, a)
	if err := s.enqueue(o); err != nil {
		return err
	}
	if s.withheld(o) {
		return nil
	}
	for _, p := range parts {
		if err := s.wire.SendPart(p); err != nil {
			return err
		}
	}
	s.limitTime(o)
	return nil
}

// needsQuery reports if a text has a statement that means something else in the extended protocol: the data of a COPY is in
// its way, and FETCH has the format that the cursor was declared with in a Query only.
func needsQuery(f *analyze.Facts) bool {
	return slices.ContainsFunc(f.Statements, func(st analyze.Statement) bool {
		return st.Kind == analyze.CopyIn || st.Kind == analyze.CopyOut || st.Kind == analyze.Fetch
	})
}

// sendInText sends a Query with the questions among its statements. They make it one of several statements; COPY and FETCH
// do not tell the difference. Here the tables are locked by name before the server looks at the statement.
func (s *Session) sendInText(o *op, a *admission, frame []byte) error {
	o.inText = true
	q := a.judged.recheck()
	ask, replies := q.text()
	var text strings.Builder
	for i := range a.sent().Statements {
		st := &a.sent().Statements[i]
		p := queryPart{}
		if asksAbout(&a.judged.facts.Statements[i]) {
			text.WriteString(ask)
			p.ours = replies
		}
		p.shift = utf8.RuneCountInString(a.text()[:st.Start]) - utf8.RuneCountInString(text.String())
		text.WriteString(liftedOne(a.text()[st.Start:st.End], st) + ";\n")
		o.parts = append(o.parts, p)
	}
	o.ours = o.parts[0].ours
	return s.send(o, withText(frame, messageHeader, a.sql, text.String()))
}

// fitsParts refuses what would go another way by the extended protocol than in a Query.
func (s *Session) fitsParts(f *analyze.Facts) *Refusal {
	if s.piped {
		return &Refusal{Kind: Unsupported, SQLState: "0A000", Message: "a Query inside an unfinished pipeline is not supported",
			Hint: "Send a Sync before it."}
	}
	for i := range f.Statements {
		if st := &f.Statements[i]; st.Params > 0 && st.Kind != analyze.Prepare {
			return &Refusal{Kind: InvalidInput, SQLState: "42P02", Message: "there is no parameter $" + strconv.Itoa(st.Params)}
		}
	}
	return nil
}

// partsOf cuts a Query into its statements. Each is asked about by itself, for a COMMIT before it gives up all locks.
func (s *Session) partsOf(o *op, a *admission) []Part {
	text, statements := a.text(), a.sent().Statements
	parts := make([]Part, 0, len(statements)+1)
	for i := range statements {
		st := &statements[i]
		p, replies := Part{}, ""
		if asksAbout(&a.judged.facts.Statements[i]) {
			p, replies = s.ask(o, a.judged.recheck())
		}
		p.Bind, p.Execute = text, true
		shift := 0
		if len(statements) > 1 {
			p.Bind, shift = liftedOne(text[st.Start:st.End], st), utf8.RuneCountInString(text[:st.Start])
		}
		parts = append(parts, p)
		o.parts = append(o.parts, queryPart{ours: repliesToBind + replies, shift: shift})
		if dropsAll(st) {
			s.mu.Lock()
			s.dropRecheck()
			s.mu.Unlock()
		}
	}
	o.ours = o.parts[0].ours
	return append(parts, Part{Sync: true})
}

// asksAbout reports if there is something to ask before a statement.
func asksAbout(st *analyze.Statement) bool {
	return len(st.Tables)+len(st.Loose) > 0 && st.Kind != analyze.Prepare
}

func dropsAll(st *analyze.Statement) bool {
	return st.Kind == analyze.Deallocate && st.Name == "" || st.Kind == analyze.Discard
}

// queryPart is a statement of a Query that is sent otherwise than it came.
type queryPart struct {
	ours  string // what answers ours before the statement
	shift int    // characters by which it stands further on in the client's text than in what was sent
}

// takeOurs takes a reply to a message of ours, which the client does not see.
func (s *Session) takeOurs(o *op, r *Reply) bool {
	if o.ours != "" && byte(r.Kind) == o.ours[0] {
		o.ours = o.ours[1:]
		if strings.HasPrefix(o.ours, "3") && r.Kind == CommandComplete {
			s.mu.Lock()
			s.asking.prepared = o.drops == s.asking.drops
			s.mu.Unlock()
			if o.asked != nil {
				o.asked.answered.Store(o.run.judged)
			}
		}
		return true
	}
	return r.Kind == NoData && o.parts != nil && !o.inText // a Query does not say that there is no result
}

// asks reports if the server is at the Recheck: it has been bound and has not been answered.
func (o *op) asks() bool { return strings.HasPrefix(o.ours, "C") || o.ours == repliesToRecheckText }

// takeChanged puts the refusal in the place of the error of a Recheck that failed. skipped are the message that it was
// asked for, and those that the server skips.
func (s *Session) takeChanged(skipped []*op) Output {
	first := skipped[0]
	r := s.core.catalogChanged(context.Background(), first.run)
	lost := s.turnDown(first, r)
	for _, o := range skipped[1:] {
		if l := s.fail(o, false); l != nil {
			lost = l
		}
	}
	if lost != nil {
		return Output{Refusal: lost, Fatal: true}
	}
	return Output{Refusal: r}
}

// turnDown records that a message that had been allowed was refused after all.
func (s *Session) turnDown(o *op, r *Refusal) *Refusal {
	if o.run.rehearse {
		if shown := s.core.refuse(context.Background(), o.run, r); shown.Kind == AuditUnavailable {
			return shown
		}
		return nil
	}
	o.finished, o.sqlstate = true, r.SQLState
	o.stopTimer()
	return o.run.finish(s.replying, ending{status: audit.Refused, rows: o.rows, bytes: o.bytes, sqlstate: r.SQLState, refusal: r})
}

// abandon records that an admitted request is refused after all. It completes the refusal.
func (c *Core) abandon(ctx context.Context, a *admission, r *Refusal) {
	r.DecisionID = a.id
	if lost := a.finish(ctx, ending{status: audit.Refused, sqlstate: r.SQLState, refusal: r}); lost != nil {
		*r = *lost
	}
}

// hold keeps back that the last statement of a Query in parts is complete: in a Query it is not before it is committed.
func (o *op) hold(r *Reply) { o.held = bytes.Clone(r.Frame) }

// release returns what was held back, with a frame behind it.
func (o *op) release(frame []byte) []byte {
	if o == nil || o.held == nil {
		return frame
	}
	held := append(o.held, frame...)
	o.held = nil
	return held
}

// placed returns an error or notice about a statement of a Query in parts with its position in the whole text.
func (o *op) placed(r *Reply) *Reply {
	if o == nil || o.statement >= len(o.parts) || o.parts[o.statement].shift == 0 || r.Error.Position == 0 {
		return r
	}
	moved, shift := *r, o.parts[o.statement].shift
	e := *r.Error
	e.Position += int32(shift)
	moved.Error, moved.Frame = &e, shifted(r.Frame, shift)
	return &moved
}

// shifted rewrites the position in an ErrorResponse or NoticeResponse (PostgreSQL manual, "Error and Notice Message Fields").
func shifted(frame []byte, by int) []byte {
	out := append([]byte{}, frame[:5]...)
	for rest := frame[5:]; len(rest) > 1; {
		end := bytes.IndexByte(rest, 0)
		if end < 0 {
			return frame
		}
		if n, err := strconv.Atoi(string(rest[1:end])); err == nil && rest[0] == 'P' {
			out = append(strconv.AppendInt(append(out, 'P'), int64(n+by), 10), 0)
		} else {
			out = append(out, rest[:end+1]...)
		}
		rest = rest[end+1:]
	}
	out = append(out, 0)
	binary.BigEndian.PutUint32(out[1:], uint32(len(out)-1))
	return out
}
