package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
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
// What a peer cannot do that need not be there is said, and it has no samples of it.
func (w *workload) measure(ctx context.Context, p *place, rounds int, r *report) error {
	samples, failed := map[string][]sample{}, map[string]bool{}
	for range rounds {
		for _, t := range p.targets {
			if failed[t.name] {
				continue
			}
			s, err := w.once(ctx, t)
			switch {
			case err == nil:
				samples[t.name] = append(samples[t.name], s)
			case t.optional && ctx.Err() == nil:
				fmt.Fprintf(os.Stderr, "%s cannot do %s: %v\n", t.name, w.name, err)
				failed[t.name] = true
				delete(samples, t.name)
			default:
				return fmt.Errorf("%s: %w", t.name, err)
			}
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
