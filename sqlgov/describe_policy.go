package sqlgov

import (
	"interlock/catalog"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// PolicyMark says that a policy refuses what the source roles allow.
type PolicyMark struct {
	Refused bool   `json:"refused"`
	Rule    string `json:"rule"` // the policy
	Reason  string `json:"reason"`
}

// policyMark returns the policy that would refuse the caller to read a table now, or nil if there is one of its columns
// that a statement that does nothing else may read. The policies are asked as they are for a statement.
func (a *admission) policyMark(source string, index *catalog.Index, t *policy.TableAccess) *PolicyMark {
	var mark *PolicyMark
	for _, col := range t.Read {
		read := analyze.Column{Relation: t.Relation.OID, Schema: t.Relation.Schema, Table: t.Relation.Name, Num: col.Num, Name: col.Name}
		in := policy.Input{Identity: a.caller.Identity, Source: source, Door: string(a.caller.Door), Catalog: index,
			Facts: single(analyze.Statement{Kind: analyze.Select, Reads: []analyze.Column{read}})}
		d := a.rules.Settle(a.rules.Decide(in), in, policy.Circumstances{
			Now: a.started, Address: hostOf(a.caller.ClientAddr), Application: a.caller.Application})
		if d.Verdict != policy.Refused {
			return nil
		}
		if mark == nil {
			mark = &PolicyMark{Refused: true, Rule: refusingPolicy(d), Reason: d.Message}
		}
	}
	return mark
}

// refusingPolicy is the name of the first policy that refuses.
func refusingPolicy(d *policy.Decision) string {
	for _, r := range d.Reasons {
		if r.Policy != nil && !r.Granted && r.Policy.State == policy.Active {
			return r.Policy.Policy
		}
	}
	return ""
}
