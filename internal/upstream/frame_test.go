package upstream

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzFrames checks that any bytes, however they arrive, are cut into the frames that their lengths say, or refused,
// and that buffered never promises what next does not hold.
func FuzzFrames(f *testing.F) {
	f.Add(welcome)
	f.Add(append(appendMessage(nil, 'D', string(make([]byte, 100))), 'D', 0, 0, 0, 1))
	f.Add([]byte{'T', 0x3f, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, r := range []io.Reader{bytes.NewReader(data), iotest.OneByteReader(bytes.NewReader(data)), iotest.DataErrReader(bytes.NewReader(data))} {
			in := &frameReader{r: r, limit: 1 << 20, buf: make([]byte, 8)}
			var d decoder
			rest := data
			for {
				reads := counting(in)
				promised := in.buffered()
				frame, err := in.next()
				if promised && *reads > 0 {
					t.Fatal("buffered promised a frame that had not arrived")
				}
				if err != nil {
					break
				}
				if !bytes.HasPrefix(rest, frame) || len(frame) != 1+int(binary.BigEndian.Uint32(frame[1:])) {
					t.Fatalf("frame %q of %q", frame, rest)
				}
				rest = rest[len(frame):]
				_, _ = d.decode(frame)
			}
			if len(in.buf) > max(2*len(data), readBuffer) {
				t.Fatalf("a buffer of %d bytes for %d", len(in.buf), len(data))
			}
			if n := int64(len(rest)); n >= 5 {
				if l := int64(binary.BigEndian.Uint32(rest[1:])); l >= 4 && l < n && l-4 <= 1<<20 {
					t.Fatalf("a whole frame was left: %q", rest)
				}
			}
		}
	})
}

// counting makes in count its reads from now on.
func counting(in *frameReader) *int {
	if c, ok := in.r.(*counter); ok {
		c.n = 0
		return &c.n
	}
	c := &counter{Reader: in.r}
	in.r = c
	return &c.n
}

type counter struct {
	io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	c.n++
	return c.Reader.Read(p)
}

func TestBuffered(t *testing.T) {
	r, w := io.Pipe()
	in := newFrameReader(r, 1<<20)
	go func() {
		_, _ = w.Write(append(append([]byte{}, welcome...), 'D', 0, 0, 0, 9, 1))
		_, _ = w.Write([]byte{2, 3, 4, 5})
		_ = w.Close()
	}()
	if in.buffered() {
		t.Error("nothing has been read yet")
	}
	for i, want := range []bool{true, true, false, false} {
		if _, err := in.next(); err != nil {
			t.Fatal(err)
		}
		if got := in.buffered(); got != want {
			t.Errorf("after %d: %v", i, got)
		}
	}
	if _, err := in.next(); err != io.EOF {
		t.Errorf("end: %v", err)
	}
}

// TestSteadyStateAllocations relays the reply of a point query again and again.
func TestSteadyStateAllocations(t *testing.T) {
	reply := appendMessage(nil, 'T', "\x00\x01balance\x00", string(make([]byte, 18)))
	reply = appendMessage(reply, 'D', "\x00\x01\x00\x00\x00\x0142")
	reply = appendMessage(reply, 'C', "SELECT 1\x00")
	reply = appendMessage(reply, 'Z', "I")
	c := &conn{in: newFrameReader(&repeating{reply, 0}, 1<<20)}
	allocations := testing.AllocsPerRun(1000, func() {
		for range 4 {
			if _, err := c.receive(); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations a reply", allocations)
	}
}

type repeating struct {
	b  []byte
	at int
}

func (r *repeating) Read(p []byte) (int, error) {
	n := copy(p, r.b[r.at:])
	r.at = (r.at + n) % len(r.b)
	return n, nil
}

// TestMore: rows that have arrived are one piece, up to the first message of another type and without a part of one.
func TestMore(t *testing.T) {
	row := func(n int) []byte { return appendMessage(nil, 'D', strings.Repeat("x", n)) }
	var stream []byte
	for n := range 50 {
		stream = append(stream, row(n*100)...)
	}
	rows := len(stream)
	stream = append(appendMessage(stream, 'C', "SELECT 50\x00"), row(7)[:9]...)
	for _, size := range []int{1, 7, 100, 5000, len(stream)} {
		f := newFrameReader(&chunks{rest: stream, size: size}, 1<<20)
		var got []byte
		n := 0
		for len(got) < rows {
			first, err := f.next()
			if err != nil || first[0] != 'D' {
				t.Fatalf("%q, %v", first, err)
			}
			all, k := f.more()
			if !bytes.HasPrefix(all, first) {
				t.Fatalf("the first row is not at the beginning")
			}
			got, n = append(got, all...), n+k
		}
		if n != 50 || !bytes.Equal(got, stream[:rows]) {
			t.Errorf("reads of %d: %d rows, %d bytes of %d", size, n, len(got), rows)
		}
		if c, err := f.next(); err != nil || c[0] != 'C' {
			t.Errorf("reads of %d: %q, %v behind the rows", size, c, err)
		}
	}
}

// chunks is read in pieces of a size.
type chunks struct {
	rest []byte
	size int
}

func (c *chunks) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.rest[:min(c.size, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}
