package audit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// slowly is a log whose entries stay in the journal until somebody waits for the disk.
func slowly(t *testing.T) Config {
	cfg := testConfig(t)
	cfg.SegmentBytes, cfg.SyncInterval = 1<<20, time.Hour
	return cfg
}

// killed returns a copy of a log as a killed writer would leave it.
func killed(t *testing.T, cfg Config) Config {
	t.Helper()
	was := cfg.Dir
	cfg.Dir, cfg.HeadDir = filepath.Join(t.TempDir(), "audit"), ""
	for from, to := range map[string]string{was: cfg.Dir, was + "-head": cfg.Dir + "-head"} {
		must(t, os.CopyFS(to, os.DirFS(from)))
	}
	return cfg
}

// TestJournalOutlivesItsWriter: what was appended and is not in the segment's file yet counts for every reader, and the next
// writer brings it there.
func TestJournalOutlivesItsWriter(t *testing.T) {
	l := mustOpen(t, slowly(t))
	ids := run(t, l, 3)
	cfg := killed(t, l.cfg)
	if data, err := os.ReadFile(filepath.Join(cfg.Dir, segmentName(1))); err != nil || strings.Contains(string(data), ids[0]) {
		t.Fatalf("the entries are not in the journal alone: %v", err)
	}
	if r := verifyOK(t, cfg); r.Entries != 7 || len(r.Notes) > 0 {
		t.Errorf("%d entries, notes %q", r.Entries, r.Notes)
	}
	for _, id := range ids {
		if v, err := Find(ctx, cfg.Dir, id); err != nil || v.Status != OK {
			t.Errorf("%v, %v", v.Status, err)
		}
	}
	mustClose(t, mustOpen(t, cfg))
	if r := verifyOK(t, cfg); r.Entries != 8 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "from the journal") {
		t.Errorf("%d entries after the log was opened again, want 8; notes %q", r.Entries, r.Notes)
	}
	data, err := os.ReadFile(filepath.Join(cfg.Dir, segmentName(1)))
	must(t, err)
	if n := strings.Count(string(data), "\n"); n != 8 || !strings.Contains(string(data), `"journal_bytes"`) {
		t.Errorf("%d entries in the file:\n%s", n, data)
	}
}

// TestJournalDoesNotHideACut: entries that were on the disk and are gone are missing, whatever is in the journal.
func TestJournalDoesNotHideACut(t *testing.T) {
	l := mustOpen(t, slowly(t))
	run(t, l, 3)
	must(t, l.flush())
	run(t, l, 2)
	cfg := killed(t, l.cfg)
	path := filepath.Join(cfg.Dir, segmentName(1))
	data, err := os.ReadFile(path)
	must(t, err)
	kept := strings.SplitAfter(string(data), "\n")
	must(t, os.WriteFile(path, []byte(strings.Join(kept[:5], "")), 0o600))
	expectProblem(t, cfg, CutTail, 6)
	mustClose(t, mustOpen(t, cfg))
	expectProblem(t, cfg, Missing, 6)
}

// TestWithoutJournal: to take the journal away hides nothing.
func TestWithoutJournal(t *testing.T) {
	l := mustOpen(t, slowly(t))
	run(t, l, 1)
	must(t, l.flush())
	run(t, l, 1)
	cfg := killed(t, l.cfg)
	must(t, os.Remove(filepath.Join(cfg.Dir, journalName)))
	expectProblem(t, cfg, CutTail, 4)
}

// TestTornJournalHeader: a slot of the header that was half written when the process was killed does not count.
func TestTornJournalHeader(t *testing.T) {
	l := mustOpen(t, slowly(t))
	run(t, l, 2)
	for slot := range 2 {
		cfg := killed(t, l.cfg)
		path := filepath.Join(cfg.Dir, journalName)
		data, err := os.ReadFile(path)
		must(t, err)
		data[slot*slotSize+40] ^= 1
		must(t, os.WriteFile(path, data, 0o600))
		// The older slot does not know of the last entry, which was not released then.
		if r := verify(t, cfg); r.Entries < 4 || r.Entries > 5 {
			t.Errorf("slot %d: %d entries", slot, r.Entries)
		}
	}
}

