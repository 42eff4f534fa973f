package sqlgov

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// holdable says why a statement that is held cannot wait for people, or returns nil. Only what changes something can:
// the rows of a read would have nobody to go to. And what runs later runs alone, in a transaction of its own.
func (a *admission) holdable() *Refusal {
	changes := a.judged.names.changes
	for i := range a.judged.facts.Statements {
		s := &a.judged.facts.Statements[i]
		changes = changes || policy.RiskOf(s) != policy.RiskNone
		switch s.Kind {
		case analyze.Select, analyze.Insert, analyze.Update, analyze.Delete, analyze.Truncate, analyze.Merge, analyze.Explain, analyze.Empty:
		default:
			return a.notHoldable(fmt.Sprintf("%s cannot wait for an approval", s.Kind),
				"Send the statement that changes something in a message of its own.")
		}
	}
	switch {
	case a.judged.facts.SessionBound:
		return a.notHoldable("a statement that depends on the session cannot wait for an approval", "Send the statement itself.")
	case !changes:
		return a.notHoldable("a statement that only reads cannot wait for an approval", "Ask your administrator.")
	case a.continues:
		return a.notHoldable("a statement that has begun to run cannot wait for an approval", "Send it again.")
	}
	return nil
}

func (a *admission) notHoldable(message, hint string) *Refusal {
	return &Refusal{Kind: Denied, SQLState: "42501", Message: message, Detail: a.decision.Detail, Hint: hint}
}

// hold puts a statement that a policy holds into the queue and refuses it with its approval's id. A statement that is
// run because people have approved it passes if it still means the same and those people may still approve it.
func (c *Core) hold(ctx context.Context, a *admission) *Refusal {
	switch {
	case a.approved != nil:
		return a.stillApproved()
	case a.decision.Verdict != policy.Held || a.rehearse:
		return nil
	case c.Approvals == nil:
		return a.notHoldable(a.decision.Message, "Approvals cannot be given through this gateway: ask your administrator to run the statement.")
	}
	held, r := a.heldStatement()
	if r != nil {
		return r
	}
	if size, err := json.Marshal(held); err != nil || len(size) > c.Approvals.maxBytes() {
		return &Refusal{Kind: RequestTooLarge, SQLState: "54000", Err: err,
			Message: fmt.Sprintf("the statement and its parameters are larger than the %d bytes that can wait for an approval", c.Approvals.maxBytes()),
			Hint:    "Send it in smaller parts."}
	}
	now := time.Now().UTC()
	approval := &Approval{ID: a.id, State: ApprovalPending, Requester: a.caller.Identity, Source: a.source, Held: *held,
		Created: now, Expires: now.Add(expiry(held.Holds)), Changed: now}
	perIdentity, inAll := c.Approvals.bounds()
	switch err := c.Approvals.Store.QueueApproval(context.WithoutCancel(ctx), approval, perIdentity, inAll); {
	case errors.Is(err, ErrTooManyApprovals):
		return &Refusal{Kind: RateLimited, SQLState: "53400", Message: "too many statements wait for an approval already",
			Hint: "Wait until some of them have been decided: interlock approval list.", Err: err}
	case err != nil:
		return &Refusal{Kind: Internal, SQLState: "58000", Message: "the statement needs an approval and could not be queued, so it was not executed", Err: err}
	}
	return a.queued(approval)
}

// queued is what the requester is told.
func (a *admission) queued(p *Approval) *Refusal {
	return &Refusal{Kind: HeldForApproval, SQLState: "42501", Approval: p.ID,
		Message: a.decision.Message,
		Detail:  fmt.Sprintf("Approval %s waits until %s. %s", p.ID, p.Expires.Format("15:04:05 MST"), a.decision.Detail),
		Hint:    fmt.Sprintf("Ask how it stands with: interlock approval show %s. Do not send the statement again: each time would be one more request.", p.ID)}
}

// withdraw takes a held statement back whose requester cannot be told of it.
func (c *Core) withdraw(ctx context.Context, r *Refusal) {
	if r.Approval == "" {
		return
	}
	_, err := c.Approvals.Store.MoveApproval(context.WithoutCancel(ctx), ApprovalMove{ID: r.Approval, From: []ApprovalState{ApprovalPending},
		To: ApprovalVoid, By: c.Approvals.Node, Note: "the request could not be written to the audit log"})
	if err != nil {
		c.Log.Error().Err(err).Str("approval", r.Approval).Msg("taking back a held statement")
	}
}

// expiry is the shortest time that one of the holds gives.
func expiry(holds []policy.Hold) time.Duration {
	shortest := time.Duration(0)
	for i := range holds {
		h := holds[i].Expires
		if h <= 0 {
			h = defaultApprovalExpiry
		}
		if shortest == 0 || h < shortest {
			shortest = h
		}
	}
	return shortest
}

// heldStatement takes down what the execution will depend on.
func (a *admission) heldStatement() (*HeldStatement, *Refusal) {
	h := &HeldStatement{SQL: a.sql, Statement: a.judged.facts.Normalized, Caller: a.caller, Roles: a.decision.Roles,
		SearchPath: a.index.Snapshot.SearchPath, Catalog: a.index.Snapshot.Version, Ruleset: a.rules.Number, Digest: a.rules.Digest,
		Holds: a.decision.Obligations.Holds(), Meaning: a.judged.meaning()}
	if a.portal {
		p, ok := a.bound.parameters()
		if !ok {
			return nil, a.notHoldable("the parameters of the statement are not known any more", "Bind it again.")
		}
		h.Parameters = p
		h.Parameters.Types = a.params
	}
	if a.settings != nil {
		settings, unknown, hint := a.settings()
		if unknown != "" {
			return nil, a.notHoldable("the statement cannot wait for an approval: "+unknown, hint)
		}
		h.Settings = settings
	}
	return h, nil
}

func (p *Approvals) maxBytes() int {
	if p.MaxBytes > 0 {
		return p.MaxBytes
	}
	return defaultHeldBytes
}

func (p *Approvals) bounds() (perIdentity, inAll int) {
	perIdentity, inAll = p.PerIdentity, p.InAll
	if perIdentity <= 0 {
		perIdentity = defaultPendingOfOne
	}
	if inAll <= 0 {
		inAll = defaultPendingInAll
	}
	return perIdentity, inAll
}
