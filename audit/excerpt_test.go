package audit

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestContinues knows a log again by an entry, also when that was pruned, and no other.
func TestContinues(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		l, err := Open(Config{Dir: dir, SegmentBytes: 2048})
		if err != nil {
			t.Fatal(err)
		}
		for range 30 {
			rec := &Record{ID: NewID(), Time: time.Now(), Identity: "ana"}
			if err := l.Request(t.Context(), rec, &Outcome{ID: rec.ID, Status: Refused}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	segs, err := Segments(dirs[0])
	if err != nil || len(segs) < 3 {
		t.Fatal(len(segs), err)
	}
	hash := ""
	end, _, err := ReadAfter(dirs[0], Cursor{}, segs[0].Last, 1<<20, func(e *Entry) bool { hash = e.Hash(); return true })
	if err != nil || end.Seq != segs[0].Last || hash != segs[0].LastHash {
		t.Fatal(end, hash, err)
	}
	hold := func(what, dir string, c Cursor, hash string, want bool) {
		t.Helper()
		if got, err := Continues(dir, c, hash); got != want || err != nil {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	inside := end
	inside.Offset -= 10
	hold("the beginning", dirs[0], Cursor{}, "", true)
	hold("its own", dirs[0], end, hash, true)
	hold("another hash", dirs[0], end, segs[1].LastHash, false)
	hold("the middle of an entry", dirs[0], inside, hash, false)
	hold("another log", dirs[1], end, hash, false)
	hold("an entry that is not there yet", dirs[0], Cursor{segs[2].Name, 1 << 30, 1000}, hash, false)
	if err := Remove(dirs[0], segs[:1]); err != nil {
		t.Fatal(err)
	}
	hold("pruned up to there", dirs[0], end, hash, true)
	hold("pruned, another hash", dirs[0], end, segs[1].LastHash, false)
	if err := Remove(dirs[0], segs[1:2]); err != nil {
		t.Fatal(err)
	}
	hold("pruned beyond", dirs[0], end, hash, false)
	if first, err := First(dirs[0]); first != segs[2].First || err != nil {
		t.Errorf("the log begins with %d, %v", first, err)
	}
}

// TestExcerptLeavesOut what only the owner and the log have.
func TestExcerptLeavesOut(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	rec := &Record{ID: NewID(), Time: time.Now(), Identity: "ana", Sealed: "SEALED-TEXT", Judgement: &Judgement{Statement: "select 1", Verdict: "allow"}}
	if err := l.Intent(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	if err := l.Outcome(t.Context(), &Outcome{ID: rec.ID, Time: time.Now(), Status: OK, Rows: 3}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var excerpts [][]byte
	if _, _, err := ReadAfter(dir, Cursor{}, 0, 1<<20, func(e *Entry) bool {
		if e.ID == rec.ID {
			excerpts = append(excerpts, e.Excerpt())
		}
		return true
	}); err != nil || len(excerpts) != 2 {
		t.Fatal(len(excerpts), err)
	}
	for _, text := range excerpts {
		for _, hidden := range []string{"SEALED-TEXT", "select 1", `"hash"`, `"prev"`} {
			if !json.Valid(text) || strings.Contains(string(text), hidden) {
				t.Errorf("%s in %s", hidden, text)
			}
		}
	}
	v, err := DecodeExcerpt(excerpts[0], excerpts[1])
	whole, err2 := Find(t.Context(), dir, rec.ID)
	whole.Sealed, whole.Judgement = "", nil
	got, _ := json.Marshal(v)
	want, _ := json.Marshal(whole)
	if err != nil || err2 != nil || string(got) != string(want) {
		t.Errorf("%s\nwant\n%s, %v, %v", got, want, err, err2)
	}
}
