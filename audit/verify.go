package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"time"
)

// ProblemKind says what is wrong with a log.
type ProblemKind string

// The kinds of problem.
const (
	Altered    ProblemKind = "altered"      // an entry does not have the hash that it states
	Unreadable ProblemKind = "unreadable"   // a line is no entry
	Missing    ProblemKind = "missing"      // numbers are left out
	OutOfOrder ProblemKind = "out of order" // a number comes again, or too late
	Chain      ProblemKind = "chain"        // an entry is not the one that its successor was chained to
	CutTail    ProblemKind = "cut tail"     // the head knows of entries behind the last
	BadHead    ProblemKind = "head"         // the head is missing, damaged or names another entry
	Alarm      ProblemKind = "alarm"        // the log itself noted one of these when it was opened
	Forked     ProblemKind = "forked"       // an entry is not the one that a checkpoint names
	Unsigned   ProblemKind = "unsigned"     // no good checkpoint where there must be one
)

// Problem is one thing that is wrong, and where.
type Problem struct {
	Kind    ProblemKind `json:"kind"`
	Seq     uint64      `json:"seq,omitempty"`     // the first entry concerned
	ID      string      `json:"id,omitempty"`      // its decision id, if it can be read
	Segment string      `json:"segment,omitempty"` // file in which it was found
	Line    int         `json:"line,omitempty"`    // from 1; 0 behind the end
	Detail  string      `json:"detail"`
}

func (p Problem) String() string {
	where := p.Segment
	if p.Line > 0 {
		where += ":" + strconv.Itoa(p.Line)
	}
	if p.ID != "" {
		where += " (decision " + p.ID + ")"
	}
	return fmt.Sprintf("%s: %s: %s", where, p.Kind, p.Detail)
}

// Report is what Verify found.
type Report struct {
	Segments int       `json:"segments"`
	Entries  uint64    `json:"entries"`
	First    uint64    `json:"first"` // sequence numbers
	Last     uint64    `json:"last"`
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Head     uint64    `json:"head"` // sequence number that the head named when verification began
	LastHash string    `json:"last_hash"`
	// SignedTo is the last entry that a good checkpoint covers, in the log or elsewhere, and SignedAt when it was signed. They
	// mean something only if public keys were given.
	SignedTo uint64    `json:"signed_to,omitempty"`
	SignedAt time.Time `json:"signed_at,omitzero"`
	// Problems are in the order of the log. At most MaxProblems are kept; Dropped counts the others.
	Problems []Problem `json:"problems"`
	Dropped  int       `json:"dropped,omitempty"`
	// Notes are findings that are explained: a torn line after a kill, entries that a power cut may lose.
	Notes []string `json:"notes,omitempty"`
	// Unfinished are intents without an outcome, oldest first: they were running when the log was read, or when the
	// gateway died. At most MaxProblems are listed.
	Unfinished      []string `json:"unfinished,omitempty"`
	UnfinishedCount int      `json:"unfinished_count"`
}

// MaxProblems bounds the lists of a Report.
const MaxProblems = 100

// OK reports if nothing is wrong.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// Progress is how far Verify has come.
type Progress struct {
	Entries      uint64
	Bytes, Total int64
}

// Verify reads the whole log that cfg names and reports whether anything was changed, removed, inserted, reordered or
// cut off. It changes nothing and works while a writer runs. progress may be nil; it is called now and then. An
// error means that the log could not be read; what is wrong with the log is in the report.
func Verify(ctx context.Context, cfg Config, progress func(Progress)) (Report, error) {
	return VerifyWith(ctx, cfg, Evidence{}, progress)
}

// VerifyWith is Verify with what a verifier has beside the log itself.
func VerifyWith(ctx context.Context, cfg Config, ev Evidence, progress func(Progress)) (Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Report{}, err
	}
	v := verifier{cfg: cfg, progress: progress, open: map[string]uint64{}, offline: ev.Offline}
	v.signed = newSignatures(ev)
	// The head first: what is written from now on can only be behind it.
	if !ev.Offline {
		if v.head, err = readHead(cfg.HeadDir); err != nil && !errors.Is(err, errNoHead) {
			return Report{}, err
		}
	}
	segs, err := segments(cfg.Dir)
	if err != nil {
		return Report{}, err
	}
	v.Segments = len(segs)
	v.last.hash = genesis
	v.measure(segs)
	for i, seg := range segs {
		if err := v.segment(ctx, seg, i == len(segs)-1); err != nil {
			return v.Report, err
		}
	}
	v.end()
	return v.Report, nil
}

// verifier is a verification under way.
type verifier struct {
	Report
	cfg      Config
	progress func(Progress)
	total    int64
	bytes    int64
	head     *position

	last    line   // the entry with the highest number so far; only seq and hash
	lastID  string // its id
	unread  uint64 // unreadable lines behind it
	where   place
	open    map[string]uint64 // intents without an outcome, by id
	torn    string            // what stands behind the last entry without a line feed
	sawHd   bool              // the entry that the head names was there
	signed  signatures
	offline bool
	start   line // the first entry, if its number is not 1; only seq and prev
	anchor  bool // a prune explains why it is not
}

