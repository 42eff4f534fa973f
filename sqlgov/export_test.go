package sqlgov

import (
	"context"
	"time"

	"interlock/catalog"
	"interlock/sqlgov/policy"
)

// Judging is a core that has a ruleset and a catalog and no server, for benchmarks of the decision.
type Judging struct {
	core   *Core
	caller Caller
	source string
}

// NewJudging returns a Judging for one caller and source.
func NewJudging(rules *policy.Ruleset, index *catalog.Index, caller Caller, source string) *Judging {
	j := &Judging{core: &Core{Rules: &Rules{}, Keys: anyKey{}, Catalogs: offline(source, index)}, caller: caller, source: source}
	j.core.Rules.Set(rules)
	return j
}

// Judge takes a statement through the steps that decide.
func (j *Judging) Judge(ctx context.Context, sql string) *Refusal {
	a := &admission{core: j.core, caller: j.caller, source: j.source, sql: sql, started: time.Now()}
	for _, step := range [...]func(context.Context, *admission) *Refusal{
		j.core.identify, j.core.resolveSource, j.core.analyse, j.core.authorise, j.core.applyPolicies,
	} {
		if r := step(ctx, a); r != nil {
			return r
		}
	}
	return nil
}
