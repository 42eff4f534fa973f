package audit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// written is a closed log and its lines by entry number.
type written struct {
	cfg  Config
	segs []segmentFile
}

func writeLog(t *testing.T) written {
	t.Helper()
	cfg := testConfig(t)
	l := mustOpen(t, cfg)
	run(t, l, 20)
	mustClose(t, l)
	verifyOK(t, cfg)
	segs, err := segments(cfg.Dir)
	must(t, err)
	return written{cfg, segs}
}

// edit changes the lines of the segment that holds entry seq; i is the index of that entry.
func (w written) edit(t *testing.T, seq uint64, change func(lines []string, i int) []string) {
	t.Helper()
	n := len(w.segs) - 1
	for w.segs[n].first > seq {
		n--
	}
	path := filepath.Join(w.cfg.Dir, w.segs[n].name)
	data, err := os.ReadFile(path)
	must(t, err)
	all := strings.SplitAfter(string(data), "\n")
	all = all[:len(all)-1]
	all = change(all, int(seq-w.segs[n].first))
	must(t, os.WriteFile(path, []byte(strings.Join(all, "")), 0o600))
}

// rehash gives a changed line a hash that fits it.
func rehash(text string) string {
	text = text[:strings.LastIndex(text, `,"hash":"`)]
	hash := sum([]byte(text))
	return text + `,"hash":"` + string(hash[:]) + "\"}\n"
}

func TestTampering(t *testing.T) {
	const seq = 12
	last := uint64(41)
	cases := []struct {
		name   string
		change func(t *testing.T, w written)
		kind   ProblemKind
		seq    uint64
	}{
		{"changed value", func(t *testing.T, w written) {
			w.edit(t, seq, func(l []string, i int) []string {
				l[i] = strings.Replace(l[i], `"identity":"ana"`, `"identity":"eve"`, 1)
				return l
			})
		}, Altered, seq},
		{"changed hash", func(t *testing.T, w written) {
			w.edit(t, seq, func(l []string, i int) []string {
				l[i] = l[i][:len(l[i])-4] + "x\"}\n"
				return l
			})
		}, Altered, seq},
		{"changed and hashed again", func(t *testing.T, w written) {
			w.edit(t, seq, func(l []string, i int) []string {
				l[i] = rehash(strings.Replace(l[i], `"identity":"ana"`, `"identity":"eve"`, 1))
				return l
			})
		}, Chain, seq},
		{"last entry changed and hashed again", func(t *testing.T, w written) {
			w.edit(t, last, func(l []string, i int) []string {
				l[i] = rehash(strings.Replace(l[i], `"rows":2`, `"rows":1`, 1))
				return l
			})
		}, BadHead, last},
		{"first entry replaced", func(t *testing.T, w written) {
			w.edit(t, 1, func(l []string, i int) []string {
				l[i] = rehash(strings.Replace(l[i], `"node":"n1"`, `"node":"n2"`, 1))
				return l
			})
		}, Chain, 1},
		{"made unreadable", func(t *testing.T, w written) {
			w.edit(t, seq, func(l []string, i int) []string {
				l[i] = " " + l[i]
				return l
			})
		}, Unreadable, seq},
		{"removed", func(t *testing.T, w written) {
			w.edit(t, seq, func(l []string, i int) []string { return slices.Delete(l, i, i+1) })
		}, Missing, seq},
		{"inserted", func(t *testing.T, w written) {
			w.edit(t, seq, func(l []string, i int) []string {
				forged := strings.Replace(l[i], `"identity":"ana"`, `"identity":"eve"`, 1)
				return slices.Insert(l, i, rehash(forged))
			})
		}, OutOfOrder, seq},
		{"duplicated", func(t *testing.T, w written) {
			w.edit(t, seq, func(l []string, i int) []string { return slices.Insert(l, i, l[i]) })
		}, OutOfOrder, seq},
		{"reordered", func(t *testing.T, w written) {
			w.edit(t, seq, func(l []string, i int) []string {
				l[i], l[i+1] = l[i+1], l[i]
				return l
			})
		}, Missing, seq},
		{"last cut", func(t *testing.T, w written) {
			w.edit(t, last, func(l []string, i int) []string { return l[:i] })
		}, CutTail, last},
		{"last torn", func(t *testing.T, w written) {
			w.edit(t, last, func(l []string, i int) []string {
				l[i] = l[i][:len(l[i])-5]
				return l
			})
		}, CutTail, last},
		{"segment removed", func(t *testing.T, w written) {
			must(t, os.Remove(filepath.Join(w.cfg.Dir, w.segs[1].name)))
		}, Missing, 0},
		{"first segment removed", func(t *testing.T, w written) {
			must(t, os.Remove(filepath.Join(w.cfg.Dir, w.segs[0].name)))
		}, Missing, 1},
		{"last segment removed", func(t *testing.T, w written) {
			must(t, os.Remove(filepath.Join(w.cfg.Dir, w.segs[len(w.segs)-1].name)))
		}, CutTail, 0},
		{"all segments removed", func(t *testing.T, w written) {
			for _, s := range w.segs {
				must(t, os.Remove(filepath.Join(w.cfg.Dir, s.name)))
			}
		}, CutTail, 1},
		{"segment renamed", func(t *testing.T, w written) {
			must(t, os.Rename(filepath.Join(w.cfg.Dir, w.segs[1].name), filepath.Join(w.cfg.Dir, segmentName(w.segs[1].first+1))))
		}, OutOfOrder, 0},
		{"segment torn in the middle", func(t *testing.T, w written) {
			must(t, os.Truncate(filepath.Join(w.cfg.Dir, w.segs[0].name), 4000))
		}, Unreadable, 0},
		{"head removed", func(t *testing.T, w written) {
			must(t, os.Remove(filepath.Join(w.cfg.Dir+"-head", headName)))
		}, BadHead, 0},
		{"head damaged", func(t *testing.T, w written) {
			must(t, os.WriteFile(filepath.Join(w.cfg.Dir+"-head", headName), make([]byte, 2*slotSize), 0o600))
		}, BadHead, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := writeLog(t)
			c.change(t, w)
			first := expectProblem(t, w.cfg, c.kind, c.seq)
			if first.Kind == Altered && first.ID == "" {
				t.Errorf("%v does not name the decision", first)
			}
			// Opening the log must not hide it.
			l := mustOpen(t, w.cfg)
			run(t, l, 30)
			mustClose(t, l)
			kind := c.kind
			switch kind {
			case CutTail:
				kind = Missing
			case BadHead:
				kind = Alarm
			}
			if r := verify(t, w.cfg); !slices.ContainsFunc(r.Problems, func(p Problem) bool {
				return p.Kind == kind && (c.seq == 0 || p.Seq == c.seq || kind == Alarm) || p.Kind == Chain && p.Seq == c.seq
			}) {
				t.Errorf("the finding is gone after the log was opened: %v", r.Problems)
			}
		})
	}
}

