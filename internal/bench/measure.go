package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// workload is something to do through each target.
type workload struct {
	name string
	unit string
	do   func(context.Context, *target) (work, error)
}

// work is what was done.
type work struct {
	rate     float64       // a second
	count    int64         // statements, or rows
	p50, p99 time.Duration // of the time that a request took; 0 if that was not measured
}

// sample is one measurement.
type sample struct {
	work
	cpu  time.Duration // of the proxy, for each thing done
	peak int64         // memory of the proxy at its highest, in bytes
}

func workloads(o *options) []workload {
	if o.mcp != "" {
		return mcpWorkloads(o)
	}
	var all []workload
	for _, mode := range []string{"simple", "extended", "prepared"} {
		for _, n := range o.clients {
			all = append(all, pgbench(o, fmt.Sprintf("select, %s, %d clients", mode, n), "-S", "-M", mode, "-c", strconv.Itoa(n)))
		}
	}
	for _, n := range o.clients {
		all = append(all, pgbench(o, fmt.Sprintf("TPC-B, prepared, %d clients", n), "-M", "prepared", "-c", strconv.Itoa(n)))
	}
	return append(all,
		workload{"a result of 1,000,000 rows", "rows/s", bigResult},
		workload{"COPY of 1,000,000 rows to the client", "rows/s", copyOut})
}

var (
	tpsLine   = regexp.MustCompile(`tps = ([0-9.]+) \(without initial`)
	countLine = regexp.MustCompile(`number of transactions actually processed: (\d+)`)
)

func pgbench(o *options, name string, args ...string) workload {
	return workload{name, "tps", func(ctx context.Context, t *target) (w work, err error) {
		all := append([]string{"-n", "-j", "2", "-T", strconv.Itoa(o.seconds)}, args...)
		out, err := exec.CommandContext(ctx, "pgbench", append(all, t.dsn)...).CombinedOutput()
		tps, count := tpsLine.FindSubmatch(out), countLine.FindSubmatch(out)
		if err != nil || tps == nil || count == nil {
			return w, fmt.Errorf("pgbench: %w\n%s", err, out)
		}
		if w.rate, err = strconv.ParseFloat(string(tps[1]), 64); err != nil {
			return w, err
		}
		w.count, err = strconv.ParseInt(string(count[1]), 10, 64)
		return w, err
	}}
}

// bigResult reads a large result and looks at no value of it.
func bigResult(ctx context.Context, t *target) (work, error) {
	return timed(ctx, t, func(conn *pgconn.PgConn) (int64, error) {
		result := conn.ExecParams(ctx, "select id, name, amount, seen, note from bench_rows", nil, nil, nil, nil)
		var n int64
		for result.NextRow() {
			n++
		}
		_, err := result.Close()
		return n, err
	})
}

func copyOut(ctx context.Context, t *target) (work, error) {
	return timed(ctx, t, func(conn *pgconn.PgConn) (int64, error) {
		tag, err := conn.CopyTo(ctx, io.Discard, "copy bench_rows to stdout")
		return tag.RowsAffected(), err
	})
}

func timed(ctx context.Context, t *target, do func(*pgconn.PgConn) (int64, error)) (work, error) {
	conn, err := pgconn.Connect(ctx, t.dsn)
	if err != nil {
		return work{}, err
	}
	defer conn.Close(ctx)
	begun := time.Now()
	n, err := do(conn)
	return work{rate: float64(n) / time.Since(begun).Seconds(), count: n}, err
}

// measure lets the targets do the work in turn, round by round, so that what else the machine does meets all of them.
func (w *workload) measure(ctx context.Context, p *place, rounds int, r *report) error {
	samples := map[string][]sample{}
	for range rounds {
		for _, t := range p.targets {
			s, err := w.once(ctx, t)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			samples[t.name] = append(samples[t.name], s)
		}
	}
	r.add(w, samples)
	return nil
}

func (w *workload) once(ctx context.Context, t *target) (s sample, err error) {
	before, err := t.processorTime()
	if err != nil {
		return s, err
	}
	if s.work, err = w.do(ctx, t); err != nil {
		return s, err
	}
	after, err := t.processorTime()
	if err != nil {
		return s, err
	}
	s.cpu = (after - before) / time.Duration(max(s.count, 1))
	s.peak, err = t.peakMemory()
	return s, err
}

// tick is the unit of /proc/PID/stat (sysconf(_SC_CLK_TCK), which Linux has at 100 on every architecture that Go knows).
const tick = time.Second / 100

// processorTime is what the proxy has used so far; 0 for the direct way.
func (t *target) processorTime() (time.Duration, error) {
	if t.cmd == nil {
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", t.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The second field is the command's name in brackets; utime and stime are the 14th and 15th (proc(5)).
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", t.cmd.Process.Pid, len(fields))
	}
	var used time.Duration
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		used += time.Duration(n) * tick
	}
	return used, nil
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory is the most that the proxy has held since it was last asked.
func (t *target) peakMemory() (int64, error) {
	if t.cmd == nil {
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", t.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	m := peakLine.FindSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("/proc/%d/status has no peak", t.cmd.Process.Pid)
	}
	kb, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		return 0, err
	}
	// Writing 5 resets the peak (proc(5), clear_refs).
	return kb << 10, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", t.cmd.Process.Pid), []byte("5"), 0)
}
