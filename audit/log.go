package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// SyncMode says what an append waits for.
type SyncMode string

// The sync modes; see "What is lost when" in the package documentation.
const (
	SyncGroup  SyncMode = "group"
	SyncAlways SyncMode = "always"
)

// Config says where a log is and how it is written. Only Dir is required.
type Config struct {
	Dir          string           // holds the segments; created with mode 0700
	HeadDir      string           // holds the head; default Dir + "-head". Must not be Dir
	Node         string           // name of this node, for the log's events
	SegmentBytes int64            // a segment that has reached this size is closed; default 64 MiB
	Sync         SyncMode         // default SyncGroup
	SyncInterval time.Duration    // longest time from an append to its fsync; default 20 ms
	Timeout      time.Duration    // longest time that an append waits; default 5 s
	Now          func() time.Time // clock of the log's own events; default time.Now

	fsync func(*os.File) error // for tests
}

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("audit: no directory is configured")
	}
	c.Dir = filepath.Clean(c.Dir)
	if c.HeadDir == "" {
		c.HeadDir = c.Dir + "-head"
	}
	if filepath.Clean(c.HeadDir) == c.Dir {
		return c, errors.New("audit: the head must be kept apart from the segments")
	}
	if c.Sync == "" {
		c.Sync = SyncGroup
	}
	if c.Sync != SyncGroup && c.Sync != SyncAlways {
		return c, fmt.Errorf("audit: unknown sync mode %q", c.Sync)
	}
	c.SegmentBytes = defaulted(c.SegmentBytes, 64<<20)
	c.SyncInterval = defaulted(c.SyncInterval, 20*time.Millisecond)
	c.Timeout = defaulted(c.Timeout, 5*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.fsync == nil {
		c.fsync = (*os.File).Sync
	}
	return c, nil
}

func defaulted[T int64 | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

var (
	// ErrUnavailable means that the log did not take an entry (full or broken disk, or a wait that was too long). The
	// request must be refused. The log may take a later entry again.
	ErrUnavailable = errors.New("audit: the log cannot take the record")
	// ErrClosed means that the log was closed. errors.Is(ErrClosed, ErrUnavailable) holds.
	ErrClosed = fmt.Errorf("%w: it is closed", ErrUnavailable)
)

// maxQueue bounds the entries that wait for the disk.
const maxQueue = 8192

// Log is an audit log that is open for writing. It is safe for concurrent use.
type Log struct {
	cfg    Config
	lock   *os.File
	writer *writer
	syncer *syncer
	wake   chan struct{} // has a token when the queue is not empty
	done   chan struct{} // closed when the writing goroutine has ended

	mu     sync.Mutex // protects the following
	queue  []*pending
	spare  []*pending
	closed bool
}

// pending is an entry on its way to the file.
type pending struct {
	body    []byte
	durable bool // wait for the fsync
	taken   atomic.Bool
	result  chan error // has room for one
	timer   *time.Timer
}

var pendings = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &pending{result: make(chan error, 1), timer: t}
}}

