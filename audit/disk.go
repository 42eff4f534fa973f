package audit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// segment is the segment that is written to. It belongs to who holds Log.disk, but for its name.
type segment struct {
	file  *os.File
	name  string
	size  int64 // of the file
	named bool  // its name is on the disk
}

// mark is a place in the log: behind an entry.
type mark struct {
	seq  uint64
	hash digest
}

// batch is what is brought to the disk at a time.
type batch struct {
	bytes []byte
	last  mark
	large bool
}

// waiter waits for an entry to be on the disk.
type waiter struct {
	seq    uint64
	result chan error // has room for one
}

const (
	retryInterval = 50 * time.Millisecond
	// headInterval is how often the head is brought to the disk. Only the test for a cut tail after a power cut depends on it.
	headInterval = time.Second
)

// run is the goroutine that brings entries from the journal to the disk.
func (l *Log) run() {
	defer close(l.done)
	var retry <-chan time.Time
	for {
		select {
		case <-l.urgent:
		case <-l.dirty:
			l.pause()
		case <-retry:
		case <-l.quit:
			return
		}
		retry = nil
		if l.flush() != nil { // who has to know is told
			retry = time.After(retryInterval)
		}
	}
}

// pause lets entries gather until the interval is over or somebody waits.
func (l *Log) pause() {
	interval := l.cfg.SyncInterval
	if l.cfg.Sync == SyncRelaxed {
		interval = l.cfg.RelaxedWindow
	}
	t := time.NewTimer(interval)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.urgent:
	case <-l.quit:
	}
}

// urge has entries brought to the disk without delay.
func (l *Log) urge() {
	select {
	case l.urgent <- struct{}{}:
	default:
	}
}

// flush brings everything that has been appended to the disk, and tells who waits for it, or for room.
func (l *Log) flush() error {
	l.disk.Lock()
	defer l.disk.Unlock()
	l.mu.Lock()
	l.begun++
	l.mu.Unlock()
	err := l.store()
	if err == nil {
		err = l.rotate()
	}
	if err != nil { // the journal has its place on the disk, also if that is full
		_ = l.cfg.fsync(l.journal.mapping.file)
	}
	return l.settle(err)
}

// store brings what is in the journal now to the segment, half by half. What comes meanwhile waits for the next time.
func (l *Log) store() error {
	l.mu.Lock()
	last := l.seq
	l.mu.Unlock()
	for {
		b, ok, err := l.next(last)
		if err != nil || !ok {
			return err
		}
		if err := l.put(b.bytes); err != nil {
			return err
		}
		if err := l.stored(&b); err != nil {
			return err
		}
		if now := time.Now(); now.Sub(l.headAt) > headInterval {
			l.headAt = now
			_ = l.cfg.fsync(l.head.mapping.file)
		}
	}
}

// next returns what has to be brought to the disk next, if there is anything up to an entry that is not there: the half that
// could not be before, if there is one.
func (l *Log) next(last uint64) (b batch, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.pending:
		return batch{bytes: l.journal.other(), last: l.pendingTo}, true, nil
	case l.large != nil:
		return batch{l.large, l.largeIs, true}, true, nil
	case l.journal.filled() == 0 || l.onDisk.seq >= last:
		return batch{}, false, nil
	}
	l.hurried = false
	half, err := l.journal.swap()
	if err != nil {
		return batch{}, false, fmt.Errorf("writing the audit journal: %w", err)
	}
	l.pending, l.pendingTo = true, mark{l.seq, l.prev}
	return batch{bytes: half, last: l.pendingTo}, true, nil
}

// put writes bytes behind the segment's end and brings them to the disk. If it fails it can be tried again, with the same
// bytes: what a failed fsync may have dropped is written once more.
func (l *Log) put(b []byte) error {
	s := l.seg
	info, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	// Where the file was cut under us there must be no hole: what is missing shows, and what comes is readable.
	if _, err := s.file.WriteAt(b, min(s.size, info.Size())); err != nil {
		_ = s.file.Truncate(s.size) // for readers; the journal has it all
		return fmt.Errorf("writing the audit log: %w", err)
	}
	if err := l.cfg.fsync(s.file); err != nil {
		return fmt.Errorf("syncing the audit log: %w", err)
	}
	if !s.named {
		if err := syncDir(l.cfg.Dir); err != nil {
			return fmt.Errorf("syncing the audit directory: %w", err)
		}
		s.named = true
	}
	return nil
}

// stored notes that a batch is on the disk.
func (l *Log) stored(b *batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	size := l.seg.size + int64(len(b.bytes))
	if err := l.journal.wrote(size); err != nil {
		return err
	}
	if b.large {
		err := errors.Join(l.journal.begin(SegmentNumber(l.seg.name), size), l.head.advance(b.last))
		if err != nil {
			return err
		}
		l.seq, l.prev, l.large = b.last.seq, b.last.hash, nil
	} else {
		l.pending = false
	}
	l.seg.size, l.onDisk = size, b.last
	if err := l.head.synced(b.last.seq); err != nil {
		return err
	}
	l.answer(b.last.seq, nil)
	l.announce()
	return nil
}

// rotate starts a new segment if the old one is full and somebody has an entry for it: until then there is nothing in the
// journal.
func (l *Log) rotate() error {
	l.mu.Lock()
	due, first := l.seg.size >= l.cfg.SegmentBytes && l.journal.filled() == 0 && l.waiting > 0, l.seq+1
	l.mu.Unlock()
	if !due {
		return nil
	}
	old := l.seg
	if err := l.start(first); err != nil {
		return err
	}
	_ = old.file.Close() // it is on the disk
	l.keeper.wake()
	return nil
}

// start makes a segment for the entry with a number.
func (l *Log) start(first uint64) error {
	name := segmentName(first)
	// O_EXCL: a file of that name would hold entries that we know nothing of.
	f, err := os.OpenFile(filepath.Join(l.cfg.Dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("starting an audit segment: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.journal.begin(first, 0); err != nil {
		return errors.Join(fmt.Errorf("writing the audit journal: %w", err), f.Close(), os.Remove(f.Name()))
	}
	l.seg = &segment{file: f, name: name}
	return nil
}

// settle ends an attempt to bring everything to the disk: the log is broken from here on, or well.
func (l *Log) settle(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil && l.broken == nil:
		l.since, l.refused = l.cfg.Now(), 0
	case err == nil && l.broken != nil:
		l.recovered()
	}
	if l.broken = err; err != nil {
		l.large = nil
		l.answer(l.seq+1, fmt.Errorf("%w: %w", ErrUnavailable, err))
	}
	l.ended = l.begun
	l.announce()
	return err
}

// recovered notes in the log that it was broken. l.mu is held.
func (l *Log) recovered() {
	err := l.addEvent("log.recovered", map[string]string{"since": l.since.UTC().Format(time.RFC3339Nano),
		"refused": strconv.Itoa(l.refused), "cause": l.broken.Error()})
	if err == nil {
		l.hurry()
	}
}

// answer tells those who wait for entries up to one. l.mu is held.
func (l *Log) answer(seq uint64, err error) {
	left := l.waiters[:0]
	for _, w := range l.waiters {
		if w.seq > seq {
			left = append(left, w)
			continue
		}
		w.result <- err
	}
	l.waiters = left
}

// announce wakes those who wait for room, or for an attempt. l.mu is held.
func (l *Log) announce() {
	if l.waiting > 0 {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// flushed brings everything to the disk and returns the last entry there.
func (l *Log) flushed() (mark, error) {
	err := l.flush()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.onDisk, err
}

// uses reports if a segment is not yet closed.
func (l *Log) uses(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seg.name == name
}
