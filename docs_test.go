package interlock

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A console block in a document is a session in the demo's shell: lines that start with "$ " are commands, the lines
// below are what they print. "..." stands for any text within a line, and a line of it alone for any lines.
type step struct {
	file    string
	line    int
	command string
	output  []string
}

// session reads the console blocks of a document.
func session(t *testing.T, file string) []step {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	inside := false
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{file: file, line: i + 1, command: line[2:]})
		case len(steps) == 0:
			t.Fatalf("%s:%d: a console block must start with a command", file, i+1)
		case strings.HasSuffix(steps[len(steps)-1].command, `\`) && len(steps[len(steps)-1].output) == 0:
			steps[len(steps)-1].command += "\n" + line
		default:
			last := &steps[len(steps)-1]
			last.output = append(last.output, line)
		}
	}
	return steps
}

const boundary = "=== end of step"

// script is a shell script that runs the commands and marks where the output of each ends.
func script(steps []step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "{ %s\n} 2>&1 </dev/null\necho '%s'\n", s.command, boundary)
	}
	return b.String()
}

// pattern turns expected lines into a regular expression.
func pattern(lines []string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`^`)
	for _, line := range strings.Split(strings.TrimRight(strings.Join(lines, "\n"), "\n "), "\n") {
		if strings.TrimSpace(line) == "..." {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		parts := strings.Split(strings.TrimRight(line, " "), "...")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		b.WriteString(strings.Join(parts, `.*`) + ` *\n`)
	}
	b.WriteString(`\s*$`)
	return regexp.MustCompile(b.String())
}

func buildProgram(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("go", "build", "-o", "bin/interlock", "./cmd/interlock").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
}

// TestDocumentedCommands runs every console block of every document in a demo of its own.
func TestDocumentedCommands(t *testing.T) {
	buildProgram(t)
	files, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range append(files, deeper...) {
		steps := session(t, file)
		if len(steps) == 0 {
			continue
		}
		ran += len(steps)
		t.Run(file, func(t *testing.T) { runSession(t, steps) })
	}
	if ran == 0 {
		t.Error("no document has a console block")
	}
}

func runSession(t *testing.T, steps []step) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bin/interlock", "demo", "--", "bash", "-c", script(steps))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("the demo failed: %v\n%s", err, stderr.String())
	}
	outputs := strings.Split(stdout.String(), boundary+"\n")
	if len(outputs) != len(steps)+1 {
		t.Fatalf("%d outputs for %d commands:\n%s", len(outputs)-1, len(steps), stdout.String())
	}
	for i, s := range steps {
		if !pattern(s.output).MatchString(strings.TrimRight(outputs[i], "\n") + "\n") {
			t.Errorf("%s:%d: $ %s\nprinted:\n%s\nthe document says:\n%s", s.file, s.line, s.command, outputs[i], strings.Join(s.output, "\n"))
		}
	}
}

// TestPromisedCommandsExist holds the two commands that the documents promise against the Makefile.
func TestPromisedCommandsExist(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"demo", "test"} {
		if !strings.Contains(string(readme), "make "+target) {
			t.Errorf("README.md does not mention make %s", target)
		}
		if out, err := exec.Command("make", "--dry-run", target).CombinedOutput(); err != nil {
			t.Errorf("make %s: %v\n%s", target, err, out)
		}
	}
}
