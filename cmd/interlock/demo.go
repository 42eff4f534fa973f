package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"interlock/internal/cluster"
	"interlock/internal/config"
	"interlock/internal/gateway"
	"interlock/internal/identity"
)

//go:embed demo/shop.sql
var demoData string

//go:embed demo/governance.yaml
var demoGovernance string

//go:embed demo/interlock.yaml
var demoConfig string

//go:embed demo/welcome.txt
var demoWelcome string

// The identities of the demo's governance document, each of which gets a key.
var demoIdentities = []string{"ana", "agent", "dba"}

func demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo [-- COMMAND [ARG...]]",
		Short: "Run the gateway in front of a throwaway PostgreSQL with sample data",
		Long: "Demo starts a throwaway PostgreSQL with a sample business and the gateway in front of it, and prints how to\n" +
			"connect. With a command it uses free ports, runs the command with INTERLOCK_* and PG* variables that say where\n" +
			"everything is, stops everything, and exits with the command's status. Nothing is left behind.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return usage("put -- before the command: interlock demo -- %s", strings.Join(args, " "))
			}
			return runDemo(cmd.Context(), args)
		},
	}
}

// demo is a running demo. Its directory holds everything that it writes.
type demo struct {
	dir      string
	cluster  *cluster.Cluster
	gateway  *gateway.Gateway
	keys     map[string]string
	progress io.Writer
}

func runDemo(ctx context.Context, command []string) (err error) {
	d := &demo{progress: os.Stderr, keys: map[string]string{}}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.start(ctx, len(command) > 0); err != nil {
		if ctx.Err() != nil {
			return exitStatus(130)
		}
		return err
	}
	if len(command) > 0 {
		return d.runCommand(ctx, command)
	}
	if err := d.welcome(os.Stderr); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		fmt.Fprintln(d.progress, "\nstopping")
		return nil
	case <-d.cluster.Ended():
		return errors.New("the demo's PostgreSQL has ended")
	}
}

func (d *demo) start(ctx context.Context, freePorts bool) (err error) {
	if d.dir, err = os.MkdirTemp("", "interlock-demo-"); err != nil {
		return fmt.Errorf("making the demo's directory: %w", err)
	}
	d.say("starting PostgreSQL")
	d.cluster, err = cluster.Start(ctx, cluster.Config{
		HBA: []string{"host all gateway 127.0.0.1/32 scram-sha-256"},
	})
	if err != nil {
		return fmt.Errorf("starting PostgreSQL: %w", err)
	}
	d.say("loading the sample business")
	if err := d.load(ctx); err != nil {
		return fmt.Errorf("loading the sample business: %w", err)
	}
	d.say("starting InterLock")
	return d.startGateway(ctx, freePorts)
}

func (d *demo) say(what string) { fmt.Fprintf(d.progress, "interlock demo: %s\n", what) }

// load creates the database and the sample business in it. The gateway's login gets a random password, which only the
// demo's directory holds.
func (d *demo) load(ctx context.Context) error {
	password, err := randomHex(24)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.dir, "upstream.password"), []byte(password), 0o600); err != nil {
		return fmt.Errorf("keeping the upstream password: %w", err)
	}
	if err := execSQL(ctx, d.cluster.DSN(cluster.Superuser, "postgres"), "CREATE DATABASE shop"); err != nil {
		return err
	}
	sql := strings.ReplaceAll(demoData, ":'gateway_password'", "'"+password+"'")
	return execSQL(ctx, d.upstreamDSN(), sql)
}

func (d *demo) upstreamDSN() string { return d.cluster.DSN(cluster.Superuser, "shop") }

