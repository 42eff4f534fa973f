package sqlgov

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"interlock/audit"
	"interlock/sqlgov/policy"
)

const (
	// maxReason bounds a person's words to a held statement.
	maxReason = 2000
	// maxListed bounds a list of approvals.
	maxListed = 1000
	// answerWithin is how long a person who approves waits for the outcome. The execution goes on by itself.
	answerWithin = 5 * time.Second
)

// ApprovalView is what requesters and approvers see of a held statement.
type ApprovalView struct {
	ID        string        `json:"approval_id"`
	State     ApprovalState `json:"approval_state"`
	Requester string        `json:"requester"`
	Source    string        `json:"source"`
	Door      Door          `json:"door"`
	Created   time.Time     `json:"created"`
	Expires   time.Time     `json:"expires"`
	Changed   time.Time     `json:"changed"`
	SQL       string        `json:"sql"` // exactly what runs if it is approved
	// Parameters are text as it was sent, {"hex": ...} for the binary format, or null.
	Parameters []any      `json:"parameters,omitempty"`
	Holds      []HoldView `json:"holds"`
	Votes      []Vote     `json:"votes"`
	Note       string     `json:"note,omitempty"`
	Rows       int64      `json:"rows,omitempty"` // changed, when it is done
	Run        string     `json:"run,omitempty"`  // decision id of the execution
	MayApprove bool       `json:"may_approve"`    // who asks could approve it now
}

// HoldView is a hold with whether it is met.
type HoldView struct {
	policy.Hold
	Met bool `json:"met"`
}

// ApprovalVote is what a person says to a held statement.
type ApprovalVote struct {
	Reject bool
	Reason string
}

// ListApprovals lists the held statements in some states, or in any, that a person has asked for or may approve, newest first. Errors are
// *Refusal.
func (c *Core) ListApprovals(ctx context.Context, caller Caller, states []ApprovalState) ([]ApprovalView, error) {
	rules, r := c.person(ctx, caller)
	if r != nil {
		return nil, r
	}
	found, err := c.Approvals.Store.FindApprovals(ctx, ApprovalFilter{States: states, Limit: maxListed})
	if err != nil {
		return nil, c.refusePerson(ctx, caller, "", storeLost(err))
	}
	views := []ApprovalView{}
	for i := range found {
		if concerns(rules, &found[i], caller.Identity) {
			views = append(views, view(rules, &found[i], caller.Identity))
		}
	}
	return views, nil
}

// ShowApproval returns a held statement that a person has asked for or may approve. Errors are *Refusal.
func (c *Core) ShowApproval(ctx context.Context, caller Caller, id string) (*ApprovalView, error) {
	rules, p, r := c.approvalFor(ctx, caller, id)
	if r != nil {
		return nil, r
	}
	v := view(rules, p, caller.Identity)
	return &v, nil
}

// VoteApproval takes a person's word on a held statement. With enough of them it is run, and the view shows how it ended
// if that did not take long. Errors are *Refusal.
func (c *Core) VoteApproval(ctx context.Context, caller Caller, id string, said ApprovalVote) (*ApprovalView, error) {
	rules, p, r := c.approvalFor(ctx, caller, id)
	if r == nil {
		r = mayVote(rules, p, caller.Identity, said)
	}
	if r != nil {
		return nil, c.refusePerson(ctx, caller, "", r)
	}
	vote := Vote{By: caller.Identity, Reject: said.Reject, Reason: said.Reason, At: time.Now().UTC()}
	counted, err := c.Approvals.Store.VoteApproval(ctx, id, vote, func(votes []Vote) bool { return enough(rules, p, votes) })
	if err != nil {
		return nil, c.refusePerson(ctx, caller, p.Source, storeLost(err))
	}
	if !counted {
		return nil, c.refusePerson(ctx, caller, p.Source, c.notCounted(ctx, p, caller.Identity))
	}
	if !said.Reject {
		c.startApproved(ctx, id)
	}
	return c.ShowApproval(ctx, caller, id)
}

// person checks who asks.
func (c *Core) person(ctx context.Context, caller Caller) (*policy.Ruleset, *Refusal) {
	a := &admission{core: c, id: audit.NewID(), caller: caller, started: time.Now()}
	r := c.identify(ctx, a)
	if r == nil {
		r = c.meterLook(ctx, a)
	}
	if r == nil && c.Approvals == nil {
		r = &Refusal{Kind: Unsupported, SQLState: "0A000", Message: "this gateway has no approvals"}
	}
	if r != nil {
		return nil, c.refuse(ctx, a, r)
	}
	return a.rules, nil
}

// refusePerson records a refusal of a person's request.
func (c *Core) refusePerson(ctx context.Context, caller Caller, source string, r *Refusal) *Refusal {
	if r.DecisionID != "" {
		return r // recorded already
	}
	c.RecordRefusal(ctx, caller, source, r)
	return r
}

