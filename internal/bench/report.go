package main

import (
	"cmp"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report is the table of results, a line a workload.
type report struct {
	head  string // what the columns are
	line  func(*workload, map[string][]sample) string
	lines []string
}

func newReport(o *options) *report {
	if o.mcp != "" {
		return &report{head: mcpHead, line: mcpLine}
	}
	return &report{line: proxyLine, head: `Processor time is of the proxy, in µs for a statement or a row;
peak memory of the proxy in MiB.

| workload | direct | PgBouncer | InterLock | to PgBouncer | to direct | µs PgBouncer / InterLock | MiB PgBouncer / InterLock |
|---|---|---|---|---|---|---|---|`}
}

func (r *report) add(w *workload, samples map[string][]sample) {
	r.lines = append(r.lines, r.line(w, samples))
}

func proxyLine(w *workload, samples map[string][]sample) string {
	rate := func(s sample) float64 { return s.rate }
	d, b, i := median(samples[direct], rate), median(samples[bouncer], rate), median(samples[interlock], rate)
	cpu := func(name string) string { return fmt.Sprintf("%.1f", cpuOf(samples[name])) }
	peak := func(name string) string { return fmt.Sprintf("%.0f", peakOf(samples[name])) }
	return fmt.Sprintf("| %s | %.0f | %.0f | %.0f | %.2f | %.2f | %s / %s | %s / %s |",
		w.name+" ("+w.unit+")", d, b, i, i/b, i/d, cpu(bouncer), cpu(interlock), peak(bouncer), peak(interlock))
}

// cpuOf is the median processor time for each thing done, in µs.
func cpuOf(samples []sample) float64 {
	return float64(median(samples, func(s sample) time.Duration { return s.cpu })) / float64(time.Microsecond)
}

// peakOf is the median of the most memory that was held, in MiB.
func peakOf(samples []sample) float64 {
	return float64(median(samples, func(s sample) int64 { return s.peak })) / (1 << 20)
}

func median[T cmp.Ordered](samples []sample, of func(sample) T) T {
	all := make([]T, len(samples))
	for i, s := range samples {
		all[i] = of(s)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func (r *report) print(out io.Writer, o *options) error {
	commit := "unknown"
	if text, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil {
		commit = strings.TrimSpace(string(text))
	}
	_, err := fmt.Fprintf(out, "## %s, %s\n\n%d processors, medians of %d rounds in turn, %d s each. %s\n%s\n\n",
		time.Now().UTC().Format("2006-01-02"), commit, runtime.NumCPU(), o.rounds, o.seconds, r.head, strings.Join(r.lines, "\n"))
	return err
}