func execSQL(ctx context.Context, dsn, sql string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

func (d *demo) startGateway(ctx context.Context, freePorts bool) error {
	cert, key, err := selfSign(d.dir)
	if err != nil {
		return err
	}
	values := map[string]string{"Dir": d.dir, "Cert": cert, "Key": key, "PGWire": address(6432, freePorts), "MCP": address(8642, freePorts),
		"Admin": address(8643, freePorts), "UpstreamHost": d.cluster.Host(), "UpstreamPort": strconv.Itoa(d.cluster.Port()),
		"UpstreamPasswordFile": filepath.Join(d.dir, "upstream.password")}
	for name, text := range map[string]string{"interlock.yaml": demoConfig, "governance.yaml": demoGovernance} {
		text, err := fill(text, values)
		if err == nil {
			err = os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600)
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	cfg, err := config.Load(d.config())
	if err != nil {
		return err
	}
	if d.gateway, err = gateway.Start(ctx, cfg, version, newLogger(cfg, d.progress)); err != nil {
		return err
	}
	for _, who := range demoIdentities {
		if d.keys[who], _, err = d.gateway.Keys.Create(ctx, who, identity.CreateOptions{Name: "demo"}); err != nil {
			return fmt.Errorf("making a key for %s: %w", who, err)
		}
	}
	return d.waitReady(ctx)
}

// waitReady waits for the first catalog, without which every statement is refused.
func (d *demo) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for d.gateway.Catalogs.Index("shop") == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the first catalog: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

func (d *demo) config() string { return filepath.Join(d.dir, "interlock.yaml") }

// address is a loopback address with a port: the usual one, or a free one when asked or when the usual one is taken.
func address(port int, free bool) string {
	usual := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if !free {
		if l, err := net.Listen("tcp", usual); err == nil {
			l.Close()
			return usual
		}
	}
	return "127.0.0.1:0"
}

// fill puts values in the place of their names: {{.name}}.
func fill(text string, values map[string]string) (string, error) {
	var pairs []string
	for name, value := range values {
		pairs = append(pairs, "{{."+name+"}}", value)
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	if _, rest, missing := strings.Cut(text, "{{"); missing {
		name, _, _ := strings.Cut(rest, "}}")
		return "", fmt.Errorf("no value for {{%s}}", name)
	}
	return text, nil
}

// environment says where everything is. The PG* variables let psql and pgbench connect as ana without arguments.
func (d *demo) environment() map[string]string {
	pg := d.gateway.PGAddr()
	host, port := pg.IP.String(), strconv.Itoa(pg.Port)
	return map[string]string{
		"INTERLOCK_PGHOST":       host,
		"INTERLOCK_PGPORT":       port,
		"INTERLOCK_SOURCE":       "shop",
		"INTERLOCK_MCP_URL":      d.gateway.MCPURL(),
		"INTERLOCK_ADMIN_URL":    d.gateway.AdminURL(),
		"INTERLOCK_UPSTREAM_DSN": d.upstreamDSN(),
		"INTERLOCK_CONFIG":       d.config(),
		"INTERLOCK_KEY_ANA":      d.keys["ana"],
		"INTERLOCK_KEY_AGENT":    d.keys["agent"],
		"INTERLOCK_KEY_DBA":      d.keys["dba"],
		"PGHOST":                 host,
		"PGPORT":                 port,
		"PGDATABASE":             "shop",
		"PGUSER":                 "ana",
		"PGPASSWORD":             d.keys["ana"],
		"PGSSLMODE":              "verify-full",
		"PGSSLROOTCERT":          filepath.Join(d.dir, "server.crt"),
	}
}

// runCommand runs the command to its end. When the demo is told to stop, the command is told first.
func (d *demo) runCommand(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = os.Environ()
	for name, value := range d.environment() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		if exit.ExitCode() == 0 {
			return nil
		}
		return exitStatus(exit.ExitCode())
	case errors.As(err, &exit):
		return exitStatus(130)
	case err != nil:
		return fmt.Errorf("running %s: %w", command[0], err)
	}
	return nil
}

func (d *demo) welcome(w io.Writer) error {
	values := d.environment()
	values["Governance"] = filepath.Join(d.dir, "governance.yaml")
	text, err := fill(demoWelcome, values)
	if err != nil {
		return fmt.Errorf("filling the welcome: %w", err)
	}
	_, err = io.WriteString(w, text)
	return err
}

// stop stops what was started, in reverse order, and removes the directory.
func (d *demo) stop() error {
	var errs []error
	if d.gateway != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		errs = append(errs, d.gateway.Shutdown(ctx))
		cancel()
	}
	if d.cluster != nil {
		errs = append(errs, d.cluster.Stop())
	}
	if d.dir != "" {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}
