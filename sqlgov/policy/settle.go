package policy

import (
	"fmt"
	"math/bits"

	"cel.dev/cel-go/common/types"

	"interlock/sqlgov/analyze"
)

// pendingPolicy is one that a statement may meet, depending on circumstances.
type pendingPolicy struct {
	policy    *compiledPolicy
	statement int
}

// questionOf puts a statement of the judge's input to the policies.
func (j *judge) questionOf(s *analyze.Statement, at *Circumstances) *question {
	return j.rules.question(&j.in, s, at)
}

func (r *Ruleset) question(in *Input, s *analyze.Statement, at *Circumstances) *question {
	q := &question{identity: types.String(in.Identity), source: types.String(in.Source), door: types.String(in.Door),
		ruleset: types.Int(r.Number), at: at, statement: s, risk: RiskOf(s), index: in.Catalog, labels: r.policies.labels,
		attributes: map[string]string{}}
	if who := r.people[in.Identity]; who != nil {
		q.kind, q.team = types.String(who.Kind), types.String(who.Team)
		if who.Attributes != nil {
			q.attributes = who.Attributes
		}
	}
	return q
}

// policies judges every policy for every statement, as far as that does not depend on circumstances.
func (j *judge) policies() {
	set := j.rules.policies
	if len(set.all) == 0 {
		return
	}
	for i := range j.in.Facts.Statements {
		q := j.questionOf(&j.in.Facts.Statements[i], nil)
		for word, candidates := range set.candidates(q) {
			for ; candidates != 0; candidates &= candidates - 1 {
				p := &set.all[word*64+bits.TrailingZeros64(candidates)]
				switch result, err := p.ask(q); result {
				case matches:
					j.made.match(p, q, err)
				case depends:
					j.made.pending = append(j.made.pending, pendingPolicy{p, i})
				}
			}
		}
	}
}

// Settled reports if the decision is the same under all circumstances.
func (d *Decision) Settled() bool { return len(d.pending) == 0 }

// Settle returns the decision under the circumstances of one request: d itself if it does not depend on them. in is
// what d was made from, d a decision of Decide by the same ruleset.
func (r *Ruleset) Settle(d *Decision, in Input, at Circumstances) *Decision {
	if d.Settled() {
		return d
	}
	settled := *d
	settled.pending = nil
	settled.Reasons = append([]Reason{}, d.Reasons...)
	settled.Obligations = d.Obligations.clone()
	questions := make(map[int]*question, 1)
	for _, pending := range d.pending {
		q := questions[pending.statement]
		if q == nil {
			q = r.question(&in, &in.Facts.Statements[pending.statement], &at)
			questions[pending.statement] = q
		}
		if result, err := pending.policy.ask(q); result != misses {
			settled.match(pending.policy, q, err)
		}
	}
	settled.mask(r, &in)
	settled.Remedies = nil // roles refuse nothing, or the decision would be settled
	settled.conclude()
	return &settled
}

// match adds a policy that was met to the reasons, and its effects to the obligations.
func (d *Decision) match(p *compiledPolicy, q *question, failure error) {
	m := p.matched
	r := Reason{Granted: true, Line: p.spec.Line, Policy: m}
	breaks := p.spec.ReadOnly && q.changes()
	if failure == nil && q.raw() && p.spec.Mask != nil {
		failure = errRawMask
	}
	switch {
	case failure != nil:
		failed := *m
		failed.Error = failure.Error()
		r.Policy, r.Granted = &failed, false
	case p.spec.Refuse || breaks:
		r.Granted = false
	}
	for i := range d.Reasons { // met by an earlier statement of the text
		if same := d.Reasons[i].Policy; same != nil && same.Policy == m.Policy && (!d.Reasons[i].Granted || r.Granted) {
			return
		}
	}
	d.Reasons = append(d.Reasons, r)
	if !p.enforced() || !r.Granted {
		if p.enforced() && d.against == nil {
			d.against = &objection{spec: p.spec, failed: failure != nil, raw: q.raw(), writes: breaks && !p.spec.Refuse}
		}
		return
	}
	d.Obligations.add(p.spec)
}

// changes reports if a statement may change something.
func (q *question) changes() bool {
	return !q.statement.ReadOnly() || q.risk.rank() >= RiskMedium.rank()
}

// objection is the first policy that turns a statement down.
type objection struct {
	spec                *PolicySpec
	failed, raw, writes bool
}

// conclude makes verdict and texts of what the policies said. What the roles refuse stays refused in their words.
func (d *Decision) conclude() {
	for _, r := range d.Reasons {
		if m := r.Policy; m != nil && m.State != DryRun && (!r.Granted || m.Has("hold")) {
			d.Remedies = append(d.Remedies, Remedy{Change: "except", Policy: m.Policy, Line: m.Line})
		}
	}
	switch {
	case len(d.Denied) > 0:
		d.pending = nil
	case d.against != nil:
		d.Verdict, d.SQLState = Refused, "42501"
		d.Message, d.Hint = d.against.told()
		d.Detail = "" // of a hold that circumstances have turned into a refusal
	case d.exposed != nil:
		d.Verdict, d.SQLState = Refused, "42501"
		d.Message, d.Hint, d.Detail = d.exposed.message, d.exposed.hint, ""
	case d.Obligations.Hold != nil:
		h := d.Obligations.Hold
		d.Verdict, d.SQLState = Held, "42501"
		d.Message, d.Detail = "the statement needs an approval and was not executed", h.told()
	}
}

func (o *objection) told() (message, hint string) {
	switch name := o.spec.Name; {
	case o.failed && o.raw:
		return fmt.Sprintf("policy %q cannot be applied to a statement that is run as it is, so the statement is refused", name),
			"Ask your administrator to except you from the policy, or use an identity without db.execute_raw."
	case o.failed:
		return fmt.Sprintf("policy %q could not be evaluated, so the statement is refused", name), "Tell your administrator."
	case o.spec.Message != "":
		return o.spec.Message, fmt.Sprintf("Policy %q refuses this statement.", name)
	case o.writes:
		return fmt.Sprintf("policy %q allows only statements that change nothing", name), "Ask your administrator."
	default:
		return fmt.Sprintf("policy %q refuses this statement", name), "Ask your administrator."
	}
}

func (h *Hold) told() string {
	text := fmt.Sprintf("Policy %q asks for %d approval", h.Rule, h.Approvers)
	if h.Approvers > 1 {
		text += "s"
	}
	if len(h.Groups) > 0 {
		text += " of " + list(h.Groups)
	}
	if h.Reason != "" {
		text += ": " + h.Reason
	}
	return text + "."
}
