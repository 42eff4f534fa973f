package policy

import (
	"errors"
	"fmt"
	"slices"

	"cel.dev/cel-go/common/types"
)

// Match is a policy that a statement met, or that could not tell.
type Match struct {
	Policy  string   `json:"policy"`
	File    string   `json:"file,omitempty"` // the governance document
	Line    int      `json:"line"`
	State   State    `json:"state"` // dry-run matches are recorded and not enforced
	Effects []string `json:"effects"`
	// Error is why the condition could not be evaluated. That refuses the statement.
	Error string `json:"error,omitempty"`
}

// Has reports if the policy has an effect.
func (m *Match) Has(effect string) bool { return slices.Contains(m.Effects, effect) }

// policySet is all policies of a ruleset that are not drafts, compiled and indexed.
type policySet struct {
	all    []compiledPolicy
	always []uint64 // those without a guard, one bit each
	found  [dimensions]map[string][]uint64
	labels []label
	masks  map[string]*maskRule // by name of the policy
	// touching is set when a policy depends on what a statement touches, by its condition or by a mask.
	touching bool
}

type compiledPolicy struct {
	spec *PolicySpec
	*condition
	matched *Match // what a match without an error says
}

// enforced reports if a match counts.
func (p *compiledPolicy) enforced() bool { return p.spec.State != DryRun }

// compilePolicies compiles the policies of a document that has been checked.
func compilePolicies(doc *Document) (*policySet, error) {
	set := &policySet{masks: make(map[string]*maskRule)}
	for i := range doc.Labels {
		set.labels = append(set.labels, label{doc.Labels[i].Name, doc.Labels[i].Resources})
	}
	for i := range doc.Policies {
		spec := &doc.Policies[i]
		if spec.State == Draft {
			continue
		}
		c, err := compileCondition(spec.When)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", spec.Name, err)
		}
		m := &Match{Policy: spec.Name, File: doc.File, Line: spec.Line, State: spec.State, Effects: spec.Effects()}
		if m.State == "" {
			m.State = Active
		}
		set.all = append(set.all, compiledPolicy{spec, c, m})
		set.touching = set.touching || spec.Mask != nil || c.asksAny(touching)
		if spec.Mask != nil {
			set.masks[spec.Name] = doc.compileMask(spec.Mask)
			set.masks[spec.Name].policy = spec
		}
	}
	set.file()
	return set, nil
}

// Asks reports if a policy that is not a draft refers to one of the variables.
func (r *Ruleset) Asks(names ...string) bool {
	return slices.ContainsFunc(r.policies.all, func(p compiledPolicy) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(p.asks, name) })
	})
}

// file puts every policy where it will be found: under the values of the guard that fewest policies share.
func (s *policySet) file() {
	shared := [dimensions]map[string]int{}
	for i := range s.all {
		for _, g := range s.all[i].guards {
			for _, v := range g.values {
				if shared[g.of] == nil {
					shared[g.of] = make(map[string]int)
				}
				shared[g.of][v]++
			}
		}
	}
	s.always = s.none()
	for i := range s.all {
		best, least := -1, 0
		for k, g := range s.all[i].guards {
			n := 0
			for _, v := range g.values {
				n += shared[g.of][v]
			}
			if best < 0 || n < least {
				best, least = k, n
			}
		}
		if best < 0 {
			s.always[i/64] |= 1 << (i % 64)
			continue
		}
		s.fileUnder(i, &s.all[i].guards[best])
	}
}

func (s *policySet) none() []uint64 { return make([]uint64, (len(s.all)+63)/64) }

func (s *policySet) every() []uint64 {
	set := s.none()
	for i := range s.all {
		set[i/64] |= 1 << (i % 64)
	}
	return set
}

func (s *policySet) fileUnder(policy int, g *guard) {
	if s.found[g.of] == nil {
		s.found[g.of] = make(map[string][]uint64)
	}
	for _, v := range g.values {
		if s.found[g.of][v] == nil {
			s.found[g.of][v] = s.none()
		}
		s.found[g.of][v][policy/64] |= 1 << (policy % 64)
	}
}

// candidates are the policies that a question may meet, one bit each.
func (s *policySet) candidates(q *question) []uint64 {
	set := append([]uint64{}, s.always...)
	if q.raw() { // which policies look at what it touches cannot be told by that
		return s.every()
	}
	for d := range dimensions {
		if s.found[d] == nil {
			continue
		}
		if d < firstList {
			join(set, s.found[d][q.text(d)])
			continue
		}
		for _, value := range q.list(d) {
			join(set, s.found[d][value])
		}
	}
	return set
}

func join(set, more []uint64) {
	for i, word := range more {
		set[i] |= word
	}
}

// holds reports if a guard lets the condition be true.
func (g *guard) holds(q *question) bool {
	switch {
	case g.of >= firstList && q.raw():
		return true
	case g.of < firstList:
		return slices.Contains(g.values, q.text(g.of))
	}
	return slices.ContainsFunc(q.list(g.of), func(value string) bool { return slices.Contains(g.values, value) })
}

// outcome is what a condition says of a question.
type outcome int

const (
	misses  outcome = iota
	matches         // or cannot be evaluated
	depends         // on circumstances
)

var (
	errCondition = errors.New("the condition is neither true nor false")
	errRaw       = errors.New("what a raw statement touches is not known")
	errRawMask   = errors.New("what a raw statement shows cannot be masked")
)

// ask evaluates a condition. An error comes with matches: it must not be taken for a miss.
func (c *condition) ask(q *question) (outcome, error) {
	for i := range c.guards {
		if !c.guards[i].holds(q) {
			return misses, nil
		}
	}
	program := c.program
	switch {
	case program == nil:
		return matches, nil
	case (q.at == nil || q.raw()) && c.partial != nil:
		program = c.partial
	}
	value, _, err := program.Eval(q)
	if err != nil {
		return matches, err
	}
	switch {
	case !types.IsUnknown(value):
	case q.at == nil && c.asksAny(dynamic):
		return depends, nil
	default:
		return matches, errRaw
	}
	truth, ok := value.(types.Bool)
	if !ok {
		return matches, errCondition
	}
	if truth {
		return matches, nil
	}
	return misses, nil
}