type place struct {
	segment string
	line    int
}

func (v *verifier) measure(segs []segmentFile) {
	for _, s := range segs {
		if f, err := openSegment(v.cfg.Dir, s.name); err == nil {
			v.total += f.size
			_ = f.Close()
		}
	}
}

func (v *verifier) problem(kind ProblemKind, seq uint64, id, format string, args ...any) {
	if len(v.Problems) >= MaxProblems {
		v.Dropped++
		return
	}
	v.Problems = append(v.Problems, Problem{Kind: kind, Seq: seq, ID: id, Segment: v.where.segment,
		Line: v.where.line, Detail: fmt.Sprintf(format, args...)})
}

func (v *verifier) note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

func (v *verifier) segment(ctx context.Context, seg segmentFile, last bool) error {
	v.where = place{segment: seg.name}
	f, err := openSegment(v.cfg.Dir, seg.name)
	if errors.Is(err, errCompressed) {
		v.problem(Unreadable, seg.first, "", "the compressed segment is damaged")
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for r := newLineReader(f.reader(0)); ; {
		text, err := r.next()
		if errors.Is(err, errCompressed) {
			v.problem(Unreadable, v.last.seq+1, "", "the compressed segment is damaged behind entry %d", v.last.seq)
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading %s: %w", seg.name, err)
		}
		if err != nil {
			v.ending(text, last)
			return nil
		}
		v.where.line++
		v.bytes += int64(len(text))
		v.entry(text[:len(text)-1], seg)
		if v.Entries%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			v.report()
		}
	}
}

func (v *verifier) report() {
	if v.progress != nil {
		v.progress(Progress{Entries: v.Entries, Bytes: v.bytes, Total: max(v.total, v.bytes)})
	}
}

// ending looks at what stands behind the last line feed of a segment.
func (v *verifier) ending(text []byte, last bool) {
	switch {
	case len(text) == 0:
	case last:
		v.torn = fmt.Sprintf("%d bytes without a line feed at the end of %s", len(text), v.where.segment)
	default:
		v.where.line++
		v.problem(Unreadable, v.last.seq+1, "", "the segment ends within entry %d", v.last.seq+1)
	}
}

// entry checks one line against the ones before.
func (v *verifier) entry(text []byte, seg segmentFile) {
	l, err := parseLine(text)
	if err != nil {
		v.unread++
		n := v.last.seq + v.unread
		v.problem(Unreadable, n, "", "the line is not an audit entry; number %d is expected here", n)
		return
	}
	v.Entries++
	id := string(l.id)
	if !l.valid() {
		v.problem(Altered, l.seq, id, "entry %d was changed: it does not have the hash that it states", l.seq)
	}
	if v.where.line == 1 && l.seq != seg.first {
		v.problem(OutOfOrder, l.seq, id, "the segment begins with entry %d, not with the one in its name", l.seq)
	}
	if l.seq <= v.last.seq {
		v.problem(OutOfOrder, l.seq, id, "entry %d comes again or too late, behind entry %d", l.seq, v.last.seq)
		return
	}
	v.link(&l, id)
	v.account(&l, id)
	v.unread = 0
	v.last, v.lastID = line{seq: l.seq, hash: l.hash}, id
}

// link checks number and chain of l, which is behind v.last.
func (v *verifier) link(l *line, id string) {
	switch {
	case l.seq == v.last.seq+1+v.unread && v.unread > 0: // reported
	case v.last.seq == 0 && v.unread == 0 && l.seq > 1:
		v.start = line{seq: l.seq, prev: l.prev}
	case l.seq > v.last.seq+1:
		v.gap(l)
	case l.prev != v.last.hash && v.last.seq == 0:
		v.problem(Chain, l.seq, id, "entry %d does not begin a chain", l.seq)
	case l.prev != v.last.hash:
		v.problem(Chain, v.last.seq, v.lastID, "entry %d is not the one that entry %d was chained to: one of them was replaced", v.last.seq, l.seq)
	}
	if v.head != nil && l.seq == v.head.Seq {
		v.sawHd = true
		if l.hash != v.head.Hash {
			v.problem(BadHead, l.seq, id, "entry %d is not the one that the head names", l.seq)
		}
	}
}

// gap judges missing numbers before l.
func (v *verifier) gap(l *line) {
	from, to := v.last.seq+1, l.seq-1
	if l.typ == TypeEvent {
		if e, err := l.decode(); err == nil && e.Event != nil && e.Event.Name == tailLost &&
			e.Event.Attributes["from"] == strconv.FormatUint(from, 10) && e.Event.Attributes["to"] == strconv.FormatUint(to, 10) {
			v.note("%s were lost: the machine went down before they were on the disk", entries(from, to))
			return
		}
	}
	v.problem(Missing, from, "", "%s: missing before entry %d", entries(from, to), l.seq)
}

