package cluster

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// shortDir is a directory that a socket path fits into, which t.TempDir is not always.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cl-")
	if err != nil {
		t.Fatal(err)
	}
	// The account that runs the server must be able to pass.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func absent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", path, err)
	}
}

// TestStartTogether starts two clusters from one template that neither has made yet.
func TestStartTogether(t *testing.T) {
	base := shortDir(t)
	template := filepath.Join(base, "template")
	var wg sync.WaitGroup
	clusters := make([]*Cluster, 2)
	for i := range clusters {
		wg.Go(func() {
			c, err := Start(t.Context(), Config{Template: template})
			if err != nil {
				t.Error(err)
				return
			}
			clusters[i] = c
		})
	}
	wg.Wait()
	for _, c := range clusters {
		if c == nil {
			continue
		}
		port := strconv.Itoa(c.Port())
		if want := "postgres://u@127.0.0.1:" + port + "/d?sslmode=disable"; c.DSN("u", "d") != want {
			t.Errorf("DSN %s, want %s", c.DSN("u", "d"), want)
		}
		for _, addr := range [][2]string{{"tcp", c.Host() + ":" + port}, {"unix", filepath.Join(c.SocketDir(), ".s.PGSQL."+port)}} {
			conn, err := net.Dial(addr[0], addr[1])
			if err != nil {
				t.Error(err)
				continue
			}
			_ = conn.Close()
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		absent(t, c.Dir())
		select {
		case <-c.Ended():
		default:
			t.Error("Ended is open after Stop")
		}
		if err := c.Stop(); err != nil {
			t.Errorf("second Stop: %v", err)
		}
	}
	entries, err := os.ReadDir(template)
	if err != nil || len(entries) != 1 {
		t.Errorf("template directory holds %v, %v; want one entry", entries, err)
	}
}

func TestStartFails(t *testing.T) {
	base := shortDir(t)
	template := filepath.Join(base, "template")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := listener.Addr().(*net.TCPAddr).Port
	full := filepath.Join(base, "full")
	if err := os.MkdirAll(filepath.Join(full, "precious"), 0o755); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		cfg  Config
		want string
	}{
		"setting":  {t.Context(), Config{Dir: filepath.Join(base, "a"), Settings: map[string]string{"shared_buffers": "many"}}, `invalid value for parameter "shared_buffers"`},
		"port":     {t.Context(), Config{Dir: filepath.Join(base, "b"), Port: taken}, "port is taken"},
		"not ours": {t.Context(), Config{Dir: full}, "not empty"},
		"long":     {t.Context(), Config{Dir: filepath.Join(base, strings.Repeat("x", 90))}, "too long"},
		"binaries": {t.Context(), Config{Dir: filepath.Join(base, "c"), BinDir: base}, "no such file"},
		"canceled": {ended, Config{Dir: filepath.Join(base, "d")}, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Template = template
			start := time.Now()
			got, err := Start(c.ctx, c.cfg)
			if err == nil {
				t.Fatalf("started: %v", got.Stop())
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %q, want %q in it", err, c.want)
			}
			if time.Since(start) > 30*time.Second {
				t.Errorf("it took %v to fail", time.Since(start))
			}
			if c.cfg.Dir != full {
				absent(t, c.cfg.Dir)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(full, "precious")); err != nil {
		t.Errorf("a directory that was not ours: %v", err)
	}
}

func TestUnsafeTemplateIsRefused(t *testing.T) {
	acc, err := serverAccount("")
	if err != nil {
		t.Fatal(err)
	}
	dir := shortDir(t)
	if err := acc.own(dir); err != nil {
		t.Fatal(err)
	}
	if err := usable(dir, acc); err != nil {
		t.Errorf("a good one: %v", err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := usable(dir, acc); err == nil {
		t.Error("anyone may write to the template")
	}
	if err := usable(dir, account{uid: acc.uid + 1}); err == nil {
		t.Error("another account owns the template")
	}
	link := dir + ".link"
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(link)
	if err := usable(link, acc); err == nil {
		t.Error("the template is a link")
	}
}

func TestMajorOf(t *testing.T) {
	for path, want := range map[string]int{"/usr/lib/postgresql/15/bin": 15, "/usr/lib/postgresql/9/bin": 9, "/opt/homebrew/opt/postgresql@17/bin": 17, "/usr/local/pgsql/bin": 0} {
		if got := majorOf(path); got != want {
			t.Errorf("majorOf(%s) = %d, want %d", path, got, want)
		}
	}
}
