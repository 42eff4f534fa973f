package shared

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"interlock/internal/ratelimit"
	"interlock/internal/redistest"
)

// The script decides as the budgets in process do: the same grants, the same waits.
func TestBudgetAsInProcess(t *testing.T) {
	nodes := node(t, redistest.Start(t).URL()).Budgets()
	var b ratelimit.Budgets
	rnd := rand.New(rand.NewPCG(3, 4))
	of := map[string]ratelimit.Budget{"rows": {Most: 500, Window: 24 * time.Hour}, "bytes": {Most: 1 << 40, Window: 48 * time.Hour}, "few": {Most: 20, Window: 96 * time.Hour}}
	for i := range 200 {
		var claims []ratelimit.Claim
		for _, key := range []string{"rows", "bytes", "few"} {
			if rnd.IntN(3) > 0 {
				need := 1 + rnd.Int64N(of[key].Most/15)
				claims = append(claims, ratelimit.Claim{Key: key, Budget: of[key], Need: need, Want: need + rnd.Int64N(10)})
			}
		}
		got, want := nodes.Reserve(t.Context(), claims), b.Reserve(time.Now(), claims)
		// The slots of a window begin at another moment.
		if got.OK != want.OK || got.Denied != want.Denied || (got.Wait-want.Wait).Abs() > 4*time.Hour || len(got.Amounts) != len(want.Amounts) {
			t.Fatalf("step %d: %+v, in process %+v", i, got, want)
		}
		for j, n := range got.Amounts {
			if n != want.Amounts[j] {
				t.Fatalf("step %d: %+v, in process %+v", i, got, want)
			}
		}
		if got.OK && rnd.IntN(2) == 0 {
			nodes.Return(t.Context(), parts(claims, got))
			b.Return(parts(claims, want))
		}
	}
	if nodes.rates.Lost() {
		t.Error("Redis counts as lost")
	}
}

// parts is half of what was granted.
func parts(claims []ratelimit.Claim, g ratelimit.Grant) []ratelimit.Spare {
	var all []ratelimit.Spare
	for i, c := range claims {
		all = append(all, ratelimit.Spare{Key: c.Key, Budget: c.Budget, Amount: g.Amounts[i] / 2, At: g.At, SharedAt: g.SharedAt})
	}
	return all
}

// What three nodes spend together in blocks, of which they give a part back, is what there is; while Redis is lost, each
// has its share, less what it has spent before.
func TestNodesShareABudget(t *testing.T) {
	redis := redistest.Start(t)
	var nodes []*Budgets
	for range 3 {
		r, err := New(Config{URL: redis.URL(), Timeout: 30 * time.Second}) // a slow machine is no lost Redis
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		nodes = append(nodes, r.Budgets())
	}
	of := ratelimit.Budget{Most: 1000, Window: 24 * time.Hour}
	spend := func(b *Budgets) (spent int64) {
		for {
			c := []ratelimit.Claim{{Key: "k", Budget: of, Need: 1, Want: 7}}
			g := b.Reserve(context.Background(), c)
			if !g.OK {
				return spent
			}
			used := (g.Amounts[0] + 1) / 2
			spent += used
			b.Return(context.Background(), []ratelimit.Spare{{Key: "k", Budget: of, Amount: g.Amounts[0] - used, At: g.At, SharedAt: g.SharedAt}})
		}
	}
	var all sync.WaitGroup
	var sum, first atomic.Int64
	for i, b := range nodes[:2] {
		all.Go(func() {
			n := spend(b)
			sum.Add(n)
			if i == 0 {
				first.Store(n)
			}
		})
	}
	all.Wait()
	if sum.Load() > of.Most || sum.Load() < of.Most-14 { // one may give back after the other has given up
		t.Errorf("%d were spent of %d", sum.Load(), of.Most)
	}
	redis.Kill()
	for i, b := range nodes {
		already := []int64{first.Load(), sum.Load() - first.Load(), 0}[i]
		if n, most := spend(b), max(0, 250-already); n > most || i == 2 && n != 250 {
			t.Errorf("node %d has spent %d and then %d without Redis", i, already, n)
		}
	}
	redis.Restart() // and has forgotten everything
	for _, b := range nodes {
		b.rates.again.Store(1)
	}
	if n := spend(nodes[0]); n+first.Load() > of.Most {
		t.Errorf("the first node has spent %d and %d", first.Load(), n)
	}
	if nodes[0].rates.Lost() {
		t.Error("Redis counts as lost")
	}
}
