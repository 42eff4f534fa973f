package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

const (
	lineStart = `{"v":1,"seq":`
	prevKey   = `,"prev":"`
	hashKey   = `","hash":"`
	lineEnd   = `"}`
	hexSize   = 2 * sha256.Size
	// endSize is the length of everything from prevKey on.
	endSize = len(prevKey) + hexSize + len(hashKey) + hexSize + len(lineEnd)
)

// digest is a SHA-256 in lower-case hex.
type digest [hexSize]byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *digest) UnmarshalText(text []byte) error {
	if len(text) != hexSize {
		return errLine
	}
	copy(d[:], text)
	return nil
}

// genesis is the prev of the first entry.
var genesis = digest(bytes.Repeat([]byte{'0'}, hexSize))

// appendLine appends a whole line, with its line feed, around an encoded body, and returns its hash.
func appendLine(b []byte, seq uint64, body []byte, prev digest) ([]byte, digest) {
	start := len(b)
	b = append(b, lineStart...)
	b = strconv.AppendUint(b, seq, 10)
	b = append(b, ',')
	b = append(b, body...)
	b = append(b, prevKey...)
	b = append(b, prev[:]...)
	b = append(b, '"')
	hash := sum(b[start:])
	b = append(b, hashKey[1:]...)
	b = append(b, hash[:]...)
	return append(append(b, lineEnd...), '\n'), hash
}

func sum(sealed []byte) (d digest) {
	raw := sha256.Sum256(sealed)
	hex.Encode(d[:], raw[:])
	return d
}

// line is one parsed line. Its slices point into the text that was parsed.
type line struct {
	text []byte // without the line feed
	seq  uint64
	time []byte
	typ  Type
	id   []byte
	// members is what stands behind the id, each with a comma before it.
	members []byte
	prev    digest
	hash    digest // as written; see valid
}

var errLine = errors.New("not an audit entry")

// parseLine takes a line apart as far as the chain needs it.
func parseLine(text []byte) (line, error) {
	l := line{text: text}
	rest, ok := bytes.CutPrefix(text, []byte(lineStart))
	if !ok || len(rest) < endSize {
		return l, errLine
	}
	end := rest[len(rest)-endSize:]
	rest = rest[:len(rest)-endSize]
	if !l.parseEnd(end) {
		return l, errLine
	}
	digits, rest, ok := bytes.Cut(rest, []byte(`,"time":"`))
	seq, err := strconv.ParseUint(string(digits), 10, 63)
	if !ok || err != nil || digits[0] == '0' {
		return l, errLine
	}
	l.seq = seq
	var typ []byte
	l.time, rest, ok = bytes.Cut(rest, []byte(`","type":"`))
	if ok {
		typ, rest, ok = bytes.Cut(rest, []byte(`","id":"`))
	}
	if ok {
		l.id, l.members, ok = bytes.Cut(rest, []byte{'"'})
	}
	if !ok {
		return l, errLine
	}
	l.typ = typeOf(typ)
	return l, nil
}

// typeOf spares the known types an allocation.
func typeOf(text []byte) Type {
	for _, t := range [...]Type{TypeIntent, TypeOutcome, TypeRequest, TypeEvent} {
		if string(text) == string(t) {
			return t
		}
	}
	return Type(text)
}

func (l *line) parseEnd(end []byte) bool {
	rest, ok := bytes.CutPrefix(end, []byte(prevKey))
	if !ok {
		return false
	}
	copy(l.prev[:], rest)
	rest, ok = bytes.CutPrefix(rest[hexSize:], []byte(hashKey))
	if !ok {
		return false
	}
	copy(l.hash[:], rest)
	return string(rest[hexSize:]) == lineEnd
}

// valid reports if the hash is that of the line.
func (l *line) valid() bool {
	sealed := l.text[:len(l.text)-len(hashKey)-hexSize-len(lineEnd)+1]
	return sum(sealed) == l.hash
}

// when returns the entry's time; the zero time if it has none.
func (l *line) when() time.Time {
	t, _ := time.Parse(time.RFC3339Nano, string(l.time))
	return t
}

// decode returns the entry as a view of itself alone.
func (l *line) decode() (View, error) {
	v, err := decodeView(l.text)
	if err != nil {
		return View{}, fmt.Errorf("audit entry %d: %w", l.seq, err)
	}
	return v, nil
}

// lineReader reads lines forward.
type lineReader struct {
	r   *bufio.Reader
	buf []byte
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 256<<10)}
}

// next returns the next line with its line feed, valid until the next call. At the end it returns what is left
// without a line feed, maybe nothing, with io.EOF.
func (r *lineReader) next() ([]byte, error) {
	text, err := r.r.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return text, err
	}
	r.buf = r.buf[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		r.buf = append(r.buf, text...)
		if len(r.buf) > 2*maxEntry {
			return nil, fmt.Errorf("audit: a line is longer than %d bytes", 2*maxEntry)
		}
		text, err = r.r.ReadSlice('\n')
	}
	r.buf = append(r.buf, text...)
	return r.buf, err
}
