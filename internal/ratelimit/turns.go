package ratelimit

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"interlock/internal/loop"
)

// Bound says how much may run under a key at the same time, how much may wait, and for how long.
type Bound struct {
	Running int // at least 1
	Waiting int // 0: nothing waits
	Wait    time.Duration
}

// Why a turn cannot be had.
var (
	ErrFull = errors.New("too many are waiting")
	ErrLate = errors.New("no turn in time")
)

// Turns bound what runs under each key. Who waits is served in the order of arrival. The zero value is ready to use, and
// safe for concurrent use. A key takes memory only while something runs under it.
type Turns struct {
	mu    sync.Mutex
	lines map[string]*line
}

type line struct {
	most    int // that may run, as the newest call has it
	running int
	waiting []chan struct{}
}

// Take waits for a turn. What it returns gives the turn back, and may be called more than once. The error is ErrFull,
// ErrLate or ctx's. The bound that counts is that of the newest call, so a changed one takes effect at once; what runs
// already is left alone.
func (t *Turns) Take(ctx context.Context, key string, b Bound) (release func(), err error) {
	ticket, err := t.enter(key, b)
	if err != nil {
		return nil, err
	}
	if ticket != nil {
		if err := t.await(ctx, key, ticket, b.Wait); err != nil {
			return nil, err
		}
	}
	return sync.OnceFunc(func() { t.leave(key) }), nil
}

func (t *Turns) enter(key string, b Bound) (chan struct{}, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[key]
	if l == nil {
		l = &line{}
		if t.lines == nil {
			t.lines = make(map[string]*line)
		}
		t.lines[key] = l
	}
	l.most = max(1, b.Running)
	l.admit()
	switch {
	case l.running < l.most:
		l.running++
		return nil, nil
	case len(l.waiting) >= b.Waiting || b.Wait <= 0:
		return nil, ErrFull
	}
	ticket := make(chan struct{})
	l.waiting = append(l.waiting, ticket)
	return ticket, nil
}

// admit gives turns that are free to those who wait.
func (l *line) admit() {
	for l.running < l.most && len(l.waiting) > 0 {
		close(l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
		l.running++
	}
}

func (t *Turns) await(ctx context.Context, key string, ticket chan struct{}, most time.Duration) error {
	loop.Leave(ctx)
	timer := time.NewTimer(most)
	defer timer.Stop()
	err := ErrLate
	select {
	case <-ticket:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
	}
	t.mu.Lock()
	l := t.lines[key]
	i := slices.Index(l.waiting, ticket)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // the turn came after all, for someone who has left
		t.leave(key)
	}
	return err
}

func (t *Turns) leave(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[key]
	l.running--
	if l.admit(); l.running == 0 {
		delete(t.lines, key)
	}
}

// Len is the number of keys under which something runs.
func (t *Turns) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lines)
}
