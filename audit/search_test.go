package audit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// searchLog has 60 requests of ana and ben; every third is refused, every seventh fails.
func searchLog(t *testing.T) (Config, []string) {
	t.Helper()
	cfg := testConfig(t)
	l := mustOpen(t, cfg)
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var all []string
	for i := range 60 {
		rec := testRecord([]string{"ana", "ben"}[i%2])
		rec.Time = start.Add(time.Duration(i) * time.Minute)
		all = append(all, rec.ID)
		if i%3 == 0 {
			rec.Verdict, rec.Reads = "refuse", []string{"crm.customers.ssn", "sales.orders"}
			rec.Labels = []string{"pii", "money"}
			must(t, l.Request(ctx, rec, &Outcome{Status: Refused, SQLState: "42501"}))
			continue
		}
		must(t, l.Intent(ctx, rec))
		out := &Outcome{ID: rec.ID, Time: rec.Time, Status: OK, Rows: int64(i)}
		if i%7 == 0 {
			out.Status, out.SQLState, out.Rows = Failed, "22P02", 0
		}
		must(t, l.Outcome(ctx, out))
	}
	mustClose(t, l)
	return cfg, all
}

func TestSearch(t *testing.T) {
	cfg, ids := searchLog(t)
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	cases := []struct {
		name string
		f    Filter
		want func(i int) bool
	}{
		{"everything", Filter{}, func(int) bool { return true }},
		{"id", Filter{ID: ids[17]}, func(i int) bool { return i == 17 }},
		{"identity", Filter{Identity: "ben"}, func(i int) bool { return i%2 == 1 }},
		{"nobody", Filter{Identity: "be"}, func(int) bool { return false }},
		{"verdict", Filter{Verdict: "refuse"}, func(i int) bool { return i%3 == 0 }},
		{"status", Filter{Status: Failed}, func(i int) bool { return i%7 == 0 && i%3 != 0 }},
		{"sqlstate", Filter{SQLState: "42501"}, func(i int) bool { return i%3 == 0 }},
		{"table", Filter{Table: "sales.orders"}, func(i int) bool { return i%3 == 0 }},
		{"table of any schema", Filter{Table: "customers"}, func(int) bool { return true }},
		{"column", Filter{Column: "crm.customers.ssn"}, func(i int) bool { return i%3 == 0 }},
		{"label", Filter{Label: "money"}, func(i int) bool { return i%3 == 0 }},
		{"unknown label", Filter{Label: "mone"}, func(int) bool { return false }},
		{"end of a column", Filter{Column: "name"}, func(i int) bool { return i%3 != 0 }},
		{"column of a table", Filter{Table: "crm.customers", Column: "id"}, func(i int) bool { return i%3 != 0 }},
		{"a table is no column", Filter{Column: "orders"}, func(int) bool { return false }},
		{"door, session, source, fingerprint", Filter{Door: "pgwire", Session: "s1", Source: "shop", Fingerprint: "f00d"}, func(int) bool { return true }},
		{"time", Filter{Since: start.Add(10 * time.Minute), Until: start.Add(20 * time.Minute)}, func(i int) bool { return i >= 10 && i < 20 }},
		{"text", Filter{Text: "FROM crm.CUST"}, func(int) bool { return true }},
		{"identity and status", Filter{Identity: "ana", Status: OK}, func(i int) bool { return i%2 == 0 && i%3 != 0 && i%7 != 0 }},
	}
	for _, c := range cases {
		var want []string
		for i, id := range ids {
			if c.want(i) {
				want = append(want, id)
			}
		}
		for _, oldest := range []bool{true, false} {
			c.f.OldestFirst = oldest
			if got := found(t, cfg, c.f); !slices.Equal(got, want) {
				t.Errorf("%s (oldest first: %v): got %d, want %d", c.name, oldest, len(got), len(want))
			}
			slices.Reverse(want)
		}
	}
}

func found(t *testing.T, cfg Config, f Filter) []string {
	t.Helper()
	var got []string
	must(t, Search(ctx, cfg.Dir, f, func(v View) bool {
		got = append(got, v.ID)
		return true
	}))
	return got
}

func TestSearchLimit(t *testing.T) {
	cfg, ids := searchLog(t)
	if got := found(t, cfg, Filter{Limit: 2}); !slices.Equal(got, []string{ids[59], ids[58]}) {
		t.Errorf("newest two: %v", got)
	}
	if got := found(t, cfg, Filter{Limit: 2, OldestFirst: true}); !slices.Equal(got, ids[:2]) {
		t.Errorf("oldest two: %v", got)
	}
	n := 0
	must(t, Search(ctx, cfg.Dir, Filter{}, func(View) bool { n++; return n < 5 }))
	if n != 5 {
		t.Errorf("yield was called %d times after it said stop", n)
	}
}

