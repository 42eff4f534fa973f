package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

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

// close ends the session. Nobody may be writing; a reader is woken up.
func (c *conn) close() {
	_ = c.net.SetWriteDeadline(time.Now().Add(farewell))
	_, _ = c.net.Write(terminate)
	_ = c.net.Close()
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
