package loop

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
)

// socket is a descriptor that a loop watches.
type socket struct {
	loop             *Loop
	fd               int
	slot             int32
	reading, writing side

	// users counts who is in a system call, and one more until the socket is closed. The descriptor is given back with the last.
	users  atomic.Int32
	closed atomic.Bool
}

// adopt duplicates a connection's descriptor and watches the duplicate, for the original is watched by Go.
func (l *Loop) adopt(c net.Conn) (*socket, error) {
	sys, ok := c.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	raw, err := sys.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{loop: l, fd: -1}
	s.users.Store(1)
	// Whatever has arrived before is not announced, so both sides begin as ready.
	s.reading.loop, s.writing.loop, s.reading.ready, s.writing.ready = l, l, true, true
	var failed error
	err = raw.Control(func(fd uintptr) {
		dup, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
		if errno != 0 {
			failed = errno
			return
		}
		s.fd = int(dup)
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	if err := l.add(s); err != nil {
		syscall.Close(s.fd)
		return nil, err
	}
	return s, nil
}

// use counts a user in. It returns false if the socket is closed.
func (s *socket) use() bool {
	for {
		n := s.users.Load()
		if n == 0 || s.closed.Load() {
			return false
		}
		if s.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (s *socket) done() {
	if s.users.Add(-1) == 0 {
		s.loop.forget(s)
		syscall.Close(s.fd)
	}
}

func (s *socket) read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	var last *Task
	for {
		if s.reading.idle() { // an attempt would find nothing
			last = s.reading.await(last)
			continue
		}
		t := s.reading.task.Load()
		if t != nil && t.taken > mostTaken {
			t.Leave()
		}
		n, err := s.attempt(&s.reading, b, read)
		switch {
		case err == syscall.EAGAIN:
			continue
		case err != nil:
			return 0, s.failed("read", err)
		case n == 0:
			return 0, io.EOF
		case n == len(b):
			s.reading.more()
		}
		if t != nil {
			t.taken += n
		}
		return n, nil
	}
}

func (s *socket) write(b []byte) (int, error) {
	written := 0
	var last *Task
	for {
		n, err := s.attempt(&s.writing, b[written:], write)
		if n > 0 {
			written += n
		}
		switch {
		case err != nil && err != syscall.EAGAIN:
			return written, s.failed("write", err)
		case written == len(b):
			return written, nil
		case err == syscall.EAGAIN && s.writing.idle():
			last = s.writing.await(last)
		}
	}
}

// attempt makes a system call with bytes for a side. Whatever happens after it began is announced, so that nothing is missed.
func (s *socket) attempt(at *side, b []byte, call func(int, []byte) (int, error)) (int, error) {
	if !at.begin() {
		return 0, os.ErrDeadlineExceeded
	}
	if !s.use() {
		return 0, net.ErrClosed
	}
	defer s.done()
	for {
		n, err := call(s.fd, b)
		if err != syscall.EINTR {
			return n, err
		}
	}
}

func (s *socket) failed(op string, err error) error {
	if errno, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: "tcp", Err: err}
}

// close wakes everyone. It does not wait for them.
func (s *socket) close() error {
	if s.closed.Swap(true) {
		return net.ErrClosed
	}
	s.reading.end()
	s.writing.end()
	s.done()
	return nil
}

func (s *socket) closeWrite() error {
	if !s.use() {
		return net.ErrClosed
	}
	defer s.done()
	return syscall.Shutdown(s.fd, syscall.SHUT_WR)
}
