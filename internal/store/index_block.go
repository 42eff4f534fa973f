package store

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"interlock/audit"
)

// maxBlockRows is how many requests and events a block has when it is full.
const maxBlockRows = 8192

// indexRow is a request or event in the index.
type indexRow struct {
	seq                uint64
	time               int64 // Unix nanoseconds
	id                 int64 // idHash of the decision id
	whole              bool  // the id is a ULID
	who, shape, ending int64 // in the dictionaries
	session, host      int64 // hashes; 0 if there is none
	trace              int64
	record, ended      audit.Place // ended has no segment if the outcome is not there
	rows, nanos        int64
	event, loose       bool
	text               *rowText // nil where texts are not kept
}

// The columns of a block's rows. Each is written as its length and as many unsigned varints as there are rows, or as the
// length 0 if all are 0. Dictionaries are by their place in the block's head, and place 0 of sessions, clients and traces is
// none. They stand in three fields, of which a search reads the next if there is something left to look for.
const (
	colWho = iota
	colShape
	colEnding
	colSession
	colHost
	colTrace
	colID      // shortID
	colTime    // milliseconds after the one before (1970), zigzag
	colSeq     // distance from the one before, less one
	colAt      // bytes behind the one before, zigzag
	colEnded   // 0: in the same segment; 1: there is none; 2 and more: in this segment
	colEndedAt // bytes behind the record, zigzag
	colSegment
	columns
	detailColumns = colSession // the first of the details
	placeColumns  = colSeq     // the first of the places
)

// The dictionaries of a block's head, in the order in which they are written.
const (
	dictWho = iota
	dictShape
	dictEnding
	dictSession
	dictHost
	dictSegment
	headDicts
	dictTrace = headDicts // has a field of its own
)

var errDamaged = errors.New("the audit index is damaged")

// shortID is what a block keeps of an id, beside the range of times.
func shortID(id int64) uint64 { return uint64(id) & (1<<14 - 1) }

// idTime is the time in what idHash returns for a ULID.
func idTime(id int64) int64 { return id >> 20 }

// idHash is a hash of a decision id which has the time of a ULID in front; whole is false for an id of another form.
func idHash(id string) (hash int64, whole bool) {
	u, err := ulid.ParseStrict(id)
	if err != nil {
		return hash64(id), false
	}
	return int64(u.Time())<<20 | hash64(id)&(1<<20-1), true
}

// dictionary numbers the different values of a column in the order in which they come.
type dictionary struct {
	values []int64
	place  map[int64]uint64
	last   int64 // the value that came last, and its place
	lastAt uint64
}

func (d *dictionary) reset(values ...int64) {
	d.values = append(d.values[:0], values...)
	if d.place == nil {
		d.place = map[int64]uint64{}
	}
	clear(d.place)
	for i, v := range values {
		d.place[v] = uint64(i)
	}
	d.last, d.lastAt = 0, 0
	if len(values) == 0 {
		d.last = -1 // no value of such a column
	}
}

func (d *dictionary) of(v int64) uint64 {
	if v == d.last {
		return d.lastAt
	}
	at, ok := d.place[v]
	if !ok {
		at = uint64(len(d.values))
		d.place[v] = at
		d.values = append(d.values, v)
	}
	d.last, d.lastAt = v, at
	return at
}

func (d *dictionary) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(d.values)))
	for _, v := range d.values {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return b
}

// blockEncoder writes blocks. It is for one goroutine, and what it returns is good until the next use.
type blockEncoder struct {
	dict   [headDicts + 1]dictionary
	cols   [columns][]byte
	zero   [columns]bool
	counts map[hourKey]*hourCount
	brief  map[hourKey]*hourCount
	sorted []hourKey
	group  []byte

	head, keys, details, places, traces []byte
	sums, callers, shapes               []byte
	fromTime, toTime                    int64
	fromID, toID                        int64
	odd                                 bool
}

