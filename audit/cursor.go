package audit

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Cursor is a place in a log: behind a whole entry. The zero value is the beginning. It stays good while segments are
// compressed, and when those before it are pruned.
type Cursor struct {
	Segment string `json:"segment,omitempty"`
	Offset  int64  `json:"offset,omitempty"` // in the segment before compression
	Seq     uint64 `json:"seq,omitempty"`    // of the entry before
}

// Entry is one line of a log.
type Entry struct {
	Seq     uint64
	Time    time.Time
	Type    Type
	ID      string
	Text    []byte // without its line feed
	Segment string
	Offset  int64 // of the line in the segment

	members []byte // of line
}

// View returns the entry as a view of itself alone. The outcome of an intent is in another entry.
func (e *Entry) View() (View, error) {
	l, err := parseLine(e.Text)
	if err != nil {
		return View{}, err
	}
	return l.decode()
}

// IsEvent reports if the entry is an event with a name.
func (e *Entry) IsEvent(name string) bool {
	return e.Type == TypeEvent && bytes.Contains(e.Text, []byte(`,"event":{"name":"`+name+`"`))
}

// Checkpoint returns the checkpoint that an entry carries, if it carries one.
func (e *Entry) Checkpoint() (Checkpoint, bool) {
	if !e.IsEvent(checkpointed) {
		return Checkpoint{}, false
	}
	v, err := e.View()
	if err != nil || v.Event == nil {
		return Checkpoint{}, false
	}
	return checkpointOf(v.Event.Attributes), true
}

// ReadAfter calls yield for the entries behind a cursor, up to the one with number last (0: to the end), until it has
// read about max bytes or yield returns false. It returns the cursor behind the last entry that was yielded, and whether
// the end was reached. What is no entry is left out. An entry is good until yield returns.
func ReadAfter(dir string, c Cursor, last uint64, max int64, yield func(*Entry) bool) (next Cursor, end bool, err error) {
	segs, err := segments(dir)
	if err != nil {
		return c, false, err
	}
	for i, s := range segs {
		if s.name < c.Segment || i+1 < len(segs) && s.name != c.Segment && segs[i+1].first <= c.Seq+1 {
			continue
		}
		from := int64(0)
		if s.name == c.Segment {
			from = c.Offset
		}
		r := afterReader{next: c, last: last, left: max, yield: yield}
		stop, err := r.segment(dir, s.name, from)
		if err != nil || stop {
			return r.next, false, err
		}
		c, max = r.next, r.left
	}
	return c, true, nil
}

type afterReader struct {
	next  Cursor
	last  uint64
	left  int64
	yield func(*Entry) bool
}

// segment reads one segment and reports if reading ends here.
func (a *afterReader) segment(dir, name string, from int64) (stop bool, err error) {
	f, err := openSegment(dir, name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var e Entry
	for r := newLineReader(f.reader(from)); ; {
		text, err := r.next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading %s: %w", name, err)
		}
		at := from
		from += int64(len(text))
		l, err := parseLine(text[:len(text)-1])
		if err != nil || l.seq <= a.next.Seq {
			continue
		}
		if a.left <= 0 || a.last > 0 && l.seq > a.last {
			return true, nil
		}
		e = Entry{Seq: l.seq, Time: l.when(), Type: l.typ, ID: string(l.id), Text: l.text, Segment: name, Offset: at, members: l.members}
		a.left -= int64(len(text))
		more := a.yield(&e)
		a.next = Cursor{name, from, l.seq}
		if !more {
			return true, nil
		}
	}
}

// Place is where an entry is.
type Place struct {
	Segment uint64 // number of the segment's first entry
	Offset  int64
}

// Places reads entries at known places of the log in Dir. It keeps some segments open, so it must be closed. It is for one
// goroutine.
type Places struct {
	Dir string

	names []uint64 // of the open segments, the one used last at the end
	open  map[uint64]*source
}

// maxOpen bounds the segments that Places keeps open.
const maxOpen = 16

// Close closes the segments.
func (p *Places) Close() error {
	var err error
	for _, s := range p.open {
		err = errors.Join(err, s.Close())
	}
	p.names, p.open = nil, nil
	return err
}

func (p *Places) segment(n uint64) (*source, error) {
	if i := slices.Index(p.names, n); i >= 0 {
		p.names = append(slices.Delete(p.names, i, i+1), n)
		return p.open[n], nil
	}
	s, err := openSegment(p.Dir, segmentName(n))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if p.open == nil {
		p.open = map[uint64]*source{}
	}
	if len(p.names) >= maxOpen {
		_ = p.open[p.names[0]].Close() // only read
		delete(p.open, p.names[0])
		p.names = p.names[1:]
	}
	p.open[n], p.names = s, append(p.names, n)
	return s, nil
}

// ReadAt returns the view of a request or event whose entries are at known places; outcome is nil if there is none.
// Entries that are not there are ErrNotFound, those that were changed ErrAltered.
func (p *Places) ReadAt(record Place, outcome *Place) (View, error) {
	l, err := p.line(record)
	if err != nil {
		return View{}, err
	}
	if l.typ != TypeIntent {
		return l.decode()
	}
	var ended []byte
	if outcome != nil {
		o, err := p.line(*outcome)
		if err != nil {
			return View{}, err
		}
		ended = o.text
	}
	return merge(l.text, ended, false)
}

func (p *Places) line(at Place) (line, error) {
	f, err := p.segment(at.Segment)
	if err != nil {
		return line{}, err
	}
	r := &lineReader{r: bufio.NewReaderSize(f.reader(at.Offset), 4<<10)}
	text, err := r.next()
	if err != nil {
		return line{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	l, err := parseLine(bytes.Clone(text[:len(text)-1]))
	if err != nil {
		return line{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if !l.valid() {
		return line{}, fmt.Errorf("%w: entry %d", ErrAltered, l.seq)
	}
	return l, nil
}

// ErrAltered means that an entry does not have the hash that it states.
var ErrAltered = errors.New("audit: the entry was altered")

// SegmentNumber is the number of the first entry of a segment, by its name.
func SegmentNumber(name string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(name, segmentPrefix), segmentSuffix), 10, 64)
	return n
}

// Segment describes a segment of a log.
type Segment struct {
	Name        string
	First, Last uint64
	LastHash    string
	LastTime    time.Time
	Path        string // of the file
	Closed      bool   // another one follows
}

// Segments describes the segments of the log in dir, oldest first.
func Segments(dir string) ([]Segment, error) {
	segs, err := segments(dir)
	if err != nil {
		return nil, err
	}
	all := make([]Segment, 0, len(segs))
	for i, s := range segs {
		d := Segment{Name: s.name, First: s.first, Path: dir + "/" + s.name, Closed: i+1 < len(segs)}
		if s.compressed {
			d.Path += zstdSuffix
		}
		err := eachLineBackward(context.Background(), dir, s.name, -1, func(text []byte, _ int64) bool {
			l, err := parseLine(text)
			if err == nil {
				d.Last, d.LastHash, d.LastTime = l.seq, string(l.hash[:]), l.when()
			}
			return err != nil
		})
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}
