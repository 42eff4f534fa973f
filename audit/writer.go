package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// maxBatch bounds the bytes of one write.
const maxBatch = 4 << 20

// segment is an open segment. The writer owns size; the syncer owns synced.
type segment struct {
	file   *os.File
	name   string
	size   int64 // up to the last whole entry that was released
	synced int64 // up to here it is on the disk
}

// writer puts entries into segments. It belongs to who holds Log.turn.
type writer struct {
	cfg    *Config
	head   *head
	syncer *syncer

	reserve *reserve
	rotated func()     // told of a new segment
	kept    []*pending // entries that nobody waits for, to be tried again

	seg  *segment
	seq  uint64 // last entry
	prev digest // its hash
	buf  []byte
	sync []*pending // entries of the batch that wait for an fsync

	broken  error     // why the last write failed; nil if the log is well
	since   time.Time // when it broke
	refused int       // entries turned down since
}

// commit writes the first part of batch, answers it, and returns the rest.
func (w *writer) commit(batch []*pending) (rest []*pending) {
	if err := w.repair(); err != nil {
		w.answer(batch, err)
		return nil
	}
	w.spare(batch)
	seq, prev := w.seq, w.prev
	n := w.format(batch)
	if err := w.write(); err != nil {
		w.seq, w.prev = seq, prev
		w.fail(err)
		if w.reserve.open(err) {
			for _, p := range batch[:n] {
				if p != nil {
					p.taken.Store(false)
				}
			}
			return batch // once more, for the outcomes in it
		}
		w.answer(batch[:n], err)
		return batch[n:]
	}
	w.recovered()
	w.release(batch[:n])
	return batch[n:]
}

// spare turns down what must not use the reserve, while that is in use.
func (w *writer) spare(batch []*pending) {
	if !w.reserve.used || w.broken == nil || w.reserve.restore() {
		return
	}
	for i, p := range batch {
		if p != nil && !p.outcome {
			w.answer(batch[i:i+1], w.broken)
			batch[i] = nil
		}
	}
}

// full reports if the log goes on for outcomes only.
func (w *writer) full() bool { return w.broken != nil && w.reserve.used }

// format turns entries into lines in w.buf, as many as fit a batch, and returns how many it took.
func (w *writer) format(batch []*pending) int {
	w.buf = w.buf[:0]
	if w.broken != nil && !w.full() {
		w.addEvent("log.recovered", map[string]string{"since": w.since.UTC().Format(time.RFC3339Nano),
			"refused": strconv.Itoa(w.refused), "cause": w.broken.Error()})
	}
	for i, p := range batch {
		if len(w.buf) > maxBatch {
			return i
		}
		if p == nil {
			continue
		}
		if p.taken.CompareAndSwap(false, true) {
			w.add(p.body)
		} else {
			batch[i] = nil // its caller has gone, maybe with an error
		}
	}
	return len(batch)
}

func (w *writer) add(body []byte) {
	w.seq++
	w.buf, w.prev = appendLine(w.buf, w.seq, body, w.prev)
}

func (w *writer) addEvent(name string, attributes map[string]string) {
	if w.cfg.Node != "" {
		attributes["node"] = w.cfg.Node
	}
	body, err := encodeEvent(nil, &Record{Time: w.cfg.Now(), ID: NewID()}, &Event{Name: name, Attributes: attributes})
	if err != nil {
		panic("audit: own event: " + err.Error()) // its id and its layout are ours
	}
	w.add(body)
}

// write puts w.buf into the segment and moves the head behind it.
func (w *writer) write() error {
	if len(w.buf) == 0 {
		return nil
	}
	if w.seg == nil || w.seg.size >= w.cfg.SegmentBytes {
		if err := w.rotate(); err != nil {
			return err
		}
	}
	if _, err := w.seg.file.Write(w.buf); err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	size := w.seg.size + int64(len(w.buf))
	if err := w.head.advance(w.seq, w.prev, w.seg.name, size); err != nil {
		return err
	}
	w.seg.size = size
	return nil
}

// rotate starts a new segment for the entries in w.buf.
func (w *writer) rotate() error {
	l, err := parseLine(w.buf[:indexLine(w.buf)])
	if err != nil {
		return err
	}
	name := segmentName(l.seq)
	// O_EXCL: a file of that name would hold entries that we know nothing of.
	f, err := os.OpenFile(filepath.Join(w.cfg.Dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("starting an audit segment: %w", err)
	}
	first := w.seg == nil
	w.setSegment(&segment{file: f, name: name})
	if !first {
		w.rotated()
	}
	return nil
}

func (w *writer) setSegment(s *segment) {
	w.seg = s
	w.syncer.use(s)
}

func indexLine(b []byte) int {
	for i, c := range b {
		if c == '\n' {
			return i
		}
	}
	return len(b)
}

// release answers entries that were written, or leaves them to the syncer.
func (w *writer) release(batch []*pending) {
	w.sync = w.sync[:0]
	for i, p := range batch {
		if p != nil && p.durable {
			w.sync = append(w.sync, p)
			batch[i] = nil // the syncer answers it, and then it may be in use again
		}
	}
	if w.seg != nil {
		w.syncer.wrote(w.seq, w.prev, w.seg.size, w.sync)
	}
	for _, p := range batch {
		switch {
		case p == nil:
		case p.async:
			pendings.Put(p)
		default:
			p.result <- nil
		}
	}
}

// answer turns entries down.
func (w *writer) answer(batch []*pending, cause error) {
	err := fmt.Errorf("%w: %w", ErrUnavailable, cause)
	for _, p := range batch {
		switch {
		case p == nil:
		case p.async:
			p.taken.Store(false)
			w.kept = append(w.kept, p)
		default:
			w.refused++
			p.result <- err
		}
	}
}

// fail marks the log as broken and cuts off what a failed write left.
func (w *writer) fail(err error) {
	if w.broken == nil {
		w.since, w.refused = w.cfg.Now(), 0
	}
	w.broken = err
	w.syncer.setErr(err)
	_ = w.cut() // tried again before the next write
}

func (w *writer) cut() error {
	if w.seg == nil {
		return nil
	}
	if err := w.seg.file.Truncate(w.seg.size); err != nil {
		return fmt.Errorf("cutting off a torn audit entry: %w", err)
	}
	return nil
}

// repair makes a broken log writable again, or says why it cannot.
func (w *writer) repair() error {
	if err := w.syncer.failed(); err != nil && w.broken == nil {
		w.broken, w.since, w.refused = err, w.cfg.Now(), 0
	}
	if w.broken == nil {
		return nil
	}
	err := errors.Join(w.cut(), w.syncer.repair(w.prev))
	if err != nil {
		w.broken = err
		w.syncer.setErr(err)
	}
	return err
}

// recovered notes that a write has succeeded.
func (w *writer) recovered() {
	if w.broken != nil && !w.full() {
		w.broken = nil
		w.syncer.setErr(nil)
	}
}
