package shared

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"interlock/internal/loop"
	"interlock/internal/ratelimit"
)

// Budgets are budgets in Redis, shared by all who use the same prefix. Every node also counts what it has spent itself, so
// that while Redis is lost, it spends no more than its share of each budget in all, what it spent before included; and no
// node spends more than the whole, whatever Redis has forgotten. It is safe for concurrent use.
type Budgets struct {
	rates *Rates
	own   ratelimit.Budgets
}

// Budgets returns those that are kept in the same Redis under the same prefix. It is called once.
func (r *Rates) Budgets() *Budgets { return &Budgets{rates: r} }

//go:embed budget.lua
var budgetScript string

var budget = redis.NewScript(budgetScript)

// Reserve meets all claims, or none.
func (b *Budgets) Reserve(ctx context.Context, claims []ratelimit.Claim) ratelimit.Grant {
	if b.rates.mayTry() {
		own := b.own.Reserve(time.Now(), claims)
		if !own.OK {
			return own
		}
		g, err := b.shared(ctx, claims, own)
		if err == nil {
			b.rates.found()
			return g
		}
		b.own.Return(spare(claims, own, nil))
		b.rates.lost(err)
	}
	stricter := make([]ratelimit.Claim, len(claims))
	for i, c := range claims {
		c.Budget = c.Budget.Share(b.rates.cfg.LostShare)
		stricter[i] = c
	}
	return b.own.Reserve(time.Now(), stricter)
}

// shared asks Redis for what this node may spend by itself.
func (b *Budgets) shared(ctx context.Context, claims []ratelimit.Claim, own ratelimit.Grant) (ratelimit.Grant, error) {
	keys, args := make([]string, len(claims)), []any{"reserve"}
	for i, c := range claims {
		keys[i] = b.key(c.Key, c.Budget)
		args = append(args, width(c.Budget), ratelimit.Slots, c.Budget.Most, c.Need, own.Amounts[i])
	}
	reply, err := b.do(ctx, keys, args)
	if err != nil {
		return ratelimit.Grant{}, err
	}
	if len(reply) < 2 || reply[0] > int64(len(claims)) || reply[0] == 0 && len(reply) != len(claims)+2 {
		return ratelimit.Grant{}, fmt.Errorf("unexpected answer of Redis: %v", reply)
	}
	if reply[0] > 0 {
		b.own.Return(spare(claims, own, nil))
		denied := int(reply[0] - 1)
		if c := &claims[denied]; c.Need > c.Budget.Most {
			return ratelimit.Grant{Denied: denied, Wait: ratelimit.Never}, nil
		}
		return ratelimit.Grant{Denied: denied, Wait: time.Duration(reply[1]) * time.Microsecond}, nil
	}
	g := ratelimit.Grant{OK: true, Amounts: reply[2:], At: own.At, SharedAt: time.Duration(reply[1]) * time.Microsecond}
	for i, n := range g.Amounts {
		if n < 0 || n > own.Amounts[i] {
			return ratelimit.Grant{}, errors.New("unexpected answer of Redis: more than was wanted")
		}
	}
	b.own.Return(spare(claims, own, g.Amounts))
	return g, nil
}

// spare is what is left of a grant when so much of it is used.
func spare(claims []ratelimit.Claim, g ratelimit.Grant, used []int64) []ratelimit.Spare {
	var all []ratelimit.Spare
	for i, c := range claims {
		s := ratelimit.Spare{Key: c.Key, Budget: c.Budget, Amount: g.Amounts[i], At: g.At}
		if used != nil {
			s.Amount -= used[i]
		}
		if s.Amount > 0 {
			all = append(all, s)
		}
	}
	return all
}

// Return gives back what was not used. While Redis is lost, it stays spent there.
func (b *Budgets) Return(ctx context.Context, spare []ratelimit.Spare) {
	b.own.Return(spare)
	var keys []string
	args := []any{"return"}
	for _, s := range spare {
		if s.SharedAt > 0 {
			keys = append(keys, b.key(s.Key, s.Budget))
			args = append(args, int64(s.SharedAt/time.Microsecond)/width(s.Budget), s.Amount)
		}
	}
	if len(keys) == 0 || !b.rates.mayTry() {
		return
	}
	if _, err := b.do(ctx, keys, args); err != nil {
		b.rates.lost(err)
		return
	}
	b.rates.found()
}

func (b *Budgets) do(ctx context.Context, keys []string, args []any) ([]int64, error) {
	loop.Leave(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.rates.cfg.Timeout)
	defer cancel()
	return budget.Run(ctx, b.rates.client, keys, args...).Int64Slice()
}

// key has the window because slots of another length cannot be counted together.
func (b *Budgets) key(key string, of ratelimit.Budget) string {
	return "{" + b.rates.cfg.Prefix + "}:budget:" + strconv.FormatInt(of.Window.Milliseconds(), 10) + ":" + key
}

// width is the length of a slot in microseconds.
func width(b ratelimit.Budget) int64 {
	return int64((b.Slot() + time.Microsecond - 1) / time.Microsecond)
}
