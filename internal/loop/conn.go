package loop

import (
	"net"
	"sync/atomic"
	"time"
)

// Conn is a network connection that a loop can take over. Until then, and if it cannot, it is as it was.
type Conn struct {
	net.Conn
	socket atomic.Pointer[socket]
}

// Wrap makes a connection one that can be attached.
func Wrap(c net.Conn) *Conn { return &Conn{Conn: c} }

// Attach hands the connection to a loop: reads are those of one task from now on, and writes those of another. Nothing may be
// reading or writing now. It returns false where that is not possible; then the connection stays with Go's own poller.
func (c *Conn) Attach(l *Loop, reads, writes *Task) bool {
	if l == nil {
		return false
	}
	s, err := l.adopt(c.Conn)
	if err != nil {
		return false
	}
	s.reading.task.Store(reads)
	s.writing.task.Store(writes)
	c.socket.Store(s)
	_ = c.Conn.Close() // the socket lives on under another descriptor
	return true
}

// Release takes the connection from its tasks: any goroutine may read and write.
func (c *Conn) Release() {
	s := c.socket.Load()
	if s == nil {
		return
	}
	s.reading.task.Store(nil)
	s.writing.task.Store(nil)
	s.reading.stir()
	s.writing.stir()
}

func (c *Conn) Read(b []byte) (int, error) {
	if s := c.socket.Load(); s != nil {
		return s.read(b)
	}
	return c.Conn.Read(b)
}

func (c *Conn) Write(b []byte) (int, error) {
	if s := c.socket.Load(); s != nil {
		return s.write(b)
	}
	return c.Conn.Write(b)
}

// Close ends the connection for everyone who uses it.
func (c *Conn) Close() error {
	if s := c.socket.Load(); s != nil {
		return s.close()
	}
	return c.Conn.Close()
}

// CloseWrite says that nothing more comes, where the connection can say so.
func (c *Conn) CloseWrite() error {
	if s := c.socket.Load(); s != nil {
		return s.closeWrite()
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

func (c *Conn) SetReadDeadline(t time.Time) error {
	if s := c.socket.Load(); s != nil {
		s.reading.setDeadline(t)
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *Conn) SetWriteDeadline(t time.Time) error {
	if s := c.socket.Load(); s != nil {
		s.writing.setDeadline(t)
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}
