package policy

import "time"

// State says if a policy is in force.
type State string

// The states of a policy. The zero value is Active: a policy can only take away.
const (
	Draft  State = "draft"   // checked, and not evaluated
	DryRun State = "dry-run" // evaluated and recorded, and not enforced
	Active State = "active"
)

// States lists the states of a policy.
var States = []State{Draft, DryRun, Active}

// PolicySpec is a policy as written: a condition and what follows for the statements that meet it. Policies are judged
// after source roles, every one of them, and can only take away.
type PolicySpec struct {
	Name  string `json:"name"`
	Line  int    `json:"line"`
	State State  `json:"state"`
	// When is the condition in CEL; "" holds for every statement. See condition.go for what it can ask.
	When string `json:"when,omitempty"`
	// Message is the operator's own explanation, told to the caller; "" means the usual one.
	Message  string      `json:"message,omitempty"`
	Refuse   bool        `json:"refuse,omitempty"`
	ReadOnly bool        `json:"read_only,omitempty"`
	Hold     *HoldSpec   `json:"hold,omitempty"`
	Limit    *RateSpec   `json:"limit,omitempty"`
	Cap      *CapSpec    `json:"cap,omitempty"`
	Budget   *BudgetSpec `json:"budget,omitempty"`
	Mask     *MaskRule   `json:"mask,omitempty"`
}

// HoldSpec makes a statement wait for people.
type HoldSpec struct {
	Groups    []string      `json:"groups"`
	Approvers int           `json:"approvers,omitempty"` // 0 means 1
	Expires   time.Duration `json:"expires_ns,omitempty"`
	MaxRows   int           `json:"max_rows,omitempty"` // rows that may be changed; 0 is no bound
}

// RateSpec is a token bucket; see Rate.
type RateSpec struct {
	Requests int           `json:"requests"`
	Per      RatePer       `json:"per,omitempty"`       // "" means PerIdentity
	Window   time.Duration `json:"window_ns,omitempty"` // 0 means a minute
	Burst    int           `json:"burst,omitempty"`     // 0 means Requests
}

// CapSpec bounds a result and the time that it takes. Zero leaves the source's own bound.
type CapSpec struct {
	Rows  int           `json:"rows,omitempty"`
	Bytes int64         `json:"bytes,omitempty"`
	Time  time.Duration `json:"time_ns,omitempty"`
}

// BudgetSpec bounds what is released in any stretch of time as long as the window; see Budget.
type BudgetSpec struct {
	Rows   int           `json:"rows,omitempty"`
	Bytes  int64         `json:"bytes,omitempty"`
	Window time.Duration `json:"window_ns"`
	Per    RatePer       `json:"per,omitempty"` // "" means PerIdentity
}

// Effects names what a policy does, in the order in which documentation shows it.
func (p *PolicySpec) Effects() []string {
	var all []string
	for _, e := range []struct {
		name string
		has  bool
	}{{"refuse", p.Refuse}, {"hold", p.Hold != nil}, {"read_only", p.ReadOnly}, {"cap", p.Cap != nil}, {"limit", p.Limit != nil},
		{"budget", p.Budget != nil}, {"mask", p.Mask != nil}} {
		if e.has {
			all = append(all, e.name)
		}
	}
	return all
}

// LabelSpec names a set of columns: "pii" for [crm.customers.ssn, "*.*.email"]. A pattern of a whole table covers all
// its columns.
type LabelSpec struct {
	Name      string     `json:"name"`
	Line      int        `json:"line"`
	Resources []Resource `json:"resources"`
}
