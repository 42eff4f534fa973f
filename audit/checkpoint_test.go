package audit

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// signedLog is a closed log with checkpoints, of which one part was sent elsewhere.
type signedLog struct {
	written
	key       ed25519.PrivateKey
	elsewhere []Checkpoint
}

func writeSignedLog(t *testing.T) *signedLog {
	t.Helper()
	cfg := testConfig(t)
	key, err := LoadSigningKey(filepath.Join(t.TempDir(), "key"))
	must(t, err)
	s := &signedLog{key: key}
	cfg.SigningKey = key
	var signed atomic.Int64
	cfg.OnCheckpoint = func(c Checkpoint) {
		s.elsewhere = append(s.elsewhere, c)
		signed.Add(1)
	}
	l := mustOpen(t, cfg)
	for range 5 {
		before := signed.Load()
		run(t, l, 4)
		for i := 0; signed.Load() == before && i < 5000; i++ {
			l.keeper.wake()
			time.Sleep(time.Millisecond)
		}
	}
	mustClose(t, l)
	segs, err := segments(cfg.Dir)
	must(t, err)
	s.written = written{cfg, segs}
	return s
}

func (s *signedLog) public() ed25519.PublicKey { return s.key.Public().(ed25519.PublicKey) }

// offline verifies a copy without the head.
func (s *signedLog) offline(t *testing.T, elsewhere bool) Report {
	t.Helper()
	ev := Evidence{Keys: []ed25519.PublicKey{s.public()}, Offline: true}
	if elsewhere {
		ev.Checkpoints = s.elsewhere
	}
	r, err := VerifyWith(ctx, Config{Dir: s.cfg.Dir}, ev, nil)
	must(t, err)
	return r
}

