// Command bench measures InterLock beside other proxies and a direct connection, in turn and on the same PostgreSQL, and
// prints ratios. "make bench" runs it; it wants bin/interlock, PostgreSQL 15 with pgbench, and pgbouncer; pgpool and gatewayd take part
// where they are there. With -mcp it measures
// the MCP door beside other MCP servers for PostgreSQL, see mcp.go; with -soak it looks for what goes wrong, see soak.go; with -tally
// it compares two logs, see tally.go.
//
// InterLock has everything on: a grant of each table to the identity that asks, and the audit log with its default
// durability. PgBouncer is in session mode, pgpool parses and pools and does nothing else, gatewayd has no plugins. Processor time is
// that of the proxy's processes alone, without PostgreSQL and the client.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	interlock string
	pgbouncer string
	pgpool    string
	gatewayd  string
	rounds    int
	seconds   int
	scale     int
	clients   []int
	output    string
	soak      time.Duration
	only      string // what the name of a workload must contain
	tally     string
	mcp       string // directory of the MCP servers to compare with; "" to compare with PgBouncer
}

func main() {
	var o options
	var clients string
	flag.StringVar(&o.interlock, "interlock", "bin/interlock", "the program to measure")
	flag.StringVar(&o.pgbouncer, "pgbouncer", "pgbouncer", "the program to compare with")
	flag.StringVar(&o.pgpool, "pgpool", "pgpool", "another, where it is installed")
	flag.StringVar(&o.gatewayd, "gatewayd", "bin/gatewayd", "and another, where it is built")
	flag.IntVar(&o.rounds, "rounds", 5, "how often each is measured, in turn")
	flag.IntVar(&o.seconds, "seconds", 5, "length of a run of pgbench")
	flag.IntVar(&o.scale, "scale", 10, "scale of pgbench's tables, 100,000 rows each")
	flag.StringVar(&clients, "clients", "1,8,32", "numbers of clients")
	flag.StringVar(&o.only, "only", "", "measure only the workloads whose name contains this")
	flag.StringVar(&o.output, "o", "", "file to append the report to; default: standard output")
	flag.DurationVar(&o.soak, "soak", 0, "instead of measuring, let mixed clients, refusals, cancels and kills go on for so long, and count what is left")
	flag.StringVar(&o.mcp, "mcp", "", "instead of PgBouncer, compare with the MCP servers that npm has installed in this directory")
	flag.StringVar(&o.tally, "tally", "", "inside of interlock demo: begin prints a mark, and a mark compares the server's log and the audit log since")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := o.setClients(clients)
	if err == nil {
		err = o.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (o *options) setClients(list string) error {
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return fmt.Errorf("%q is no number of clients", s)
		}
		o.clients = append(o.clients, n)
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	if o.tally != "" {
		return tallyDemo(ctx, o.tally)
	}
	p, err := build(ctx, o)
	if err != nil {
		return err
	}
	defer p.tearDown()
	if o.soak > 0 {
		return soak(ctx, p, o.soak)
	}
	r := newReport(o)
	for _, w := range workloads(o) {
		if !strings.Contains(w.name, o.only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format("15:04:05"), w.name)
		if err := w.measure(ctx, p, o.rounds, r); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return o.publish(r)
}

func (o *options) publish(r *report) error {
	var out io.Writer = os.Stdout
	if o.output != "" {
		f, err := os.OpenFile(o.output, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		out = f
	}
	return r.print(out, o)
}
