package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock/audit"
	"interlock/internal/config"
	"interlock/internal/gateway"
)

func runAudit(t *testing.T, conf string, args ...string) (string, error) {
	t.Helper()
	root := rootCommand()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(append([]string{"--config", conf, "audit"}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// writtenLog has a request of ana for each time, in small segments, and returns the ids.
func writtenLog(t *testing.T, conf, node string, times []time.Time) (ids []string) {
	t.Helper()
	cfg, err := config.Load(conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := gateway.AuditConfig(cfg)
	c.SegmentBytes, c.Node = 4096, node
	if c.SigningKey, err = audit.LoadSigningKey(gateway.AuditKeyFile(cfg)); err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range times {
		rec := &audit.Record{ID: audit.NewID(), Time: at, Identity: "ana", Application: node, Judgement: &audit.Judgement{Statement: "select 1", Verdict: "allow"}}
		ids = append(ids, rec.ID)
		out := &audit.Outcome{ID: rec.ID, Time: at, Status: audit.OK}
		if err := errors.Join(log.Intent(t.Context(), rec), log.Outcome(t.Context(), out)); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return ids
}

// seconds returns n times, a second apart.
func seconds(from time.Time, n int) []time.Time {
	times := make([]time.Time, n)
	for i := range times {
		times[i] = from.Add(time.Duration(i) * time.Second)
	}
	return times
}

func views(t *testing.T, lines string) (all []audit.View) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var v audit.View
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, v)
	}
	return all
}

// TestPruneVerb removes what was exported and nothing else, and leaves a log that verifies and an index that finds the rest.
func TestPruneVerb(t *testing.T) {
	conf := keyConfig(t)
	from := time.Now().Add(-90 * time.Second).Truncate(time.Second) // verify wants every entry to be signed within minutes
	later := from.Add(time.Hour).UTC().Format(time.RFC3339)
	ids := writtenLog(t, conf, "n1", seconds(from, 60))
	ok := func(args ...string) string {
		t.Helper()
		out, err := runAudit(t, conf, args...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	found := func() int { return len(views(t, ok("search", "--identity", "ana", "--json", "--limit", "0"))) }
	ok("reindex")
	bundle := filepath.Join(t.TempDir(), "half.bundle")
	ok("export", "--format", "bundle", "--until", from.Add(30*time.Second).UTC().Format(time.RFC3339), "--output", bundle)
	if out, err := runAudit(t, conf, "prune", "--before", later); err == nil || found() != 60 {
		t.Errorf("pruned without a bundle: %s", out)
	}
	if out := ok("prune", "--before", from.UTC().Format(time.RFC3339), "--bundle", bundle); !strings.Contains(out, "nothing to prune") {
		t.Errorf("what is not old enough: %s", out)
	}
	unconfirmed := unconfirmedSink(t, conf)
	if out, err := runAudit(t, unconfirmed, "prune", "--before", later, "--bundle", bundle); err != nil || !strings.Contains(out, "nothing to prune") {
		t.Errorf("what a sink has not confirmed: %s, %v", out, err)
	}
	if out := ok("prune", "--before", later, "--bundle", bundle); !strings.Contains(out, "removed ") {
		t.Errorf("%s", out)
	}
	if n := found(); n < 30 || n > 45 {
		t.Errorf("%d of 60 requests are left, of which 30 were exported", n)
	}
	if out, err := runAudit(t, conf, "show", ids[0]); err == nil {
		t.Errorf("a pruned decision is shown: %s", out)
	}
	ok("show", ids[59])
	ok("verify")
	if out := ok("prune", "--before", later, "--bundle", bundle); !strings.Contains(out, "nothing to prune") {
		t.Errorf("again: %s", out)
	}
	pruned := views(t, ok("search", "--event", audit.AuditPruned, "--json"))
	if len(pruned) != 1 || pruned[0].Event.Attributes["signature"] == "" {
		t.Errorf("%+v", pruned)
	}
}

// unconfirmedSink is the same configuration with a sink that has nothing.
func unconfirmedSink(t *testing.T, conf string) string {
	t.Helper()
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(conf), "with-sink.yaml")
	text = fmt.Appendf(text, "audit: {sinks: {copy: {kind: file, path: %s}}}\n", filepath.Join(t.TempDir(), "copy.jsonl"))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSeveralLogs merges the logs of two nodes by time, whether they have an index or not.
func TestSeveralLogs(t *testing.T) {
	one, two := keyConfig(t), keyConfig(t)
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	writtenLog(t, one, "n1", seconds(from, 12))
	ids := writtenLog(t, two, "n2", seconds(from.Add(5500*time.Millisecond), 12))
	logs := func(verb string, args ...string) string {
		t.Helper()
		for _, conf := range []string{one, two} {
			args = append(args, "--log", filepath.Join(filepath.Dir(conf), "data", "audit"))
		}
		out, err := runAudit(t, one, append([]string{verb}, args...)...)
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", verb, args, err, out)
		}
		return out
	}
	check := func(what string, all []audit.View, n int, newest bool) {
		t.Helper()
		nodes := map[string]int{}
		for i, v := range all {
			nodes[v.Application]++
			if i > 0 && v.Time.Before(all[i-1].Time) != newest {
				t.Errorf("%s: %s stands behind %s", what, v.Time, all[i-1].Time)
			}
			if v.Node == "" || strings.Contains(v.Node, filepath.Dir(one)) != (v.Application == "n1") {
				t.Errorf("%s: %s is said to come from %q", what, v.Application, v.Node)
			}
		}
		if len(all) != n || nodes["n1"] == 0 || nodes["n2"] == 0 {
			t.Errorf("%s: %d requests, want %d; by node %v", what, len(all), n, nodes)
		}
	}
	for _, indexed := range []bool{false, true} {
		if indexed {
			if out, err := runAudit(t, one, "reindex"); err != nil {
				t.Fatal(out, err)
			}
		}
		check("newest", views(t, logs("search", "--json", "--limit", "15")), 15, true)
		check("oldest", views(t, logs("search", "--json", "--limit", "0", "--oldest-first")), 24, false)
	}
	if out := logs("show", ids[3]); !strings.Contains(out, filepath.Dir(two)) {
		t.Errorf("show does not say where the decision is:\n%s", out)
	}
	file := filepath.Join(t.TempDir(), "both.jsonl")
	logs("export", "--identity", "ana", "--output", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	check("export", views(t, string(text)), 24, false)
}
