package audit

import (
	"context"
	"crypto/ed25519"
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
	SyncGroup   SyncMode = "group"
	SyncAlways  SyncMode = "always"
	SyncRelaxed SyncMode = "relaxed"
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
	// RelaxedWindow is how long an entry may wait for the file with SyncRelaxed, and so the most that a killed process
	// loses; default 2 s.
	RelaxedWindow time.Duration
	// ReserveBytes is space on the disk that is kept for outcomes; default 1 MiB.
	ReserveBytes int64
	Compress     bool // closed segments

	// SigningKey signs checkpoints, at least every CheckpointInterval (default one minute) while entries are written, and
	// whenever a segment is closed. Without it there are none.
	SigningKey         ed25519.PrivateKey
	CheckpointInterval time.Duration
	// OnCheckpoint is told of every checkpoint, one at a time. It may be nil.
	OnCheckpoint func(Checkpoint)

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
	if c.Sync != SyncGroup && c.Sync != SyncAlways && c.Sync != SyncRelaxed {
		return c, fmt.Errorf("audit: unknown sync mode %q", c.Sync)
	}
	c.SegmentBytes = defaulted(c.SegmentBytes, 64<<20)
	c.SyncInterval = defaulted(c.SyncInterval, 20*time.Millisecond)
	c.Timeout = defaulted(c.Timeout, 5*time.Second)
	c.RelaxedWindow = defaulted(c.RelaxedWindow, 2*time.Second)
	c.ReserveBytes = defaulted(c.ReserveBytes, 1<<20)
	c.CheckpointInterval = defaulted(c.CheckpointInterval, time.Minute)
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

// The bounds of what waits for the disk.
const (
	maxQueue      = 8192
	maxQueueBytes = 64 << 20
)

// Log is an audit log that is open for writing. It is safe for concurrent use.
type Log struct {
	cfg    Config
	lock   *os.File
	writer *writer
	syncer *syncer
	turn   sync.Mutex    // who holds it writes: an appender by itself, or the writing goroutine for those who wait
	single [1]*pending   // the batch of an appender that writes by itself; of who holds turn
	wake   chan struct{} // has a token when the queue is not empty
	keeper *keeper
	done   chan struct{} // closed when the writing goroutine has ended

	mu      sync.Mutex // protects the following
	queue   []*pending
	spare   []*pending
	bytes   int       // of the bodies in queue and under way
	since   time.Time // when the first of those under way came; zero if there are none
	closing bool
	closed  bool
}

// pending is an entry on its way to the file.
type pending struct {
	body    []byte
	durable bool      // wait for the fsync
	outcome bool      // may use the reserve
	async   bool      // nobody waits: it is written in its turn, as soon as the disk takes it
	at      time.Time // when it came, if async
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
	l.keeper = newKeeper(l)
	l.writer = &writer{cfg: &l.cfg, head: h, syncer: l.syncer, reserve: newReserve(&l.cfg), rotated: l.keeper.wake}
	if err := l.writer.open(old); err != nil {
		return nil, errors.Join(err, h.close(), lock.Close())
	}
	go l.syncer.run()
	go l.run()
	go l.keeper.run()
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
	p.outcome = true
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
	if l.closed || l.closing {
		l.mu.Unlock()
		return nil
	}
	l.closing = true
	l.mu.Unlock()
	l.keeper.close()
	l.mu.Lock()
	l.closed = true
	close(l.wake)
	l.mu.Unlock()
	<-l.done
	var err error
	if n := len(l.queue); n > 0 {
		err = fmt.Errorf("%w: %d entries are lost", ErrUnavailable, n)
	}
	return errors.Join(err, l.syncer.close(), l.lock.Close())
}

func newPending() *pending {
	p := pendings.Get().(*pending)
	p.body, p.durable, p.outcome, p.async = p.body[:0], false, false, false
	p.taken.Store(false)
	return p
}

// append writes p, or hands it to the writing goroutine, and waits for it.
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
	if l.cfg.Sync == SyncRelaxed {
		p.async, p.durable, p.at = true, false, time.Now()
		return l.enqueue(p)
	}
	if !l.write(p) {
		if err := l.enqueue(p); err != nil {
			return err
		}
	}
	select {
	case err = <-p.result:
		pendings.Put(p)
		return err
	default:
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

// write writes p at once if nobody else is writing or waiting and the disk answers, which spares two changes of
// goroutines. It reports if it did; the result may have to be waited for all the same. The file takes a write without
// the disk, as a rule; where it does not, this caller waits as the writing goroutine would have, and all others are
// bounded by Config.Timeout.
func (l *Log) write(p *pending) bool {
	if l.syncer.stalled() || !l.turn.TryLock() {
		return false
	}
	defer l.turn.Unlock()
	l.mu.Lock()
	free := !l.closed && len(l.queue) == 0
	l.mu.Unlock()
	if !free {
		return false
	}
	l.single[0] = p
	for rest := l.single[:]; len(rest) > 0; {
		rest = l.writer.commit(rest)
	}
	return true
}

func (l *Log) enqueue(p *pending) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if len(l.queue) >= maxQueue || l.bytes > maxQueueBytes {
		return fmt.Errorf("%w: %d entries are waiting", ErrUnavailable, len(l.queue))
	}
	if p.async && l.late(p.at) {
		return fmt.Errorf("%w: entries have been waiting for %v", ErrUnavailable, l.cfg.RelaxedWindow)
	}
	l.queue = append(l.queue, p)
	l.bytes += len(p.body)
	if len(l.queue) == 1 {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// late reports if an entry that nobody waits for has waited for longer than the window. l.mu is held.
func (l *Log) late(now time.Time) bool {
	since := l.since
	if since.IsZero() && len(l.queue) > 0 {
		since = l.queue[0].at
	}
	return !since.IsZero() && now.Sub(since) > l.cfg.RelaxedWindow
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
		for _, p := range batch {
			l.bytes -= len(p.body)
		}
		if len(batch) > 0 && batch[0].async {
			l.since = batch[0].at
		}
		l.mu.Unlock()
		l.commit(batch)
		l.mu.Lock()
		l.spare, l.since = batch, time.Time{}
		kept := l.keep()
		again := len(l.queue) > 0
		l.mu.Unlock()
		if !again || kept {
			return
		}
	}
}

// commit writes a batch whole, but for what is kept to be tried again.
func (l *Log) commit(batch []*pending) {
	l.turn.Lock()
	defer l.turn.Unlock()
	for rest := batch; len(rest) > 0; {
		rest = l.writer.commit(rest)
		if len(l.writer.kept) > 0 { // the order stays
			l.writer.kept = append(l.writer.kept, rest...)
			rest = nil
		}
	}
	clear(batch)
}

// keep puts entries that nobody waits for, and that the disk did not take, before those that came since, to be tried
// again soon. l.mu is held.
func (l *Log) keep() bool {
	kept := l.writer.kept
	if len(kept) == 0 {
		return false
	}
	l.writer.kept = nil
	for _, p := range kept {
		l.bytes += len(p.body)
	}
	l.queue = append(kept, l.queue...)
	time.AfterFunc(retryInterval, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.closed {
			select {
			case l.wake <- struct{}{}:
			default:
			}
		}
	})
	return true
}

const retryInterval = 50 * time.Millisecond
