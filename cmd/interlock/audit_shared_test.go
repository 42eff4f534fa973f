package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock/internal/pgtest"
	"interlock/internal/store"
)

// sharedNode is the configuration of a node whose log is in a shared index, and the directory of that log.
func sharedNode(t *testing.T, node string) (conf, log string) {
	t.Helper()
	conf = keyConfig(t)
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "audit: {node: "+node+", shared_index: {dsn: env:TEST_SHARED_INDEX}}\n"...)
	if err := os.WriteFile(conf, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return conf, filepath.Join(filepath.Dir(conf), "data", "audit")
}

// TestSharedIndexVerbs: the command line answers from the index that two nodes share as it does from their logs.
func TestSharedIndexVerbs(t *testing.T) {
	t.Setenv("TEST_SHARED_INDEX", pgtest.Start(t).Database(t))
	one, logOne := sharedNode(t, "n1")
	two, logTwo := sharedNode(t, "n2")
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	writtenLog(t, one, "n1", seconds(from, 12))
	ids := writtenLog(t, two, "n2", seconds(from.Add(5500*time.Millisecond), 12))
	ok := func(conf string, args ...string) string {
		t.Helper()
		out, err := runAudit(t, conf, args...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if out, err := runAudit(t, one, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q\n%s", args, err, want, out)
		}
	}
	refused("no shared audit index yet", "search", "--shared")
	for range 2 { // again is the same
		ok(one, "reindex", "--shared")
		ok(two, "reindex", "--shared")
	}
	for _, args := range [][]string{{"--json", "--limit", "0"}, {"--limit", "15"}, {"--json", "--oldest-first", "--identity", "ana", "--limit", "9"},
		{"--json", "--application", "n2", "--until", from.Add(10 * time.Second).Format(time.RFC3339)}, {"--json", ids[3]}, {"--json", "--identity", "nobody"}} {
		want := ok(one, append([]string{"search", "--log", logOne, "--log", logTwo}, args...)...)
		want = strings.NewReplacer(logOne, "n1", logTwo, "n2").Replace(want)
		if got := ok(one, append([]string{"search", "--shared"}, args...)...); got != want {
			t.Errorf("%v:\n%s\nwant\n%s", args, got, want)
		}
	}
	var counts []store.Count
	if err := json.Unmarshal([]byte(ok(two, "stats", "--shared", "--json", "--by", "application,status")), &counts); err != nil || len(counts) != 2 ||
		counts[0].Requests != 12 || counts[1].Requests != 12 {
		t.Errorf("%+v, %v", counts, err)
	}
	ok(one, "sessions", "--shared")
	if out := ok(one, "nodes"); !strings.Contains(out, "n1 ") || !strings.Contains(out, "n2 ") {
		t.Errorf("nodes:\n%s", out)
	}
	refused("that of node n2 has it", "show", ids[3])
	if out := ok(one, "show", "--shared", ids[3]); !strings.Contains(out, "log of node n2") || !strings.Contains(out, "select 1") {
		t.Errorf("show does not say where the decision is:\n%s", out)
	}
	refused("log of node n2", "show", "--shared", "--owner-key", "none", ids[3])
	refused("export it on each node", "export", "--shared", "--format", "bundle", "--output", filepath.Join(t.TempDir(), "x"))
	file := filepath.Join(t.TempDir(), "both.jsonl")
	ok(one, "export", "--shared", "--identity", "ana", "--output", file)
	text, err := os.ReadFile(file)
	if all := views(t, string(text)); err != nil || len(all) != 24 || all[0].Node != "n1" || all[23].Node != "n2" {
		t.Errorf("%d exported, %v", len(all), err)
	}
	prunedWithIndex(t, one, ok, refused)
}

// prunedWithIndex: nothing is pruned that is not in the shared index, or of which that does not say.
func prunedWithIndex(t *testing.T, conf string, ok func(string, ...string) string, refused func(string, ...string)) {
	t.Helper()
	bundle := filepath.Join(t.TempDir(), "all.bundle")
	ok(conf, "export", "--format", "bundle", "--output", bundle)
	args := []string{"prune", "--before", time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "--bundle", bundle}
	dsn := os.Getenv("TEST_SHARED_INDEX")
	t.Setenv("TEST_SHARED_INDEX", "postgres://postgres@127.0.0.1:1/none?sslmode=disable")
	refused("nothing is pruned before the shared index says", args...)
	empty := pgtest.Start(t).Database(t)
	t.Setenv("TEST_SHARED_INDEX", empty)
	if out := ok(conf, args...); !strings.Contains(out, "nothing to prune") {
		t.Errorf("what is not in the shared index: %s", out)
	}
	t.Setenv("TEST_SHARED_INDEX", dsn)
	if out := ok(conf, args...); !strings.Contains(out, "removed ") {
		t.Errorf("what is in the shared index: %s", out)
	}
}
