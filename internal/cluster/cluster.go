// Package cluster starts and stops a throwaway PostgreSQL.
//
// A cluster lives in one directory and belongs to the process that started it. However that process ends (return,
// panic, SIGKILL), a small shell that holds the other end of a pipe sees the pipe close, stops the server and removes
// the directory. Nothing here is for data that anyone wants to keep: fsync is off.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Config describes a cluster. The zero value works.
type Config struct {
	// Dir holds everything: data, log, socket. It must be empty or absent, and short enough for a socket path (80
	// bytes). Default: a new directory under os.TempDir. It is removed by Stop and when this process dies.
	Dir string
	// BinDir holds initdb and postgres. Default: FindBin.
	BinDir string
	// Port on 127.0.0.1. Default: a free one.
	Port int
	// User is the account that runs the server if this process is root, which PostgreSQL refuses to run as. Default:
	// postgres, else nobody. Ignored for everyone but root.
	User string
	// Template, if set, is a directory that caches what initdb makes, so that the next start only copies it. It may be
	// shared by processes that start at the same time. The directory itself stays.
	Template string
	// CopyOf, if set, is a running cluster of which this one becomes a streaming standby.
	CopyOf *Cluster
	// Settings are lines of postgresql.conf, over those that suit a throwaway cluster.
	Settings map[string]string
	// HBA are lines of pg_hba.conf that come after the rules for the superuser and before the last, which trusts
	// everyone on the socket and on 127.0.0.1.
	HBA []string
	// Files are written into the data directory before the start, for certificates and keys.
	Files map[string][]byte
}

// Superuser is the role that owns every cluster. It needs no password.
const Superuser = "postgres"

// Cluster is a running server. Its methods may be called by several goroutines.
type Cluster struct {
	dir     string
	port    int
	account account
	hold    io.Closer     // closing it tells the shell to stop the server
	pid     int           // of that shell, which leads the server's process group
	ended   chan struct{} // closed when the server has ended
	gone    chan struct{} // closed when the shell has ended too
}

// Start makes a cluster, starts it and returns when it accepts connections. When ctx ends first, what was started is
// stopped and removed again.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	acc, err := serverAccount(cfg.User)
	if err != nil {
		return nil, err
	}
	if cfg.BinDir == "" {
		if cfg.BinDir, err = FindBin(); err != nil {
			return nil, err
		}
	}
	for attempt := 1; ; attempt++ {
		c := &Cluster{account: acc}
		err := c.start(ctx, cfg)
		// Between choosing a free port and binding it, another process can take it.
		if errors.Is(err, errPortTaken) && cfg.Port == 0 && attempt < 5 {
			continue
		}
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}

var errPortTaken = errors.New("the port is taken")

// start leaves nothing behind when it fails.
func (c *Cluster) start(ctx context.Context, cfg Config) (err error) {
	if c.dir, err = makeDir(cfg.Dir, c.account); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(c.dir))
		}
	}()
	if c.port, err = choosePort(cfg.Port); err != nil {
		return err
	}
	if err := c.initialize(ctx, cfg); err != nil {
		return err
	}
	return c.run(ctx, cfg)
}

// initialize fills the data directory and writes the configuration that does not depend on the port.
func (c *Cluster) initialize(ctx context.Context, cfg Config) error {
	if err := makeData(ctx, cfg, c.account, c.dataDir()); err != nil {
		return err
	}
	hba := []string{"local all postgres trust", "host all postgres 127.0.0.1/32 trust"}
	hba = append(hba, cfg.HBA...)
	hba = append(hba, "local all all trust", "host all all 127.0.0.1/32 trust", "local replication all trust", "host replication all 127.0.0.1/32 trust")
	files := map[string][]byte{"pg_hba.conf": []byte(strings.Join(hba, "\n") + "\n")}
	maps.Copy(files, cfg.Files)
	for name, content := range files {
		if err := c.account.writeFile(filepath.Join(c.dataDir(), name), content); err != nil {
			return err
		}
	}
	return nil
}

// watch runs its arguments after the second as a server that logs to $1. It says on standard output when the server
// ends. When standard input closes it stops the server if it still runs, and removes the directory $2.
const watch = `
log=$1 dir=$2; shift 2
exec 3<&0 4>&1 >/dev/null
"$@" </dev/null 3<&- 4>&- >>"$log" 2>&1 &
server=$!
trap '' HUP INT TERM PIPE
{ read -r line <&3; kill -QUIT $server; } 4>&- 2>/dev/null &
reader=$!
wait $server
kill -KILL $reader 2>/dev/null
echo ended >&4 2>/dev/null
read -r line <&3
rm -rf -- "$dir"
`

