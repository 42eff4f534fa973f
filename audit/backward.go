package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

// eachLineBackward calls yield with the whole lines of a file, last line first, without their line feeds, and the
// offset at which each ends (behind its line feed), until yield returns false. It begins before offset end, or at the
// end of the file if that is negative. Text behind the last line feed is left out. A line is valid until yield returns.
func eachLineBackward(ctx context.Context, dir, name string, end int64, yield func(text []byte, end int64) bool) error {
	f, err := openSegment(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	b := backwardReader{file: f, start: f.size}
	if end >= 0 && end < b.start {
		b.start = end
	}
	whole := false // the text behind the last line feed is no line
	for {
		text, at, err := b.next()
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if text == nil {
			return ctx.Err()
		}
		if whole && !yield(text, at) {
			return nil
		}
		whole = true
		if b.reads%16 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// backwardReader splits a file into lines from its end.
type backwardReader struct {
	file  io.ReaderAt
	start int64  // offset of buf
	buf   []byte // what was read and not yet returned
	reads int
	done  bool
}

const backwardBlock = 256 << 10

// next returns the text between the last two line feeds of what is left, and the offset behind its own line feed; nil at
// the beginning of the file.
func (b *backwardReader) next() ([]byte, int64, error) {
	if b.done {
		return nil, 0, nil
	}
	searched := len(b.buf)
	for {
		if i := bytes.LastIndexByte(b.buf[:searched], '\n'); i >= 0 {
			text := b.buf[i+1:]
			at := b.start + int64(len(b.buf)) + 1
			b.buf = b.buf[:i]
			return text, at, nil
		}
		if b.start == 0 {
			b.done = true
			text := b.buf
			if text == nil {
				text = []byte{}
			}
			return text, int64(len(text)) + 1, nil
		}
		n, err := b.fill()
		if err != nil {
			return nil, 0, err
		}
		searched = n
	}
}

// fill reads the block before buf and returns its length.
func (b *backwardReader) fill() (int, error) {
	if len(b.buf) > 2*maxEntry {
		return 0, fmt.Errorf("audit: a line is longer than %d bytes", 2*maxEntry)
	}
	n := min(b.start, backwardBlock)
	grown := make([]byte, int(n)+len(b.buf))
	if _, err := b.file.ReadAt(grown[:n], b.start-n); err != nil {
		return 0, err
	}
	copy(grown[n:], b.buf)
	b.buf, b.start = grown, b.start-n
	b.reads++
	return int(n), nil
}