// encode writes the rows of the block that begins with entry first. Those with the ending running are not counted.
func (e *blockEncoder) encode(first uint64, rows []indexRow, running int64) {
	e.reset()
	seq, at, offset := first-1, int64(0), int64(0)
	for i := range rows {
		r := &rows[i]
		e.bounds(r, i == 0)
		e.put(colSeq, r.seq-seq-1)
		e.put(colTime, zigzag(r.time/1e6-at))
		e.put(colID, shortID(r.id))
		who, shape, ending := e.dict[dictWho].of(r.who), e.dict[dictShape].of(r.shape), e.dict[dictEnding].of(r.ending)
		e.put(colWho, who)
		e.put(colShape, shape)
		e.put(colEnding, ending)
		e.put(colSession, e.dict[dictSession].of(r.session))
		e.put(colHost, e.dict[dictHost].of(r.host))
		e.put(colTrace, e.dict[dictTrace].of(r.trace))
		e.place(r, offset)
		if r.ending != running {
			e.count(hourKey{r.time / int64(time.Hour), who, shape, ending}, r)
		}
		seq, at, offset = r.seq, r.time/1e6, r.record.Offset
	}
	e.finish(len(rows))
}

func (e *blockEncoder) reset() {
	for i := range e.dict {
		e.dict[i].reset()
	}
	for _, i := range []int{dictSession, dictHost, dictTrace} {
		e.dict[i].reset(0)
	}
	for i := range e.cols {
		e.cols[i], e.zero[i] = e.cols[i][:0], true
	}
	if e.counts == nil {
		e.counts, e.brief = map[hourKey]*hourCount{}, map[hourKey]*hourCount{}
	}
	clear(e.counts)
	e.fromID, e.toID, e.odd = 1, 0, false
}

func (e *blockEncoder) bounds(r *indexRow, first bool) {
	at := r.time / 1e6
	if first {
		e.fromTime, e.toTime = at, at
	}
	e.fromTime, e.toTime = min(e.fromTime, at), max(e.toTime, at)
	switch id := idTime(r.id); {
	case !r.whole:
		e.odd = true
	case e.fromID > e.toID:
		e.fromID, e.toID = id, id
	default:
		e.fromID, e.toID = min(e.fromID, id), max(e.toID, id)
	}
}

func (e *blockEncoder) put(column int, v uint64) {
	e.cols[column] = binary.AppendUvarint(e.cols[column], v)
	e.zero[column] = e.zero[column] && v == 0
}

func (e *blockEncoder) place(r *indexRow, before int64) {
	segment := e.dict[dictSegment].of(int64(r.record.Segment))
	e.put(colSegment, segment)
	e.put(colAt, zigzag(r.record.Offset-before))
	switch r.ended.Segment {
	case r.record.Segment:
		e.put(colEnded, 0)
	case 0:
		e.put(colEnded, 1)
		e.put(colEndedAt, 0)
		return
	default:
		e.put(colEnded, 2+e.dict[dictSegment].of(int64(r.ended.Segment)))
	}
	e.put(colEndedAt, zigzag(r.ended.Offset-r.record.Offset))
}

func (e *blockEncoder) finish(n int) {
	e.head = e.head[:0]
	e.keys, e.details, e.places = binary.AppendUvarint(e.keys[:0], uint64(n)), e.details[:0], e.places[:0]
	for i := range headDicts {
		e.head = e.dict[i].append(e.head)
	}
	e.traces = e.dict[dictTrace].append(e.traces[:0])
	for i, c := range e.cols {
		if e.zero[i] {
			c = nil
		}
		to := &e.keys
		switch {
		case i >= placeColumns:
			to = &e.places
		case i >= detailColumns:
			to = &e.details
		}
		*to = append(binary.AppendUvarint(*to, uint64(len(c))), c...)
	}
	e.sums = e.appendCounts(e.sums[:0], e.counts)
	e.callers = e.briefly(e.callers[:0], func(k *hourKey) { k.shape = 0 })
	e.shapes = e.briefly(e.shapes[:0], func(k *hourKey) { k.who = 0 })
}

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }

func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// numbers reads unsigned varints.
type numbers struct {
	rest []byte
	bad  bool
}

func (r *numbers) next() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// fill reads as many numbers as there are values, in one go.
func fill[T int64 | uint64](r *numbers, values []T) {
	text, at := r.rest, 0
	for i := range values {
		if at+1 < len(text) { // nearly all have one byte or two
			if b := text[at]; b < 0x80 {
				values[i] = T(b)
				at++
				continue
			} else if b2 := text[at+1]; b2 < 0x80 {
				values[i] = T(b&0x7f) | T(b2)<<7
				at += 2
				continue
			}
		}
		v, n := binary.Uvarint(text[at:])
		if n <= 0 {
			r.bad = true
			return
		}
		values[i] = T(v)
		at += n
	}
	r.rest = text[at:]
}

