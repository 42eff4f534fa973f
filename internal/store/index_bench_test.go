package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"interlock/audit"
	"interlock/internal/pgtest"
)

// BenchmarkIndexing measures what the index costs a request, in processor time and in bytes: for the same statement again
// and again from eight sessions at once, as pgbench -S sends it, and for the invented requests of generate.
func BenchmarkIndexing(b *testing.B) {
	const n = 100_000
	for name, write := range map[string]func(testing.TB, string) string{
		"same":    func(t testing.TB, dir string) string { return generateSame(t, dir, n) },
		"various": func(t testing.TB, dir string) string { return generate(t, dir, n).config.Dir },
	} {
		b.Run(name, func(b *testing.B) {
			log := write(b, b.TempDir())
			var spent time.Duration
			var size int64
			for b.Loop() {
				dir := b.TempDir()
				x := openTestIndex(b, dir)
				before := processorTime(b)
				catchUp(b, x, log)
				spent += processorTime(b) - before
				if err := x.Close(); err != nil {
					b.Fatal(err)
				}
				info, err := os.Stat(filepath.Join(dir, IndexName))
				if err != nil {
					b.Fatal(err)
				}
				size = info.Size()
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/n, "cpu-ns/request")
			b.ReportMetric(float64(size)/n, "bytes/request")
		})
	}
}

