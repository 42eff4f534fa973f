package audit

import (
	"context"
	"errors"
	"slices"
	"time"
)

// keeper signs checkpoints and compresses closed segments, off the path of requests.
type keeper struct {
	log     *Log
	rotated chan struct{}
	quit    chan struct{}
	done    chan struct{}
	last    uint64 // entry that the last checkpoint named; 0 before the first
	counted uint64 // entries when the time was last found quiet, or not
}

// While more than quietRate entries a second are written for quietInterval, compression waits: it would take a processor from
// the requests.
const (
	quietInterval = 10 * time.Second
	quietRate     = 500
)

func newKeeper(l *Log) *keeper {
	return &keeper{log: l, rotated: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

func (k *keeper) run() {
	defer close(k.done)
	tick := time.NewTicker(k.log.cfg.CheckpointInterval)
	defer tick.Stop()
	quiet := time.NewTicker(quietInterval)
	defer quiet.Stop()
	k.checkpoint()
	k.compress(k.log.cfg.CompressLater)
	for {
		select {
		case <-tick.C:
			k.checkpoint()
		case <-quiet.C:
			if k.quiet() {
				k.compress(0)
			}
		case <-k.rotated:
			k.checkpoint()
			k.compress(k.log.cfg.CompressLater)
		case <-k.quit:
			k.checkpoint()
			return
		}
	}
}

// checkpoint signs the last entry that is on the disk, so that no power cut makes a liar of the checkpoint. It goes into
// the log, beside the head, and to whom the configuration says.
func (k *keeper) checkpoint() {
	cfg := &k.log.cfg
	if cfg.SigningKey == nil {
		return
	}
	at, err := k.log.flushed()
	// The entry after the last checkpoint is the event that says so.
	if err != nil || k.last > 0 && at.seq <= k.last+1 {
		return
	}
	c := signCheckpoint(cfg.SigningKey, Checkpoint{Node: cfg.Node, Seq: at.seq, Hash: string(at.hash[:]),
		Time: cfg.Now().UTC().Format(time.RFC3339Nano)})
	rec := &Record{ID: NewID(), Time: cfg.Now()}
	err = errors.Join(appendCheckpoint(cfg.HeadDir, &c),
		k.log.Event(context.Background(), rec, &Event{Name: checkpointed, Attributes: c.attributes()}))
	if err != nil {
		return // the log says so itself, and the next one covers more
	}
	k.last = at.seq
	if cfg.OnCheckpoint != nil {
		cfg.OnCheckpoint(c)
	}
}

// quiet reports if little was written since it was last asked.
func (k *keeper) quiet() bool {
	now := k.log.Stats().Seq
	written := now - k.counted
	k.counted = now
	return written < quietRate*uint64(quietInterval/time.Second)
}

// compress compresses segments before the one in use, oldest first, until no more than so many bytes of them are not.
func (k *keeper) compress(left int64) {
	cfg := &k.log.cfg
	segs, err := segments(cfg.Dir)
	if err != nil || !cfg.Compress {
		return
	}
	segs = slices.DeleteFunc(segs, func(s segmentFile) bool { return s.compressed || k.log.uses(s.name) })
	for i, s := range segs {
		select {
		case <-k.quit:
			return
		default:
		}
		if int64(len(segs)-i)*cfg.SegmentBytes <= left {
			return
		}
		if err := compressSegment(cfg.Dir, s.name); err != nil {
			return // it stays as it is, and is tried again after the next rotation
		}
	}
}

func (k *keeper) wake() {
	select {
	case k.rotated <- struct{}{}:
	default:
	}
}

func (k *keeper) close() {
	close(k.quit)
	<-k.done
}
