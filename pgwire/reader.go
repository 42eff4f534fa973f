package pgwire

import (
	"encoding/binary"
	"errors"
	"io"
)

const (
	readBuffer   = 8 << 10         // of an idle connection
	keptBuffer   = 64 << 10        // a larger one is given back after the message that needed it
	frameHeader  = 5               // type byte and length
	lengthOfSelf = 4               // the length counts itself
	maxFrame     = 0x3fff_ffff - 1 // PostgreSQL's own limit for any message
)

// errLength is a length that cannot be: the client has lost its place in the stream, or never had one.
var errLength = errors.New("invalid message length")

// reader reads messages of a client into one buffer that grows as bytes arrive, never because a header says so.
// Slices that it returns are valid until its next call.
type reader struct {
	src  io.Reader
	buf  []byte
	r, w int // buf[r:w] is unread
}

func newReader(src io.Reader) *reader { return &reader{src: src, buf: make([]byte, readBuffer)} }

// buffered is the number of bytes that can be had without reading from the network.
func (in *reader) buffered() int { return in.w - in.r }

// peek returns the next n bytes without consuming them. A stream that ends before is io.ErrUnexpectedEOF, or io.EOF
// if nothing at all is left.
func (in *reader) peek(n int) ([]byte, error) {
	for in.buffered() < n {
		if err := in.fill(); err != nil {
			if err == io.EOF && in.buffered() > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return in.buf[in.r : in.r+n], nil
}

// take returns the next n bytes and consumes them.
func (in *reader) take(n int) ([]byte, error) {
	b, err := in.peek(n)
	if err == nil {
		in.r += n
	}
	return b, err
}

// fill reads once from the source, after making room: by moving what is unread to the front, or, if the buffer is full of
// unread bytes, by doubling it.
func (in *reader) fill() error {
	switch {
	case in.r == in.w:
		in.r, in.w = 0, 0
		if len(in.buf) > keptBuffer {
			in.buf = make([]byte, readBuffer)
		}
	case in.w == len(in.buf) && in.r > len(in.buf)/2:
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.r = 0
	case in.w == len(in.buf):
		grown := make([]byte, 2*len(in.buf))
		in.w = copy(grown, in.buf[in.r:in.w])
		in.r, in.buf = 0, grown
	}
	n, err := in.src.Read(in.buf[in.w:])
	in.w += n
	if n > 0 {
		return nil
	}
	return err
}

// discard consumes n bytes without keeping them.
func (in *reader) discard(n int) error {
	for n > 0 {
		if in.buffered() == 0 {
			if err := in.fill(); err != nil {
				return err
			}
		}
		k := min(n, in.buffered())
		in.r += k
		n -= k
	}
	return nil
}

// whole tells that a complete message is buffered.
func (in *reader) whole() bool {
	if in.buffered() < frameHeader {
		return false
	}
	n := binary.BigEndian.Uint32(in.buf[in.r+1:])
	return uint64(in.buffered()) >= uint64(n)+1
}

// kind returns the type byte of the next message.
func (in *reader) kind() (byte, error) {
	b, err := in.peek(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// length returns the number of bytes of the next message, header included, once the header has arrived. A length that
// PostgreSQL would take for lost synchronization is errLength.
func (in *reader) length() (int, error) {
	b, err := in.peek(frameHeader)
	if err != nil {
		return 0, err
	}
	n := binary.BigEndian.Uint32(b[1:])
	if n < lengthOfSelf || n > maxFrame {
		return 0, errLength
	}
	return int(n) + 1, nil
}
