package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"interlock/audit"
)

// logOf opens an empty log and an index with blocks of some rows.
func logOf(t *testing.T, blockRows int) (*audit.Log, *Index, string) {
	t.Helper()
	dir := t.TempDir()
	logDir := filepath.Join(dir, "audit")
	l, err := audit.Open(audit.Config{Dir: logDir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	x := openTestIndex(t, dir)
	x.blockRows = blockRows
	return l, x, logDir
}

// begin records an intent of ana in a session, and end its outcome.
func begin(t *testing.T, l *audit.Log, session string) string {
	t.Helper()
	id := audit.NewID()
	err := l.Intent(t.Context(), &audit.Record{ID: id, Time: time.Now(), Identity: "ana", Session: session,
		Judgement: &audit.Judgement{Statement: "select 1", Verdict: "allow"}})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func end(t *testing.T, l *audit.Log, id string, status audit.Status) {
	t.Helper()
	if err := l.Outcome(t.Context(), &audit.Outcome{ID: id, Status: status, Time: time.Now(), Rows: 1}); err != nil {
		t.Fatal(err)
	}
}

func event(t *testing.T, l *audit.Log, name, session string, attributes map[string]string) {
	t.Helper()
	err := l.Event(t.Context(), &audit.Record{ID: audit.NewID(), Time: time.Now(), Identity: "ana", Session: session, ClientAddr: "10.1.1.1:40"},
		&audit.Event{Name: name, Attributes: attributes})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRequestsThatOutliveTheirBlock end when their block is full, under another process, or never.
func TestRequestsThatOutliveTheirBlock(t *testing.T) {
	l, x, dir := logOf(t, 4)
	slow, lost := begin(t, l, ""), begin(t, l, "")
	for range 6 {
		end(t, l, begin(t, l, ""), audit.OK)
	}
	catchUp(t, x, dir)
	hold := func(want map[string]audit.Status) {
		t.Helper()
		for id, status := range want {
			for _, f := range []audit.Filter{{ID: id}, {Identity: "ana", Status: status}, {Identity: "ana", OldestFirst: true}} {
				found := map[string]audit.Status{}
				if err := x.Search(t.Context(), dir, f, func(v audit.View) bool { found[v.ID] = v.Status; return true }); err != nil {
					t.Fatal(err)
				}
				if found[id] != status {
					t.Errorf("%+v: %s, want %s", f, found[id], status)
				}
			}
		}
	}
	hold(map[string]audit.Status{slow: audit.Running, lost: audit.Running})
	end(t, l, slow, audit.Failed)
	hold(map[string]audit.Status{slow: audit.Failed}) // read from the log
	x.Close()
	x = openTestIndex(t, filepath.Dir(dir))
	x.blockRows = 4
	catchUp(t, x, dir)
	hold(map[string]audit.Status{slow: audit.Failed, lost: audit.Running})
	l.Close()
	if l, err := audit.Open(audit.Config{Dir: dir}); err != nil {
		t.Fatal(err)
	} else {
		t.Cleanup(func() { l.Close() })
	}
	catchUp(t, x, dir)
	hold(map[string]audit.Status{slow: audit.Failed, lost: audit.Unfinished})
	counts, err := x.Stats(t.Context(), audit.Filter{}, []string{"status"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, c := range counts {
		got[c.By[0]] = c.Requests
	}
	if want := map[string]int64{"ok": 6, "failed": 1, "unfinished": 1}; !reflect.DeepEqual(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// TestStatsCountWhatTheLogHas compares statistics with what a reader of the log counts, by callers, by statements and by both.
func TestStatsCountWhatTheLogHas(t *testing.T) {
	g := generate(t, t.TempDir(), 700)
	x := openTestIndex(t, g.dir)
	x.blockRows = 64
	catchUp(t, x, g.config.Dir)
	for _, f := range []audit.Filter{{}, {Source: "source1"}, {SQLState: "42501"}, {Kind: "denied"}, {Kind: "select"}, {Table: "s1.table_1"}, {Identity: "user1"},
		{Since: g.from.Add(20*24*time.Hour + 30*time.Minute), Until: g.from.Add(50*24*time.Hour + 90*time.Minute)}} {
		whole := f
		if !f.Since.IsZero() {
			whole.Since, whole.Until = f.Since.Truncate(time.Hour), f.Until.Truncate(time.Hour).Add(time.Hour)
		}
		views := viewsOf(t, g.config.Dir, whole)
		for _, by := range [][]string{{"identity", "status", "hour", "statement"}, {"identity", "status"}, {"statement", "status"}, {"statement", "identity"}, {"day"}, {"hour"},
			{"day", "statement"}, {"hour", "identity"}, {}} {
			want, rows := countViews(views, by)
			counts, err := x.Stats(t.Context(), f, by)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int64{}
			for _, c := range counts {
				got[fmt.Sprint(c.By)] = c.Requests
				rows -= c.Rows
			}
			if len(want) == 0 || rows != 0 || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v by %v: %d groups, want %d; %d rows too few", f, by, len(got), len(want), rows)
			}
		}
	}
	all, err := x.Stats(t.Context(), audit.Filter{}, []string{"day", "statement"})
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 10, len(all), len(all) + 1} {
		some, err := x.Stats(t.Context(), audit.Filter{Limit: limit}, []string{"day", "statement"})
		if err != nil || !reflect.DeepEqual(some, all[:min(limit, len(all))]) {
			t.Errorf("the largest %d: %d, %v", limit, len(some), err)
		}
	}
	if _, err := x.Stats(t.Context(), audit.Filter{Session: "S1"}, []string{"identity"}); err == nil {
		t.Error("statistics of a session, which the index does not have")
	}
}

// TestDamagedCounts of a block, which says more or less than it can, are an error.
func TestDamagedCounts(t *testing.T) {
	g := generate(t, t.TempDir(), 40)
	x := openTestIndex(t, g.dir)
	catchUp(t, x, g.config.Dir)
	for _, damaged := range []string{"x''", "x'80'", "substr(sums, 1, length(sums) - 1)", "x'0000'", "x'007f06000000010101'", "x'000006007f00010101'", "x'00000600007f010101'"} {
		tx, err := x.db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("update counts set sums = " + damaged); err != nil {
			t.Fatal(err)
		}
		db := speaker{tx, sqlite}
		count, err := newTally(t.Context(), db, &audit.Filter{}, []string{"identity", "statement"})
		if err != nil {
			t.Fatal(err)
		}
		if err := count.run(t.Context(), db); !errors.Is(err, errDamaged) {
			t.Errorf("%s: %v", damaged, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
}

func viewsOf(t *testing.T, dir string, f audit.Filter) (all []audit.View) {
	t.Helper()
	if err := audit.Search(t.Context(), dir, f, func(v audit.View) bool { all = append(all, v); return true }); err != nil {
		t.Fatal(err)
	}
	return all
}

// countViews counts requests and rows as Stats does.
func countViews(views []audit.View, by []string) (requests map[string]int64, rows int64) {
	requests = map[string]int64{}
	for _, v := range views {
		all := map[string]string{"identity": v.Identity, "status": string(v.Status), "statement": v.Statement,
			"hour": v.Time.UTC().Format("2006-01-02T15:00Z"), "day": v.Time.UTC().Format(time.DateOnly)}
		key := []string{}
		for _, name := range by {
			key = append(key, all[name])
		}
		requests[fmt.Sprint(key)]++
		rows += v.Outcome.Rows
	}
	return requests, rows
}

// TestSessionsCountTheirStatements in full blocks and in the one under way, and not twice when the index is opened again.
func TestSessionsCountTheirStatements(t *testing.T) {
	l, x, dir := logOf(t, 4)
	statements := func(want map[string]int64) {
		t.Helper()
		catchUp(t, x, dir)
		list, err := x.Sessions(t.Context(), audit.Filter{Identity: "ana", Client: "10.1.1.1"})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		for _, s := range list {
			got[s.Session] = s.Statements
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	for _, s := range []string{"S1", "S2"} {
		event(t, l, audit.SessionOpened, s, nil)
		for range 5 {
			end(t, l, begin(t, l, s), audit.OK)
		}
	}
	statements(map[string]int64{"S1": 5, "S2": 5})
	x.Close()
	x = openTestIndex(t, filepath.Dir(dir))
	x.blockRows = 4
	begin(t, l, "S2")
	statements(map[string]int64{"S1": 5, "S2": 6})
	event(t, l, audit.SessionClosed, "S2", map[string]string{"statements": strconv.Itoa(6)})
	end(t, l, begin(t, l, "S1"), audit.OK)
	statements(map[string]int64{"S1": 6, "S2": 6})
}

// TestForgetting what was pruned leaves the rest to be found, and the numbers by hour.
func TestForgetting(t *testing.T) {
	g := generate(t, t.TempDir(), 300)
	x := openTestIndex(t, g.dir)
	x.blockRows = 50
	catchUp(t, x, g.config.Dir)
	all := func() (seqs []uint64) {
		if err := x.Search(context.Background(), g.config.Dir, audit.Filter{OldestFirst: true}, func(v audit.View) bool {
			seqs = append(seqs, v.Seq)
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return seqs
	}
	before := all()
	if err := x.Forget(t.Context(), before[149]); err != nil {
		t.Fatal(err)
	}
	after := all()
	if len(after) == len(before) || after[len(after)-1] != before[299] || after[0] > before[150] {
		t.Errorf("%d requests from %d, of %d up to %d", len(after), after[0], len(before), before[149])
	}
	counts, err := x.Stats(t.Context(), audit.Filter{}, nil)
	if err != nil || len(counts) != 1 || counts[0].Requests != 300 {
		t.Errorf("%+v, %v", counts, err)
	}
}
