package audit

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
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
	// RelaxedWindow is SyncInterval with SyncRelaxed, and so the most that a power cut loses; default 2 s.
	RelaxedWindow time.Duration
	// JournalBytes bounds the entries that are not on the disk yet; default 2 MiB. It is space on the disk that is kept for
	// them, so that what runs when the disk becomes full is accounted for.
	JournalBytes int64
	Compress     bool // closed segments
	// CompressLater bounds the bytes of closed segments that wait for a quiet time before they are compressed; default 0: none
	// waits.
	CompressLater int64

	// SigningKey signs checkpoints, at least every CheckpointInterval (default one minute) while entries are written, and
	// whenever a segment is closed. Without it there are none.
	SigningKey         ed25519.PrivateKey
	CheckpointInterval time.Duration
	// OnCheckpoint is told of every checkpoint, one at a time. It may be nil.
	OnCheckpoint func(Checkpoint)

	// Waits is called before an append waits, with its context. It may be nil.
	Waits func(context.Context)

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
	c.JournalBytes = max(defaulted(c.JournalBytes, 2<<20), 64<<10)
	c.CheckpointInterval = defaulted(c.CheckpointInterval, time.Minute)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Waits == nil {
		c.Waits = func(context.Context) {}
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

// Log is an audit log that is open for writing. It is safe for concurrent use.
type Log struct {
	cfg    Config
	lock   *os.File
	keeper *keeper
	dirty  chan struct{} // has a token when something was appended
	urgent chan struct{} // has a token when somebody waits
	quit   chan struct{}
	done   chan struct{} // closed when the writing goroutine has ended

	disk   sync.Mutex // held by who brings entries to the disk. Taken before mu, under which nobody waits for the disk
	headAt time.Time  // when the head was brought to the disk; of who holds disk

	mu      sync.Mutex // protects the following
	journal *journal
	head    *head
	seg     *segment
	seq     uint64 // last entry
	prev    digest // its hash
	line    []byte
	hurried bool // the writing goroutine knows that there is something

	pending   bool   // the other half of the journal is not on the disk yet
	pendingTo mark   // the last entry in it
	large     []byte // an entry that does not fit the journal, with nothing before it that is not on the disk
	largeIs   mark
	onDisk    mark // the last entry on the disk

	waiters []waiter
	waiting int           // appenders that wait for room or for an attempt
	changed chan struct{} // closed when there may be room
	begun   uint64        // attempts to bring everything to the disk
	ended   uint64

	broken  error     // why the last attempt failed; nil if the log is well
	since   time.Time // when it broke
	refused int       // entries turned down since
	closing bool
	closed  bool
}

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
	l := &Log{cfg: cfg, lock: lock, dirty: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
		quit: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{})}
	l.keeper = newKeeper(l)
	if err := l.open(); err != nil {
		return nil, errors.Join(err, l.release())
	}
	go l.run()
	go l.keeper.run()
	return l, nil
}

// release closes what is open.
func (l *Log) release() error {
	var err error
	if l.seg != nil {
		err = l.seg.file.Close()
	}
	if l.journal != nil {
		err = errors.Join(err, l.journal.mapping.close())
	}
	if l.head != nil {
		err = errors.Join(err, l.head.close())
	}
	return errors.Join(err, l.lock.Close())
}

// Intent records a request that is about to run. When it returns nil the record outlives the process, and the
// machine if rec.Write is set. If ctx ends first its error is returned; the record may then still be written.
func (l *Log) Intent(ctx context.Context, rec *Record) error {
	b := bodies.Get().(*body)
	defer bodies.Put(b)
	var err error
	b.text, err = encodeRecord(b.text[:0], TypeIntent, rec, nil)
	return l.append(ctx, &entry{body: b.text, durable: rec.Judgement != nil && rec.Write}, err)
}

// Outcome records how a request ended; out.ID is the id of its intent. It does not depend on ctx being alive.
func (l *Log) Outcome(ctx context.Context, out *Outcome) error {
	b := bodies.Get().(*body)
	defer bodies.Put(b)
	var err error
	b.text, err = encodeOutcome(b.text[:0], out)
	return l.append(ctx, &entry{body: b.text, outcome: true, certain: true}, err)
}

// Request records a request that was turned down before it ran, with its outcome. out.ID and out.Time are not used:
// the record has them. It does not depend on ctx being alive.
func (l *Log) Request(ctx context.Context, rec *Record, out *Outcome) error {
	text, err := encodeRecord(nil, TypeRequest, rec, out)
	return l.append(ctx, &entry{body: text, certain: true}, err)
}

