package sqlgov

import (
	"context"
	"errors"
	"time"

	"interlock/catalog"
	"interlock/sqlgov/policy"
)

// ApprovalState is where a held statement is in its life. See docs/approvals.md for the whole of it.
type ApprovalState string

// The states. A statement leaves a state by one conditional change in the store, so that of many who try one succeeds.
const (
	ApprovalPending   ApprovalState = "pending"   // waits for people
	ApprovalApproved  ApprovalState = "approved"  // enough people have approved it; no node has begun to run it
	ApprovalExecuting ApprovalState = "executing" // one node has claimed it and runs it
	ApprovalDone      ApprovalState = "done"      // it was run and committed
	ApprovalFailed    ApprovalState = "failed"    // it was run and nothing of it is left
	ApprovalUnknown   ApprovalState = "unknown"   // it may have been run or not: the node or its connection was lost meanwhile
	ApprovalRejected  ApprovalState = "rejected"  // one person said no, or the requester withdrew it
	ApprovalExpired   ApprovalState = "expired"   // not enough people approved it in time
	ApprovalVoid      ApprovalState = "void"      // it was approved, and would not be allowed or not mean the same any more
)

// ApprovalStates lists the states.
var ApprovalStates = []ApprovalState{ApprovalPending, ApprovalApproved, ApprovalExecuting, ApprovalDone, ApprovalFailed,
	ApprovalUnknown, ApprovalRejected, ApprovalExpired, ApprovalVoid}

// Final reports if nothing can happen in a state any more.
func (s ApprovalState) Final() bool {
	return s != ApprovalPending && s != ApprovalApproved && s != ApprovalExecuting
}

// Approval is a statement that a policy held, single use. Its ID is that of the decision by which it was held.
type Approval struct {
	ID        string        `json:"approval_id"`
	State     ApprovalState `json:"approval_state"`
	Requester string        `json:"requester"`
	Source    string        `json:"source"`
	Created   time.Time     `json:"created"`
	Expires   time.Time     `json:"expires"`
	Changed   time.Time     `json:"changed"` // when it came into its state
	Held      HeldStatement `json:"held"`
	Votes     []Vote        `json:"votes"`
	// Note says why it ended as it did, for the requester and the approvers; "" if the state says it all.
	Note string `json:"note,omitempty"`
	// Rows is how many rows were changed, when it is done.
	Rows int64 `json:"rows"`
	// Run is the decision id of its execution, by which the audit log knows it.
	Run string `json:"run,omitempty"`
}

// HeldStatement is everything that an execution depends on, as it was when the statement was held. The store keeps it
// encrypted. It does not change: what was approved is what runs.
type HeldStatement struct {
	SQL        string          `json:"sql"`
	Parameters BoundParameters `json:"parameters,omitzero"`
	// Statement is the text with its literals replaced.
	Statement  string            `json:"statement"`
	Caller     Caller            `json:"caller"`
	Roles      []string          `json:"roles"`
	SearchPath []string          `json:"search_path"`
	Catalog    string            `json:"catalog"`
	Ruleset    int64             `json:"ruleset"`
	Digest     string            `json:"ruleset_digest"`
	Holds      []policy.Hold     `json:"holds"`
	Settings   map[string]string `json:"settings,omitempty"` // of the session, as far as they shape what is written
	// Meaning is a digest of what the text was found to touch and of the definitions of that.
	Meaning string `json:"meaning"`
}

// BoundParameters are those of a Bind message, with the types that were declared in Parse. The zero value is none.
type BoundParameters struct {
	Types   []catalog.OID `json:"types,omitempty"`   // 0 leaves one open
	Formats []int16       `json:"formats,omitempty"` // as in Bind: none, one for all, or one for each; 0 text, 1 binary
	Values  [][]byte      `json:"values,omitempty"`  // nil is NULL
}

// Vote is what a person said to a held statement.
type Vote struct {
	By     string    `json:"by"`
	Reject bool      `json:"reject,omitempty"`
	Reason string    `json:"reason,omitempty"` // the person's own words
	At     time.Time `json:"at"`
}

// ApprovalFilter selects approvals. Fields that are set must all match.
type ApprovalFilter struct {
	ID     string
	States []ApprovalState
	Limit  int // newest first; 0 means 100
}

// ApprovalMove is one change of state. It happens only if the approval is in one of the states From, has the claim (if
// one is given here and To is not ApprovalExecuting), and has not expired (if To is ApprovalExecuting).
type ApprovalMove struct {
	ID    string
	From  []ApprovalState
	To    ApprovalState
	Claim string    // of the execution
	Lease time.Time // until when it holds without being renewed
	By    string    // who moves it: a person, or a node
	Note  string
	Rows  int64
	Run   string
}

// ApprovalStore keeps approvals for all nodes.
type ApprovalStore interface {
	// QueueApproval keeps a new approval. Its error is ErrTooManyApprovals when so many are pending already.
	QueueApproval(ctx context.Context, a *Approval, perIdentity, inAll int) error
	// FindApprovals returns the approvals that a filter selects, newest first.
	FindApprovals(ctx context.Context, f ApprovalFilter) ([]Approval, error)
	// VoteApproval adds a person's vote, of whom there can be one, to an approval that is pending and has not expired,
	// and in the same step makes it approved if enough says so of all votes, or rejected. It reports if the vote
	// counted.
	VoteApproval(ctx context.Context, id string, v Vote, enough func([]Vote) bool) (bool, error)
	// MoveApproval makes one change of state and reports if it happened.
	MoveApproval(ctx context.Context, m ApprovalMove) (bool, error)
	// SweepApprovals makes expired what has waited too long and unknown what was claimed by a node that is lost, and
	// forgets what has been in a final state since before keep.
	SweepApprovals(ctx context.Context, keep time.Time) error
}

// ErrTooManyApprovals says that no more statements may wait for people.
var ErrTooManyApprovals = errors.New("too many statements wait for approval")

// Approvals is what the core needs to hold statements for people. Its fields are set before first use.
type Approvals struct {
	Store ApprovalStore
	// Node names this process in claims and in the audit log.
	Node string
	// PerIdentity and InAll bound the statements that wait at the same time; 0 means 50 and 1000.
	PerIdentity, InAll int
	// MaxBytes bounds a held statement with its parameters; 0 means 1 MiB.
	MaxBytes int
	// Lease is for how long a claim holds without being renewed: an execution whose node is lost is reported as unknown
	// after that. 0 means 15 seconds.
	Lease time.Duration
	// Keep is for how long approvals in a final state are kept; 0 means 30 days.
	Keep time.Duration

	runs runs
}

// Defaults of Approvals.
const (
	defaultPendingOfOne   = 50
	defaultPendingInAll   = 1000
	defaultHeldBytes      = 1 << 20
	defaultLease          = 15 * time.Second
	defaultKeep           = 30 * 24 * time.Hour
	defaultApprovalExpiry = 15 * time.Minute
)
