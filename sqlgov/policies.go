package sqlgov

import (
	"context"
	"net"
	"strings"

	"interlock/sqlgov/policy"
)

// applyPolicies refuses or holds what the policies refuse or hold. They have been judged with the roles, as far as that
// does not depend on the moment and the client; that part is judged now. A decision that is to run carries what the
// following steps and the execution are obliged to.
func (c *Core) applyPolicies(_ context.Context, a *admission) *Refusal {
	a.decision = a.decision.settle(a)
	d := a.decision.Decision
	switch d.Verdict {
	case policy.Allowed:
		return a.mayBuild()
	case policy.Held:
		return a.holdable()
	}
	return &Refusal{Kind: Denied, SQLState: d.SQLState, Message: d.Message, Detail: d.Detail, Hint: d.Hint}
}

// settle returns the decision under the circumstances of one request.
func (d *ruledDecision) settle(a *admission) *ruledDecision {
	if d.Settled() {
		return d
	}
	decision := a.rules.Settle(d.Decision, a.input(a.judged.facts), policy.Circumstances{
		Now: a.started, Address: hostOf(a.caller.ClientAddr), Application: a.caller.Application})
	return a.ruled(decision, d.judgement.Labels)
}

// hostOf is the address without the port.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// obligations are those of an admitted statement.
func (a *admission) obligations() policy.Obligations {
	if a.decision == nil {
		return policy.Obligations{}
	}
	return a.decision.Obligations
}

// cappedBy names the policies that bound the result: `policy "a"`.
func (a *admission) cappedBy() string {
	var names []string
	if a.decision != nil {
		for _, r := range a.decision.Reasons {
			if r.Policy != nil && r.Policy.State == policy.Active && r.Policy.Has("cap") {
				names = append(names, `policy "`+r.Policy.Policy+`"`)
			}
		}
	}
	if names == nil {
		return "the source's limits"
	}
	return strings.Join(names, ", ")
}