func entries(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("entry %d", from)
	}
	return fmt.Sprintf("entries %d to %d", from, to)
}

// account keeps what the report says besides problems.
func (v *verifier) account(l *line, id string) {
	if v.First == 0 {
		v.First, v.From = l.seq, l.when()
	}
	v.Last, v.To, v.LastHash = l.seq, l.when(), string(l.hash[:])
	v.checkSigned(l, id)
	switch l.typ {
	case TypeIntent:
		v.open[id] = l.seq
	case TypeOutcome:
		delete(v.open, id)
	case TypeEvent:
		v.event(l, id)
	}
}

func (v *verifier) event(l *line, id string) {
	e, err := l.decode()
	if err != nil || e.Event == nil {
		return // not valid, reported
	}
	a := e.Event.Attributes
	switch e.Event.Name {
	case tailMissing, damaged:
		v.problem(Alarm, l.seq, id, "the log noted %s when it was opened: entries %s to %s", e.Event.Name, a["from"], a["to"])
	case headMissing, headMismatch:
		v.problem(Alarm, l.seq, id, "the log noted %s when it was opened", e.Event.Name)
	case checkpointed:
		v.checkpoint(l, id, checkpointOf(a))
	case AuditPruned:
		v.prune(l, id, a)
	case opened:
		if d, err := time.ParseDuration(a["checkpoint_interval"]); err == nil {
			v.signed.interval = signedWithin(d)
		}
		if a["torn_bytes"] != "" {
			v.note("%s bytes of a torn entry were cut off before entry %d", a["torn_bytes"], l.seq)
		}
		if a["journal_bytes"] != "" {
			v.note("%s bytes before entry %d were brought from the journal: the process had been killed", a["journal_bytes"], l.seq)
		}
	}
}

// end compares the end of the log with the head.
func (v *verifier) end() {
	v.report()
	v.where.line = 0
	v.unfinished()
	v.endSigned()
	if v.start.seq > 0 && !v.anchor {
		v.where = place{}
		v.problem(Missing, 1, "", "%s: missing at the beginning, and no prune is on record that removed them", entries(1, v.start.seq-1))
	}
	if v.head == nil {
		if v.torn != "" {
			v.note("%s: a write under way, or torn when the process was killed", v.torn)
		}
		if v.Segments > 0 && !v.offline {
			v.problem(BadHead, 0, "", "there is no valid head, so the end of the log cannot be checked")
		}
		return
	}
	v.Head = v.head.Seq
	switch {
	case v.last.seq < v.head.Seq:
		v.cut()
		return
	case !v.sawHd && v.head.Seq > 0:
		v.problem(BadHead, v.head.Seq, "", "the head names entry %d, which is missing", v.head.Seq)
		return
	}
	n := v.last.seq - v.head.Seq
	if n == 0 && v.torn == "" || v.grew() {
		return
	}
	if v.torn != "" {
		v.note("%s: a write under way, or torn when the process was killed", v.torn)
	}
	if n > 0 {
		v.note("%s behind the head: written just before the process was killed", entriesAre(n))
	}
}

// grew waits a moment for a writer that runs to bring the head up to what was read, so that nothing is said of a log
// that only grew meanwhile.
func (v *verifier) grew() bool {
	for range 10 {
		now, err := readHead(v.cfg.HeadDir)
		switch {
		case err != nil:
			return false
		case now.Seq > v.last.seq, now.Seq == v.last.seq && v.torn == "":
			v.Head = now.Seq
			if now.Seq == v.last.seq && now.Hash != v.last.hash {
				v.problem(BadHead, now.Seq, v.lastID, "entry %d is not the one that the head names", now.Seq)
			}
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func entriesAre(n uint64) string {
	if n == 1 {
		return "1 entry is"
	}
	return fmt.Sprintf("%d entries are", n)
}

func (v *verifier) cut() {
	from := v.last.seq + 1
	if powerCut(v.head, v.last.seq) {
		v.note("%s were lost: the machine went down before they were on the disk", entries(from, v.head.Seq))
		return
	}
	torn := ""
	if v.torn != "" {
		torn = "; there are " + v.torn
	}
	v.problem(CutTail, from, "", "%s: missing at the end: the head knows of entry %d%s", entries(from, v.head.Seq), v.head.Seq, torn)
}

func (v *verifier) unfinished() {
	v.UnfinishedCount = len(v.open)
	for id := range v.open {
		v.Unfinished = append(v.Unfinished, id)
	}
	sort.Slice(v.Unfinished, func(i, j int) bool { return v.open[v.Unfinished[i]] < v.open[v.Unfinished[j]] })
	v.Unfinished = v.Unfinished[:min(len(v.Unfinished), MaxProblems)]
}
