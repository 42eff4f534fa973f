package pgwire

import (
	"io"

	"github.com/jackc/pgx/v5/pgproto3"
)

// writeBuffer is how much is gathered before it goes to the network unasked.
const writeBuffer = 32 << 10

// writer gathers messages for a client, so that many small ones cost one system call. The first error sticks.
type writer struct {
	dst io.Writer
	buf []byte
	err error
}

// frame queues a whole message. One that does not fit goes out directly, behind what was queued before.
func (out *writer) frame(b []byte) error {
	if len(out.buf)+len(b) > writeBuffer {
		if err := out.flush(); err != nil {
			return err
		}
	}
	if len(b) >= writeBuffer {
		out.write(b)
		return out.err
	}
	out.buf = append(out.buf, b...)
	return out.err
}

// message queues a message of ours.
func (out *writer) message(m pgproto3.BackendMessage) error {
	b, err := m.Encode(nil)
	if err != nil {
		out.err = err
		return err
	}
	return out.frame(b)
}

func (out *writer) flush() error {
	if len(out.buf) > 0 {
		out.write(out.buf)
		out.buf = out.buf[:0]
	}
	return out.err
}

func (out *writer) write(b []byte) {
	if out.err == nil {
		_, out.err = out.dst.Write(b)
	}
}