// Open opens or creates a log for writing. It recovers from a crash, and notes what it found as the first entry; see
// the package documentation. ErrLocked means that the log has another writer.
func Open(cfg Config) (*Log, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := privateDir(cfg.Dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	h, old, err := openHead(cfg.HeadDir)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	l := &Log{cfg: cfg, lock: lock, wake: make(chan struct{}, 1), done: make(chan struct{})}
	l.syncer = newSyncer(&l.cfg, h)
	l.writer = &writer{cfg: &l.cfg, head: h, syncer: l.syncer}
	if err := l.writer.open(old); err != nil {
		return nil, errors.Join(err, h.file.Close(), lock.Close())
	}
	go l.syncer.run()
	go l.run()
	return l, nil
}

// Intent records a request that is about to run. When it returns nil the record outlives the process, and the
// machine if rec.Write is set. If ctx ends first its error is returned; the record may then still be written.
func (l *Log) Intent(ctx context.Context, rec *Record) error {
	p := newPending()
	p.durable = rec.Judgement != nil && rec.Write
	var err error
	p.body, err = encodeRecord(p.body, TypeIntent, rec, nil)
	return l.append(ctx, p, err)
}

// Outcome records how a request ended; out.ID is the id of its intent. It does not depend on ctx being alive.
func (l *Log) Outcome(_ context.Context, out *Outcome) error {
	p := newPending()
	var err error
	p.body, err = encodeOutcome(p.body, out)
	return l.append(context.Background(), p, err)
}

// Request records a request that was turned down before it ran, with its outcome. out.ID and out.Time are not used:
// the record has them. It does not depend on ctx being alive.
func (l *Log) Request(_ context.Context, rec *Record, out *Outcome) error {
	p := newPending()
	var err error
	p.body, err = encodeRecord(p.body, TypeRequest, rec, out)
	return l.append(context.Background(), p, err)
}

// Event records something other than a request; rec says when, who and where. It does not depend on ctx being alive.
func (l *Log) Event(_ context.Context, rec *Record, ev *Event) error {
	p := newPending()
	var err error
	p.body, err = encodeEvent(p.body, rec, ev)
	return l.append(context.Background(), p, err)
}

// Stats is the state of a log, for metrics and readiness.
type Stats struct {
	Seq     uint64 // last entry written
	Synced  uint64 // last entry known to be on the disk
	Waiting int    // entries that wait to be written
	Err     error  // why the log takes no entries; nil if it does
}

// Stats returns the state of the log.
func (l *Log) Stats() Stats {
	s := l.syncer.stats()
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Waiting = len(l.queue)
	if l.closed {
		s.Err = ErrClosed
	}
	return s
}

// Close writes what is waiting, syncs, and gives the log up to another writer.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	close(l.wake)
	l.mu.Unlock()
	<-l.done
	return errors.Join(l.syncer.close(), l.lock.Close())
}

func newPending() *pending {
	p := pendings.Get().(*pending)
	p.body, p.durable = p.body[:0], false
	p.taken.Store(false)
	return p
}

// append hands p to the writing goroutine and waits for it.
func (l *Log) append(ctx context.Context, p *pending, err error) error {
	if err == nil && len(p.body)+1024 > maxEntry {
		err = fmt.Errorf("%w: it has more than %d bytes", errEntry, maxEntry)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if l.cfg.Sync == SyncAlways {
		p.durable = true
	}
	if err := l.enqueue(p); err != nil {
		return err
	}
	p.timer.Reset(l.cfg.Timeout)
	select {
	case err = <-p.result:
		p.timer.Stop()
		pendings.Put(p)
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-p.timer.C:
		err = fmt.Errorf("%w: it took longer than %v", ErrUnavailable, l.cfg.Timeout)
	}
	p.taken.Swap(true) // not taken yet: the writer drops it. Otherwise it is written without anybody knowing
	return err
}

func (l *Log) enqueue(p *pending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if len(l.queue) >= maxQueue {
		return fmt.Errorf("%w: %d entries are waiting", ErrUnavailable, maxQueue)
	}
	l.queue = append(l.queue, p)
	if len(l.queue) == 1 {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// run is the writing goroutine.
func (l *Log) run() {
	defer close(l.done)
	for range l.wake {
		l.drain()
	}
	l.drain()
}

func (l *Log) drain() {
	for {
		l.mu.Lock()
		batch := l.queue
		l.queue, l.spare = l.spare[:0], nil
		l.mu.Unlock()
		for rest := batch; len(rest) > 0; {
			rest = l.writer.commit(rest)
		}
		clear(batch)
		l.mu.Lock()
		l.spare = batch
		again := len(l.queue) > 0
		l.mu.Unlock()
		if !again {
			return
		}
	}
}
