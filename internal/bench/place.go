package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"interlock/internal/cluster"
)

// place is what is measured, up and running: a PostgreSQL with data, and the ways to it.
type place struct {
	dir     string
	cluster *cluster.Cluster
	login   string // of InterLock
	targets []*target
}

// target is a way to the database.
type target struct {
	name string
	dsn  string
	mcp  endpoint  // instead of dsn, for a server of MCP
	cmd  *exec.Cmd // the proxy; nil for the direct way
	log  bytes.Buffer

	optional bool // a peer that is measured where it can be
}

const (
	direct    = "direct"
	interlock = "InterLock"
)

// schema is what is read beside pgbench's own tables: a million rows, about 100 MB as text.
const schema = `
create table bench_rows (id int primary key, name text, amount numeric(12,2), seen timestamptz, note text);
insert into bench_rows select g, 'name ' || g, g * 1.25, timestamptz '2026-01-01' + g * interval '1 second', repeat(md5(g::text), 2)
	from generate_series(1, 1000000) g;
`

func build(ctx context.Context, o *options) (p *place, err error) {
	p = &place{login: cluster.Superuser}
	defer func() {
		if err != nil {
			p.tearDown()
		}
	}()
	if p.dir, err = os.MkdirTemp("", "interlock-bench"); err != nil {
		return p, err
	}
	if err := os.Chmod(p.dir, 0o755); err != nil {
		return p, err
	}
	settings := map[string]string{"max_connections": "700", "shared_buffers": "512MB"}
	if o.soak > 0 {
		settings["log_statement"] = "all"                 // to be compared with the audit log
		settings["max_parallel_workers_per_gather"] = "0" // a session is one process
		settings["jit"] = "off"                           // the server cannot be interrupted while it compiles
	}
	if p.cluster, err = cluster.Start(ctx, cluster.Config{Settings: settings}); err != nil {
		return p, err
	}
	dsn := p.cluster.DSN(cluster.Superuser, "postgres")
	if err := run(ctx, "pgbench", "-i", "-q", "-s", fmt.Sprint(o.scale), dsn); err != nil {
		return p, err
	}
	if o.soak > 0 {
		p.login = "gateway" // what else asks, does so directly
		if err := run(ctx, "psql", "-qX", "-d", dsn, "-c", "create role gateway superuser login"); err != nil {
			return p, err
		}
	}
	if o.soak == 0 {
		if err := run(ctx, "psql", "-qX", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-c", schema, "-c", "vacuum analyze bench_rows"); err != nil {
			return p, err
		}
	}
	if o.mcp != "" {
		return p, p.startServers(ctx, o)
	}
	p.targets = append(p.targets, &target{name: direct, dsn: dsn})
	if o.soak == 0 {
		if err := p.startPeers(ctx, o); err != nil {
			return p, err
		}
	}
	if err := p.startInterLock(ctx, o.interlock); err != nil {
		return p, fmt.Errorf("interlock: %w", err)
	}
	return p, nil
}

func run(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (p *place) write(name, text string) (path string, err error) {
	path = filepath.Join(p.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o644)
}

const gatewayConfig = `data_dir: %[1]s/data
governance: %[1]s/governance.yaml
listeners:
  pgwire:
    address: 127.0.0.1:%[2]d
  mcp:
    address: 127.0.0.1:%[3]d
log:
  level: warn
`

const governance = `version: 1
sources:
  bench:
    kind: postgres
    upstream: {host: %s, port: %d, database: postgres, user: %s, tls: disable}
    limits: {connections: 650}
source_roles:
  clerk:
    source: bench
    permissions:
      - allow: [db.table.select]
        on: [public.pgbench_accounts, public.pgbench_tellers, public.pgbench_branches, public.pgbench_history, public.bench_rows]
      - allow: [db.table.update]
        on: [public.pgbench_accounts, public.pgbench_tellers, public.pgbench_branches]
      - allow: [db.table.insert]
        on: [public.pgbench_history]
identities:
  clerk:
    kind: service
    grants: [{source: bench, roles: [clerk]}]
`

func (p *place) startInterLock(ctx context.Context, program string) error {
	t, config, err := p.configure(ctx, program)
	if err != nil {
		return err
	}
	return p.start(ctx, t, program, "serve", "--config", config)
}

// configure writes the configuration of an InterLock, and makes the key of the one who asks.
func (p *place) configure(ctx context.Context, program string) (t *target, config string, err error) {
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	mcpPort, err := freePort()
	if err != nil {
		return nil, "", err
	}
	if err := os.Mkdir(filepath.Join(p.dir, "data"), 0o700); err != nil {
		return nil, "", err
	}
	if _, err := p.write("governance.yaml", fmt.Sprintf(governance, p.cluster.Host(), p.cluster.Port(), p.login)); err != nil {
		return nil, "", err
	}
	if config, err = p.write("interlock.yaml", fmt.Sprintf(gatewayConfig, p.dir, port, mcpPort)); err != nil {
		return nil, "", err
	}
	out, err := exec.CommandContext(ctx, program, "key", "create", "clerk", "--config", config).Output()
	if err != nil {
		return nil, "", fmt.Errorf("making a key: %w", err)
	}
	key := strings.TrimSpace(string(out))
	return &target{name: interlock, dsn: fmt.Sprintf("postgres://clerk:%s@127.0.0.1:%d/bench?sslmode=disable", key, port),
		mcp: endpoint{url: fmt.Sprintf("http://127.0.0.1:%d/mcp", mcpPort), key: key, tool: "interlock_query"}}, config, nil
}

// start starts a proxy and waits until it answers.
func (p *place) start(ctx context.Context, t *target, program string, args ...string) error {
	t.cmd = exec.Command(program, args...)
	t.cmd.Stdout, t.cmd.Stderr = &t.log, &t.log
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := t.cmd.Start(); err != nil {
		return err
	}
	p.targets = append(p.targets, t)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := t.answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, errors.New(t.log.String()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// answers tells if a proxy is up, by asking something.
func (t *target) answers(ctx context.Context) error {
	if t.dsn != "" {
		return run(ctx, "psql", "-qXAt", "-d", t.dsn, "-c", "select count(*) from pgbench_branches")
	}
	return t.mcp.ask(ctx, pointQuery.sql(1), pointQuery.shows(1))
}

func (p *place) tearDown() {
	for _, t := range p.targets {
		if t.cmd != nil {
			_ = t.cmd.Process.Signal(syscall.SIGTERM)
			_ = t.cmd.Wait()
		}
	}
	if p.cluster != nil {
		_ = p.cluster.Stop()
	}
	_ = os.RemoveAll(p.dir)
}
