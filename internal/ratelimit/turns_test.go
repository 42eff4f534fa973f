package ratelimit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// 100 callers, 4 turns: never more than 4 run, all run, and nothing is left.
func TestTurns(t *testing.T) {
	var turns Turns
	var running, most, ran atomic.Int32
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			release, err := turns.Take(context.Background(), "k", Bound{4, 100, time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Millisecond)
			ran.Add(1)
			running.Add(-1)
			release()
			release()
		})
	}
	all.Wait()
	if most.Load() > 4 || ran.Load() != 100 || turns.Len() != 0 {
		t.Errorf("%d ran, %d at once, %d keys left", ran.Load(), most.Load(), turns.Len())
	}
}

func TestTurnsRefuse(t *testing.T) {
	var turns Turns
	ctx := context.Background()
	release, err := turns.Take(ctx, "k", Bound{1, 0, time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turns.Take(ctx, "k", Bound{1, 0, time.Minute}); !errors.Is(err, ErrFull) {
		t.Errorf("nothing may wait: %v", err)
	}
	if _, err := turns.Take(ctx, "k", Bound{1, 1, 10 * time.Millisecond}); !errors.Is(err, ErrLate) {
		t.Errorf("in vain: %v", err)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := turns.Take(canceled, "k", Bound{1, 1, time.Minute}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	other, err := turns.Take(ctx, "other", Bound{1, 0, 0})
	if err != nil {
		t.Errorf("another key: %v", err)
	}
	other()
	release()
	if turns.Len() != 0 {
		t.Errorf("%d keys are left", turns.Len())
	}
}

// Turns come in the order of arrival, and a bound that is changed takes effect.
func TestTurnsOrderAndChange(t *testing.T) {
	var turns Turns
	ctx := context.Background()
	first, _ := turns.Take(ctx, "k", Bound{1, 10, time.Minute})
	order := make(chan int, 3)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			release, err := turns.Take(ctx, "k", Bound{1, 10, time.Minute})
			if err != nil {
				t.Error(err)
			}
			order <- i
			release()
		})
		for n := 0; n <= i; time.Sleep(time.Millisecond) {
			turns.mu.Lock()
			n = len(turns.lines["k"].waiting)
			turns.mu.Unlock()
		}
	}
	first()
	all.Wait()
	for want := range 3 {
		if got := <-order; got != want {
			t.Errorf("turn %d went to %d", want, got)
		}
	}
	a, _ := turns.Take(ctx, "k", Bound{2, 0, 0})
	b, _ := turns.Take(ctx, "k", Bound{2, 0, 0})
	if _, err := turns.Take(ctx, "k", Bound{1, 0, 0}); err == nil {
		t.Error("the bound was lowered")
	}
	c, err := turns.Take(ctx, "k", Bound{3, 0, 0})
	if err != nil {
		t.Errorf("the bound was raised: %v", err)
	}
	a()
	b()
	c()
	if turns.Len() != 0 {
		t.Error("keys are left")
	}
}
