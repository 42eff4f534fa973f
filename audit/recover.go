package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// The events that a log begins with when it is opened. All but the first two are alarms: Verify fails over them.
const (
	opened       = "log.opened"
	tailLost     = "log.tail_lost"     // entries that a power cut kept from the disk: attributes from, to
	tailMissing  = "log.tail_missing"  // entries that were on the disk and are gone: from, to
	damaged      = "log.damaged"       // an entry within the head was changed: from, to
	headMissing  = "log.head_missing"  // there are segments, and no head
	headMismatch = "log.head_mismatch" // the entry that the head names has another hash
)

// tail is what Open finds at the end of a log.
type tail struct {
	seg      segmentFile // the segment with the last valid entry; empty name if there is none
	seq      uint64
	hash     digest
	end      int64  // of the last valid entry in seg
	size     int64  // of seg
	unread   uint64 // first number of the newest segment in which nothing is valid
	atHead   digest // hash of the entry at the head's seq, if it is in seg
	sawHead  bool
	segments int
}

// open finds where the log ends, repairs what a crash left there, and starts with an event that says so.
func (w *writer) open(old *position) error {
	t, err := w.findTail(old)
	if err != nil {
		return err
	}
	w.seq, w.prev = t.seq, t.hash
	name, attributes := w.judge(t, old)
	if err := w.prepare(name, t, attributes); err != nil {
		return err
	}
	if name != opened {
		w.addEvent(name, attributes)
		attributes = map[string]string{}
	}
	if w.cfg.SigningKey != nil {
		attributes["checkpoint_interval"] = w.cfg.CheckpointInterval.String()
	}
	attributes["pid"] = strconv.Itoa(os.Getpid())
	w.addEvent(opened, attributes)
	if err := w.write(); err != nil {
		return errors.Join(err, w.cut())
	}
	w.release(nil)
	w.syncer.sync()
	return w.syncer.failed()
}

// prepare makes the files ready for the first entry.
func (w *writer) prepare(event string, t tail, attributes map[string]string) error {
	switch {
	case t.segments == 0 && w.seq == 0:
		return w.head.create() // before the first segment, so that a crash between the two is no missing head
	case t.seq == 0:
		return nil
	case event == opened:
		return w.reopen(t, attributes)
	case event == tailLost:
		if t.end == t.size {
			return nil
		}
		err := os.Truncate(filepath.Join(w.cfg.Dir, t.seg.name), t.end)
		if err != nil {
			return fmt.Errorf("cutting off a torn audit entry: %w", err)
		}
	}
	return nil
}

// judge compares the tail with the head. It returns the event to begin with; any but log.opened starts a new segment
// and leaves the old one as it is.
func (w *writer) judge(t tail, old *position) (event string, attributes map[string]string) {
	a := map[string]string{}
	if old == nil {
		if t.segments == 0 {
			return opened, a
		}
		w.seq = max(t.seq, t.unread)
		return headMissing, a
	}
	a["head_seq"], a["head_hash"] = strconv.FormatUint(old.Seq, 10), old.Hash
	switch {
	case t.seq < old.Seq:
		a["from"], a["to"] = strconv.FormatUint(t.seq+1, 10), a["head_seq"]
		w.seq = old.Seq // missing numbers are not used again, and the chain keeps their last hash
		copy(w.prev[:], old.Hash)
		switch {
		case powerCut(old, t.seq):
			return tailLost, a
		case t.end < t.size:
			return damaged, a
		}
		return tailMissing, a
	case t.sawHead && string(t.atHead[:]) != old.Hash:
		return headMismatch, a
	}
	delete(a, "head_seq")
	delete(a, "head_hash")
	if t.seq > old.Seq {
		a["ahead_of_head"] = strconv.FormatUint(t.seq-old.Seq, 10)
	}
	return opened, a
}

// powerCut reports if entries behind last may have been lost because the machine went down.
func powerCut(old *position, last uint64) bool {
	boot := bootID()
	return boot != "" && old.Boot != "" && boot != old.Boot && last >= old.Synced
}

// findTail reads the newest segments back to one that has a valid entry.
func (w *writer) findTail(old *position) (tail, error) {
	segs, err := segments(w.cfg.Dir)
	if err != nil {
		return tail{}, err
	}
	var unread uint64
	for i := len(segs) - 1; i >= 0; i-- {
		t, err := w.readTail(segs[i], old)
		if err != nil {
			return t, err
		}
		t.segments, t.unread = len(segs), unread
		if t.seq > 0 {
			return t, nil
		}
		if t.size > 0 && (old == nil || old.Seq >= segs[i].first) {
			unread = max(unread, segs[i].first)
			continue // it had entries: evidence
		}
		// A crash right after a rotation: no entry in it was ever released.
		if err := os.Remove(filepath.Join(w.cfg.Dir, segs[i].name)); err != nil {
			return t, fmt.Errorf("removing an empty audit segment: %w", err)
		}
		segs = slices.Delete(segs, i, i+1)
	}
	return tail{hash: genesis, segments: len(segs), unread: unread}, nil
}

// readTail reads one segment up to its last valid entry.
func (w *writer) readTail(seg segmentFile, old *position) (tail, error) {
	t := tail{seg: seg, hash: genesis}
	f, err := openSegment(w.cfg.Dir, seg.name)
	if err != nil {
		return t, err
	}
	defer f.Close()
	t.size = f.size
	for r := newLineReader(f.reader(0)); ; {
		text, err := r.next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return t, fmt.Errorf("reading %s: %w", seg.name, err)
		}
		l, err := parseLine(text[:len(text)-1])
		if err != nil || !l.valid() || t.seq > 0 && (l.seq != t.seq+1 || l.prev != t.hash) {
			return t, nil
		}
		t.seq, t.hash, t.end = l.seq, l.hash, t.end+int64(len(text))
		if old != nil && l.seq == old.Seq {
			t.atHead, t.sawHead = l.hash, true
		}
	}
}

// reopen goes on in the last segment, after cutting off what follows its last whole entry.
func (w *writer) reopen(t tail, attributes map[string]string) error {
	if t.seq == 0 {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(w.cfg.Dir, t.seg.name), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("opening an audit segment: %w", err)
	}
	if torn := t.size - t.end; torn > 0 {
		attributes["torn_bytes"] = strconv.FormatInt(torn, 10)
		if err := f.Truncate(t.end); err != nil {
			return errors.Join(fmt.Errorf("cutting off a torn audit entry: %w", err), f.Close())
		}
	}
	w.setSegment(&segment{file: f, name: t.seg.name, size: t.end})
	return nil
}
