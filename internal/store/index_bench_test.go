package store

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"interlock/audit"
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
