package sqlgov

import "time"

// Kind is why the core turned a request down. The set is closed: each door maps every kind once, by a table.
type Kind int

// The kinds of refusal.
const (
	Internal            Kind = iota // a defect of ours; denied like everything else
	InvalidInput                    // syntax error, unknown name, bad parameter: the caller can correct it
	Unauthenticated                 // no key, or one that is unknown, expired or revoked
	Denied                          // source roles or a policy say no
	HeldForApproval                 // a write waits for a person
	RateLimited                     // too many requests
	RequestTooLarge                 // the statement is over a limit
	ResponseTooLarge                // the result is over a limit
	UnknownSource                   // no such source, or no grant on it: the answer is the same
	SourceUnavailable               // disabled, circuit open, TLS refused, no catalog
	UpstreamUnreachable             // the connection cannot be opened
	UpstreamFailed                  // the server reported an error for the statement
	AuditUnavailable                // the record cannot be written, so nothing ran
	CacheUnavailable                // a write cannot be announced to the other nodes
	Unsupported                     // SQL or protocol feature that the gateway does not govern
	Canceled                        // the caller cancelled or went away
	UnknownApproval                 // no such held statement, or none of the caller's business: the answer is the same
	ApprovalDecided                 // the held statement is not pending any more
	kinds
)

// Kinds lists every kind, for the doors' tables and their tests.
func Kinds() []Kind {
	all := make([]Kind, 0, kinds)
	for k := Internal; k < kinds; k++ {
		all = append(all, k)
	}
	return all
}

// String returns the kind as the audit log has it.
func (k Kind) String() string {
	if k < 0 || k >= kinds {
		return kindNames[Internal]
	}
	return kindNames[k]
}

var kindNames = [kinds]string{
	Internal:            "internal",
	InvalidInput:        "invalid_input",
	Unauthenticated:     "unauthenticated",
	Denied:              "denied",
	HeldForApproval:     "held_for_approval",
	RateLimited:         "rate_limited",
	RequestTooLarge:     "request_too_large",
	ResponseTooLarge:    "response_too_large",
	UnknownSource:       "unknown_source",
	SourceUnavailable:   "source_unavailable",
	UpstreamUnreachable: "upstream_unreachable",
	UpstreamFailed:      "upstream_failed",
	AuditUnavailable:    "audit_unavailable",
	CacheUnavailable:    "cache_unavailable",
	Unsupported:         "unsupported",
	Canceled:            "canceled",
	UnknownApproval:     "unknown_approval",
	ApprovalDecided:     "approval_decided",
}

// Refusal is a decision against the caller. It is the only error type that the core returns to a door.
type Refusal struct {
	Kind     Kind
	SQLState string // what PostgreSQL would use: 42501, 42P01, 0A000, 57014, ...
	Message  string
	Detail   string
	Hint     string
	Position int // 1-based character offset in the statement; 0 unknown
	// DecisionID finds the decision in the audit log; "" if the request never came so far.
	DecisionID string
	// Approval is the id of the held statement, with HeldForApproval.
	Approval string
	// RetryAfter is when it makes sense to try again; 0 if that is not known. The hint says so, too.
	RetryAfter time.Duration
	// Err is the cause, for the operational log only. It is never shown to a caller.
	Err error
	// Upstream is set for UpstreamFailed.
	Upstream *UpstreamError
	ends     bool // a session ends with it
}

func (r *Refusal) Error() string { return r.Message }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }
