package sqlgov

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"interlock/audit"
	"interlock/sqlgov/analyze"
)

// Next returns what the client is to see next. It blocks until the server has sent something. io.EOF means that the
// server has closed the connection and everything before that has been delivered. ctx is what the outcomes of statements are
// recorded with.
func (s *Session) Next(ctx context.Context) (Output, error) {
	s.replying = ctx
	for {
		reply, err := s.wire.Receive()
		if err != nil {
			return Output{}, s.lost(err)
		}
		out, show := s.take(&reply)
		if out.Fatal {
			s.lost(errSessionEnded)
		}
		if show {
			out.Buffered = s.wire.Buffered()
			return out, nil
		}
	}
}

var errSessionEnded = errors.New("the session was ended by the gateway")

// lost marks the session broken and records what was under way as failed.
func (s *Session) lost(err error) error {
	s.mu.Lock()
	open := s.queue
	s.queue = nil
	if s.broken == nil {
		s.broken = err
	}
	s.progress.Broadcast()
	s.mu.Unlock()
	s.core.closeWriter(&s.writer, len(open) > 0)
	for _, o := range open {
		s.finish(s.replying, o, audit.Unknown)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// take accounts for one reply of the server and says what the client sees of it, if anything.
func (s *Session) take(r *Reply) (out Output, show bool) {
	if o := s.front(); o != nil && s.takeOurs(o, r) {
		return Output{}, false
	} else if o != nil && o.stopped != nil && !o.finished {
		if out, show, handled := s.takeStopped(o, r); handled {
			return out, show
		}
	}
	switch r.Kind {
	case ParameterStatus:
		return s.takeParameter(r)
	case NoticeResponse:
		return s.takeNotice(r)
	case Notification:
		return s.takeNotification(r)
	case FunctionResult:
		return s.takeFunctionResult(r)
	case ReadyForQuery:
		return s.takeReady(r)
	case ErrorResponse:
		return s.takeError(s.front().placed(r))
	case DataRow:
		return s.takeRow(r)
	case RowDescription:
		return s.takeFields(r)
	case CopyInResponse:
		return s.takeCopyIn(r), true
	case CopyOutResponse:
		return s.takeCopyOut(r), true
	case CopyData:
		return s.takeCopyData(r)
	case CopyDone:
		return s.takeCopyDone(r)
	case CommandComplete, EmptyQuery, PortalSuspended:
		return s.takeCompletion(r)
	case ParseComplete, BindComplete, CloseComplete, NoData:
		o := s.pop()
		s.succeed(o, -1)
		if o != nil && o.silent {
			return Output{}, false
		}
		return Output{Frame: r.Frame}, true
	case ParamDescription:
		return Output{Frame: r.Frame}, true
	default:
		return s.alarm(fmt.Sprintf("the server sent an unexpected message of type %q", byte(r.Kind))), true
	}
}

// takeRow accounts for a row and masks what has to be masked of it.
func (s *Session) takeRow(r *Reply) (Output, bool) {
	o := s.front()
	if o == nil || o.run == nil {
		return s.alarm("the server sent a row that nobody asked for"), true
	}
	frame, ok := s.mask(o, r.Frame)
	rows := 1
	if ok && o.masks == nil && !o.run.bounded() {
		frame, rows = s.wire.More()
	}
	if !ok || !s.row(o, len(frame), int64(rows)) { // a cap must not tell how long a masked value is
		return Output{}, false
	}
	o.bytes += int64(len(frame))
	o.rows += int64(rows)
	o.returned = true
	return Output{Frame: frame}, true
}

// front returns the message whose replies come now.
func (s *Session) front() *op {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	return s.queue[0]
}

func (s *Session) pop() *op {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil
	}
	o := s.queue[0]
	s.queue = s.queue[1:]
	if len(s.queue) == maxInFlight-1 {
		s.progress.Broadcast()
	}
	return o
}

// succeed applies what the server has confirmed: all effects of a message, or those of one of its statements.
func (s *Session) succeed(o *op, statement int) {
	if o == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range o.effects {
		if e := &o.effects[i]; statement < 0 || e.statement == statement {
			s.names.apply(e)
		}
	}
	if s.lease != nil {
		s.lease.confirmed(o, statement)
	}
}

// takeParameter relays a changed parameter, unless the change gives texts another meaning than they were judged by.
func (s *Session) takeParameter(r *Reply) (Output, bool) {
	switch p := r.Param; {
	case s.raw:
	case p.Name == "client_encoding" && p.Value != "UTF8",
		p.Name == "standard_conforming_strings" && p.Value != "on":
		return s.alarm(fmt.Sprintf("the server changed %s to %q", p.Name, p.Value)), true
	}
	s.reported(r.Param)
	return Output{Frame: s.front().release(r.Frame)}, true
}

func (s *Session) takeNotice(r *Reply) (Output, bool) {
	o := s.front()
	r = o.placed(r)
	if run := s.discretion(o); run != nil {
		return Output{Error: run.reduce(run.placed(r.Error)), Notice: true}, true
	}
	return Output{Frame: r.Frame}, true
}

// takeReady ends a segment.
func (s *Session) takeReady(r *Reply) (Output, bool) {
	s.mu.Lock()
	var few [4]*op // as many as there mostly are
	done := few[:0]
	for len(s.queue) > 0 {
		o := s.queue[0]
		s.queue = s.queue[1:]
		done = append(done, o)
		if o.kind == opSync || o.kind == opQuery {
			s.ended = o.segment
			break
		}
	}
	s.endCopies(done)
	if r.TxStatus == 'I' { // portals and cursors end with their transaction
		s.names.endTransaction()
	}
	s.names.undone = false
	s.names.settle(s.ended)
	s.shape.end(r.TxStatus)
	s.txStatus = r.TxStatus
	if r.TxStatus == 'I' {
		s.discreet = s.discreet.after(s.ended)
	}
	s.timedOut.Store(false)
	ended := s.ended
	s.progress.Broadcast()
	s.mu.Unlock()
	if r.TxStatus == 'I' {
		s.core.endWrite(&s.writer, ended)
	}
	for _, o := range done {
		if o.kind == opQuery && o.refusal == nil && o.sqlstate == "" {
			s.succeed(&op{effects: trailing(o.effects)}, -1)
		}
		if lost := s.finish(s.replying, o, ""); lost != nil {
			return Output{Refusal: lost, Fatal: true}, true
		}
	}
	frame := r.Frame
	if len(done) > 0 {
		frame = done[len(done)-1].release(frame)
	}
	if s.lease != nil {
		frame = s.giveBack(frame)
	}
	return Output{Frame: frame, Ready: r.TxStatus}, true
}

// trailing are the effects of a Query that do not belong to one of its statements.
func trailing(effects []effect) []effect {
	var all []effect
	for _, e := range effects {
		if e.statement < 0 {
			all = append(all, e)
		}
	}
	return all
}

// takeError ends the message in front, and with it everything up to the next Sync. The error of a message that stood
// in for a refused one becomes the refusal; the session of a key that is no longer good ends with it.
func (s *Session) takeError(r *Reply) (Output, bool) {
	skipped := s.skip()
	fatal := r.Error.Severity == "FATAL" || r.Error.Severity == "PANIC"
	if len(skipped) == 0 { // what a Sync ends, or nothing of the client's
		return s.tell(s.deferred(), r, fatal), true
	}
	first := skipped[0]
	if first.asks() && r.Error.SQLState == RecheckFailed {
		return s.takeChanged(skipped), true
	}
	first.sqlstate = r.Error.SQLState
	for _, o := range skipped {
		if lost := s.fail(o, o == first); lost != nil {
			return Output{Refusal: lost, Fatal: true}, true
		}
	}
	if first.refusal != nil && r.Error.SQLState == "42601" {
		return Output{Refusal: first.refusal, Fatal: first.refusal.ends || first.refusal.Kind == Unauthenticated}, true
	}
	if first.sqlstate == "57014" && s.timedOut.Swap(false) {
		return Output{Refusal: first.timeout(), Fatal: fatal}, true
	}
	return s.tell(s.discretion(first), r, fatal), true
}

// tell is an error as the client may see it; run decides that, if it is not nil.
func (s *Session) tell(run *admission, r *Reply, fatal bool) Output {
	if run == nil {
		return Output{Frame: r.Frame, Fatal: fatal}
	}
	return Output{Error: run.reduce(run.placed(r.Error)), Fatal: fatal}
}

// discretion returns the statement that decides what the client may see of an error or notice, nil if it may see all. What
// ends a transaction runs what was deferred in it, whose errors are about the statements before.
func (s *Session) discretion(o *op) *admission {
	if o == nil {
		return nil
	}
	if o.run != nil && (o.run.withholds() || o.run.moved()) {
		return o.run
	}
	if o.kind != opSync && !o.commits() {
		return nil
	}
	return s.deferred()
}

// deferred returns a statement of the transaction about which errors are told without detail, the most discreet and newest; nil if there is none.
func (s *Session) deferred() *admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range []*op{s.discreet.all, s.discreet.newest} {
		if o != nil {
			return o.run
		}
	}
	return nil
}

