package pgwire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"
)

func message(kind byte, body string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4))
	return append(b, body...)
}

func TestReaderSplitsAsSent(t *testing.T) {
	var stream, want []byte
	for i, size := range []int{0, 1, 100, readBuffer - 5, readBuffer, readBuffer + 1, 3 * readBuffer, 2 * keptBuffer, 7, 0} {
		m := message('Q', string(bytes.Repeat([]byte{byte('a' + i)}, size)))
		stream = append(stream, m...)
		want = append(want, m...)
	}
	for name, src := range map[string]io.Reader{
		"at once":      bytes.NewReader(stream),
		"by the byte":  iotest.OneByteReader(bytes.NewReader(stream)),
		"half reads":   iotest.HalfReader(bytes.NewReader(stream)),
		"EOF together": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		in, got := newReader(src), []byte(nil)
		for {
			n, err := in.length()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			frame, err := in.take(n)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, frame...)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: messages differ", name)
		}
	}
}

func TestReaderGivesBackLargeBuffer(t *testing.T) {
	in := newReader(io.MultiReader(bytes.NewReader(message('Q', string(make([]byte, 1<<20)))), bytes.NewReader(message('S', ""))))
	if _, err := in.take(1<<20 + frameHeader); err != nil {
		t.Fatal(err)
	}
	if _, err := in.take(frameHeader); err != nil {
		t.Fatal(err)
	}
	if len(in.buf) != readBuffer {
		t.Errorf("buffer of %d bytes is kept", len(in.buf))
	}
}

// A header that announces a gigabyte costs nothing until the gigabyte comes.
func TestReaderDoesNotTrustLength(t *testing.T) {
	header := binary.BigEndian.AppendUint32([]byte{'Q'}, maxFrame)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in := newReader(bytes.NewReader(header))
	n, err := in.length()
	if err != nil || n != maxFrame+1 {
		t.Fatalf("length = %d, %v", n, err)
	}
	if _, err := in.take(n); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("take: %v", err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes allocated for a header", grown)
	}
}

func TestReaderLengthLimits(t *testing.T) {
	for _, n := range []uint32{0, 3, maxFrame + 1, 1 << 31, 1<<32 - 1} {
		in := newReader(bytes.NewReader(binary.BigEndian.AppendUint32([]byte{'Q'}, n)))
		if got, err := in.length(); !errors.Is(err, errLength) {
			t.Errorf("length %d: %d, %v", n, got, err)
		}
	}
}