// run starts the server and waits until it is ready.
func (c *Cluster) run(ctx context.Context, cfg Config) error {
	args := []string{"-c", watch, "sh", c.logPath(), c.dir, filepath.Join(cfg.BinDir, "postgres"), "-D", c.dataDir()}
	args = append(args, c.settings(cfg)...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = c.account.attributes()
	// A session of its own, so that Ctrl-C at the terminal reaches the starter only, and the server outlives its last query.
	cmd.SysProcAttr.Setsid = true
	hold, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting postgres: %w", err)
	}
	word, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting postgres: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting postgres: %w", err)
	}
	c.hold, c.pid = hold, cmd.Process.Pid
	c.ended, c.gone = make(chan struct{}), make(chan struct{})
	go func() {
		// How the server ended says nothing that the log does not say better.
		_, _ = word.Read(make([]byte, 1))
		close(c.ended)
		_ = cmd.Wait()
		close(c.gone)
	}()
	if err := c.waitReady(ctx); err != nil {
		log := c.Log()
		if strings.Contains(log, "could not bind") {
			err = errPortTaken
		}
		return errors.Join(fmt.Errorf("postgres did not start: %w\n%s", err, tail(log, 2000)), c.halt())
	}
	return nil
}

func (c *Cluster) settings(cfg Config) []string {
	all := map[string]string{
		"listen_addresses":           "127.0.0.1",
		"port":                       strconv.Itoa(c.port),
		"unix_socket_directories":    c.dir,
		"fsync":                      "off",
		"synchronous_commit":         "off",
		"full_page_writes":           "off",
		"shared_buffers":             "16MB",
		"max_connections":            "200",
		"max_wal_size":               "256MB",
		"log_min_messages":           "warning",
		"log_line_prefix":            "%m [%p] %q%u@%d (%a) ",
		"autovacuum_naptime":         "5min",
		"dynamic_shared_memory_type": "mmap", // containers often have a tiny /dev/shm
	}
	maps.Copy(all, cfg.Settings)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", name+"="+all[name])
	}
	return args
}

// waitReady polls the status line that the postmaster keeps in its pid file, as pg_ctl does.
func (c *Cluster) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(filepath.Join(c.dataDir(), "postmaster.pid"))
		lines := strings.Split(string(text), "\n")
		if err == nil && len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready" {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.ended:
			return errors.New("it ended during start")
		case <-tick.C:
		}
	}
}

// Stop stops the server at once, without a checkpoint, and removes the directory. It may be called more than once.
func (c *Cluster) Stop() error {
	return errors.Join(c.halt(), os.RemoveAll(c.dir))
}

// halt closes the pipe and waits for the shell, which waits for the server.
func (c *Cluster) halt() error {
	_ = c.hold.Close() // closed twice is closed
	select {
	case <-c.gone:
		return nil
	case <-time.After(20 * time.Second):
	}
	if err := syscall.Kill(-c.pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing postgres: %w", err)
	}
	<-c.gone
	return nil
}

// Dir is the directory that holds the cluster.
func (c *Cluster) Dir() string { return c.dir }

// Host is the TCP address that the server listens on. SocketDir is the other way in.
func (c *Cluster) Host() string { return "127.0.0.1" }

// Port is the TCP port, and the number in the socket's name.
func (c *Cluster) Port() int { return c.port }

// SocketDir is the directory of the Unix socket.
func (c *Cluster) SocketDir() string { return c.dir }

// DSN is a connection URI over TCP for a role, without TLS.
func (c *Cluster) DSN(role, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User(role),
		Host:     net.JoinHostPort(c.Host(), strconv.Itoa(c.port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Log is what the server has logged so far.
func (c *Cluster) Log() string {
	text, err := os.ReadFile(c.logPath())
	if err != nil {
		return ""
	}
	return string(text)
}

// Ended is closed when the server has ended, by Stop or by itself.
func (c *Cluster) Ended() <-chan struct{} { return c.ended }

func (c *Cluster) dataDir() string { return filepath.Join(c.dir, "data") }
func (c *Cluster) logPath() string { return filepath.Join(c.dir, "log") }

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// choosePort returns the wanted port, or a free one for 0.
func choosePort(want int) (int, error) {
	if want != 0 {
		return want, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("choosing a port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("choosing a port: %w", err)
	}
	return port, nil
}