// discreet are the newest message of a transaction whose errors are told without detail, and the newest of which nothing may be
// told that could hold a value. Nil if there is none.
type discreet struct{ newest, all *op }

// note takes down a message that is sent.
func (d *discreet) note(o *op) {
	if o.run == nil || !o.run.withholds() {
		return
	}
	d.newest = o
	if o.run.decision.WithholdAll {
		d.all = o
	}
}

// after is what is left of it when a transaction has ended with a segment.
func (d discreet) after(ended uint64) discreet {
	if d.newest != nil && d.newest.segment <= ended {
		d.newest = nil
	}
	if d.all != nil && d.all.segment <= ended {
		d.all = nil
	}
	return d
}

// commits reports if a message has a statement that runs what was deferred: one that ends a transaction well, or wants it checked.
func (o *op) commits() bool {
	return o.run != nil && slices.ContainsFunc(o.run.judged.facts.Statements, func(st analyze.Statement) bool { return st.Kind == analyze.Commit || st.Kind == analyze.Constrain })
}

// skip takes from the queue the message that failed and those that the server skips because of it: all up to the next
// Sync, Query messages among them, which then get no ReadyForQuery. A Query that failed itself stays, for its
// ReadyForQuery is still to come.
func (s *Session) skip() []*op {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shape.undone, s.names.undone = true, true
	if len(s.queue) > 0 && s.queue[0].kind == opQuery {
		s.endCopies(s.queue[:1])
		return s.queue[:1:1]
	}
	n := 0
	for n < len(s.queue) && s.queue[n].kind != opSync {
		n++
	}
	skipped := slices.Clone(s.queue[:n])
	s.endCopies(skipped)
	s.skipping = n > 0 && n == len(s.queue)
	s.queue = s.queue[n:]
	s.progress.Broadcast()
	return skipped
}

