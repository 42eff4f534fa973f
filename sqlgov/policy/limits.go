package policy

import "time"

// RateLimit is a token bucket: Count tokens flow in evenly over each Window, and at most Burst are kept. Every statement
// takes one. The zero value is no limit.
type RateLimit struct {
	Count  int           `json:"count"`
	Window time.Duration `json:"window_ns"`
	Burst  int           `json:"burst"` // 0 means Count
}

// Set reports if there is a limit.
func (l RateLimit) Set() bool { return l.Count > 0 && l.Window > 0 }

// Concurrency bounds what runs at the same time. The zero value is no bound.
type Concurrency struct {
	Running int           `json:"running"`           // statements that run at the same time; 0 is no bound
	Queue   int           `json:"queue,omitempty"`   // statements that wait for a turn beside them
	Wait    time.Duration `json:"wait_ns,omitempty"` // how long one waits; 0 means the default of five seconds
}

// IdentityLimits bound what one identity may ask of all sources together.
type IdentityLimits struct {
	Rate        RateLimit   `json:"rate,omitzero"`
	Concurrency Concurrency `json:"concurrency,omitzero"`
}
