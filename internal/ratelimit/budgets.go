package ratelimit

import (
	"sync"
	"time"
)

// Budget is how much may be spent in any stretch of time as long as Window. Both must be positive.
type Budget struct {
	Most   int64
	Window time.Duration
}

// Share is the part of a budget that percent is, at least one.
func (b Budget) Share(percent int) Budget {
	if percent >= 100 || percent < 1 {
		return b
	}
	return Budget{Most: max(1, b.Most/100*int64(percent)+b.Most%100*int64(percent)/100), Window: b.Window}
}

// Slots is the number of slots in a window. What is spent counts until the slot that it was spent in is a whole window
// old, so for up to one slot longer than it must.
const Slots = 32

// Slot is how long a slot of the budget is.
func (b Budget) Slot() time.Duration { return (b.Window + Slots - 1) / Slots }

// Claim asks for a part of the budget that has a key. No two claims of a call have the same key.
type Claim struct {
	Key    string
	Budget Budget
	Need   int64 // with less it is not met
	Want   int64 // as much as is left of that is granted, but not more; it may be less than Need, even 0
}

// Grant is the answer to claims.
type Grant struct {
	OK      bool
	Amounts []int64 // granted to each claim, if OK
	// Denied is the index of the claim that was not met; of several, the one that takes longest.
	Denied int
	// Wait is how long until it can be met if nobody else spends anything. Never means that it is more than the whole budget.
	Wait time.Duration
	// At and SharedAt are when it was spent, by the clock of the process and by that of what processes share, for Return.
	// SharedAt is 0 if only this process knows of it.
	At, SharedAt time.Duration
}

// Spare is a part of a grant that was not used.
type Spare struct {
	Key          string
	Budget       Budget
	Amount       int64
	At, SharedAt time.Duration // as in the grant
}

// Budgets count what is spent, by key. The zero value is ready to use, and safe for concurrent use.
type Budgets struct {
	// Most bounds the keys that are kept; 0 means 100,000. Keys for which there is no room share one budget.
	Most int

	mu    sync.Mutex
	start time.Time // so that times are those of a clock which nobody sets
	kept  map[ledgerKey]ledger
	swept time.Time
}

// ledgerKey has the window because slots of another length cannot be counted together.
type ledgerKey struct {
	key    string
	window time.Duration
}

// ledger is what was spent in each slot, oldest first.
type ledger []spending

type spending struct{ slot, amount int64 }

// Reserve meets all claims, or none.
func (b *Budgets) Reserve(now time.Time, claims []Claim) Grant {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.start.IsZero() {
		b.start = now
	}
	g := Grant{OK: true, At: now.Sub(b.start), Amounts: make([]int64, len(claims))}
	for i := range claims {
		c := &claims[i]
		book := b.kept[b.place(now, c)].since(c.Budget, g.At)
		left := c.Budget.Most - book.sum()
		if left < c.Need {
			if wait := book.wait(c, g.At); g.OK || wait > g.Wait {
				g.OK, g.Denied, g.Wait = false, i, wait
			}
			continue
		}
		g.Amounts[i] = min(c.Want, left)
	}
	if !g.OK {
		return Grant{Denied: g.Denied, Wait: g.Wait}
	}
	for i := range claims {
		if g.Amounts[i] > 0 {
			b.spend(now, &claims[i], g.Amounts[i])
		}
	}
	return g
}

// Return gives back what was not used.
func (b *Budgets) Return(spare []Spare) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range spare {
		s := &spare[i]
		book := b.kept[b.keyFor(s.Key, s.Budget)]
		for j := range book {
			if book[j].slot == int64(s.At/s.Budget.Slot()) {
				book[j].amount = max(0, book[j].amount-s.Amount)
			}
		}
	}
}

func (b *Budgets) spend(now time.Time, c *Claim, amount int64) {
	key := b.place(now, c)
	at := now.Sub(b.start)
	book := b.kept[key].since(c.Budget, at)
	slot := int64(at / c.Budget.Slot())
	if n := len(book); n > 0 && book[n-1].slot >= slot {
		book[n-1].amount += amount
	} else {
		book = append(book, spending{slot, amount})
	}
	b.kept[key] = book
}

// since leaves out what does not count any more.
func (l ledger) since(b Budget, at time.Duration) ledger {
	oldest := int64(at/b.Slot()) - Slots
	for len(l) > 0 && l[0].slot < oldest {
		l = l[1:]
	}
	return l
}

func (l ledger) sum() (n int64) {
	for _, s := range l {
		n += s.amount
	}
	return n
}

// wait is how long until a claim can be met.
func (l ledger) wait(c *Claim, at time.Duration) time.Duration {
	if c.Need > c.Budget.Most {
		return Never
	}
	left := c.Budget.Most - l.sum()
	for _, s := range l {
		if left += s.amount; left >= c.Need {
			return time.Duration(s.slot+Slots+1)*c.Budget.Slot() - at
		}
	}
	return c.Budget.Window
}

// keyFor returns the key under which a budget is kept.
func (b *Budgets) keyFor(key string, of Budget) ledgerKey {
	own := ledgerKey{key, of.Window}
	if _, known := b.kept[own]; known {
		return own
	}
	return ledgerKey{overflow, of.Window}
}

// place returns the key under which a budget is or may be kept.
func (b *Budgets) place(now time.Time, c *Claim) ledgerKey {
	if b.kept == nil {
		b.kept = make(map[ledgerKey]ledger)
	}
	most := b.Most
	if most <= 0 {
		most = defaultMost
	}
	own := ledgerKey{c.Key, c.Budget.Window}
	if _, known := b.kept[own]; known || len(b.kept) < most {
		return own
	}
	if now.Sub(b.swept) >= time.Second {
		b.swept = now
		for key, book := range b.kept {
			if len(book.since(Budget{Window: key.window}, now.Sub(b.start))) == 0 {
				delete(b.kept, key)
			}
		}
	}
	if len(b.kept) < most {
		return own
	}
	return ledgerKey{overflow, c.Budget.Window}
}