// list reads what dictionary.append wrote, into the memory of old values.
func (r *numbers) list(old []int64) []int64 {
	n := r.next()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	values := slices.Grow(old[:0], int(n))[:n]
	fill(r, values)
	return values
}

// blockHead is the dictionaries of a block.
type blockHead [headDicts + 1][]int64

// read takes the first dictionaries of a head, and traces if they are wanted. It uses the memory of what it has read before.
func (h *blockHead) read(head, traces []byte, dicts int) error {
	r := numbers{rest: head}
	for i := range dicts {
		h[i] = r.list(h[i])
	}
	t := numbers{rest: traces}
	if len(traces) > 0 {
		h[dictTrace] = t.list(h[dictTrace])
	}
	if r.bad || t.bad {
		return errDamaged
	}
	return nil
}

// blockData reads the rows of a block, each column when it is asked for. It can be used for one block after the other.
type blockData struct {
	head  *blockHead
	first uint64
	n     int
	text  [columns][]byte
	cols  [columns][]uint64
	read  [columns]bool
	rows  []int // for marks
	bad   bool  // what was read is of no use
}

// open takes up a block.
func (b *blockData) open(first uint64, head *blockHead, keys []byte) error {
	b.head, b.first, b.read, b.bad = head, first, [columns]bool{}, false
	r := numbers{rest: keys}
	n := r.next()
	if n > maxBlockRows {
		return errDamaged
	}
	b.n = int(n)
	return b.split(&r, 0, detailColumns)
}

// addDetails adds what else can be searched by.
func (b *blockData) addDetails(text []byte) error {
	return b.split(&numbers{rest: text}, detailColumns, placeColumns)
}

// addPlaces adds what says where the requests are.
func (b *blockData) addPlaces(text []byte) error {
	return b.split(&numbers{rest: text}, placeColumns, columns)
}

func (b *blockData) split(r *numbers, from, to int) error {
	for i := from; i < to; i++ {
		size := r.next()
		if size > uint64(len(r.rest)) {
			return errDamaged
		}
		b.text[i], r.rest = r.rest[:size], r.rest[size:]
	}
	if r.bad {
		return errDamaged
	}
	return nil
}

// column returns the values of a column; those that are written as distances are summed up.
func (b *blockData) column(c int) []uint64 {
	if b.read[c] {
		return b.cols[c]
	}
	values := slices.Grow(b.cols[c][:0], b.n)[:b.n]
	b.cols[c], b.read[c] = values, true
	r := numbers{rest: b.text[c]}
	if len(r.rest) == 0 {
		clear(values)
	} else {
		fill(&r, values)
	}
	b.bad = b.bad || r.bad
	switch c {
	case colSeq:
		seq := b.first - 1
		for i, v := range values {
			seq += v + 1
			values[i] = seq
		}
	case colTime, colAt:
		at := int64(0)
		for i, v := range values {
			at += unzigzag(v)
			values[i] = uint64(at)
		}
	}
	return values
}

func (b *blockData) damage() error {
	if b.bad {
		return errDamaged
	}
	return nil
}

// value looks up what a column's value means in a dictionary.
func (b *blockData) value(dict int, v uint64) int64 {
	if v >= uint64(len(b.head[dict])) {
		b.bad = true
		return 0
	}
	return b.head[dict][v]
}

// found is a request and where it is.
type found struct {
	seq           uint64
	record        audit.Place // in the log
	ended         audit.Place // no segment: the outcome is not there
	first         uint64      // of the block
	row           int         // of the block; negative: it is in none
	shape, ending int64
}

// row returns what a block says of a row.
func (b *blockData) row(i int) found {
	f := found{seq: b.column(colSeq)[i], first: b.first, row: i}
	f.shape, f.ending = b.value(dictShape, b.column(colShape)[i]), b.value(dictEnding, b.column(colEnding)[i])
	f.record = audit.Place{Segment: uint64(b.value(dictSegment, b.column(colSegment)[i])), Offset: int64(b.column(colAt)[i])}
	switch ended := b.column(colEnded)[i]; ended {
	case 0:
		f.ended.Segment = f.record.Segment
	case 1:
		return f
	default:
		f.ended.Segment = uint64(b.value(dictSegment, ended-2))
	}
	f.ended.Offset = f.record.Offset + unzigzag(b.column(colEndedAt)[i])
	return f
}