func TestFind(t *testing.T) {
	cfg, ids := searchLog(t)
	v, err := Find(ctx, cfg.Dir, ids[1])
	must(t, err)
	if v.Status != OK || v.Outcome.Rows != 1 || v.Statement == "" {
		t.Errorf("%+v", v)
	}
	if _, err := Find(ctx, cfg.Dir, NewID()); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
}

func TestQuotedNames(t *testing.T) {
	got := splitName(`"my.schema"."a ""b""".c`)
	if want := []string{`"my.schema"`, `"a ""b"""`, "c"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReadWhileWriting: a torn last line, as a reader may see it, is left out.
func TestReadWhileWriting(t *testing.T) {
	cfg, ids := searchLog(t)
	segs, err := segments(cfg.Dir)
	must(t, err)
	f, err := os.OpenFile(filepath.Join(cfg.Dir, segs[len(segs)-1].name), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString(`{"v":1,"seq":`)
	must(t, errors.Join(err, f.Close()))
	if got := found(t, cfg, Filter{}); len(got) != len(ids) {
		t.Errorf("%d views, want %d", len(got), len(ids))
	}
	if r := verifyOK(t, cfg); len(r.Notes) != 1 {
		t.Errorf("notes %q", r.Notes)
	}
}

func TestTail(t *testing.T) {
	cfg, ids := searchLog(t)
	var got []string
	must(t, Tail(ctx, cfg.Dir, 3, false, Filter{}, func(v View) bool {
		got = append(got, v.ID)
		return true
	}))
	if !slices.Equal(got, ids[57:]) {
		t.Errorf("%v", got)
	}
}

func TestTailFollows(t *testing.T) {
	cfg := testConfig(t)
	l := mustOpen(t, cfg)
	early := testRecord("ana")
	must(t, l.Intent(ctx, early))
	tailing, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	views := make(chan View, 100)
	done := make(chan error)
	go func() {
		done <- Tail(tailing, cfg.Dir, 5, true, Filter{Identity: "ana"}, func(v View) bool {
			views <- v
			return true
		})
	}()
	if v := <-views; v.ID != early.ID || v.Status != Running {
		t.Errorf("first %v %v", v.ID, v.Status)
	}
	must(t, l.Outcome(ctx, &Outcome{ID: early.ID, Status: OK}))
	want := append([]string{early.ID}, run(t, l, 20)...) // over several segments
	must(t, l.Intent(ctx, testRecord("ana")))            // not finished, so not shown
	for _, id := range want {
		if v := <-views; v.ID != id || v.Status != OK {
			t.Errorf("got %v %v, want %v", v.ID, v.Status, id)
		}
	}
	cancel()
	must(t, <-done)
	if len(views) > 0 {
		t.Errorf("%d views too many", len(views))
	}
}

func TestBackward(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		var want []string
		var text strings.Builder
		for range rnd.IntN(20) {
			s := strings.Repeat("x", rnd.IntN(3)*rnd.IntN(backwardBlock))
			want = append(want, fmt.Sprint(len(s), text.Len()+len(s)+1))
			text.WriteString(s + "\n")
		}
		must(t, os.WriteFile(path, []byte(text.String()+"torn"), 0o600))
		var got []string
		must(t, eachLineBackward(ctx, filepath.Dir(path), filepath.Base(path), -1, func(text []byte, end int64) bool {
			got = append(got, fmt.Sprint(len(text), end))
			return true
		}))
		slices.Reverse(got)
		if !slices.Equal(got, want) {
			t.Fatalf("got %v\nwant %v", got, want)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	cfg := testConfig(b)
	cfg.SegmentBytes = 0
	l := mustOpen(b, cfg)
	run(b, l, 20_000)
	for b.Loop() {
		must(b, Search(ctx, cfg.Dir, Filter{Identity: "nobody"}, func(View) bool { return true }))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/40_000, "ns/entry")
}

func BenchmarkVerify(b *testing.B) {
	cfg := testConfig(b)
	cfg.SegmentBytes = 0
	l := mustOpen(b, cfg)
	run(b, l, 20_000)
	for b.Loop() {
		verifyOK(b, cfg)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/40_000, "ns/entry")
}
