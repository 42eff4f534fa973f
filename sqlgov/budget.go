package sqlgov

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"interlock/internal/ratelimit"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// Budgets counts what is released of results: for this process, or for all nodes. As Rates, it has no error: when what is
// shared is out of reach, it grants less by itself, and never lets pass uncounted.
type Budgets interface {
	// Reserve grants a part of several budgets, or nothing.
	Reserve(ctx context.Context, claims []ratelimit.Claim) ratelimit.Grant
	// Return gives back what was not released.
	Return(ctx context.Context, spare []ratelimit.Spare)
}

// Blocks in which budgets are reserved. The first is what the first row needs, and each is twice the one before, so that a
// short result asks seldom and a long one does not keep much from others.
const (
	largestRows  = 256
	largestBytes = 64 << 10
)

// spender counts the rows of one result against budgets before they are released. What it has reserved and not released
// it gives back. Its methods may be called on a nil spender, which has no budgets, and from several goroutines.
type spender struct {
	core *Core
	// whole is set when the result is released as a whole or not at all; then all that was granted is remembered.
	whole   bool
	mu      sync.Mutex
	accts   []account
	granted []ratelimit.Spare
}

// account is one budget in rows or in bytes.
type account struct {
	of      policy.Budget
	key     string
	budget  ratelimit.Budget
	inBytes bool
	largest int64           // block
	next    int64           // block
	left    int64           // of what was granted
	newest  ratelimit.Grant // in which all that is left was granted
}

// afford prepares the counting of what a statement releases, and refuses one that releases rows when a budget is spent.
func (c *Core) afford(ctx context.Context, a *admission) *Refusal {
	budgets := a.obligations().Budgets
	if len(budgets) == 0 || a.rehearse || a.approved != nil || a.decision.Verdict == policy.Held {
		return nil
	}
	a.spends = a.newSpender(budgets)
	if !a.raw && !releases(a.judged.facts) {
		return nil
	}
	return a.spends.check(ctx)
}

// releases reports if a text may give rows to the client.
func releases(f *analyze.Facts) bool {
	for i := range f.Statements {
		switch s := &f.Statements[i]; {
		case s.Kind == analyze.Close, s.Kind == analyze.Move:
		case s.Output != nil, s.Kind == analyze.CopyOut, s.Kind == analyze.Fetch:
			return true
		}
	}
	return false
}

func (a *admission) newSpender(budgets []policy.Budget) *spender {
	s := &spender{core: a.core, whole: a.caller.Door == MCP}
	for _, b := range budgets {
		key := "policy/" + b.Rule
		switch b.Per {
		case policy.PerRule:
		case policy.PerIdentitySource:
			key += "/" + a.caller.Identity + "/" + a.source
		default:
			key += "/" + a.caller.Identity
		}
		if b.Rows > 0 {
			s.add(account{of: b, key: key + "/rows", largest: largestRows}, int64(b.Rows))
		}
		if b.Bytes > 0 {
			s.add(account{of: b, key: key + "/bytes", largest: largestBytes, inBytes: true}, b.Bytes)
		}
	}
	return s
}

func (s *spender) add(a account, most int64) {
	a.budget = ratelimit.Budget{Most: most, Window: max(1, a.of.Window)}
	a.largest = min(a.largest, most/16+1)
	s.accts = append(s.accts, a)
}

// check refuses when nothing is left of a budget. It takes nothing.
func (s *spender) check(ctx context.Context) *Refusal {
	claims := make([]ratelimit.Claim, len(s.accts))
	for i := range s.accts {
		claims[i] = ratelimit.Claim{Key: s.accts[i].key, Budget: s.accts[i].budget, Need: 1}
	}
	if g := s.core.reserve(ctx, claims); !g.OK {
		return s.accts[g.Denied].spent(1).retry(g.Wait)
	}
	return nil
}

// spend counts a piece of the result, or says why it must not be released.
func (s *spender) spend(ctx context.Context, rows, bytes int64) *Refusal {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var claims []ratelimit.Claim
	var short []*account
	for i := range s.accts {
		a := &s.accts[i]
		if need := a.amount(rows, bytes) - a.left; need > 0 {
			short = append(short, a)
			claims = append(claims, ratelimit.Claim{Key: a.key, Budget: a.budget, Need: need, Want: max(need, min(a.next, a.largest))})
		}
	}
	if len(claims) > 0 {
		g := s.core.reserve(ctx, claims)
		if !g.OK {
			return s.refuse(short[g.Denied], claims[g.Denied].Need, g.Wait)
		}
		for i, a := range short {
			s.take(a, g, g.Amounts[i])
		}
	}
	for i := range s.accts {
		s.accts[i].left -= s.accts[i].amount(rows, bytes)
	}
	return nil
}

func (a *account) amount(rows, bytes int64) int64 {
	if a.inBytes {
		return bytes
	}
	return rows
}

func (s *spender) take(a *account, g ratelimit.Grant, amount int64) {
	a.left += amount
	a.next = 2 * amount
	a.newest = g
	if s.whole {
		s.granted = append(s.granted, a.spare(amount))
	}
}

func (a *account) spare(amount int64) ratelimit.Spare {
	return ratelimit.Spare{Key: a.key, Budget: a.budget, Amount: amount, At: a.newest.At, SharedAt: a.newest.SharedAt}
}

// refuse says that the budget does not suffice for the rest of a result.
func (s *spender) refuse(a *account, need int64, wait time.Duration) *Refusal {
	r := a.spent(need)
	if wait == ratelimit.Never {
		r.Hint = "That is more than may ever be released at once: ask for less."
		return r
	}
	r.retry(wait)
	if s.whole { // nothing of it was released, so a smaller result may do
		r.Hint = "Ask for less by a LIMIT or an aggregate. " + strings.Replace(r.Hint, "Try", "Or try", 1)
	}
	return r
}

func (a *account) spent(need int64) *Refusal {
	r := &Refusal{Kind: RateLimited, SQLState: "53400", Message: a.of.Message}
	unit := "rows"
	if a.inBytes {
		unit = "bytes"
	}
	switch {
	case r.Message != "":
	case need > a.budget.Most:
		r.Message = fmt.Sprintf("the result needs %d %s of the budget of policy %q, which has %d in %s", need, unit, a.of.Rule, a.budget.Most, short(a.of.Window))
	default:
		r.Message = fmt.Sprintf("the budget of policy %q is spent: %d %s in %s", a.of.Rule, a.budget.Most, unit, short(a.of.Window))
	}
	return r
}

// undo gives everything back: nothing of the result was released.
func (s *spender) undo(ctx context.Context) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.accts {
		s.accts[i].left = 0
	}
	s.giveBack(ctx, s.granted)
	s.granted = nil
}

// close gives back what was reserved and not released.
func (s *spender) close(ctx context.Context) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var spare []ratelimit.Spare
	for i := range s.accts {
		if a := &s.accts[i]; a.left > 0 {
			spare = append(spare, a.spare(a.left))
			a.left = 0
		}
	}
	s.giveBack(ctx, spare)
}

func (s *spender) giveBack(ctx context.Context, spare []ratelimit.Spare) {
	switch {
	case len(spare) == 0:
	case s.core.Budgets != nil:
		s.core.Budgets.Return(ctx, spare)
	default:
		s.core.budgets.Return(spare)
	}
}

func (c *Core) reserve(ctx context.Context, claims []ratelimit.Claim) ratelimit.Grant {
	if c.Budgets != nil {
		return c.Budgets.Reserve(ctx, claims)
	}
	return c.budgets.Reserve(time.Now(), claims)
}
