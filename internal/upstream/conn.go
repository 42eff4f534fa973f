package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"interlock/internal/loop"
	"interlock/sqlgov"
)

// conn is an open connection to a server. Reading and writing may happen in two goroutines, each in one only.
type conn struct {
	net     net.Conn
	in      *frameReader
	decoder decoder
	params  []sqlgov.Parameter

	// For cancel requests.
	target *target
	pid    uint32
	secret []byte

	// For pooled connections.
	startup map[string]string // start-up parameters
	born    time.Time
	since   time.Time // idle since
	owed    int       // exchanges whose ReadyForQuery has not been read yet
	asks    bool      // the statement behind a Recheck is prepared

	// For connections that sessions share.
	kind     string            // what its start-up parameters are; "" for those of Run
	settings string            // what was set since, as callsSQL has it
	prepared map[string]uint64 // named statements of sessions, by the number of their last use
	uses     uint64            // of named statements
}

// receive returns the next message. The reply is valid until the next call.
func (c *conn) receive() (sqlgov.Reply, error) {
	frame, err := c.in.next()
	if err != nil {
		return sqlgov.Reply{}, fmt.Errorf("%w: %w", sqlgov.ErrConnectionLost, err)
	}
	reply, err := c.decoder.decode(frame)
	if err != nil {
		return sqlgov.Reply{}, fmt.Errorf("%w: %w", sqlgov.ErrConnectionLost, err)
	}
	return reply, nil
}

func (c *conn) write(b []byte) error {
	if _, err := c.net.Write(b); err != nil {
		return fmt.Errorf("%w: %w", sqlgov.ErrConnectionLost, err)
	}
	return nil
}

// terminate is the message that ends a session in good order.
var terminate = []byte{'X', 0, 0, 0, 4}

// close ends an idle session. A reader is woken up.
func (c *conn) close() {
	_ = c.net.SetWriteDeadline(time.Now().Add(farewell))
	_, _ = c.net.Write(terminate)
	_ = c.net.Close()
}

// abandon ends a session in which something may still run. It cancels, for as long as it takes within farewell, and
// returns when the server has closed the connection: then nothing runs on. One request is not enough, because the
// server ignores one that arrives before it has read the statement.
//
// Nothing is read before the first request has been passed on. A server that waits for its rows to be taken leaves the processor
// to those that others have abandoned, and to the request.
func (c *conn) abandon() {
	if socket, ok := beneath(c.net).(*loop.Conn); ok {
		socket.Release() // two goroutines write and read from here on
	}
	_ = c.net.SetDeadline(time.Now().Add(farewell))
	var sending sync.WaitGroup
	sending.Go(func() { _, _ = c.net.Write(terminate) }) // may have to wait for a write that needs us to read
	stop := c.keepCancelling(c.cancelWithin(farewell / 2))
	_, _ = io.Copy(io.Discard, c.net)
	_ = c.net.Close()
	sending.Wait()
	stop()
}

// cancelAgain is the least time between two cancel requests for the same statement. Each costs the server a process, which it has not
// to spare when a request takes long.
const cancelAgain = 100 * time.Millisecond

// keepCancelling cancels what runs on c after a delay, and again and again until stop is called. When stop returns, no
// request is on its way anymore.
func (c *conn) keepCancelling(delay time.Duration) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for wait := delay; ; {
			select {
			case <-quit:
				return
			case <-time.After(wait):
			}
			wait = c.cancelWithin(farewell) // one that has been sent must not be left alone, so this ignores quit
		}
	}()
	return sync.OnceFunc(func() {
		close(quit)
		<-done
	})
}

// cancelWithin sends one cancel request and waits until it has been passed on, or for so long. It returns when to send another.
func (c *conn) cancelWithin(most time.Duration) (again time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	begun := time.Now()
	_ = c.cancel(ctx)
	return max(cancelAgain, 2*time.Since(begun))
}

// cancelRequest is the code of a CancelRequest message.
const cancelRequest = 80877102

// cancel asks the server, over a connection of its own, to cancel what runs on c. It returns after the server has
// passed the request on, so that it cannot hit anything that is sent later.
func (c *conn) cancel(ctx context.Context) error {
	if len(c.secret) == 0 {
		return errors.New("the server gave no key for cancel requests")
	}
	network, address := remote(c.net, &c.target.spec)
	nc, err := c.target.dial(ctx, network, address)
	if err != nil {
		return fmt.Errorf("cancelling: %w", err)
	}
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	msg := binary.BigEndian.AppendUint32(nil, uint32(12+len(c.secret)))
	msg = binary.BigEndian.AppendUint32(msg, cancelRequest)
	msg = binary.BigEndian.AppendUint32(msg, c.pid)
	if _, err := nc.Write(append(msg, c.secret...)); err != nil {
		return fmt.Errorf("cancelling: %w", err)
	}
	// The server says nothing and closes the connection when it has signalled the process.
	_, _ = nc.Read(make([]byte, 1))
	return ctx.Err()
}
