package ratelimit

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// Whatever is claimed, used and given back, and whenever: no window has more than the budget in it, who waits as long as
// told gets what was needed, and what counts too long does so for one slot at most.
func TestBudgetHoldsInEveryWindow(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		of := Budget{Most: 1 + rnd.Int64N(200), Window: time.Duration(1+rnd.IntN(5000)) * time.Millisecond}
		var b Budgets
		now := time.Unix(1e9, 0)
		type use struct {
			at     time.Time
			amount int64
		}
		var used []use
		in := func(window time.Duration) (sum int64) {
			for _, u := range used {
				if now.Sub(u.at) < window {
					sum += u.amount
				}
			}
			return sum
		}
		for range 200 {
			now = now.Add(time.Duration(rnd.Int64N(int64(of.Window) / 8)))
			need := 1 + rnd.Int64N(of.Most)
			c := []Claim{{Key: "k", Budget: of, Need: need, Want: need + rnd.Int64N(20)}}
			g := b.Reserve(now, c)
			if !g.OK {
				if left := of.Most - in(of.Window+of.Slot()); left >= need {
					t.Fatalf("%+v: refused, though %d are left", c, left)
				}
				if g.Wait > of.Window+of.Slot() || !b.probe(now.Add(g.Wait), c) || b.probe(now.Add(g.Wait-1), c) {
					t.Fatalf("%+v: waiting %s is not what it takes", c, g.Wait)
				}
				continue
			}
			if g.Amounts[0] < need || g.Amounts[0] > c[0].Want {
				t.Fatalf("%+v: granted %d", c, g.Amounts[0])
			}
			kept := 1 + rnd.Int64N(g.Amounts[0])
			b.Return([]Spare{{Key: "k", Budget: of, Amount: g.Amounts[0] - kept, At: g.At}})
			used = append(used, use{now, kept})
			if sum := in(of.Window); sum > of.Most {
				t.Fatalf("%d of %d in %s", sum, of.Most, of.Window)
			}
		}
	}
}

// probe reports if claims would be met, and takes nothing.
func (b *Budgets) probe(now time.Time, claims []Claim) bool {
	asks := append([]Claim{}, claims...)
	for i := range asks {
		asks[i].Want = 0
	}
	return b.Reserve(now, asks).OK
}

func TestBudgetClaimsTogether(t *testing.T) {
	var b Budgets
	now := time.Unix(1e9, 0)
	few, many := Budget{Most: 3, Window: time.Hour}, Budget{Most: 1000, Window: time.Hour}
	both := []Claim{{Key: "few", Budget: few, Need: 2, Want: 2}, {Key: "many", Budget: many, Need: 10, Want: 500}}
	if g := b.Reserve(now, both); !g.OK || g.Amounts[0] != 2 || g.Amounts[1] != 500 {
		t.Errorf("%+v", g)
	}
	if g := b.Reserve(now, both); g.OK || g.Denied != 0 || g.Wait <= 0 || g.Wait > time.Hour+few.Slot() {
		t.Errorf("%+v", g)
	}
	if g := b.Reserve(now, both[1:]); g.Amounts[0] != 500 {
		t.Errorf("what was refused took something: %+v", g)
	}
	if g := b.Reserve(now, []Claim{{Key: "few", Budget: few, Need: 4}}); g.OK || g.Wait != Never {
		t.Errorf("more than the whole: %+v", g)
	}
	if g := b.Reserve(now, []Claim{{Key: "few", Budget: Budget{Most: 1, Window: time.Hour}, Need: 1}}); g.OK {
		t.Errorf("a budget that was made smaller: %+v", g)
	}
}

// Keys for which there is no room share one budget, until others are over.
func TestBudgetKeysAreBounded(t *testing.T) {
	b := Budgets{Most: 2}
	now, of := time.Unix(1e9, 0), Budget{Most: 1, Window: time.Minute}
	take := func(key string) bool {
		return b.Reserve(now, []Claim{{Key: key, Budget: of, Need: 1, Want: 1}}).OK
	}
	for i, want := range []bool{true, true, true, false} {
		if got := take(strconv.Itoa(i)); got != want {
			t.Errorf("key %d: %v", i, got)
		}
	}
	now = now.Add(of.Window + 2*of.Slot())
	if !take("4") || !take("5") {
		t.Error("there should be room again")
	}
}

func TestShareOfABudget(t *testing.T) {
	for _, c := range []struct {
		most    int64
		percent int
		want    int64
	}{{500, 25, 125}, {3, 25, 1}, {1 << 40, 50, 1 << 39}, {7, 100, 7}, {1 << 62, 99, (1<<62)/100*99 + 3}} {
		if got := (Budget{Most: c.most}).Share(c.percent).Most; got != c.want {
			t.Errorf("%d %% of %d: %d, want %d", c.percent, c.most, got, c.want)
		}
	}
}
