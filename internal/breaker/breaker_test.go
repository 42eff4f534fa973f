package breaker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

// scripted is an Upstream that answers as it is told.
type scripted struct {
	mu    sync.Mutex
	err   error
	asked int
	hang  bool
}

func (s *scripted) answer(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.asked = err, 0
}

func (s *scripted) ask() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.err
}

func (s *scripted) Open(context.Context, *policy.SourceSpec, sqlgov.OpenOptions) (sqlgov.Wire, error) {
	return nil, s.ask()
}

func (s *scripted) Run(ctx context.Context, _ *policy.SourceSpec, _ sqlgov.RunRequest, _ sqlgov.Sink) (sqlgov.Summary, error) {
	if s.hang {
		<-ctx.Done()
		return sqlgov.Summary{}, ctx.Err()
	}
	return sqlgov.Summary{}, s.ask()
}

var (
	shop        = &policy.SourceSpec{ID: "shop", Upstream: policy.UpstreamSpec{Host: "a"}}
	unreachable = &sqlgov.OpenError{Reason: sqlgov.OpenUnreachable, Err: errors.New("refused")}
)

func run(u *Upstream) error {
	_, err := u.Run(context.Background(), shop, sqlgov.RunRequest{}, sqlgov.Sink{})
	return err
}

func isOpen(err error) bool {
	var oe *sqlgov.OpenError
	return errors.As(err, &oe) && oe.Reason == sqlgov.OpenCircuit
}

// What opens a circuit, and what does not, however often it comes.
func TestWhatOpensACircuit(t *testing.T) {
	for _, tc := range []struct {
		err   error
		opens bool
	}{
		{nil, false},
		{&sqlgov.UpstreamError{SQLState: "42601"}, false},
		{&sqlgov.UpstreamError{SQLState: "57014"}, false}, // the statement's own timeout
		{&sqlgov.UpstreamError{SQLState: "57P01"}, false},
		{context.Canceled, false},
		{context.DeadlineExceeded, false},
		{errors.New("the sink's"), false},
		{&sqlgov.OpenError{Reason: sqlgov.OpenBusy}, false},
		{&sqlgov.OpenError{Reason: sqlgov.OpenAuth}, false},
		{&sqlgov.OpenError{Reason: sqlgov.OpenTLS}, false},
		{&sqlgov.OpenError{Reason: sqlgov.OpenRejected}, false},
		{unreachable, true},
		{&sqlgov.OpenError{Reason: sqlgov.OpenTooMany}, true},
		{fmt.Errorf("%w: reset", sqlgov.ErrConnectionLost), true},
		{fmt.Errorf("%w: reset", sqlgov.ErrOutcomeUnknown), true},
	} {
		next := &scripted{err: tc.err}
		u := &Upstream{Next: next, Failures: 3, Pause: time.Hour}
		for range 10 {
			_ = run(u)
			_, _ = u.Open(context.Background(), shop, sqlgov.OpenOptions{})
		}
		if _, open := u.Circuit("shop"); open != tc.opens || open != (next.asked == 3) {
			t.Errorf("%v: open %t after %d requests", tc.err, open, next.asked)
		}
	}
}

// Where a source has several servers, connections that broke with one say nothing of the others. That none can be reached does.
func TestSeveralServers(t *testing.T) {
	pair := *shop
	pair.Upstream.Host = "a,b"
	next := &scripted{err: fmt.Errorf("%w: reset", sqlgov.ErrConnectionLost)}
	u := &Upstream{Next: next, Failures: 3, Pause: time.Hour}
	for range 10 {
		_, _ = u.Run(context.Background(), &pair, sqlgov.RunRequest{}, sqlgov.Sink{})
	}
	if _, open := u.Circuit("shop"); open || next.asked != 10 {
		t.Errorf("open %t after %d lost connections", open, next.asked)
	}
	next.answer(unreachable)
	for range 3 {
		_, _ = u.Open(context.Background(), &pair, sqlgov.OpenOptions{})
	}
	if _, open := u.Circuit("shop"); !open {
		t.Error("not open though no server can be reached")
	}
}

// Failures count in a row; an open circuit asks nobody; after the pause exactly one of many asks; it decides.
func TestProbe(t *testing.T) {
	const pause = time.Second
	next := &scripted{err: unreachable}
	var changes []bool
	u := &Upstream{Next: next, Failures: 3, Pause: pause, Changed: func(_ string, open bool) { changes = append(changes, open) }}
	for range 4 {
		_, _ = run(u), run(u)
		next.answer(nil)
		if err := run(u); err != nil {
			t.Fatalf("after two failures: %v", err)
		}
		next.answer(unreachable)
	}
	_, _, _ = run(u), run(u), run(u)
	next.answer(unreachable)
	if err := run(u); !isOpen(err) || next.asked != 0 {
		t.Fatalf("while it is open: %v, asked %d times", err, next.asked)
	}
	if again, open := u.Circuit("shop"); !open || again <= 0 || again > pause {
		t.Errorf("open %t, again in %s", open, again)
	}
	time.Sleep(pause + 20*time.Millisecond)
	if err := run(u); isOpen(err) || next.asked != 1 {
		t.Errorf("the probe: %v", err)
	}
	if err := run(u); !isOpen(err) {
		t.Errorf("after a probe that failed: %v", err)
	}
	time.Sleep(pause + 20*time.Millisecond)
	next.answer(context.Canceled) // says nothing, so the next one may ask
	if err := run(u); !errors.Is(err, context.Canceled) {
		t.Errorf("the probe: %v", err)
	}
	next.answer(nil)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { _ = run(u) })
	}
	all.Wait()
	if err := run(u); err != nil {
		t.Errorf("after a probe that went well: %v", err)
	}
	if len(changes) != 2 || !changes[0] || changes[1] {
		t.Errorf("told of %v", changes)
	}
	next.answer(unreachable)
	_, _, _ = run(u), run(u), run(u)
	moved := *shop
	moved.Upstream.Host = "b"
	if _, err := u.Open(context.Background(), &moved, sqlgov.OpenOptions{}); isOpen(err) {
		t.Error("another server is another circuit")
	}
}

// A server that does not end a statement at its timeout is lost. A caller who gives up sooner says nothing of it.
func TestOverdue(t *testing.T) {
	u := &Upstream{Next: &scripted{hang: true}, Failures: 2, Pause: time.Hour, Overdue: 20 * time.Millisecond}
	req := sqlgov.RunRequest{Timeout: 10 * time.Millisecond}
	for range 3 {
		ctx, giveUp := context.WithCancel(context.Background())
		giveUp()
		if _, err := u.Run(ctx, shop, req, sqlgov.Sink{}); errors.Is(err, sqlgov.ErrConnectionLost) {
			t.Errorf("the caller gave up: %v", err)
		}
	}
	for range 2 {
		if _, err := u.Run(context.Background(), shop, req, sqlgov.Sink{}); !errors.Is(err, sqlgov.ErrConnectionLost) {
			t.Errorf("overdue: %v", err)
		}
	}
	if err := run(u); !isOpen(err) {
		t.Errorf("after two: %v", err)
	}
}
