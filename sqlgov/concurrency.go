package sqlgov

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"interlock/internal/ratelimit"
	"interlock/sqlgov/policy"
)

// defaultQueueWait is how long a statement waits for its turn when the governance document does not say.
const defaultQueueWait = 5 * time.Second

// place is where a caller stands among what runs at the same time: one for each MCP call, and one for each session,
// whose statements the server takes one after the other. It holds turns while a statement of its is under way.
type place struct {
	mu      sync.Mutex
	running int
	release []func()
}

// queue waits for the turn of the identity and that of the source. Only one goroutine may call it for a place.
func (c *Core) queue(ctx context.Context, a *admission) *Refusal {
	if a.rehearse {
		return nil
	}
	if a.place == nil {
		a.place = &place{}
	}
	if a.place.join() {
		atomic.StoreUint32(&a.turn, 1)
		return nil
	}
	release, r := c.turns(ctx, a)
	if r != nil {
		return r
	}
	a.place.begin(release)
	atomic.StoreUint32(&a.turn, 1)
	return nil
}

// join counts one more statement if one is under way already. The next one is not made to wait for a turn then: the
// place has one.
func (p *place) join() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == 0 {
		return false
	}
	p.running++
	return true
}

func (p *place) begin(release []func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running, p.release = 1, release
}

func (p *place) leave() {
	p.mu.Lock()
	var release []func()
	if p.running--; p.running == 0 {
		release, p.release = p.release, nil
	}
	p.mu.Unlock()
	for _, f := range release {
		f()
	}
}

// leaveTurn gives back what queue has taken. It may be called more than once.
func (a *admission) leaveTurn() {
	if atomic.SwapUint32(&a.turn, 0) == 1 {
		a.place.leave()
	}
}

// turns takes first the identity's turn and then the source's, always in this order.
func (c *Core) turns(ctx context.Context, a *admission) (release []func(), r *Refusal) {
	var own policy.Concurrency
	if who := a.rules.Identity(a.caller.Identity); who != nil {
		own = who.Limits.Concurrency
	}
	for _, t := range [...]struct {
		kind, name string
		bound      policy.Concurrency
	}{
		{"identity", a.caller.Identity, own},
		{"source", a.source, a.src.Limits.Concurrency},
	} {
		if t.bound.Running <= 0 {
			continue
		}
		wait := t.bound.Wait
		if wait <= 0 {
			wait = defaultQueueWait
		}
		leave, err := c.running.Take(ctx, t.kind+"/"+t.name, ratelimit.Bound{Running: t.bound.Running, Waiting: t.bound.Queue, Wait: wait})
		if err != nil {
			for _, f := range release {
				f()
			}
			return nil, noTurn(fmt.Sprintf("%s %q", t.kind, t.name), t.bound, err)
		}
		release = append(release, leave)
	}
	return release, nil
}

// busyAgain is when a caller who found no turn may try again. When one will be free cannot be told.
const busyAgain = time.Second

func noTurn(whose string, b policy.Concurrency, err error) *Refusal {
	r := &Refusal{Kind: RateLimited, SQLState: "53300"}
	switch {
	case errors.Is(err, ratelimit.ErrFull) && b.Queue > 0:
		r.Message = fmt.Sprintf("%s has %d statements running and %d waiting, and no more may wait", whose, b.Running, b.Queue)
	case errors.Is(err, ratelimit.ErrFull):
		r.Message = fmt.Sprintf("%s has %d statements running, and no more may run at the same time", whose, b.Running)
	case errors.Is(err, ratelimit.ErrLate):
		r.Message = fmt.Sprintf("%s has %d statements running, and none of them ended in time", whose, b.Running)
	default:
		return &Refusal{Kind: Canceled, SQLState: "57014", Message: "canceling statement due to user request", Err: err}
	}
	return r.retry(busyAgain)
}