// TestPowerCutLeavesAnOldJournal: what the disk has of the journal may be older than what it has of the segment, for only the
// segment is brought there. An old header names places that were written over since. Nothing that is in the segment is lost.
func TestPowerCutLeavesAnOldJournal(t *testing.T) {
	for _, whole := range []bool{true, false} { // the old journal is there as it was, or its header alone
		c := slowly(t)
		c.JournalBytes = 64 << 10
		l := mustOpen(t, c)
		run(t, l, 4)
		must(t, l.flush())
		run(t, l, 4)
		old, err := os.ReadFile(filepath.Join(l.cfg.Dir, journalName))
		must(t, err)
		for range 5 {
			must(t, l.flush())
			run(t, l, 20)
		}
		must(t, l.flush())
		cfg := killed(t, l.cfg)
		path := filepath.Join(cfg.Dir, journalName)
		now, err := os.ReadFile(path)
		must(t, err)
		if !whole {
			old = append(old[:headSize:headSize], now[headSize:]...)
		}
		must(t, os.WriteFile(path, old, 0o600))
		mustClose(t, mustOpen(t, cfg))
		if r := verifyOK(t, cfg); r.Entries != 1+2*108+1 {
			t.Errorf("%d entries, want %d; the journal whole: %v", r.Entries, 1+2*108+1, whole)
		}
	}
}

// TestEntryLargerThanTheJournal goes to the segment by itself, in its turn.
func TestEntryLargerThanTheJournal(t *testing.T) {
	cfg := testConfig(t)
	cfg.SegmentBytes, cfg.JournalBytes = 1<<20, 64<<10
	l := mustOpen(t, cfg)
	for range 3 {
		run(t, l, 40)
		rec := testRecord("ana")
		rec.Sealed = strings.Repeat("x", 300<<10)
		must(t, l.Intent(ctx, rec))
		if v, err := Find(ctx, cfg.Dir, rec.ID); err != nil || len(v.Sealed) != 300<<10 {
			t.Errorf("%d bytes, %v", len(v.Sealed), err)
		}
	}
	mustClose(t, l)
	if r := verifyOK(t, cfg); r.Entries != 3*81+1 {
		t.Errorf("%d entries, want %d", r.Entries, 3*81+1)
	}
}

// TestJournalOfAnotherSize: a log goes on with a smaller journal, and with a larger one.
func TestJournalOfAnotherSize(t *testing.T) {
	cfg := slowly(t)
	for i, size := range []int64{256 << 10, 64 << 10, 512 << 10} {
		cfg.JournalBytes = size
		l := mustOpen(t, cfg)
		ids := run(t, l, 3)
		if v, err := Find(ctx, cfg.Dir, ids[2]); err != nil || v.Status != OK {
			t.Errorf("%d bytes: %v, %v", size, v.Status, err)
		}
		if r := verifyOK(t, cfg); r.Entries != uint64(7*(i+1)) {
			t.Errorf("%d bytes: %d entries, want %d", size, r.Entries, 7*(i+1))
		}
		if i == 0 {
			cfg = killed(t, l.cfg)
			continue
		}
		mustClose(t, l)
	}
}

// TestReadersMeetTheJournal reads while entries pass through a small journal: nothing is ever missing or there twice.
func TestReadersMeetTheJournal(t *testing.T) {
	cfg := testConfig(t)
	cfg.SegmentBytes, cfg.JournalBytes, cfg.SyncInterval = 256<<10, 64<<10, time.Millisecond
	l := mustOpen(t, cfg)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				rec := testRecord("ana")
				rec.Judgement.Reasons = json.RawMessage(`"` + strings.Repeat("x", 2000) + `"`)
				if err := l.Intent(ctx, rec); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for range 40 {
		before := l.Stats().Seq
		if r := verifyOK(t, cfg); r.Last < before || len(r.Notes) > 0 {
			t.Errorf("%d entries of %d, notes %q", r.Last, before, r.Notes)
		}
	}
	close(stop)
	<-done
	mustClose(t, l)
	verifyOK(t, cfg)
}
