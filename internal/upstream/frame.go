package upstream

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	// readBuffer is what a frameReader holds for a quiet connection.
	readBuffer = 32 << 10
	// streamBuffer is what it grows to while more comes than fits.
	streamBuffer = 128 << 10
	// keepBuffer is the most that it holds on to between statements of moderate size.
	keepBuffer = 256 << 10
	// quietFrames is how many small frames in a row make it let go of a larger buffer.
	quietFrames = 64
)

// frameReader cuts what a server sends into messages: a type byte, a length of four bytes that counts itself, a body
// (PostgreSQL manual, "Message Formats"). Its buffer grows with the bytes that have arrived, never with a length that
// was merely announced, and shrinks again after a large message.
type frameReader struct {
	r          io.Reader
	limit      int // bytes of the longest body
	buf        []byte
	start, end int // unread bytes
	last       int // where the frame that was returned last begins
	small      int // frames since the last large one
}

func newFrameReader(r io.Reader, limit int) *frameReader {
	return &frameReader{r: r, limit: limit, buf: make([]byte, readBuffer)}
}

// next returns the next whole frame. It is valid until the next call. io.EOF is an end between frames.
func (f *frameReader) next() ([]byte, error) {
	f.shrink()
	if err := f.fill(5); err != nil {
		return nil, err
	}
	n, err := f.frameLength()
	if err != nil {
		return nil, err
	}
	if err := f.fill(n); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	frame := f.buf[f.start : f.start+n : f.start+n]
	f.last = f.start
	f.start += n
	f.small++
	if n > keepBuffer {
		f.small = 0
	} else if frame[0] == 'Z' {
		f.small = quietFrames
	}
	return frame, nil
}

// more takes the whole frames behind the last one that are of its type and were read already, and returns all of them in one
// piece, the last one at its beginning, with their number. It is valid until the next call of next.
func (f *frameReader) more() (frames []byte, n int) {
	kind := f.buf[f.last]
	for n = 1; f.buffered() && f.buf[f.start] == kind; n++ {
		size, err := f.frameLength()
		if err != nil {
			break // for next to report
		}
		f.start += size
	}
	return f.buf[f.last:f.start:f.start], n
}

// buffered tells if next would return without reading.
func (f *frameReader) buffered() bool {
	if f.end-f.start < 5 {
		return false
	}
	n, err := f.frameLength()
	return err != nil || f.end-f.start >= n
}

func (f *frameReader) frameLength() (int, error) {
	n := int64(binary.BigEndian.Uint32(f.buf[f.start+1:]))
	if n < 4 || n-4 > int64(f.limit) {
		return 0, fmt.Errorf("the server sent a message of type %q with length %d", f.buf[f.start], n)
	}
	return int(n) + 1, nil
}

// fill reads until n unread bytes are there.
func (f *frameReader) fill(n int) error {
	if f.start == f.end {
		f.start, f.end = 0, 0
	}
	for f.end-f.start < n {
		if f.start > 0 && f.start+n > len(f.buf) {
			f.end = copy(f.buf, f.buf[f.start:f.end])
			f.start = 0
		}
		if f.end == len(f.buf) {
			f.resize(min(2*len(f.buf), n))
		}
		got, err := f.r.Read(f.buf[f.end:])
		f.end += got
		if f.end == len(f.buf) && len(f.buf) < streamBuffer && got > readBuffer/2 {
			f.resize(2 * len(f.buf)) // a large result comes: fewer and larger reads
		}
		if err != nil && f.end-f.start < n {
			if err == io.EOF && f.end > f.start {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

func (f *frameReader) shrink() {
	if len(f.buf) > readBuffer && f.small >= quietFrames && f.end-f.start <= readBuffer {
		f.resize(readBuffer)
	}
}

func (f *frameReader) resize(size int) {
	buf := make([]byte, size)
	f.end = copy(buf, f.buf[f.start:f.end])
	f.start = 0
	f.buf = buf
}
