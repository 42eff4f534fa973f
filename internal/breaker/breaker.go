// Package breaker keeps requests away from a source whose server cannot be reached, until one of them finds it back.
package breaker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

// Upstream passes requests on to another Upstream while the circuit of their source is closed. Failures to connect,
// lost connections and timeouts in a row open it; after a pause one request is let through, which closes it or opens it
// for another pause. What the server says about a statement, and what the caller does, counts neither way. It
// implements sqlgov.Upstream and is safe for concurrent use. Its fields are set before first use.
type Upstream struct {
	Next     sqlgov.Upstream
	Failures int           // in a row that open a circuit; 0 means 5
	Pause    time.Duration // that a circuit stays open; 0 means 10 s
	// Overdue is how much longer than its timeout a statement may take before the server counts as lost; 0 means 10 s.
	Overdue time.Duration
	// Changed is told when a circuit opens or closes. It may be nil.
	Changed func(source string, open bool)

	mu       sync.Mutex
	circuits map[string]*circuit
}

// circuit is that of one source, as long as it leads to the same server.
type circuit struct {
	*gobreaker.CircuitBreaker[any]
	spec policy.UpstreamSpec

	mu    sync.Mutex
	tried time.Time // when it is tried again, while it is open
}

// Circuit tells if the circuit of a source is open, and when it is tried again.
func (u *Upstream) Circuit(source string) (again time.Duration, open bool) {
	u.mu.Lock()
	c := u.circuits[source]
	u.mu.Unlock()
	if c == nil || c.State() != gobreaker.StateOpen {
		return 0, false
	}
	return c.again(), true
}

func (c *circuit) again() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(0, time.Until(c.tried))
}

func (u *Upstream) circuit(src *policy.SourceSpec) *circuit {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.circuits[src.ID]; c != nil && c.spec == src.Upstream {
		return c
	}
	failures, pause := u.Failures, u.Pause
	if failures <= 0 {
		failures = 5
	}
	if pause <= 0 {
		pause = 10 * time.Second
	}
	c := &circuit{spec: src.Upstream}
	c.CircuitBreaker = gobreaker.NewCircuitBreaker[any](gobreaker.Settings{
		Name:         src.ID,
		MaxRequests:  1,
		Timeout:      pause,
		ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= uint32(failures) },
		IsSuccessful: reached,
		IsExcluded:   func(err error) bool { return undecided(err) || src.Upstream.Several() && lost(err) },
		OnStateChange: func(source string, from, to gobreaker.State) {
			c.mu.Lock()
			c.tried = time.Now().Add(pause)
			c.mu.Unlock()
			if u.Changed != nil && (to == gobreaker.StateClosed || from == gobreaker.StateClosed) {
				u.Changed(source, to == gobreaker.StateOpen)
			}
		},
	})
	if u.circuits == nil {
		u.circuits = make(map[string]*circuit)
	}
	u.circuits[src.ID] = c
	return c
}

// reached reports if an error leaves no doubt about the server: it answered.
func reached(err error) bool {
	var open *sqlgov.OpenError
	switch {
	case lost(err):
		return false
	case errors.As(err, &open):
		return open.Reason != sqlgov.OpenUnreachable && open.Reason != sqlgov.OpenTooMany
	}
	return true
}

// lost reports if a connection broke. Where there are other servers that says nothing about those; the next connection will.
func lost(err error) bool {
	return errors.Is(err, sqlgov.ErrConnectionLost) || errors.Is(err, sqlgov.ErrOutcomeUnknown)
}

// undecided reports if an error says nothing about the server: the caller went away, or it was never asked.
func undecided(err error) bool {
	var open *sqlgov.OpenError
	if errors.As(err, &open) {
		return open.Reason == sqlgov.OpenBusy
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, sqlgov.ErrConnectionLost)
}

// Open implements sqlgov.Upstream.
func (u *Upstream) Open(ctx context.Context, src *policy.SourceSpec, opt sqlgov.OpenOptions) (sqlgov.Wire, error) {
	c := u.circuit(src)
	return through(c, func() (sqlgov.Wire, error) {
		w, err := u.Next.Open(ctx, src, opt)
		if l, shared := w.(sqlgov.Lease); shared && err == nil {
			w = lease{l, c}
		}
		return w, err
	})
}

// lease is a Wire that needs connections for as long as it is open. What comes of them counts for the circuit.
type lease struct {
	sqlgov.Lease
	circuit *circuit
}

func (l lease) Hold(ctx context.Context) error {
	_, err := through(l.circuit, func() (struct{}, error) { return struct{}{}, l.Lease.Hold(ctx) })
	return err
}

// Run implements sqlgov.Upstream. The server itself ends a statement at its timeout. One that does not is lost.
func (u *Upstream) Run(ctx context.Context, src *policy.SourceSpec, req sqlgov.RunRequest, sink sqlgov.Sink) (sqlgov.Summary, error) {
	return through(u.circuit(src), func() (sqlgov.Summary, error) {
		if req.Timeout <= 0 {
			return u.Next.Run(ctx, src, req, sink)
		}
		overdue := u.Overdue
		if overdue <= 0 {
			overdue = 10 * time.Second
		}
		limited, cancel := context.WithTimeout(ctx, req.Timeout+overdue)
		defer cancel()
		sum, err := u.Next.Run(limited, src, req, sink)
		if err != nil && limited.Err() != nil && ctx.Err() == nil && !errors.Is(err, sqlgov.ErrOutcomeUnknown) {
			err = fmt.Errorf("%w: the server did not end the statement at its timeout: %w", sqlgov.ErrConnectionLost, err)
		}
		return sum, err
	})
}

// through asks the circuit, runs f, and tells the circuit how it went.
func through[T any](c *circuit, f func() (T, error)) (T, error) {
	var result T
	_, err := c.Execute(func() (_ any, err error) {
		result, err = f()
		return nil, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return result, &sqlgov.OpenError{Reason: sqlgov.OpenCircuit, Err: err, Again: c.again()}
	}
	return result, err
}
