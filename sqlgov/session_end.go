package sqlgov

import (
	"context"
	"io"

	"interlock/audit"
)

// Idle reports if every message of the client has been answered.
func (s *Session) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) == 0
}

// Cancel cancels what runs on the server for this session now. It does nothing when nothing runs.
func (s *Session) Cancel(ctx context.Context) {
	if s.lease != nil && s.lease.wire.Interrupt() {
		return
	}
	s.mu.Lock()
	idle := len(s.queue) == 0 || s.broken != nil
	s.mu.Unlock()
	if idle {
		return
	}
	if err := s.wire.Cancel(ctx); err != nil {
		s.core.Log.Warn().Err(err).Str("source", s.source).Msg("cancel request")
	}
}

// Close ends the session: what still runs is cancelled on the server and recorded as cancelled.
func (s *Session) Close() error {
	s.mu.Lock()
	open := s.queue
	s.queue = nil
	if s.broken == nil {
		s.broken = io.ErrClosedPipe
	}
	s.progress.Broadcast()
	s.mu.Unlock()
	err := s.wire.Close()
	s.core.closeWriter(&s.writer, len(open) > 0)
	for _, o := range open {
		s.finish(context.Background(), o, audit.Canceled)
	}
	s.recordClose()
	return err
}
