package pgwire

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"interlock/internal/loop"
	"interlock/internal/sockets"
	"interlock/sqlgov"

	"github.com/rs/zerolog"
)

// Server serves clients of the PostgreSQL protocol. Its fields are set before Serve and not changed after it.
type Server struct {
	Core          Core
	Authenticator Authenticator
	// TLS is offered to clients; nil means that none is. Its NextProtos are set here.
	TLS *tls.Config
	// RequireTLS turns away clients that do not use TLS. Cancel requests, which older clients always send in the
	// clear, are still served.
	RequireTLS bool
	Limits     Limits
	Log        zerolog.Logger

	once   sync.Once
	limits Limits
	keys   keyring
	loops  *loop.Group

	// force ends all connections at once; base is done when it was called.
	base  context.Context
	force context.CancelFunc
	// draining makes sessions end where they owe nothing to their client.
	draining atomic.Bool

	mu          sync.Mutex
	closing     bool
	listeners   map[net.Listener]struct{}
	conns       map[*conn]phase
	strangers   int // connections that are not authenticated
	unwelcome   int // connections that are on their way out for want of room
	sessions    int
	perIdentity map[string]int
	running     sync.WaitGroup
}

func (s *Server) prepare() {
	s.once.Do(func() {
		s.limits = s.Limits.withDefaults()
		s.base, s.force = context.WithCancel(context.Background())
		s.listeners = map[net.Listener]struct{}{}
		s.conns = map[*conn]phase{}
		s.perIdentity = map[string]int{}
		var err error
		if s.loops, err = loop.New(); err != nil { // out of descriptors: sessions take more processor time
			s.Log.Warn().Err(err).Msg("PostgreSQL door")
		}
	})
}

// Serve accepts connections until Shutdown, or until the listener fails for good, and closes the listener. It may be called for
// several listeners. It returns nil after Shutdown.
func (s *Server) Serve(l net.Listener) error {
	s.prepare()
	defer l.Close()
	if !s.track(l) {
		return nil
	}
	for pause := time.Duration(0); ; {
		raw, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.start(raw)
		case s.base.Err() != nil || s.draining.Load():
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default: // out of descriptors, or the client went before it was accepted
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.Log.Warn().Err(err).Dur("pause", pause).Msg("accepting a PostgreSQL client")
			time.Sleep(pause)
		}
	}
}

func (s *Server) track(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[l] = struct{}{}
	return !s.closing
}

// start serves a connection in a task of its own, which Shutdown waits for.
func (s *Server) start(raw net.Conn) {
	if err := sockets.Watch(raw, s.limits.Peer); err != nil { // it has gone already
		s.Log.Debug().Err(err).Msg("PostgreSQL client")
	}
	c := newConn(s, raw)
	if !s.join(c) {
		raw.Close()
		return
	}
	loop.Go(func(t *loop.Task) {
		defer s.leave(c)
		c.task = t
		c.serve(s.base)
	})
}

// Shutdown stops accepting, turns away who has not logged in yet, and ends each session as soon as it owes its client nothing and
// is in no transaction. When ctx is done it ends the rest at once, and returns ctx's error. It returns after every goroutine of the server
// has ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.prepare()
	s.draining.Store(true)
	s.close()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		s.loops.Close()
		close(done)
	}()
	select {
	case <-done:
		s.force()
		return nil
	case <-ctx.Done():
	}
	s.force()
	s.interrupt()
	<-done
	return ctx.Err()
}

// close closes the listeners and wakes everyone: sessions look whether they may end, the others are cut.
func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for l := range s.listeners {
		l.Close()
	}
	for c, p := range s.conns {
		if p == connected {
			c.wake()
		} else {
			c.raw.SetDeadline(past)
		}
	}
}

// interrupt ends what still runs. A client that does not read has a moment to take its last message.
func (s *Server) interrupt() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.raw.SetWriteDeadline(time.Now().Add(lastMoment))
		c.wake()
	}
}

func shuttingDown() *sqlgov.Refusal {
	return &sqlgov.Refusal{Kind: sqlgov.SourceUnavailable, SQLState: "57P01",
		Message: "terminating connection due to administrator command"}
}