// Event records something other than a request; rec says when, who and where. It does not depend on ctx being alive.
func (l *Log) Event(ctx context.Context, rec *Record, ev *Event) error {
	text, err := encodeEvent(nil, rec, ev)
	return l.append(ctx, &entry{body: text, certain: true}, err)
}

// body is a buffer for the members of an entry.
type body struct{ text []byte }

var bodies = sync.Pool{New: func() any { return new(body) }}

// Stats is the state of a log, for metrics and readiness.
type Stats struct {
	Seq     uint64 // last entry written
	Synced  uint64 // last entry known to be on the disk
	Waiting int    // entries that wait to be written, or to be on the disk
	Err     error  // why the log takes no entries; nil if it does
}

// Stats returns the state of the log.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{Seq: l.seq, Synced: l.onDisk.seq, Waiting: l.waiting + len(l.waiters), Err: l.broken}
	if l.closed {
		s.Err = ErrClosed
	}
	return s
}

// Close brings everything to the disk, and gives the log up to another writer. What could not be brought there is still in
// the journal, from which the next writer takes it.
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
	l.mu.Unlock()
	close(l.quit)
	<-l.done
	err := l.flush()
	if err == nil {
		err = errors.Join(l.journal.begin(0, 0), l.cfg.fsync(l.head.mapping.file))
	}
	l.disk.Lock() // nobody waits for it any more
	defer l.disk.Unlock()
	return errors.Join(err, l.release())
}

// entry is an entry that is to be appended.
type entry struct {
	body    []byte
	durable bool // wait until it is on the disk
	outcome bool // of something that runs: it is taken as long as there is room
	certain bool // the end of its context does not matter
}

// append puts an entry into the journal and, if it has to be, waits until it is on the disk.
func (l *Log) append(ctx context.Context, e *entry, err error) error {
	if err == nil && len(e.body)+lineOverhead > maxEntry {
		err = fmt.Errorf("%w: it has more than %d bytes", errEntry, maxEntry)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	durable := e.durable && l.cfg.Sync != SyncRelaxed || l.cfg.Sync == SyncAlways
	p := patience{log: l, ctx: ctx, certain: e.certain}
	defer p.end()
	l.mu.Lock()
	if !l.takes(e) {
		err = p.room(e)
	}
	if err == nil {
		err = l.add(e.body)
	}
	if err != nil {
		l.mu.Unlock()
		return err
	}
	if !durable && l.large == nil {
		l.hurry()
		l.mu.Unlock()
		return nil
	}
	w := waiter{seq: max(l.seq, l.largeIs.seq), result: make(chan error, 1)}
	l.waiters = append(l.waiters, w)
	l.mu.Unlock()
	l.urge()
	return p.result(w.result)
}

// lineOverhead is more than what a line has beside its body.
const lineOverhead = 256

// takes reports if an entry can be appended now. l.mu is held.
func (l *Log) takes(e *entry) bool {
	if l.closed || l.broken != nil && !e.outcome || l.large != nil || l.journal.end() >= l.cfg.SegmentBytes {
		return false
	}
	n := len(e.body) + lineOverhead
	if n > l.journal.size {
		return !l.pending && l.journal.filled() == 0
	}
	return l.journal.fits(n)
}

// hurry makes the writing goroutine aware of new entries. l.mu is held.
func (l *Log) hurry() {
	if l.journal.filled() > l.journal.size/2 {
		l.urge()
	}
	if l.hurried {
		return
	}
	l.hurried = true
	select {
	case l.dirty <- struct{}{}:
	default:
	}
}

// add appends an entry, for which there is room. It outlives the process from here on, but for a large one. l.mu is held.
func (l *Log) add(body []byte) error {
	var hash digest
	l.line, hash = appendLine(l.line[:0], l.seq+1, body, l.prev)
	to := mark{l.seq + 1, hash}
	if len(l.line) > l.journal.size {
		l.large, l.largeIs, l.line = l.line, to, nil
		return nil
	}
	if err := l.journal.add(l.line); err != nil {
		return fmt.Errorf("%w: writing the audit journal: %w", ErrUnavailable, err)
	}
	if err := l.head.advance(to); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(err, l.journal.drop(len(l.line))))
	}
	l.seq, l.prev = to.seq, to.hash
	return nil
}

// addEvent appends an event of the log's own. l.mu is held.
func (l *Log) addEvent(name string, attributes map[string]string) error {
	if l.cfg.Node != "" {
		attributes["node"] = l.cfg.Node
	}
	text, err := encodeEvent(nil, &Record{Time: l.cfg.Now(), ID: NewID()}, &Event{Name: name, Attributes: attributes})
	if err != nil {
		panic("audit: own event: " + err.Error()) // its id and its layout are ours
	}
	return l.add(text)
}
