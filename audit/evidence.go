package audit

import (
	"crypto/ed25519"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Evidence is what a verifier has beside the segments.
type Evidence struct {
	// Keys are the public keys by which checkpoints may be signed. With any, every checkpoint in the log must be good, and
	// no stretch of the log may be without one for longer than the node's interval allows.
	Keys []ed25519.PublicKey
	// Checkpoints are those that were kept elsewhere. The log must have each entry that they name.
	Checkpoints []Checkpoint
	// Offline says that the segments are a copy, without the head.
	Offline bool
}

// recentHashes is how far back a checkpoint in the log may point: more than the entries that can wait to be written.
const recentHashes = 1 << 16

// signatures is what a verification knows of checkpoints.
type signatures struct {
	Evidence
	node      string
	elsewhere map[uint64]Checkpoint // good ones, by entry
	recent    []recentHash          // by number modulo its length
	agreed    uint64                // last entry that a checkpoint from elsewhere names and that is there
	differs   bool                  // one is not there: what follows was reported
	matched   int                   // checkpoints from elsewhere of this node

	interval time.Duration
	since    time.Time // when the first entry that no checkpoint covers was written
	first    uint64    // that entry
	reported bool
}

type recentHash struct {
	seq  uint64
	hash digest
}

func newSignatures(ev Evidence) signatures {
	return signatures{Evidence: ev, recent: make([]recentHash, recentHashes), interval: signedWithin(time.Minute)}
}

func (s *signatures) good(c *Checkpoint) bool {
	return slices.ContainsFunc(s.Keys, c.Valid)
}

// admitElsewhere sorts the checkpoints that were kept elsewhere, once it is known whose log this is.
func (v *verifier) admitElsewhere() {
	s := &v.signed
	s.elsewhere = map[uint64]Checkpoint{}
	for _, c := range s.Checkpoints {
		if c.Node != s.node {
			continue
		}
		s.matched++
		other, twice := s.elsewhere[c.Seq]
		switch {
		case len(s.Keys) > 0 && !s.good(&c):
			v.problem(Unsigned, c.Seq, "", "a checkpoint of entry %d that was kept elsewhere is not signed by a key given", c.Seq)
		case twice && other.Hash != c.Hash:
			v.problem(Forked, c.Seq, "", "two checkpoints name different entries %d: the chain was forked", c.Seq)
		default:
			s.elsewhere[c.Seq] = c
		}
	}
}

// checkSigned holds an entry against the checkpoints that name it.
func (v *verifier) checkSigned(l *line, id string) {
	s := &v.signed
	s.recent[l.seq%recentHashes] = recentHash{l.seq, l.hash}
	if s.elsewhere == nil && l.typ == TypeEvent {
		if e, err := l.decode(); err == nil && e.Event != nil && e.Event.Attributes["node"] != "" {
			s.node = e.Event.Attributes["node"]
			v.admitElsewhere()
		}
	}
	if c, named := s.elsewhere[l.seq]; named && !s.differs {
		if c.Hash == string(l.hash[:]) {
			s.agreed = l.seq
			v.cover(&c)
		} else {
			s.differs = true
			v.problem(Forked, l.seq, id, "entry %d is not the one that was signed at %s: the chain was replaced behind entry %d", l.seq, c.Time, s.agreed)
		}
	}
	v.unsigned(l)
}

// signedWithin is the longest time from an entry to the checkpoint that covers it.
func signedWithin(interval time.Duration) time.Duration { return 2*interval + time.Minute }

// unsigned looks for stretches without a checkpoint. When the gateway ends by force the last entries have none until it
// is started again; and the entry that says that there is a checkpoint needs none before others follow.
func (v *verifier) unsigned(l *line) {
	s := &v.signed
	if len(s.Keys) == 0 || l.typ == TypeEvent && isEvent(l, checkpointed) {
		return
	}
	if s.since.IsZero() || isOpened(l) {
		s.since, s.first = l.when(), l.seq
	}
	if !s.reported && l.when().Sub(s.since) > s.interval {
		s.reported = true
		v.problem(Unsigned, s.first, "", "from entry %d on there is no checkpoint for more than %v", s.first, s.interval)
	}
}

// checkpoint takes a checkpoint in the log.
func (v *verifier) checkpoint(l *line, id string, c Checkpoint) {
	s := &v.signed
	at := &s.recent[c.Seq%recentHashes]
	known := at.seq == c.Seq
	switch {
	case len(s.Keys) > 0 && !s.good(&c):
		v.problem(Unsigned, l.seq, id, "the checkpoint in entry %d is not signed by a key given", l.seq)
	case !known && c.Seq >= v.First || known && string(at.hash[:]) != c.Hash:
		v.problem(Forked, c.Seq, id, "entry %d is not the one that the checkpoint in entry %d names", c.Seq, l.seq)
	default:
		v.cover(&c)
	}
}

// cover notes that everything up to a checkpoint is signed.
func (v *verifier) cover(c *Checkpoint) {
	s := &v.signed
	if len(s.Keys) == 0 || c.Seq < v.SignedTo {
		return
	}
	v.SignedTo = c.Seq
	v.SignedAt, _ = time.Parse(time.RFC3339Nano, c.Time)
	if v.SignedAt.Sub(s.since) > s.interval && !s.reported && !s.since.IsZero() {
		s.reported = true
		v.problem(Unsigned, s.first, "", "entry %d was signed %v after it was written", s.first, v.SignedAt.Sub(s.since).Round(time.Second))
	}
	s.since = time.Time{}
}

// prune takes the record of a prune.
func (v *verifier) prune(l *line, id string, a map[string]string) {
	if len(v.signed.Keys) > 0 && !slices.ContainsFunc(v.signed.Keys, func(k ed25519.PublicKey) bool { return ValidPrune(k, a) }) {
		v.problem(Unsigned, l.seq, id, "the prune in entry %d is not signed by a key given", l.seq)
		return
	}
	if v.start.seq > 0 && a["to"] == strconv.FormatUint(v.start.seq-1, 10) && a["hash"] == string(v.start.prev[:]) {
		v.anchor = true
		v.note("%s were removed after they had been exported (decision %s)", entries(1, v.start.seq-1), id)
	}
}

// endSigned looks for what checkpoints know and the log has not.
func (v *verifier) endSigned() {
	s := &v.signed
	if len(s.Keys) > 0 && v.SignedTo == 0 && v.Entries > 0 {
		v.problem(Unsigned, v.First, "", "there is no checkpoint that is signed by a key given")
	}
	if len(s.Checkpoints) > 0 && s.matched == 0 {
		v.problem(Unsigned, 0, "", "none of the checkpoints that were kept elsewhere is of this log's node, %q", s.node)
	}
	named := slices.Sorted(maps.Keys(s.elsewhere))
	if len(named) == 0 {
		return
	}
	if last := named[len(named)-1]; last > v.last.seq {
		c := s.elsewhere[last]
		v.problem(CutTail, v.last.seq+1, "", "%s: missing at the end: entry %d was signed at %s", entries(v.last.seq+1, last), last, c.Time)
	}
	if named[0] < v.start.seq {
		v.note("checkpoints of entries before %d, which are not here, were not checked", v.start.seq)
	}
}
