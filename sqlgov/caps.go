package sqlgov

import (
	"context"
	"fmt"
	"time"

	"interlock/audit"
)

// taken counts what has been handed out of one portal, over all its Executes, or of one Query.
type taken struct{ rows, bytes int64 }

// swallowed is how many bytes of rows over a cap are thrown away before the server is asked to stop. A small rest is
// done before it could hear of that.
const swallowed = 64 << 10

// row counts a piece of a result, which holds so many rows, and reports if the client may have it. At the first row over a
// cap of a policy the statement is stopped: the protocol knows no result that is cut, so it ends in an error.
func (s *Session) row(o *op, size int, rows int64) bool {
	if o.run == nil {
		return true
	}
	o.taken.bytes += int64(size)
	o.taken.rows += rows
	if o.stopped = overCap(o); o.stopped == nil {
		o.stopped = o.overBudget(size, rows)
	}
	return o.stopped == nil
}

// bounded reports if a result is counted row by row, so that it can be stopped at any of them.
func (a *admission) bounded() bool {
	must := a.obligations()
	return must.MaxRows > 0 || must.MaxBytes > 0 || a.spends != nil
}

// swallow throws away a piece of a result that is over a cap.
func (s *Session) swallow(o *op, size int) {
	if o.rest += size; o.rest > swallowed {
		o.rest = -1 << 40 // once is enough
		s.Cancel(context.Background())
	}
}

// mayBuild refuses a statement that tells the server to make a value which is larger by itself than the result may be. The
// server would need the memory for it before the first byte of a result could be counted.
func (a *admission) mayBuild() *Refusal {
	most := a.obligations().MaxBytes
	if most <= 0 {
		return nil
	}
	for i := range a.judged.facts.Statements {
		if n := a.judged.facts.Statements[i].Built; n > most {
			return &Refusal{Kind: ResponseTooLarge, SQLState: "54000",
				Message: fmt.Sprintf("the statement makes a value of %d bytes or more; at most %d are allowed", n, most),
				Hint:    "Make shorter values. The bound is set by " + a.cappedBy() + "."}
		}
	}
	return nil
}

func overCap(o *op) *Refusal {
	must := o.run.obligations()
	message := ""
	switch {
	case must.MaxRows > 0 && o.taken.rows > int64(must.MaxRows):
		message = fmt.Sprintf("the result has more than %d rows and was stopped", must.MaxRows)
	case must.MaxBytes > 0 && o.taken.bytes > must.MaxBytes:
		message = fmt.Sprintf("the result is larger than %d bytes and was stopped", must.MaxBytes)
	default:
		return nil
	}
	return &Refusal{Kind: ResponseTooLarge, SQLState: "54000", Message: message, DecisionID: o.run.id,
		Hint: "Add a LIMIT, aggregate, or select fewer columns. The bound is set by " + o.run.cappedBy() + "."}
}

func (o *op) overBudget(size int, rows int64) *Refusal {
	r := o.run.spends.spend(context.Background(), rows, int64(size))
	if r != nil {
		r.DecisionID = o.run.id
	}
	return r
}

// takeStopped takes a reply to a statement that is over a cap. handled is false for what is not about the statement.
func (s *Session) takeStopped(o *op, r *Reply) (out Output, show, handled bool) {
	switch r.Kind {
	case ParameterStatus, ReadyForQuery, Notification:
		return Output{}, false, false
	case CommandComplete, PortalSuspended, EmptyQuery:
		return s.stoppedLate(o), true, true
	case ErrorResponse:
		return s.stoppedInTime(o, r), true, true
	case DataRow, CopyData:
		s.swallow(o, len(r.Frame))
	}
	return Output{}, false, true
}

// stoppedInTime puts the refusal in the place of the error with which the server stopped the statement.
func (s *Session) stoppedInTime(o *op, r *Reply) Output {
	for _, skipped := range s.skip() {
		if skipped == o {
			continue
		}
		if lost := s.fail(skipped, false); lost != nil {
			return Output{Refusal: lost, Fatal: true}
		}
	}
	if lost := s.recordStopped(o); lost != nil {
		return Output{Refusal: lost, Fatal: true}
	}
	return Output{Refusal: o.stopped, Fatal: r.Error.Severity == "FATAL"}
}

// stoppedLate is for a statement that the server had completed before it heard that it should stop. If nothing was
// changed and nothing comes after it that an error must keep from running, the client gets the error now and the server
// goes on; else only the end of the session keeps them of one mind.
func (s *Session) stoppedLate(o *op) Output {
	alone := !o.run.judged.names.changes && o.statement+1 >= len(o.run.judged.facts.Statements)
	if o.kind == opExecute {
		s.pop()
		alone = s.skipRest() && alone
	}
	if lost := s.recordStopped(o); lost != nil {
		return Output{Refusal: lost, Fatal: true}
	}
	o.sqlstate = o.stopped.SQLState
	return Output{Refusal: o.stopped, Fatal: !alone}
}

// skipRest makes what comes up to the next Sync be skipped, as the server would after an error. It reports false if the
// server has some of it already.
func (s *Session) skipRest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 {
		return s.queue[0].kind == opSync
	}
	s.skipping, s.withholding = true, true
	return true
}

func (s *Session) recordStopped(o *op) *Refusal {
	if o.finished {
		return nil
	}
	o.finished = true
	o.stopTimer()
	return o.run.finish(s.replying, ending{status: audit.Refused, rows: o.rows, bytes: o.bytes, sqlstate: o.stopped.SQLState, refusal: o.stopped})
}

// limitTime cancels a statement that runs longer than its policies let it. While another that was sent before it runs,
// its own time has not begun. The server keeps small replies back, so it may be the one after it that is cancelled: then
// the pipeline as a whole has taken too long.
func (s *Session) limitTime(o *op) {
	if o.run == nil || o.run.rehearse || o.run.obligations().Timeout <= 0 {
		return
	}
	limit := o.run.obligations().Timeout
	o.timer.Store(time.AfterFunc(never, func() {
		switch first, queued := s.turn(o); {
		case first:
			s.timedOut.Store(true)
			s.Cancel(context.Background())
			o.timer.Load().Reset(cancelAgain) // the server ignores a request that comes before it has read the statement
		case queued:
			o.timer.Load().Reset(limit)
		}
	}))
	o.timer.Load().Reset(limit)
}

const (
	never = 1<<63 - 1
	// cancelAgain is the time between cancel requests for the same statement.
	cancelAgain = 200 * time.Millisecond
)

// turn reports if a statement is under way, and if it is the first of those.
func (s *Session) turn(o *op) (first, queued bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = true
	for _, waiting := range s.queue {
		if waiting == o {
			return first, true
		}
		if waiting.run != nil && !waiting.run.rehearse {
			first = false
		}
	}
	return false, false
}

func (o *op) stopTimer() {
	if t := o.timer.Load(); t != nil {
		t.Stop()
	}
}

// timeout is what the client is told in the place of the server's word that the statement was cancelled.
func (o *op) timeout() *Refusal {
	r := &Refusal{Kind: Canceled, SQLState: "57014", Message: "canceling statement due to statement timeout"}
	if o.run != nil {
		r.DecisionID, r.Hint = o.run.id, "How long it may run is set by "+o.run.cappedBy()+"."
	}
	return r
}
