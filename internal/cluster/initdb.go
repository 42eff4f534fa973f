package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// FindBin returns the directory of initdb and postgres: version 15 where Debian puts it, else what PATH and pg_config
// say, else the newest version in the usual places.
func FindBin() (string, error) {
	candidates := []string{"/usr/lib/postgresql/15/bin"}
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			candidates = append(candidates, filepath.Dir(real))
		}
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		candidates = append(candidates, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/pgsql/bin"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("looking for PostgreSQL: %w", err)
		}
		slices.SortFunc(found, func(a, b string) int { return majorOf(b) - majorOf(a) })
		candidates = append(candidates, found...)
	}
	for _, dir := range candidates {
		if isFile(filepath.Join(dir, "initdb")) && isFile(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	return "", errors.New("PostgreSQL's initdb and postgres were not found; on Debian and Ubuntu: apt-get install postgresql-15")
}

// majorOf reads the version out of a path like /usr/lib/postgresql/15/bin; 0 if it has none.
func majorOf(path string) int {
	digits := strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, err := strconv.Atoi(digits[len(digits)-1])
	if err != nil {
		return 0
	}
	return n
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// makeDir makes the directory of a cluster, owned by the account.
func makeDir(dir string, acc account) (string, error) {
	if dir == "" {
		made, err := os.MkdirTemp("", "interlock-pg-")
		if err != nil {
			return "", fmt.Errorf("making the cluster's directory: %w", err)
		}
		if err := acc.own(made); err != nil {
			return "", errors.Join(err, os.Remove(made))
		}
		return made, nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("making the cluster's directory: %w", err)
	}
	if len(dir) > 80 {
		return "", fmt.Errorf("the path %s is too long for the socket of a cluster", dir)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("making the cluster's directory: %w", err)
	}
	// Stop removes the directory whole, so it must have been nobody's.
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return "", fmt.Errorf("the directory %s for a cluster is not empty or not readable (%v)", dir, err)
	}
	return dir, acc.own(dir)
}

// makeData fills a data directory: from a running cluster, from the template directory, or anew.
func makeData(ctx context.Context, cfg Config, acc account, data string) error {
	if cfg.CopyOf != nil {
		return runAs(ctx, acc, filepath.Join(cfg.BinDir, "pg_basebackup"), "-D", data, "-R", "-X", "stream", "--checkpoint=fast", "--no-sync",
			"-d", cfg.CopyOf.DSN(Superuser, "postgres"))
	}
	if cfg.Template == "" {
		return initdb(ctx, cfg.BinDir, acc, data)
	}
	template, err := ensureTemplate(ctx, cfg, acc)
	if err != nil {
		return err
	}
	return runAs(ctx, acc, "cp", "-R", "-p", template, data)
}

// ensureTemplate returns an initialized data directory of this version, made once. It is made beside its final name and renamed, so
// that nobody copies half a directory; when two processes make it at once, the second's rename fails and it uses the first's.
func ensureTemplate(ctx context.Context, cfg Config, acc account) (string, error) {
	version, err := exec.CommandContext(ctx, filepath.Join(cfg.BinDir, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking postgres for its version: %w", err)
	}
	if err := os.MkdirAll(cfg.Template, 0o700); err != nil {
		return "", fmt.Errorf("making the template's directory: %w", err)
	}
	if err := acc.own(cfg.Template); err != nil {
		return "", err
	}
	words := strings.Fields(string(version)) // postgres (PostgreSQL) 15.20 (Debian ...)
	if len(words) < 3 {
		return "", fmt.Errorf("postgres --version says %q", version)
	}
	final := filepath.Join(cfg.Template, "data-"+words[2])
	if err := usable(final, acc); err == nil || !errors.Is(err, os.ErrNotExist) {
		return final, err
	}
	making, err := os.MkdirTemp(cfg.Template, "making-")
	if err != nil {
		return "", fmt.Errorf("making the template: %w", err)
	}
	defer os.RemoveAll(making)
	if err := acc.own(making); err != nil {
		return "", err
	}
	data := filepath.Join(making, "data")
	if err := initdb(ctx, cfg.BinDir, acc, data); err != nil {
		return "", err
	}
	if err := os.Rename(data, final); err != nil {
		return final, usable(final, acc)
	}
	return final, nil
}

// usable checks that a template exists and that nobody else could have prepared it: its place may be world-writable.
func usable(dir string, acc account) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("the template of a cluster: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(stat.Uid) != acc.uid || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("the template of a cluster, %s, is not a directory of account %d alone; remove it", dir, acc.uid)
	}
	return nil
}

func initdb(ctx context.Context, bin string, acc account, data string) error {
	locale := "C"
	if runtime.GOOS == "linux" {
		locale = "C.UTF-8"
	}
	return runAs(ctx, acc, filepath.Join(bin, "initdb"), "-D", data, "-U", Superuser, "--auth=trust", "--encoding=UTF8",
		"--locale="+locale, "--no-sync", "--no-instructions")
}

// runAs runs a program as the account and returns what it said if it failed.
func runAs(ctx context.Context, acc account, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = acc.attributes()
	// The environment of whoever ran us can point PostgreSQL's programs elsewhere (PGDATA, PGOPTIONS).
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running %s: %w\n%s", filepath.Base(name), err, tail(string(out), 2000))
	}
	return nil
}
