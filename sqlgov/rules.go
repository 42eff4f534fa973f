package sqlgov

import (
	"sync/atomic"

	"interlock/sqlgov/policy"
)

// Rules holds the ruleset in force. Setting a new one takes effect at the next statement of every session; what is
// running finishes under the ruleset that admitted it.
type Rules struct {
	current atomic.Pointer[policy.Ruleset]
}

// Set puts a ruleset in force.
func (r *Rules) Set(rs *policy.Ruleset) { r.current.Store(rs) }

// Current returns the ruleset in force, or nil before the first Set. With none, every request is refused.
func (r *Rules) Current() *policy.Ruleset { return r.current.Load() }
