package sqlgov

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"interlock/audit"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

const (
	// sweepInterval is how often is looked for approvals that have expired, were lost, or that nobody has begun to run.
	sweepInterval = time.Second
	// settleTries is how often a node tries to note how an execution ended. The store waits for its lock each time.
	settleTries = 5
)

// runs are the executions that are under way in this process.
type runs struct {
	mu      sync.Mutex
	under   map[string]chan struct{} // closed at the end, by approval
	ctx     context.Context          // of all executions
	cancel  context.CancelFunc
	stopped bool
	group   sync.WaitGroup
}

// begin notes an execution. It returns false if there is one of that approval already, or none may begin any more.
func (r *runs) begin(id string) (ctx context.Context, ended chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if running := r.under[id]; running != nil || r.stopped {
		return nil, running, false
	}
	if r.ctx == nil {
		r.ctx, r.cancel = context.WithCancel(context.Background())
		r.under = make(map[string]chan struct{})
	}
	ended = make(chan struct{})
	r.under[id] = ended
	r.group.Add(1)
	return r.ctx, ended, true
}

func (r *runs) end(id string) {
	r.mu.Lock()
	close(r.under[id])
	delete(r.under, id)
	r.mu.Unlock()
	r.group.Done()
}

// RunApprovals keeps the approvals of this node going until ctx ends: what has waited too long expires, what a lost node
// has claimed is reported as unknown, and what was approved and not begun is run.
func (c *Core) RunApprovals(ctx context.Context) {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		if err := c.sweepApprovals(ctx); err != nil && ctx.Err() == nil {
			c.Log.Error().Err(err).Msg("approvals")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (c *Core) sweepApprovals(ctx context.Context) error {
	keep := c.Approvals.Keep
	if keep <= 0 {
		keep = defaultKeep
	}
	if err := c.Approvals.Store.SweepApprovals(ctx, time.Now().Add(-keep)); err != nil {
		return err
	}
	approved, err := c.Approvals.Store.FindApprovals(ctx, ApprovalFilter{States: []ApprovalState{ApprovalApproved}, Limit: maxListed})
	for i := range approved {
		if c.settledSource(approved[i].Source) {
			c.begin(approved[i].ID)
		}
	}
	return err
}

// settledSource reports if a source can be used, or is known not to be: after a start, catalogs take a moment.
func (c *Core) settledSource(id string) bool {
	rules := c.Rules.Current()
	if rules == nil {
		return false
	}
	src := rules.Source(id)
	return src == nil || src.Disabled || c.Catalogs.Index(id) != nil
}

// FinishApprovals lets no further execution begin, and waits for those under way. When ctx ends they are cancelled.
func (c *Core) FinishApprovals(ctx context.Context) {
	r := &c.Approvals.runs
	r.mu.Lock()
	r.stopped = true
	cancel := r.cancel
	r.mu.Unlock()
	if cancel == nil {
		return
	}
	stop := context.AfterFunc(ctx, cancel)
	r.group.Wait()
	stop()
	cancel()
}

// startApproved begins to run an approval if it is approved by now, and waits a moment for the end.
func (c *Core) startApproved(ctx context.Context, id string) {
	p, err := c.approval(ctx, id)
	if err != nil || p == nil || p.State != ApprovalApproved {
		return // more people are needed, or another node was quicker; and what is approved is not forgotten
	}
	ended := c.begin(id)
	if ended == nil {
		return
	}
	wait := time.NewTimer(answerWithin)
	defer wait.Stop()
	select {
	case <-ended:
	case <-ctx.Done():
	case <-wait.C:
	}
}

// begin runs an approval in a goroutine of its own, and returns what is closed when that has ended.
func (c *Core) begin(id string) <-chan struct{} {
	ctx, ended, ok := c.Approvals.runs.begin(id)
	if !ok {
		return ended
	}
	go func() {
		defer c.Approvals.runs.end(id)
		if err := c.runApproved(ctx, id); err != nil {
			c.Log.Error().Err(err).Str("approval", id).Msg("running an approved statement")
		}
	}()
	return ended
}

// runApproved claims an approval, runs it, and notes how that ended. Who does not get the claim does nothing.
func (c *Core) runApproved(ctx context.Context, id string) error {
	claim := c.Approvals.Node + "/" + audit.NewID()
	claimed, err := c.Approvals.Store.MoveApproval(ctx, ApprovalMove{ID: id, From: []ApprovalState{ApprovalApproved}, To: ApprovalExecuting,
		Claim: claim, Lease: c.Approvals.lease(), By: c.Approvals.Node})
	if err != nil || !claimed {
		return err
	}
	p, err := c.approval(context.WithoutCancel(ctx), id)
	if err == nil && p == nil {
		err = errors.New("the approval is gone")
	}
	if err != nil {
		return err // nothing was run; it is reported as unknown, for nobody can tell
	}
	renewing, stop := context.WithCancel(context.Background())
	var renewal sync.WaitGroup
	renewal.Go(func() { c.renew(renewing, id, claim) })
	end := c.carryOut(ctx, p)
	stop()
	renewal.Wait()
	end.ID, end.Claim, end.By = id, claim, c.Approvals.Node
	end.From = []ApprovalState{ApprovalExecuting, ApprovalUnknown} // a sweep may have given this node up
	return c.settle(end)
}

func (p *Approvals) lease() time.Time {
	lease := p.Lease
	if lease <= 0 {
		lease = defaultLease
	}
	return time.Now().Add(lease)
}

// renew keeps a claim alive while its statement runs.
func (c *Core) renew(ctx context.Context, id, claim string) {
	tick := time.NewTicker(time.Until(c.Approvals.lease()) / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, err := c.Approvals.Store.MoveApproval(ctx, ApprovalMove{ID: id, From: []ApprovalState{ApprovalExecuting}, To: ApprovalExecuting,
			Claim: claim, Lease: c.Approvals.lease(), By: c.Approvals.Node})
		if err != nil && ctx.Err() == nil {
			c.Log.Error().Err(err).Str("approval", id).Msg("renewing a claim")
		}
	}
}

func (c *Core) settle(end ApprovalMove) (err error) {
	for range settleTries {
		if _, err = c.Approvals.Store.MoveApproval(context.Background(), end); err == nil {
			return nil
		}
	}
	return fmt.Errorf("noting that it is %s: %w", end.To, err)
}

// carryOut takes a claimed statement through every step again, as its requester's, and runs it.
func (c *Core) carryOut(ctx context.Context, p *Approval) ApprovalMove {
	a := &admission{caller: p.Held.Caller, source: p.Source, sql: p.Held.SQL, params: p.Held.Parameters.Types, approved: p}
	a.caller.Session = "approval " + p.ID
	if r := c.admit(ctx, a); r != nil {
		a.wrote(nil)
		return ApprovalMove{To: refusedState(r), Note: "not executed: " + r.Message, Run: r.DecisionID}
	}
	sink := &heldSink{a: a, maxRows: maxRows(p, a)}
	_, err := c.Upstream.Run(ctx, a.src, a.heldRequest(p), Sink{Fields: sink.fields, Done: sink.done})
	e := ending{status: audit.OK, rows: sink.rows}
	end := ApprovalMove{To: ApprovalDone, Rows: sink.rows, Run: a.id}
	if err != nil {
		r := c.failure(ctx, a, err)
		e.status, e.sqlstate, e.rows = statusOf(err, r), r.SQLState, 0
		if r.Kind != UpstreamFailed && r.Kind != Canceled {
			e.refusal = r
		}
		end.To, end.Rows, end.Note = ApprovalFailed, 0, r.Message
		if errors.Is(err, ErrOutcomeUnknown) {
			end.To = ApprovalUnknown
		}
		a.wrote(r)
	} else {
		a.wrote(nil)
	}
	if lost := a.finish(ctx, e); lost != nil {
		end.Note = joinNotes(end.Note, "the outcome could not be written to the audit log")
	}
	return end
}

func joinNotes(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// refusedState is the state of a statement that was approved and then refused: the decision is another one now, or
// something that is needed was missing.
func refusedState(r *Refusal) ApprovalState {
	switch r.Kind {
	case Unauthenticated, Denied, UnknownSource, InvalidInput, Unsupported:
		return ApprovalVoid
	}
	return ApprovalFailed
}

// heldRequest is the request to the server: the text that was approved, with its parameters and the settings of its
// session. A text of several statements goes statement by statement.
func (a *admission) heldRequest(p *Approval) RunRequest {
	req := RunRequest{SQL: a.sql, Parameters: p.Held.Parameters, Pinned: pinned(a.index), Timeout: statementTimeout(a.src)}
	maps.Copy(req.Pinned, p.Held.Settings)
	if a.decision.footing == policy.OnCatalog {
		req.Recheck = a.judged.recheck()
	}
	if must := a.obligations(); must.Timeout > 0 {
		req.Timeout = min(req.Timeout, must.Timeout)
	}
	var parts []string
	for i := range a.judged.facts.Statements {
		if s := &a.judged.facts.Statements[i]; s.Kind != analyze.Empty {
			parts = append(parts, a.sql[s.Start:s.End])
		}
	}
	if len(parts) > 1 {
		req.SQL, req.Then = parts[0], parts[1:]
	}
	return req
}

// maxRows is the strictest bound on the rows that may be changed, by the holds of then and of now; 0 is none.
func maxRows(p *Approval, a *admission) int64 {
	most := int64(0)
	for _, h := range append(a.decision.Obligations.Holds(), p.Held.Holds...) {
		if h.MaxRows > 0 && (most == 0 || int64(h.MaxRows) < most) {
			most = int64(h.MaxRows)
		}
	}
	return most
}

// heldSink holds what comes back from an approved statement against what was predicted. Its rows have nobody to go to.
type heldSink struct {
	a        *admission
	maxRows  int64
	complete int // statements that are complete
	rows     int64
}

func (s *heldSink) fields(fields []Field) error {
	if r := s.a.witness(s.a.nth(s.complete), fields); r != nil {
		s.a.core.witnessAlarm(s.a.caller, s.a.source, s.a.id, r.Detail)
		return errWithheld{r}
	}
	return nil
}

// nth is the index of the n-th statement that is not empty.
func (a *admission) nth(n int) int {
	for i := range a.judged.facts.Statements {
		if a.judged.facts.Statements[i].Kind == analyze.Empty {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return len(a.judged.facts.Statements)
}

func (s *heldSink) done(tag string) error {
	s.complete++
	s.rows += rowsChanged(tag)
	if s.maxRows > 0 && s.rows > s.maxRows {
		return errWithheld{&Refusal{Kind: Denied, SQLState: "42501",
			Message: fmt.Sprintf("the statement changes %d rows, more than the %d that the policy allows, and was rolled back", s.rows, s.maxRows),
			Hint:    "Narrow it down and send it again."}}
	}
	return nil
}
