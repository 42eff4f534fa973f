package store

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"interlock/audit"
)

// benchProgram measures the same searches and more as they are made from a shell: AUDIT_BENCH_PROGRAM is started for each, and its start
// and the printing of what is found are part of the time.
func benchProgram(b *testing.B, g *generated, one *audit.View, named []namedFilter) {
	config := filepath.Join(b.TempDir(), "interlock.yaml")
	if err := os.WriteFile(config, []byte("data_dir: "+g.dir+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	run := func(name string, args ...string) {
		b.Run("program-"+name, func(b *testing.B) {
			var spent time.Duration
			for b.Loop() {
				cmd := exec.CommandContext(b.Context(), os.Getenv("AUDIT_BENCH_PROGRAM"), append([]string{"audit", "--config", config}, args...)...)
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %v %s", args, err, out)
				}
				spent += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			b.ReportMetric(float64(spent.Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
	for _, s := range named {
		run(s.name, append([]string{"search"}, flags(&s.filter)...)...)
	}
	run("sessions", "sessions")
	run("sessions-identity", "sessions", "--identity", "user199")
	run("story", "sessions", one.Session)
	run("show", "show", one.ID)
	run("stats", "stats", "--by", "identity,status")
	run("stats-statements", "stats", "--by", "statement")
	run("stats-days", "stats", "--by", "day,source")
	run("stats-hours", "stats", "--by", "hour")
	run("stats-days-statements", "stats", "--by", "day,statement")
	run("stats-kind", "stats", "--kind", "denied")
	run("stats-table", "stats", "--table", "table_399")
}

// flags are those of the command line that select what a filter does.
func flags(f *audit.Filter) (args []string) {
	when := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339)
	}
	for flag, value := range map[string]string{"identity": f.Identity, "session": f.Session, "source": f.Source, "table": f.Table, "column": f.Column,
		"verdict": f.Verdict, "door": f.Door, "client": f.Client, "fingerprint": f.Fingerprint, "sqlstate": f.SQLState, "text": f.Text,
		"since": when(f.Since), "until": when(f.Until)} {
		if value != "" {
			args = append(args, "--"+flag, value)
		}
	}
	if f.OldestFirst {
		args = append(args, "--oldest-first")
	}
	if f.ID != "" {
		args = append(args, f.ID)
	}
	return args
}