// fail records a message that failed or was skipped. A statement that never came to run because an earlier message
// failed has an intent on record, so it gets an outcome too.
func (s *Session) fail(o *op, first bool) *Refusal {
	if o.run == nil || o.finished {
		return nil
	}
	if o.run.rehearse {
		if !first {
			return nil
		}
		o.finished = true
		return o.run.failRehearsal(o.sqlstate)
	}
	status := audit.Failed
	switch {
	case !first:
		o.sqlstate = ""
		status = audit.Canceled // an earlier message failed, so the server skipped it
	case o.sqlstate == "57014":
		status = audit.Canceled
	}
	return s.finish(s.replying, o, status)
}

// finish records the outcome of a message once; status "" means what its replies say.
func (s *Session) finish(ctx context.Context, o *op, status audit.Status) *Refusal {
	if o.run == nil || o.finished || o.run.rehearse {
		return nil
	}
	o.finished = true
	o.stopTimer()
	if status == "" {
		status = audit.OK
		if o.sqlstate != "" {
			status = audit.Failed
		}
	}
	return o.run.finish(ctx, ending{status: status, rows: o.rows, bytes: o.bytes + s.copied(o), sqlstate: o.sqlstate})
}

// takeFields holds the server's description of a result against the prediction.
func (s *Session) takeFields(r *Reply) (Output, bool) {
	o := s.front()
	if o == nil || o.run == nil {
		return s.alarm("the server described a result that nobody asked for"), true
	}
	if refusal := o.run.witness(o.statement, r.Fields); refusal != nil {
		return s.alarm(refusal.Detail), true
	}
	if o.run.masks() {
		o.formats = formatsOf(r.Fields)
	}
	if o.kind == opDescribe {
		s.pop()
	}
	return Output{Frame: r.Frame}, true
}

// takeCompletion ends a statement: an Execute as a whole, or one statement of a Query. The outcome of the last
// statement is recorded before the client sees that it is complete.
func (s *Session) takeCompletion(r *Reply) (Output, bool) {
	o := s.front()
	if o == nil || o.run == nil {
		return s.alarm("the server completed a statement that nobody asked for"), true
	}
	if !o.returned {
		o.rows += rowsChanged(r.Tag)
	}
	o.returned, o.copy.giving, o.copy.masks = false, false, nil
	o.undone = o.undone || r.Tag == "ROLLBACK"
	s.succeed(o, o.statement)
	s.completed(o)
	last := true
	if o.kind == opQuery {
		o.statement++
		last = o.statement >= len(o.run.judged.facts.Statements) && !s.raw // how many there are is the server's to say
		if o.parts != nil && last && !o.inText {
			o.hold(r)
			return Output{}, false
		}
		if o.parts != nil && !last {
			o.ours = o.parts[o.statement].ours
		}
	} else {
		s.pop()
	}
	if last {
		if lost := s.finish(s.replying, o, ""); lost != nil {
			return Output{Refusal: lost, Fatal: true}, true
		}
	}
	return Output{Frame: r.Frame}, true
}

// rowsChanged is the count in the tag of a statement that changed rows and returned none: "INSERT 0 5", "UPDATE 3".
func rowsChanged(tag string) int64 {
	verb, count, _ := strings.Cut(tag, " ")
	switch verb {
	case "INSERT":
		_, count, _ = strings.Cut(count, " ")
	case "UPDATE", "DELETE", "MERGE", "COPY":
	default:
		return 0
	}
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// alarm ends the session because the server did what the core did not predict.
func (s *Session) alarm(what string) Output {
	s.core.Log.Error().Str("source", s.source).Str("session", s.caller.Session).Msg("second witness: " + what)
	decision := ""
	if o := s.front(); o != nil && o.run != nil {
		decision = o.run.id
	}
	s.core.witnessAlarm(s.caller, s.source, decision, what)
	r := &Refusal{Kind: Internal, SQLState: "XX000", Detail: what,
		Message: "the server's answer is not what the gateway predicted, so it is withheld",
		Hint:    "The catalog may have changed at this moment: connect again. If it happens again, tell your administrator."}
	s.core.RecordRefusal(context.Background(), s.caller, s.source, r)
	return Output{Refusal: r, Fatal: true}
}
