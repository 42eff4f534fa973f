package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// syncer brings segments to the disk: soon after a write, or at once for entries that wait for it.
type syncer struct {
	cfg    *Config
	head   *head
	dirty  chan struct{} // has a token when something was written
	urgent chan struct{} // has a token when somebody waits
	quit   chan struct{}
	done   chan struct{}

	disk  sync.Mutex   // held while segments are being synced or repaired
	began atomic.Int64 // when the sync that goes on began, in nanoseconds since 1970; 0 if none does

	mu       sync.Mutex // protects the following
	segs     []*segment // with entries not yet synced; the last is the one in use
	newNames bool       // a segment was created: its directory has to be synced too
	seq      uint64     // last entry written
	hash     digest     // of that entry
	size     int64      // of the segment in use
	onDisk   uint64     // last entry on the disk
	diskHash digest     // of that entry
	waiters  []*pending
	fsyncErr error // of the last fsync; the kernel may have dropped what it could not write
	err      error // why the log takes no entries, for Stats
}

func newSyncer(cfg *Config, h *head) *syncer {
	return &syncer{cfg: cfg, head: h, dirty: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
		quit: make(chan struct{}), done: make(chan struct{})}
}

// use makes s the segment that is written to.
func (y *syncer) use(s *segment) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.segs = append(y.segs, s)
	y.size = s.size
	y.newNames = true
}

// wrote says that the log was written up to an entry and that waiters want it on the disk.
func (y *syncer) wrote(seq uint64, hash digest, size int64, waiters []*pending) {
	y.mu.Lock()
	y.seq, y.hash, y.size = seq, hash, size
	y.waiters = append(y.waiters, waiters...)
	y.mu.Unlock()
	signal := y.dirty
	if len(waiters) > 0 {
		signal = y.urgent
	}
	select {
	case signal <- struct{}{}:
	default:
	}
}

func (y *syncer) run() {
	defer close(y.done)
	for {
		select {
		case <-y.urgent:
		case <-y.dirty:
			y.pause()
		case <-y.quit:
			return
		}
		y.sync()
	}
}

// pause lets writes gather until the sync interval is over or somebody waits.
func (y *syncer) pause() {
	t := time.NewTimer(y.cfg.SyncInterval)
	defer t.Stop()
	select {
	case <-t.C:
	case <-y.urgent:
	case <-y.quit:
	}
}

// sync brings everything written so far to the disk and answers who waits for it.
func (y *syncer) sync() {
	y.disk.Lock()
	defer y.disk.Unlock()
	y.began.Store(time.Now().UnixNano())
	defer y.began.Store(0)
	y.mu.Lock()
	segs, at := append([]*segment(nil), y.segs...), mark{y.seq, y.hash, y.size}
	seq := at.seq
	waiters, names := y.waiters, y.newNames
	y.waiters = nil
	err := y.fsyncErr
	clean := seq == y.onDisk
	y.mu.Unlock()
	if err == nil && !clean {
		err = y.flush(segs, names)
	}
	y.finish(segs, at, err)
	for _, p := range waiters {
		if err != nil {
			p.result <- fmt.Errorf("%w: %w", ErrUnavailable, err)
		} else {
			p.result <- nil
		}
	}
	if err == nil && !clean {
		// Only the test for a cut tail after a power cut depends on it, so nobody waits for it.
		_ = errors.Join(y.head.synced(seq), y.cfg.fsync(y.head.file))
	}
}

func (y *syncer) flush(segs []*segment, names bool) error {
	for _, s := range segs {
		if err := y.cfg.fsync(s.file); err != nil {
			return fmt.Errorf("syncing the audit log: %w", err)
		}
	}
	if names {
		if err := syncDir(y.cfg.Dir); err != nil {
			return fmt.Errorf("syncing the audit directory: %w", err)
		}
	}
	return nil
}

// stalled reports if the disk has been asked for a while and does not answer.
func (y *syncer) stalled() bool {
	began := y.began.Load()
	return began != 0 && time.Now().UnixNano()-began > int64(stalledAfter)
}

const stalledAfter = 200 * time.Millisecond

// mark is where the log ended at a moment.
type mark struct {
	seq  uint64
	hash digest
	size int64 // of the segment in use
}

// finish notes the result of a flush and closes segments that are complete.
func (y *syncer) finish(segs []*segment, at mark, err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if err != nil {
		y.fsyncErr, y.err = err, err
		return
	}
	y.onDisk, y.diskHash = at.seq, at.hash
	if len(segs) == 0 {
		return
	}
	last := len(segs) - 1
	for _, s := range segs[:last] {
		_ = s.file.Close() // synced
	}
	segs[last].synced = at.size
	y.segs = y.segs[last:]
	y.newNames = len(y.segs) > 1
}

// repair writes again what a failed fsync may have dropped, after checking that it can still be read. last is the hash
// of the last entry. Only the writer may call it.
func (y *syncer) repair(last digest) error {
	y.disk.Lock()
	defer y.disk.Unlock()
	y.mu.Lock()
	segs, failed := append([]*segment(nil), y.segs...), y.fsyncErr
	at := mark{y.seq, y.hash, y.size}
	y.mu.Unlock()
	if failed == nil {
		return nil
	}
	hash := last
	for _, s := range segs {
		h, err := y.rewrite(s)
		if err != nil {
			return err
		}
		if s.size > s.synced {
			hash = h
		}
	}
	if hash != last {
		return errors.New("the audit log has lost entries since its last sync")
	}
	if err := y.flush(segs, true); err != nil {
		return err
	}
	y.mu.Lock()
	y.fsyncErr = nil
	y.mu.Unlock()
	y.finish(segs, at, nil)
	return nil
}

// flushed brings everything to the disk and returns the last entry there.
func (y *syncer) flushed() (seq uint64, hash digest, err error) {
	y.sync()
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.onDisk, y.diskHash, y.fsyncErr
}

// uses reports if a segment is not yet closed.
func (y *syncer) uses(name string) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, s := range y.segs {
		if s.name == name {
			return true
		}
	}
	return false
}

// rewrite writes the part of s that is not synced once more and returns the hash of its last entry.
func (y *syncer) rewrite(s *segment) (last digest, err error) {
	data := make([]byte, s.size-s.synced)
	if _, err := s.file.ReadAt(data, s.synced); err != nil {
		return last, fmt.Errorf("reading the audit log again: %w", err)
	}
	for text := range bytes.Lines(data) {
		l, err := parseLine(bytes.TrimSuffix(text, []byte{'\n'}))
		if err != nil || !l.valid() {
			return last, fmt.Errorf("the audit log is damaged behind byte %d of %s", s.synced, s.name)
		}
		last = l.hash
	}
	f, err := os.OpenFile(filepath.Join(y.cfg.Dir, s.name), os.O_WRONLY, 0) // without O_APPEND
	if err != nil {
		return last, fmt.Errorf("opening the audit log again: %w", err)
	}
	_, err = f.WriteAt(data, s.synced)
	return last, errors.Join(err, f.Close())
}

func (y *syncer) failed() error {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.fsyncErr
}

func (y *syncer) setErr(err error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.err = err
}

func (y *syncer) stats() Stats {
	y.mu.Lock()
	defer y.mu.Unlock()
	return Stats{Seq: y.seq, Synced: y.onDisk, Err: y.err}
}

// close syncs a last time, when nothing is written any more, and closes the files.
func (y *syncer) close() error {
	close(y.quit)
	<-y.done
	y.sync()
	err := y.failed()
	for _, s := range y.segs {
		err = errors.Join(err, s.file.Close())
	}
	return errors.Join(err, y.head.close())
}
