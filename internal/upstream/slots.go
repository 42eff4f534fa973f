package upstream

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

// slots counts the connections of one source against its limit and keeps the idle ones. A slot is the right to have
// one connection: take yields one, give or drop returns it.
type slots struct {
	spec  policy.UpstreamSpec
	limit int
	wait  time.Duration

	servers servers

	mu      sync.Mutex
	used    int     // slots that are taken or that idle connections hold
	idle    []*conn // least recently used first
	waiting []chan *conn
	retired bool
}

// take waits for a slot. It prefers one with an idle connection that fits, which the caller then owns; else the
// connection returned is nil and the caller may dial one. Without fits none does.
func (s *slots) take(ctx context.Context, fits func(*conn) bool) (*conn, error) {
	c, ticket := s.tryTake(fits)
	if ticket != nil {
		var err error
		if c, err = s.await(ctx, ticket); err != nil {
			return nil, err
		}
	}
	if c != nil && (fits == nil || !fits(c)) {
		c.close()
		c = nil
	}
	return c, nil
}

func (s *slots) tryTake(fits func(*conn) bool) (*conn, chan *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.idle) - 1; i >= 0 && fits != nil; i-- {
		if c := s.idle[i]; fits(c) {
			s.idle = slices.Delete(s.idle, i, i+1)
			return c, nil
		}
	}
	switch {
	case s.used < s.limit:
		s.used++
		return nil, nil
	case len(s.idle) > 0:
		c := s.idle[0]
		s.idle = slices.Delete(s.idle, 0, 1)
		return c, nil
	}
	ticket := make(chan *conn, 1)
	s.waiting = append(s.waiting, ticket)
	return nil, ticket
}

func (s *slots) await(ctx context.Context, ticket chan *conn) (*conn, error) {
	timeout := time.NewTimer(s.wait)
	defer timeout.Stop()
	var err error
	select {
	case c := <-ticket:
		return c, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timeout.C:
		err = &sqlgov.OpenError{Reason: sqlgov.OpenBusy,
			Err: fmt.Errorf("all %d connections of the source were in use for %s", s.limit, s.wait)}
	}
	s.mu.Lock()
	i := slices.Index(s.waiting, ticket)
	if i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	s.mu.Unlock()
	if i < 0 { // a slot came after all, for someone who has left
		s.give(<-ticket)
	}
	return nil, err
}

// give returns a slot with its connection, which must be ready for use by anyone. A nil connection is dropped.
func (s *slots) give(c *conn) {
	if c == nil {
		s.drop()
		return
	}
	s.mu.Lock()
	switch {
	case s.retired:
		s.mu.Unlock()
		c.close()
		s.drop()
		return
	case len(s.waiting) > 0:
		s.waiting[0] <- c
		s.waiting = slices.Delete(s.waiting, 0, 1)
	default:
		c.since = time.Now()
		s.idle = append(s.idle, c)
	}
	s.mu.Unlock()
}

// drop returns a slot whose connection is closed or was never made.
func (s *slots) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 {
		s.waiting[0] <- nil
		s.waiting = slices.Delete(s.waiting, 0, 1)
		return
	}
	s.used--
}

func (s *slots) isRetired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retired
}

// closeIdle closes connections that have been idle since before the time given.
func (s *slots) closeIdle(before time.Time) {
	s.mu.Lock()
	n := 0
	for n < len(s.idle) && s.idle[n].since.Before(before) {
		n++
	}
	old := slices.Clone(s.idle[:n])
	s.idle = slices.Delete(s.idle, 0, n)
	s.mu.Unlock()
	for _, c := range old {
		c.close()
		s.drop()
	}
}

// retire closes what is idle and makes give close what comes back.
func (s *slots) retire() {
	s.mu.Lock()
	s.retired = true
	s.mu.Unlock()
	s.closeIdle(time.Now().Add(time.Hour))
}