// BenchmarkSharedIndex measures what a request costs a node in the index that nodes share, in processor time of the node and in
// bytes of the database, and what searches cost there.
func BenchmarkSharedIndex(b *testing.B) {
	const n = 100_000
	dsn := pgtest.Start(b).Database(b)
	g := generate(b, b.TempDir(), n)
	p := sharedPart(b, dsn, "n1", maxBlockRows)
	before := processorTime(b)
	start := time.Now()
	catchUpShared(b, p, g.config.Dir)
	spent, lasted := processorTime(b)-before, time.Since(start)
	x := readShared(b, dsn)
	var size int64
	if err := x.db.QueryRow("select sum(pg_total_relation_size(oid)) from pg_class where relnamespace = 'interlock_audit'::regnamespace and relkind = 'r'").Scan(&size); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d requests: %d ns of processor time and %d bytes a request, in %v", n, spent.Nanoseconds()/n, size/n, lasted)
	for name, f := range map[string]audit.Filter{"newest": {}, "identity": {Identity: "user199"}, "column": {Column: "amount_1999"},
		"nothing": {Identity: "user199", SQLState: "42501", Column: "amount_1998"}} {
		f.Limit = 100
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := x.Search(context.Background(), f, func(audit.View) bool { return true }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// processorTime is what this process has used.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// generateSame writes n requests with one statement, eight at a time, and returns the directory of the log.
func generateSame(t testing.TB, dir string, n int) string {
	t.Helper()
	l, err := audit.Open(audit.Config{Dir: filepath.Join(dir, "audit"), Sync: audit.SyncRelaxed, RelaxedWindow: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	j := &audit.Judgement{Ruleset: 3, RulesetDigest: "5f2c90e1d4", Catalog: "c0ffee11", Statement: "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
		Fingerprint: "50fde20626009aba", Kinds: []string{"select"}, Verdict: "allow",
		Reads: []string{"public.pgbench_accounts.abalance", "public.pgbench_accounts.aid"}}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var running [8]string
	for i := range n {
		at = at.Add(60 * time.Microsecond)
		who := i % len(running)
		if id := running[who]; id != "" {
			out := &audit.Outcome{ID: id, Time: at, Status: audit.OK, Rows: 1, Bytes: 20, Duration: 480 * time.Microsecond}
			untilTaken(func() error { return l.Outcome(context.Background(), out) })
		}
		rec := &audit.Record{Time: at, ID: audit.NewID(), Identity: "bench", KeyID: "01K0KEY", Door: "pgwire", ClientAddr: "127.0.0.1:4000" + strconv.Itoa(who),
			Application: "pgbench", Session: "01KSESSION" + strconv.Itoa(who), Source: "bench", Judgement: j}
		untilTaken(func() error { return l.Intent(context.Background(), rec) })
		running[who] = rec.ID
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "audit")
}

// untilTaken hands something to a log until its queue has room for it.
func untilTaken(do func() error) {
	for do() != nil {
		time.Sleep(time.Millisecond)
	}
}

// BenchmarkSearch measures searches over a log of AUDIT_BENCH_RECORDS requests (100,000 if it is not set), which is made, or
// used again, in AUDIT_BENCH_DIR if that is set. Each search returns the first hundred; "make bench-audit" has ten million requests,
// and searches them with the program as well.
func BenchmarkSearch(b *testing.B) {
	n, _ := strconv.Atoi(os.Getenv("AUDIT_BENCH_RECORDS"))
	n = max(n, 100_000)
	dir := os.Getenv("AUDIT_BENCH_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	g := &generated{dir: dir, from: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), config: audit.Config{Dir: filepath.Join(dir, "audit")}}
	if _, err := os.Stat(g.config.Dir); err != nil {
		start := time.Now()
		generate(b, dir, n)
		b.Logf("%d requests written in %v", n, time.Since(start))
	}
	x := openTestIndex(b, dir)
	start := time.Now()
	catchUp(b, x, g.config.Dir)
	b.Logf("indexed in %v", time.Since(start))
	one := someRequest(b, x, g)
	named := searches(g, &one)
	for _, s := range named {
		s.filter.Limit = 100
		b.Run(s.name, func(b *testing.B) {
			found, before := 0, processorTime(b)
			for b.Loop() {
				found = 0
				if err := x.Search(context.Background(), g.config.Dir, s.filter, func(audit.View) bool { found++; return true }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(found), "found")
			b.ReportMetric(float64((processorTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
	for name, by := range map[string][]string{"stats": {"identity", "status"}, "stats-statements": {"statement"}, "stats-days": {"day", "source"}} {
		b.Run(name, func(b *testing.B) {
			before := processorTime(b)
			for b.Loop() {
				if _, err := x.Stats(context.Background(), audit.Filter{}, by); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processorTime(b)-before).Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
	if os.Getenv("AUDIT_BENCH_PROGRAM") != "" {
		benchProgram(b, g, &one, named)
	}
}

type namedFilter struct {
	name   string
	filter audit.Filter
}

// someRequest returns one from the middle of the log.
func someRequest(b *testing.B, x *Index, g *generated) (one audit.View) {
	err := x.Search(context.Background(), g.config.Dir, audit.Filter{Since: g.day(40), Limit: 1, OldestFirst: true}, func(v audit.View) bool {
		one = v
		return true
	})
	if err != nil || one.ID == "" {
		b.Fatal(one.ID, err)
	}
	return one
}

func (g *generated) day(n int) time.Time { return g.from.Add(time.Duration(n) * 24 * time.Hour) }

// searches are one for each thing that can be searched by, and some of several. Those that select little look through all blocks.
func searches(g *generated, one *audit.View) []namedFilter {
	return []namedFilter{
		{"newest", audit.Filter{}},
		{"decision-id", audit.Filter{ID: one.ID}},
		{"session", audit.Filter{Session: one.Session}},
		{"identity", audit.Filter{Identity: "user199"}},
		{"source", audit.Filter{Source: "source7"}},
		{"table", audit.Filter{Table: "table_399"}},
		{"column", audit.Filter{Column: "amount_1999"}},
		{"decision", audit.Filter{Verdict: "refuse"}},
		{"door", audit.Filter{Door: "mcp"}},
		{"client", audit.Filter{Client: "10.1.1.199"}},
		{"time", audit.Filter{Since: g.day(40), Until: g.day(40).Add(time.Hour), Source: "source3"}},
		{"fingerprint", audit.Filter{Fingerprint: fmt.Sprintf("%016x", 7919*1999)}},
		{"sqlstate", audit.Filter{SQLState: "42501", OldestFirst: true}},
		{"text", audit.Filter{Text: "AMOUNT_1999 from"}},
		{"identity-table", audit.Filter{Identity: "user199", Table: "table_399"}},
		{"nothing", audit.Filter{Identity: "user199", SQLState: "42501", Column: "amount_1998"}},
		{"client-one-month", audit.Filter{Client: "10.1.1.7", Since: g.day(60)}},
	}
}