// expectProblem wants the first problem to be of a kind, and about entry seq unless that is 0.
func expectProblem(t *testing.T, cfg Config, kind ProblemKind, seq uint64) Problem {
	t.Helper()
	r := verify(t, cfg)
	if r.OK() {
		t.Fatal("not found")
	}
	p := r.Problems[0]
	if p.Kind != kind || seq != 0 && p.Seq != seq {
		t.Errorf("found %v, want %q for entry %d", r.Problems, kind, seq)
	}
	return p
}

func TestEveryByteCounts(t *testing.T) {
	cfg := testConfig(t)
	l := mustOpen(t, cfg)
	run(t, l, 1)
	mustClose(t, l)
	path := filepath.Join(cfg.Dir, segmentName(1))
	data, err := os.ReadFile(path)
	must(t, err)
	for i := range data {
		data[i] ^= 0x04
		must(t, os.WriteFile(path, data, 0o600))
		if r := verify(t, cfg); r.OK() {
			t.Fatalf("byte %d changed, and the log verifies", i)
		}
		data[i] ^= 0x04
	}
}

// TestPowerCut: another boot, and only entries that were not yet on the disk are missing.
func TestPowerCut(t *testing.T) {
	for _, synced := range []uint64{30, 41} {
		w := writeLog(t)
		w.edit(t, 40, func(l []string, i int) []string {
			l[i] = l[i][:10]
			return l[:i+1]
		})
		h, old, err := openHead(w.cfg.Dir + "-head")
		must(t, err)
		h.now.Boot, h.now.Synced = "another", synced
		must(t, h.write(&h.now))
		must(t, h.close())
		if r := verify(t, w.cfg); r.OK() != (synced < old.Seq) {
			t.Errorf("synced up to %d: %v", synced, r.Problems)
		}
		l := mustOpen(t, w.cfg)
		run(t, l, 1)
		mustClose(t, l)
		r := verify(t, w.cfg)
		if r.OK() != (synced < old.Seq) {
			t.Errorf("synced up to %d, opened: %v", synced, r.Problems)
		}
		if r.OK() && (len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "entries 40 to 41 were lost")) {
			t.Errorf("notes %q", r.Notes)
		}
	}
}

func TestUnfinished(t *testing.T) {
	cfg := testConfig(t)
	l := mustOpen(t, cfg)
	run(t, l, 3)
	rec := testRecord("ana")
	must(t, l.Intent(ctx, rec))
	run(t, l, 3)
	r := verifyOK(t, cfg) // while the log is open
	if r.UnfinishedCount != 1 || r.Unfinished[0] != rec.ID {
		t.Errorf("unfinished %v", r.Unfinished)
	}
	for i, want := range []Status{Running, Unfinished} {
		v, err := Find(ctx, cfg.Dir, rec.ID)
		must(t, err)
		if v.Status != want {
			t.Errorf("status %q, want %q", v.Status, want)
		}
		if i == 0 {
			mustClose(t, l)
			l = mustOpen(t, cfg)
		}
	}
}

func TestVerifyEmptyAndAbsent(t *testing.T) {
	cfg := testConfig(t)
	if _, err := Verify(ctx, cfg, nil); err == nil {
		t.Error("an absent log verifies")
	}
	must(t, os.MkdirAll(cfg.Dir, 0o700))
	verifyOK(t, cfg)
}

func TestVerifyProgress(t *testing.T) {
	w := writeLog(t)
	var last Progress
	_, err := Verify(ctx, w.cfg, func(p Progress) { last = p })
	must(t, err)
	if last.Entries != 41 || last.Bytes != last.Total || last.Total == 0 {
		t.Errorf("%+v", last)
	}
}

// TestCutUnderTheWriter removes the last entry while the log is in use.
func TestCutUnderTheWriter(t *testing.T) {
	cfg := testConfig(t)
	l := mustOpen(t, cfg)
	run(t, l, 2)
	must(t, l.flush())
	all := lines(t, cfg)
	path := filepath.Join(cfg.Dir, segmentName(1))
	must(t, os.Truncate(path, fileSize(t, cfg, 1)-int64(len(all[4]))-1))
	expectProblem(t, cfg, CutTail, 5)
	run(t, l, 1)
	mustClose(t, l)
	expectProblem(t, cfg, Missing, 5)
}
