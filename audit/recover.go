package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
func (l *Log) open() error {
	var old *position
	var err error
	if l.head, old, err = openHead(l.cfg.HeadDir); err != nil {
		return err
	}
	replayed, err := replay(l.cfg.Dir)
	if err != nil {
		return err
	}
	if l.journal, err = openJournal(l.cfg.Dir, l.cfg.JournalBytes); err != nil {
		return err
	}
	t, err := l.findTail(old)
	if err != nil {
		return err
	}
	l.seq, l.prev = t.seq, t.hash
	name, attributes := l.judge(t, old)
	if replayed > 0 {
		attributes["journal_bytes"] = strconv.FormatInt(replayed, 10)
	}
	if err := l.prepare(name, t, attributes); err != nil {
		return err
	}
	if l.seg == nil {
		if err := l.start(l.seq + 1); err != nil {
			return err
		}
	}
	if err := l.begin(name, attributes); err != nil {
		return err
	}
	return l.flush()
}

// begin appends the events that the log begins with.
func (l *Log) begin(name string, attributes map[string]string) error {
	if name != opened {
		if err := l.addEvent(name, attributes); err != nil {
			return err
		}
		attributes = map[string]string{}
	}
	if l.cfg.SigningKey != nil {
		attributes["checkpoint_interval"] = l.cfg.CheckpointInterval.String()
	}
	attributes["pid"] = strconv.Itoa(os.Getpid())
	return l.addEvent(opened, attributes)
}

// replay brings what a killed process left in the journal to its segment, and returns how many bytes the segment's file
// did not have. A file that is smaller than the journal says was cut.
func replay(dir string) (int64, error) {
	f, err := os.Open(filepath.Join(dir, journalName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("opening the audit journal: %w", err)
	}
	defer f.Close()
	h, ok := readHeader(f)
	if !ok || h.segment == 0 {
		return 0, nil
	}
	rest, err := h.read(f, h.written)
	if err != nil {
		return 0, fmt.Errorf("reading the audit journal: %w", err)
	}
	seg, err := os.OpenFile(filepath.Join(dir, segmentName(h.segment)), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // the head tells that entries are missing
	}
	if err != nil {
		return 0, fmt.Errorf("opening an audit segment: %w", err)
	}
	n, err := complete(seg, &h, rest)
	if err = errors.Join(err, seg.Close()); err != nil {
		return 0, fmt.Errorf("completing an audit segment from the journal: %w", err)
	}
	return n, nil
}

// complete makes rest what follows in a segment behind the size that the journal knows of. After a power cut the journal may be
// an old one, of which a part was written over since: then the file itself has more that is whole, and is left as it is.
func complete(seg *os.File, h *header, rest []byte) (int64, error) {
	info, err := seg.Stat()
	if err != nil || len(rest) == 0 || info.Size() < h.written {
		return 0, err
	}
	own := make([]byte, info.Size()-h.written)
	if _, err := seg.ReadAt(own, h.written); err != nil {
		return 0, err
	}
	if wholeEntries(own) >= wholeEntries(rest) {
		return 0, nil
	}
	if err := seg.Truncate(h.written); err != nil {
		return 0, err
	}
	if _, err := seg.WriteAt(rest, h.written); err != nil {
		return 0, err
	}
	return max(h.written+int64(len(rest))-info.Size(), 0), seg.Sync()
}

// wholeEntries counts the entries at the beginning of text that are valid and chained to one another.
func wholeEntries(text []byte) (n int) {
	var last line
	for {
		i := bytes.IndexByte(text, '\n')
		if i < 0 {
			return n
		}
		l, err := parseLine(text[:i])
		if err != nil || !l.valid() || n > 0 && (l.seq != last.seq+1 || l.prev != last.hash) {
			return n
		}
		n, last, text = n+1, l, text[i+1:]
	}
}

// prepare makes the files ready for the first entry.
func (l *Log) prepare(event string, t tail, attributes map[string]string) error {
	switch {
	case t.segments == 0 && l.seq == 0:
		return l.head.create() // before the first segment, so that a crash between the two is no missing head
	case t.seq == 0:
		return nil
	case event == opened:
		return l.reopen(t, attributes)
	case event == tailLost:
		if t.end == t.size {
			return nil
		}
		err := os.Truncate(filepath.Join(l.cfg.Dir, t.seg.name), t.end)
		if err != nil {
			return fmt.Errorf("cutting off a torn audit entry: %w", err)
		}
	}
	return nil
}

// judge compares the tail with the head. It returns the event to begin with; any but log.opened starts a new segment
// and leaves the old one as it is.
func (l *Log) judge(t tail, old *position) (event string, attributes map[string]string) {
	a := map[string]string{}
	if old == nil {
		if t.segments == 0 {
			return opened, a
		}
		l.seq = max(t.seq, t.unread)
		return headMissing, a
	}
	a["head_seq"], a["head_hash"] = strconv.FormatUint(old.Seq, 10), string(old.Hash[:])
	switch {
	case t.seq < old.Seq:
		a["from"], a["to"] = strconv.FormatUint(t.seq+1, 10), a["head_seq"]
		l.seq = old.Seq // missing numbers are not used again, and the chain keeps their last hash
		l.prev = old.Hash
		switch {
		case powerCut(old, t.seq):
			return tailLost, a
		case t.end < t.size:
			return damaged, a
		}
		return tailMissing, a
	case t.sawHead && t.atHead != old.Hash:
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
func (l *Log) findTail(old *position) (tail, error) {
	segs, err := segments(l.cfg.Dir)
	if err != nil {
		return tail{}, err
	}
	var unread uint64
	for i := len(segs) - 1; i >= 0; i-- {
		t, err := l.readTail(segs[i], old)
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
		if err := os.Remove(filepath.Join(l.cfg.Dir, segs[i].name)); err != nil {
			return t, fmt.Errorf("removing an empty audit segment: %w", err)
		}
		segs = slices.Delete(segs, i, i+1)
	}
	return tail{hash: genesis, segments: len(segs), unread: unread}, nil
}

// readTail reads one segment up to its last valid entry.
func (l *Log) readTail(seg segmentFile, old *position) (tail, error) {
	t := tail{seg: seg, hash: genesis}
	f, err := openSegment(l.cfg.Dir, seg.name)
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
		e, err := parseLine(text[:len(text)-1])
		if err != nil || !e.valid() || t.seq > 0 && (e.seq != t.seq+1 || e.prev != t.hash) {
			return t, nil
		}
		t.seq, t.hash, t.end = e.seq, e.hash, t.end+int64(len(text))
		if old != nil && e.seq == old.Seq {
			t.atHead, t.sawHead = e.hash, true
		}
	}
}

// reopen goes on in the last segment, after cutting off what follows its last whole entry.
func (l *Log) reopen(t tail, attributes map[string]string) error {
	if t.seq == 0 {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(l.cfg.Dir, t.seg.name), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("opening an audit segment: %w", err)
	}
	if torn := t.size - t.end; torn > 0 {
		attributes["torn_bytes"] = strconv.FormatInt(torn, 10)
		if err := f.Truncate(t.end); err != nil {
			return errors.Join(fmt.Errorf("cutting off a torn audit entry: %w", err), f.Close())
		}
	}
	l.seg = &segment{file: f, name: t.seg.name, size: t.end}
	return l.journal.begin(t.seg.first, t.end)
}
