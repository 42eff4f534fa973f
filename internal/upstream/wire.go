package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

const (
	// flushAt is how much Send queues before it writes by itself.
	flushAt = 64 << 10
	// cancelTimeout bounds a cancel request.
	cancelTimeout = 5 * time.Second
)

// Open dials a connection that one wire session owns until it closes it. If the server refuses a setting that the client
// asked for, the error is a *sqlgov.UpstreamError with the server's words, for they say nothing that the client has not.
func (p *Pool) Open(ctx context.Context, src *policy.SourceSpec, opt sqlgov.OpenOptions) (sqlgov.Wire, error) {
	params, err := clientParameters(opt)
	if err != nil {
		return nil, &sqlgov.OpenError{Reason: sqlgov.OpenRejected, Err: err}
	}
	s := p.slots(src)
	if opt.Shared {
		return p.openLease(ctx, src, s, params)
	}
	if _, err := s.take(ctx, nil); err != nil {
		return nil, err
	}
	c, err := p.connect(ctx, src, params)
	if err != nil {
		s.drop()
		return nil, aboutSetting(err)
	}
	return &wire{conn: c, slots: s}, nil
}

// wire is a connection that relays the messages of one client.
type wire struct {
	conn  *conn
	slots *slots

	out []byte // queued; of the sending goroutine

	sent     atomic.Int64 // messages sent that ReadyForQuery answers
	answered atomic.Int64 // ReadyForQuery messages received
	unsynced atomic.Bool  // messages were sent after the last of those
	ended    atomic.Bool  // the server has closed the connection

	cancelling sync.Mutex // held while a cancel request is on its way; Flush waits for it
	closing    sync.Once
	closed     atomic.Bool
}

func (w *wire) Parameters() []sqlgov.Parameter { return slices.Clone(w.conn.params) }

func (w *wire) Process() uint32 { return w.conn.pid }

func (w *wire) Socket() net.Conn { return beneath(w.conn.net) }

func (w *wire) Send(frames []byte) error {
	for rest := frames; len(rest) > 0; {
		n, err := messageLength(rest)
		if err != nil {
			return err
		}
		w.count(rest[0])
		rest = rest[n:]
	}
	w.out = append(w.out, frames...)
	if len(w.out) >= flushAt {
		return w.Flush()
	}
	return nil
}

// messageLength is that of the first of some whole frontend messages, header included.
func messageLength(frames []byte) (int64, error) {
	if len(frames) >= 5 {
		if n := 1 + int64(binary.BigEndian.Uint32(frames[1:])); n >= 5 && n <= int64(len(frames)) {
			return n, nil
		}
	}
	return 0, errors.New("incomplete message to the server")
}

// count keeps track of whether the server has something to do.
func (w *wire) count(kind byte) {
	switch kind {
	case 'Q', 'S', 'F':
		w.sent.Add(1)
		w.unsynced.Store(false)
	case 'd', 'c', 'f', 'H': // belong to a message before, or mean nothing
	default:
		w.unsynced.Store(true)
	}
}

// busy tells if the server may be running something. When it skips messages after an error it answers fewer than were
// sent, and busy stays true; that costs a needless cancel request at the end, and no more.
func (w *wire) busy() bool {
	return !w.ended.Load() && (w.unsynced.Load() || w.sent.Load() > w.answered.Load())
}

// refusedText stands in for a statement that was refused. No version of PostgreSQL has a statement that begins like
// that, so the server stops at its first word; its log says what it was.
const refusedText = "interlock refused this statement"

var (
	refusedQuery = appendMessage(nil, 'Q', refusedText, "\x00")
	refusedParse = appendMessage(nil, 'P', "\x00", refusedText, "\x00", "\x00\x00")
	refusedOther = appendMessage(nil, 'P', "interlock_refused\x00", refusedText, "\x00", "\x00\x00")
)

func (w *wire) SendRejected(m sqlgov.Rejected) error { return w.Send(rejected(m)) }

func rejected(m sqlgov.Rejected) []byte {
	switch m {
	case sqlgov.RejectedQuery:
		return refusedQuery
	case sqlgov.RejectedUnnamedParse:
		return refusedParse
	}
	return refusedOther
}

func (w *wire) Flush() error {
	if len(w.out) == 0 {
		return nil
	}
	w.awaitCancel()
	err := w.conn.write(w.out)
	if w.out = w.out[:0]; cap(w.out) > 2*flushAt {
		w.out = nil
	}
	return err
}

// awaitCancel waits for a cancel request that is on its way: made for what runs now, it must not hit what is sent
// next.
func (w *wire) awaitCancel() {
	w.cancelling.Lock()
	defer w.cancelling.Unlock()
}

func (w *wire) Receive() (sqlgov.Reply, error) {
	reply, err := w.conn.receive()
	if w.closed.Load() { // Close reads too, so this may be a part of something
		return sqlgov.Reply{}, fmt.Errorf("%w: %w", sqlgov.ErrConnectionLost, net.ErrClosed)
	}
	if err != nil {
		if !errors.Is(err, net.ErrClosed) {
			w.ended.Store(true)
		}
		return reply, err
	}
	if reply.Kind == sqlgov.ReadyForQuery {
		w.answered.Add(1)
	}
	return reply, nil
}

func (w *wire) More() (frames []byte, n int) { return w.conn.in.more() }

func (w *wire) Buffered() bool { return w.conn.in.buffered() }

func (w *wire) Cancel(ctx context.Context) error {
	w.cancelling.Lock()
	defer w.cancelling.Unlock()
	if w.closed.Load() || !w.busy() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	return w.conn.cancel(ctx)
}

// Close ends the session. What still runs is cancelled first, so that nothing goes on for a client that has left.
func (w *wire) Close() error {
	w.closing.Do(func() {
		w.cancelling.Lock()
		w.closed.Store(true)
		w.cancelling.Unlock()
		if w.busy() {
			w.conn.abandon()
		} else {
			w.conn.close()
		}
		w.slots.drop()
	})
	return nil
}

// appendMessage appends a frontend message whose body is made of the parts.
func appendMessage(b []byte, kind byte, parts ...string) []byte {
	n := 4
	for _, part := range parts {
		n += len(part)
	}
	b = append(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	for _, part := range parts {
		b = append(b, part...)
	}
	return b
}