func storeLost(err error) *Refusal {
	return &Refusal{Kind: Internal, SQLState: "58000", Message: "approvals cannot be reached at the moment", Err: err}
}

// approvalFor finds an approval that is a person's business. Its refusals are on record.
func (c *Core) approvalFor(ctx context.Context, caller Caller, id string) (*policy.Ruleset, *Approval, *Refusal) {
	rules, r := c.person(ctx, caller)
	if r != nil {
		return nil, nil, r
	}
	p, err := c.approval(ctx, id)
	switch {
	case err != nil:
		r = storeLost(err)
	case p == nil || !concerns(rules, p, caller.Identity):
		r = &Refusal{Kind: UnknownApproval, SQLState: "42704", Message: fmt.Sprintf("approval %q does not exist", id),
			Hint: "Who has asked for an approval and who may give it can see it."}
	}
	if r != nil {
		return nil, nil, c.refusePerson(ctx, caller, "", r)
	}
	return rules, p, nil
}

func (c *Core) approval(ctx context.Context, id string) (*Approval, error) {
	if id == "" {
		return nil, nil
	}
	found, err := c.Approvals.Store.FindApprovals(ctx, ApprovalFilter{ID: id})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// concerns reports if an approval is somebody's business: who has asked for it, has said something to it, or may.
func concerns(rules *policy.Ruleset, p *Approval, who string) bool {
	return p.Requester == who || mayApprove(rules, p, who) ||
		slices.ContainsFunc(p.Votes, func(v Vote) bool { return v.By == who })
}

func mayApprove(rules *policy.Ruleset, p *Approval, who string) bool {
	return slices.ContainsFunc(p.Held.Holds, func(h policy.Hold) bool { return rules.MayApprove(&h, p.Requester, who) })
}

func mayVote(rules *policy.Ruleset, p *Approval, who string, said ApprovalVote) *Refusal {
	switch {
	case len(said.Reason) > maxReason || !utf8.ValidString(said.Reason) || strings.ContainsRune(said.Reason, 0):
		return &Refusal{Kind: InvalidInput, SQLState: "22023", Message: fmt.Sprintf("a reason is text of at most %d bytes", maxReason)}
	case mayApprove(rules, p, who), said.Reject && p.Requester == who:
		return nil
	case p.Requester == who:
		return &Refusal{Kind: Denied, SQLState: "42501", Message: "nobody can approve what they have asked for themselves"}
	}
	return &Refusal{Kind: Denied, SQLState: "42501", Message: "you are in none of the groups that may approve this"}
}

// enough reports if every hold is met.
func enough(rules *policy.Ruleset, p *Approval, votes []Vote) bool {
	var people []string
	for _, v := range votes {
		people = append(people, v.By)
	}
	return !slices.ContainsFunc(p.Held.Holds, func(h policy.Hold) bool { return !rules.Met(&h, p.Requester, people) })
}

// notCounted says why a vote came too late.
func (c *Core) notCounted(ctx context.Context, p *Approval, who string) *Refusal {
	r := &Refusal{Kind: ApprovalDecided, SQLState: "55000", Message: fmt.Sprintf("approval %s is not pending any more", p.ID)}
	now, err := c.approval(ctx, p.ID)
	switch {
	case err != nil || now == nil:
	case now.State == ApprovalPending && !time.Now().Before(now.Expires):
		r.Message = fmt.Sprintf("approval %s has expired", p.ID)
	case now.State == ApprovalPending && slices.ContainsFunc(now.Votes, func(v Vote) bool { return v.By == who }):
		r.Message = "you have approved this already, and others have to do so too"
	default:
		r.Message = fmt.Sprintf("approval %s is %s already", p.ID, now.State)
	}
	return r
}

func view(rules *policy.Ruleset, p *Approval, who string) ApprovalView {
	v := ApprovalView{ID: p.ID, State: p.State, Requester: p.Requester, Source: p.Source, Door: p.Held.Caller.Door,
		Created: p.Created, Expires: p.Expires, Changed: p.Changed, SQL: p.Held.SQL, Parameters: p.Held.Parameters.Shown(),
		Holds: []HoldView{}, Votes: p.Votes, Note: p.Note, Rows: p.Rows, Run: p.Run}
	if v.Votes == nil {
		v.Votes = []Vote{}
	}
	if v.State == ApprovalPending && !time.Now().Before(v.Expires) {
		v.State = ApprovalExpired // the store hears of it at the next sweep
	}
	if v.State == ApprovalUnknown && v.Note == "" {
		v.Note = "the gateway was lost while it ran: it may have been run or not, so look at the data"
	}
	var people []string
	voted := false
	for _, vote := range p.Votes {
		voted = voted || vote.By == who
		if !vote.Reject {
			people = append(people, vote.By)
		}
	}
	for _, h := range p.Held.Holds {
		v.Holds = append(v.Holds, HoldView{h, rules.Met(&h, p.Requester, people)})
	}
	v.MayApprove = v.State == ApprovalPending && !voted && mayApprove(rules, p, who)
	return v
}
