package policy

import (
	"cmp"
	"slices"
	"time"

	"interlock/redact"
)

// Obligations are what the core must do to a statement that the policies let through. The zero value is no obligation.
// When several policies matched, each bound is the strictest of them.
type Obligations struct {
	// MaxRows and MaxBytes bound the result; 0 means the source's own bound.
	MaxRows  int   `json:"max_rows,omitempty"`
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// Timeout bounds how long the statement may run; 0 means the source's own bound.
	Timeout time.Duration `json:"timeout_ns,omitempty"`
	// ReadOnly says that the statement must run where the server itself refuses every change.
	ReadOnly bool `json:"read_only,omitempty"`
	// Hold is set when the statement waits for a person. MoreHolds are what other policies ask for beside it: the statement
	// runs when every one of them is met.
	Hold      *Hold  `json:"hold,omitempty"`
	MoreHolds []Hold `json:"more_holds,omitempty"`
	// Rates are the rate limits that the statement counts against, all of them, in the order of the document. A statement
	// over any of them is refused.
	Rates []Rate `json:"rates,omitempty"`
	// Budgets are those that rows of the result are counted against, all of them, in the order of the document. A result ends
	// when one of them is spent.
	Budgets []Budget `json:"budgets,omitempty"`
	// Masks are the result columns that must be masked, in order.
	Masks []MaskedOutput `json:"masks,omitempty"`
	// Content are the result columns in which content of ContentKinds is looked for, in order; no kinds means all.
	Content      []ContentOutput  `json:"-"`
	ContentKinds []redact.Content `json:"-"`
	// Guarded are parameters that are written into masked columns.
	Guarded []GuardedParam `json:"-"`
}

// Hold says who must approve a statement before it runs.
type Hold struct {
	Rule      string        `json:"rule"`              // name of the policy
	Groups    []string      `json:"groups,omitempty"`  // an approver must be in one of them
	Approvers int           `json:"approvers"`         // how many different ones; at least 1
	Expires   time.Duration `json:"expires,omitempty"` // 0 means the default
	Reason    string        `json:"reason,omitempty"`  // the policy's message, for requester and approver
	// MaxRows is how many rows the statement may change when it runs; one that changes more is rolled back. 0 is no bound.
	MaxRows int `json:"max_rows,omitempty"`
}

// RatePer says whose requests share one bucket of a rate limit.
type RatePer string

// The keys of a bucket.
const (
	PerIdentity       RatePer = "identity"        // one bucket for each identity
	PerIdentitySource RatePer = "identity_source" // one for each identity on each source
	PerRule           RatePer = "rule"            // one for all that the policy matches
)

// RatePers lists the keys of a bucket.
var RatePers = []RatePer{PerIdentity, PerIdentitySource, PerRule}

// Rate is a token bucket that a statement takes one token of: Limit tokens flow in evenly over each Window, and at most
// Burst are kept.
type Rate struct {
	Rule   string        `json:"rule"` // name of the policy
	Per    RatePer       `json:"per"`
	Limit  int           `json:"limit"` // at least 1
	Window time.Duration `json:"window_ns"`
	Burst  int           `json:"burst"` // at least 1
	// Message is the policy's own text for the caller; "" means the usual one.
	Message string `json:"message,omitempty"`
}

// Budget is how much of results may be released in any stretch of time as long as Window. At least one of Rows and Bytes is
// not 0; 0 is no bound.
type Budget struct {
	Rule   string        `json:"rule"` // name of the policy
	Per    RatePer       `json:"per"`
	Rows   int           `json:"rows,omitempty"`
	Bytes  int64         `json:"bytes,omitempty"`
	Window time.Duration `json:"window_ns"`
	// Message is the policy's own text for the caller; "" means the usual one.
	Message string `json:"message,omitempty"`
}

// add joins what a policy obliges to; the strictest bound counts.
func (o *Obligations) add(p *PolicySpec) {
	o.ReadOnly = o.ReadOnly || p.ReadOnly
	if c := p.Cap; c != nil {
		o.MaxRows = stricter(o.MaxRows, c.Rows)
		o.MaxBytes = stricter(o.MaxBytes, c.Bytes)
		o.Timeout = stricter(o.Timeout, c.Time)
	}
	if h := p.Hold; h != nil {
		o.hold(p)
	}
	if l := p.Limit; l != nil {
		rate := Rate{Rule: p.Name, Per: l.Per, Limit: l.Requests, Window: l.Window, Burst: l.Burst, Message: p.Message}
		if rate.Per == "" {
			rate.Per = PerIdentity
		}
		if rate.Window == 0 {
			rate.Window = time.Minute
		}
		if rate.Burst == 0 {
			rate.Burst = rate.Limit
		}
		o.Rates = append(o.Rates, rate)
	}
	if b := p.Budget; b != nil {
		o.Budgets = append(o.Budgets, Budget{Rule: p.Name, Per: cmp.Or(b.Per, PerIdentity), Rows: b.Rows, Bytes: b.Bytes, Window: b.Window, Message: p.Message})
	}
}

func (o *Obligations) hold(p *PolicySpec) {
	h := Hold{Rule: p.Name, Groups: p.Hold.Groups, Approvers: max(1, p.Hold.Approvers), Expires: p.Hold.Expires, Reason: p.Message,
		MaxRows: p.Hold.MaxRows}
	if o.Hold == nil {
		o.Hold = &h
		return
	}
	o.MoreHolds = append(o.MoreHolds, h)
}

// stricter is the smaller of two bounds, of which 0 is none.
func stricter[T int | int64 | time.Duration](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// clone copies what add would change in place.
func (o Obligations) clone() Obligations {
	o.MoreHolds, o.Rates, o.Budgets = slices.Clone(o.MoreHolds), slices.Clone(o.Rates), slices.Clone(o.Budgets)
	return o
}
