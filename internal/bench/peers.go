package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"interlock/internal/cluster"
)

// The proxies that InterLock is measured beside. PgBouncer has to be there; the others are measured where they are.

const (
	bouncer  = "PgBouncer"
	pgpool   = "pgpool"
	gatewayd = "gatewayd"
)

// startPeers starts the proxies, in the order of the report.
func (p *place) startPeers(ctx context.Context, o *options) error {
	for _, peer := range []struct {
		name, program string
		optional      bool
		start         func(context.Context, *target, string, int) error
	}{
		{bouncer, o.pgbouncer, false, p.startBouncer},
		{pgpool, o.pgpool, true, p.startPgpool},
		{gatewayd, o.gatewayd, true, p.startGatewayd},
	} {
		if _, err := exec.LookPath(peer.program); err != nil && peer.optional {
			fmt.Fprintf(os.Stderr, "%s is not measured: %v\n", peer.name, err)
			continue
		}
		port, err := freePort()
		if err != nil {
			return err
		}
		t := &target{name: peer.name, optional: peer.optional,
			dsn: fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", cluster.Superuser, port)}
		if err := peer.start(ctx, t, peer.program, port); err != nil {
			return fmt.Errorf("%s: %w", peer.name, err)
		}
	}
	return nil
}

func (p *place) startBouncer(ctx context.Context, t *target, program string, port int) error {
	users, err := p.write("users.txt", fmt.Sprintf("%q \"\"\n", cluster.Superuser))
	if err != nil {
		return err
	}
	config, err := p.write("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=%s port=%d
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = session
max_client_conn = 1000
default_pool_size = 100
ignore_startup_parameters = extra_float_digits
`, p.cluster.Host(), p.cluster.Port(), port, users))
	if err != nil {
		return err
	}
	args := []string{config}
	if os.Geteuid() == 0 {
		args = append([]string{"-u", "postgres"}, args...)
	}
	return p.start(ctx, t, program, args...)
}

// pgpoolConfig has one server and nothing that pgpool would do beside pooling: no load balancing, no cache of results, no checks.
const pgpoolConfig = `backend_clustering_mode = 'raw'
backend_hostname0 = '%[1]s'
backend_port0 = %[2]d
listen_addresses = '127.0.0.1'
port = %[3]d
socket_dir = '%[4]s'
pcp_socket_dir = '%[4]s'
pcp_port = %[5]d
pid_file_name = '%[4]s/pgpool.pid'
logdir = '%[4]s'
num_init_children = 64
max_pool = 1
connection_cache = on
load_balance_mode = off
memory_cache_enabled = off
check_temp_table = none
check_unlogged_table = off
enable_pool_hba = off
health_check_period = 0
log_min_messages = warning
`

func (p *place) startPgpool(ctx context.Context, t *target, program string, port int) error {
	control, err := freePort()
	if err != nil {
		return err
	}
	config, err := p.write("pgpool.conf", fmt.Sprintf(pgpoolConfig, p.cluster.Host(), p.cluster.Port(), port, p.dir, control))
	if err != nil {
		return err
	}
	users, err := p.write("pcp.conf", "")
	if err != nil {
		return err
	}
	return p.start(ctx, t, program, "-n", "-D", "-f", config, "-F", users)
}

// gatewaydConfig has no plugins, so that it passes on what arrives. It dials ahead, and the server gives up on those who do not log in within
// a minute, so it has to dial again before that.
const gatewaydConfig = `loggers: {default: {output: [console], level: warn, noColor: true}}
metrics: {default: {enabled: false}}
clients: {default: {writes: {network: tcp, address: "%[1]s:%[2]d"}}}
pools: {default: {writes: {size: 64}}}
proxies: {default: {writes: {healthCheckPeriod: 40s}}}
servers: {default: {network: tcp, address: "127.0.0.1:%[3]d"}}
api: {enabled: false}
raft: {address: "127.0.0.1:%[4]d", grpcAddress: "127.0.0.1:%[5]d", nodeId: node1, isBootstrap: true, directory: %[6]s}
`

func (p *place) startGatewayd(ctx context.Context, t *target, program string, port int) error {
	var raft [2]int
	for i := range raft {
		var err error
		if raft[i], err = freePort(); err != nil {
			return err
		}
	}
	config, err := p.write("gatewayd.yaml", fmt.Sprintf(gatewaydConfig, p.cluster.Host(), p.cluster.Port(), port, raft[0], raft[1], filepath.Join(p.dir, "raft")))
	if err != nil {
		return err
	}
	plugins, err := p.write("gatewayd_plugins.yaml", "plugins: []\n")
	if err != nil {
		return err
	}
	return p.start(ctx, t, program, "run", "--sentry=false", "--usage-report=false", "--config", config, "--plugin-config", plugins)
}