func TestCheckpoints(t *testing.T) {
	s := writeSignedLog(t)
	r := s.offline(t, true)
	if !r.OK() || r.SignedTo < r.Last-1 {
		t.Errorf("signed to %d of %d: %v", r.SignedTo, r.Last, r.Problems)
	}
	verifyOK(t, s.cfg)
	if len(s.elsewhere) < 3 {
		t.Errorf("%d checkpoints", len(s.elsewhere))
	}
	kept, err := os.ReadFile(filepath.Join(s.cfg.Dir+"-head", checkpointsName))
	must(t, err)
	back, err := ReadCheckpoints(bytes.NewReader(kept))
	must(t, err)
	if len(back) != len(s.elsewhere) || back[0] != s.elsewhere[0] || !back[0].Valid(s.public()) {
		t.Errorf("%v, want %v", back, s.elsewhere)
	}
	if info, err := os.Stat(filepath.Join(s.cfg.Dir+"-head", checkpointsName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// rewrite changes every line of the log and chains it anew, as one can who may write all files. change returns nil to leave
// a line out; with the key stolen, checkpoints in the log are signed anew.
func (s *signedLog) rewrite(t *testing.T, key ed25519.PrivateKey, change func(seq int, body string) []string) {
	t.Helper()
	prev, seq, hashes := genesis, uint64(0), map[uint64]digest{}
	for _, seg := range s.segs {
		path := filepath.Join(s.cfg.Dir, seg.name)
		data, err := os.ReadFile(path)
		must(t, err)
		var out []byte
		first := seq + 1
		for text := range strings.Lines(string(data)) {
			l, err := parseLine([]byte(strings.TrimSuffix(text, "\n")))
			must(t, err)
			body := text[strings.Index(text, `"time":`):strings.LastIndex(text, prevKey)]
			if key != nil && isEvent(&l, checkpointed) {
				v, err := l.decode()
				must(t, err)
				c := checkpointOf(v.Event.Attributes)
				h := hashes[c.Seq]
				c.Hash = string(h[:])
				c = signCheckpoint(key, c)
				b, err := encodeEvent(nil, &v.Record, &Event{Name: checkpointed, Attributes: c.attributes()})
				must(t, err)
				body = string(b)
			}
			for _, b := range change(int(l.seq), body) {
				seq++
				out, prev = appendLine(out, seq, []byte(b), prev)
				hashes[seq] = prev
			}
		}
		must(t, os.Remove(path))
		if len(out) > 0 {
			must(t, os.WriteFile(filepath.Join(s.cfg.Dir, segmentName(first)), out, 0o600))
		}
	}
	must(t, os.Remove(filepath.Join(s.cfg.Dir+"-head", headName)))
}

// TestAttacker plays one with write access to all files: each alteration is made consistent, chain, head and all. Signed
// checkpoints in the log tell; with the signing key stolen too, those that were sent elsewhere still do.
func TestAttacker(t *testing.T) {
	const at = 12
	attacks := map[string]func(seq int, body string) []string{
		"change": func(seq int, body string) []string {
			if seq == at {
				body = strings.Replace(body, `"identity":"ana"`, `"identity":"eve"`, 1)
				body = strings.Replace(body, `"status":"ok"`, `"status":"failed"`, 1)
			}
			return []string{body}
		},
		"removal": func(seq int, body string) []string {
			if seq == at {
				return nil
			}
			return []string{body}
		},
		"insertion": func(seq int, body string) []string {
			if seq == at {
				return []string{strings.Replace(body, `"id":"`, `"id":"X`, 1), body}
			}
			return []string{body}
		},
		"fork": func(seq int, body string) []string {
			if seq >= at {
				body = strings.Replace(body, `"identity":"ana"`, `"identity":"bob"`, 1)
			}
			return []string{body}
		},
		"cut tail": func(seq int, body string) []string {
			if seq >= 20 {
				return nil
			}
			return []string{body}
		},
	}
	var held string
	attacks["reordering"] = func(seq int, body string) []string {
		switch seq {
		case at:
			held = body
			return nil
		case at + 1:
			return []string{body, held}
		}
		return []string{body}
	}
	for name, change := range attacks {
		for _, stolen := range []bool{false, true} {
			s := writeSignedLog(t)
			var key ed25519.PrivateKey
			if stolen {
				key = s.key
			}
			s.rewrite(t, key, change)
			if r := s.offline(t, false); !stolen && name != "cut tail" && r.OK() {
				t.Errorf("%s: the segments and the public key do not tell", name)
			}
			r := s.offline(t, true)
			if r.OK() {
				t.Errorf("%s, key stolen: %v: the checkpoints do not tell", name, stolen)
				continue
			}
			p := r.Problems[0]
			t.Logf("%s, key stolen: %v: %s", name, stolen, p)
			switch {
			case name == "cut tail" && (p.Kind != CutTail || p.Seq != 20):
				t.Errorf("cut tail: %s", p)
			case name != "cut tail" && (p.Kind != Forked || p.Seq < at):
				t.Errorf("%s: %s", name, p)
			}
		}
	}
}

// TestUnsignedStretch: who rewrites the end cannot sign it, and leaving checkpoints out shows as well.
func TestUnsignedStretch(t *testing.T) {
	s := writeSignedLog(t)
	var late time.Duration
	s.rewrite(t, nil, func(seq int, body string) []string {
		if strings.Contains(body, checkpointed) && seq > 15 {
			return nil
		}
		if seq > 20 {
			late += time.Hour
			rest := strings.TrimPrefix(body, `"time":"`)
			at, rest, _ := strings.Cut(rest, `"`)
			when, err := time.Parse(time.RFC3339Nano, at)
			must(t, err)
			body = `"time":"` + when.Add(late).Format(time.RFC3339Nano) + `"` + rest
		}
		return []string{body}
	})
	if r := s.offline(t, false); r.OK() || r.Problems[0].Kind != Unsigned {
		t.Errorf("%v", r.Problems)
	}
	other := writeSignedLog(t)
	other.key, _ = LoadSigningKey(filepath.Join(t.TempDir(), "other"))
	if r := other.offline(t, false); r.OK() || r.Problems[0].Kind != Unsigned {
		t.Errorf("%v", r.Problems)
	}
}

func TestPrunedLogKeepsItsAnchor(t *testing.T) {
	s := writeSignedLog(t)
	cut := s.segs[len(s.segs)/2]
	var hash string
	for _, text := range lines(t, s.cfg) {
		if l, _ := parseLine([]byte(text)); l.seq == cut.first-1 {
			hash = string(l.hash[:])
		}
	}
	remove := func() {
		for _, seg := range s.segs {
			if seg.first < cut.first {
				must(t, os.Remove(filepath.Join(s.cfg.Dir, seg.name)))
			}
		}
	}
	l := mustOpen(t, s.cfg)
	a := map[string]string{"to": "1", "hash": hash, "signature": SignPrune(s.key, 1, hash)}
	must(t, l.Event(ctx, &Record{ID: NewID(), Time: time.Now()}, &Event{Name: AuditPruned, Attributes: a}))
	mustClose(t, l)
	remove()
	if r := s.offline(t, true); r.OK() || r.Problems[0].Kind != Missing || r.Problems[0].Seq != 1 {
		t.Errorf("removed without a record: %v", r.Problems)
	}
	a = map[string]string{"to": strconv.FormatUint(cut.first-1, 10), "hash": hash, "signature": SignPrune(s.key, cut.first-1, hash)}
	l = mustOpen(t, s.cfg)
	must(t, l.Event(ctx, &Record{ID: NewID(), Time: time.Now()}, &Event{Name: AuditPruned, Attributes: a}))
	mustClose(t, l)
	if r := s.offline(t, true); !r.OK() || r.First != cut.first {
		t.Errorf("pruned: %v", r.Problems)
	}
	verifyOK(t, s.cfg)
}
