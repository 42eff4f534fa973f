package interlock

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMakeDemo does what a newcomer does: make demo, paste what it prints, Ctrl-C. Nothing may be left behind.
func TestMakeDemo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	tmp := shortTempDir(t)
	demo := exec.CommandContext(ctx, "make", "--silent", "demo")
	demo.Env = append(os.Environ(), "TMPDIR="+tmp)
	demo.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	interrupt := func() error { return syscall.Kill(-demo.Process.Pid, syscall.SIGINT) }
	demo.Cancel, demo.WaitDelay = interrupt, 20*time.Second
	printed, err := demo.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	pasted := runPasted(ctx, t, printed)
	for _, want := range []string{"Ben Abbott", `permission denied for column "ssn"`, `permission denied for table "hr.salaries"`,
		`"isError":false`, "ana@shop via pgwire", "decision "} {
		if !strings.Contains(pasted, want) {
			t.Errorf("the pasted lines do not print %q:\n%s", want, pasted)
		}
	}
	if err := interrupt(); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, printed)
	if err := demo.Wait(); err != nil && ctx.Err() != nil {
		t.Fatalf("the demo does not stop: %v", err)
	}
	nothingLeft(t, tmp)
}

// shortTempDir is a directory that the server's own account can enter, with a name that leaves room for a socket.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "il")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runPasted waits until the demo has printed everything and runs the lines that are there to be pasted. There is no
// Claude Code to add the server to.
func runPasted(ctx context.Context, t *testing.T, printed io.Reader) string {
	t.Helper()
	var text, lines strings.Builder
	lines.WriteString("shopt -s expand_aliases\n")
	scan := bufio.NewScanner(printed)
	for scan.Scan() {
		line := scan.Text()
		text.WriteString(line + "\n")
		if strings.HasPrefix(line, "  ") && !strings.Contains(line, "claude mcp add") {
			lines.WriteString(line + "\n")
		}
		if strings.HasPrefix(line, "Ctrl-C") {
			out, _ := exec.CommandContext(ctx, "bash", "-c", lines.String()).CombinedOutput() // refusals are errors of psql
			return string(out)
		}
	}
	t.Fatalf("the demo did not start:\n%s", text.String())
	return ""
}

func nothingLeft(t *testing.T, tmp string) {
	t.Helper()
	var left []os.DirEntry
	for range 50 {
		left, _ = os.ReadDir(tmp)
		if len(left) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, e := range left {
		t.Errorf("the demo left %s behind", e.Name())
	}
	if out, _ := exec.Command("pgrep", "--full", tmp).Output(); len(out) > 0 {
		t.Errorf("the demo left processes behind: %s", out)
	}
}
