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
peak memory of the proxy in MiB, that of all its processes added up. The four are PgBouncer, pgpool, gatewayd and InterLock.

| workload | direct | PgBouncer | pgpool | gatewayd | InterLock | to PgBouncer | to pgpool | to gatewayd | to direct | µs of the four | MiB of the four |
|---|---|---|---|---|---|---|---|---|---|---|---|`}
}

func (r *report) add(w *workload, samples map[string][]sample) {
	r.lines = append(r.lines, r.line(w, samples))
}

func proxyLine(w *workload, samples map[string][]sample) string {
	rate := func(of []sample) float64 { return median(of, func(s sample) float64 { return s.rate }) }
	ratio := func(of []sample) float64 { return rate(samples[interlock]) / rate(of) }
	cells := []string{w.name + " (" + w.unit + ")"}
	for _, name := range []string{direct, bouncer, pgpool, gatewayd, interlock} {
		cells = append(cells, known("%.0f", samples[name], rate))
	}
	for _, name := range []string{bouncer, pgpool, gatewayd, direct} {
		cells = append(cells, known("%.2f", samples[name], ratio))
	}
	var cpu, peak []string
	for _, name := range []string{bouncer, pgpool, gatewayd, interlock} {
		cpu, peak = append(cpu, known("%.1f", samples[name], cpuOf)), append(peak, known("%.0f", samples[name], peakOf))
	}
	cells = append(cells, strings.Join(cpu, " / "), strings.Join(peak, " / "))
	return "| " + strings.Join(cells, " | ") + " |"
}

// known is what the samples of a target come to, or a dash if there are none.
func known(format string, samples []sample, of func([]sample) float64) string {
	if len(samples) == 0 {
		return "-"
	}
	return fmt.Sprintf(format, of(samples))
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
