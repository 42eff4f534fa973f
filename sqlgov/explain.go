package sqlgov

import (
	"context"
	"errors"
	"time"

	"interlock/catalog"
	"interlock/sqlgov/policy"
)

// Explanation is how a statement of an identity would be judged, step by step.
type Explanation struct {
	Identity string `json:"identity"`
	Source   string `json:"source"`
	Verdict  string `json:"verdict"`
	// Steps are those that were taken, in order; the last one decided.
	Steps     []ExplainedStep `json:"steps"`
	Statement string          `json:"statement"` // with literals replaced
	Kinds     []string        `json:"kinds,omitempty"`
	Reads     []string        `json:"reads,omitempty"`
	Writes    []string        `json:"writes,omitempty"`
	Functions []string        `json:"functions,omitempty"`
	Reasons   []policy.Reason `json:"reasons,omitempty"`
	// Refusal is what the caller would be told.
	Refusal *ExplainedRefusal `json:"refusal,omitempty"`
	// Remedies are the smallest changes of the governance document that would allow the statement.
	Remedies []policy.Remedy `json:"remedies,omitempty"`
	// Obligations are what an allowed statement would be held to.
	Obligations policy.Obligations `json:"obligations,omitzero"`
	Ruleset     int64              `json:"ruleset"`
	Catalog     string             `json:"catalog,omitempty"`
}

// ExplainedStep is one step of the pipeline.
type ExplainedStep struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
}

// ExplainedRefusal is what a caller is told.
type ExplainedRefusal struct {
	Kind     string `json:"kind"`
	SQLState string `json:"sqlstate"`
	Message  string `json:"message"`
	Detail   string `json:"detail,omitempty"`
	Hint     string `json:"hint,omitempty"`
}

// Hypothesis is a request that could be made. At the zero time it is made now.
type Hypothesis struct {
	Caller Caller // no key is needed
	Source string
	SQL    string
	At     time.Time
}

// Explain judges a statement offline, from a ruleset and a catalog, by the same steps that enforcement takes. It asks
// no database, checks no key and records nothing. A nil index means that the source was never scanned.
func Explain(rules *policy.Ruleset, index *catalog.Index, h Hypothesis) *Explanation {
	a, e := suppose(rules, index, h)
	e.describe(a)
	return e
}

// suppose takes a hypothesis through the steps.
func suppose(rules *policy.Ruleset, index *catalog.Index, h Hypothesis) (*admission, *Explanation) {
	c := &Core{Rules: &Rules{}, Keys: anyKey{}, Catalogs: offline(h.Source, index)}
	c.Rules.Set(rules)
	a := &admission{core: c, caller: h.Caller, source: h.Source, sql: h.SQL, started: h.At}
	a.raw = h.Caller.Door == PGWire && rules.Raw(h.Caller.Identity, h.Source)
	if a.started.IsZero() {
		a.started = time.Now()
	}
	e := &Explanation{Identity: h.Caller.Identity, Source: h.Source, Verdict: string(policy.Allowed), Ruleset: rules.Number}
	steps := [...]struct {
		name string
		take func(context.Context, *admission) *Refusal
	}{{"identity", c.identify}, {"source", c.resolveSource}, {"analysis", c.analyse}, {"source roles", c.authorise},
		{"policies", c.supposePolicies}, {"limits", c.bound}}
	for _, step := range steps {
		r := step.take(context.Background(), a)
		e.Steps = append(e.Steps, ExplainedStep{step.name, r == nil})
		if r != nil {
			e.Verdict = string(policy.Refused)
			if a.decision != nil && a.decision.Verdict == policy.Held {
				e.Verdict = string(policy.Held)
			}
			e.Refusal = &ExplainedRefusal{r.Kind.String(), r.SQLState, r.Message, r.Detail, r.Hint}
			break
		}
	}
	return a, e
}

// supposePolicies is applyPolicies where nothing can be queued.
func (c *Core) supposePolicies(ctx context.Context, a *admission) *Refusal {
	if r := c.applyPolicies(ctx, a); r != nil || a.decision.Verdict != policy.Held {
		return r
	}
	d := a.decision.Decision
	return &Refusal{Kind: HeldForApproval, SQLState: d.SQLState, Message: d.Message, Detail: d.Detail}
}

func (e *Explanation) describe(a *admission) {
	judgement := a.judgement()
	e.Statement, e.Kinds, e.Reads = judgement.Statement, judgement.Kinds, judgement.Reads
	e.Writes, e.Functions, e.Catalog = judgement.Writes, judgement.Functions, judgement.Catalog
	switch {
	case a.decision != nil:
		e.Reasons, e.Remedies, e.Obligations = a.decision.Reasons, a.decision.Remedies, a.decision.Obligations
	case a.failed != nil:
		e.Reasons = a.failed.Reasons
	}
}

// anyKey stands in for the key store where no key is shown.
type anyKey struct{}

func (anyKey) Active(context.Context, string) error { return nil }

// offline are catalogs that hold one snapshot and cannot scan.
func offline(source string, index *catalog.Index) *Catalogs {
	c := &Catalogs{Scan: func(context.Context, *policy.SourceSpec) (*catalog.Snapshot, error) { return nil, errOffline }}
	c.source(source).index = index
	return c
}

var errOffline = errors.New("there is no server to scan")
