package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func runCheck(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := checkCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return out.String(), errOut.String(), err
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("CHECK_PW", "x")
	const sources = "version: 1\nsources:\n  shop:\n    kind: postgres\n    upstream: {host: localhost, database: d, user: u, password: env:%PW, tls: disable}\n" +
		"source_roles:\n  analyst: {source: shop, permissions: [{allow: [db.table.select], on: [crm.orders]}]}\nidentities:\n  ana: {kind: human, grants: [{source: shop, roles: [analyst]}]}\n"
	conf := write("interlock.yaml", "governance: g.yaml\n")
	governance := write("g.yaml", strings.ReplaceAll(sources, "%PW", "CHECK_PW"))

	out, errOut, err := runCheck(t, "--config", conf)
	if err != nil || errOut != "" || !strings.Contains(out, "are good: 1 sources, 1 source roles, 1 identities; ruleset ") {
		t.Errorf("good files: %q %q %v", out, errOut, err)
	}

	write("g.yaml", strings.ReplaceAll(sources, "%PW", "CHECK_UNSET")+"  idle: {kind: agent}\n")
	out, errOut, err = runCheck(t, "--config", conf)
	if err != nil || !strings.Contains(errOut, governance+":5:65: the secret env:CHECK_UNSET is not set or empty\n") ||
		!strings.Contains(errOut, governance+`:10:3: identity "idle" has no grant`) || !strings.Contains(out, "are good") {
		t.Errorf("warnings: %q %q %v", out, errOut, err)
	}
	if _, _, err = runCheck(t, "--config", conf, "--strict"); err == nil {
		t.Error("--strict takes warnings")
	}

	write("g.yaml", strings.NewReplacer("%PW", "CHECK_PW", "roles: [analyst]", "roles: [analist]").Replace(sources))
	out, errOut, err = runCheck(t, "--config", conf)
	if err == nil || out != "" || !strings.Contains(errOut, `unknown role "analist" (did you mean "analyst"?)`) {
		t.Errorf("a wrong document: %q %q %v", out, errOut, err)
	}
	out, _, err = runCheck(t, "--config", conf, "--json")
	var report checkReport
	if jsonErr := json.Unmarshal([]byte(out), &report); jsonErr != nil || err == nil || report.OK || len(report.Problems) != 1 || report.Problems[0].Line != 9 {
		t.Errorf("as JSON: %s %v", out, err)
	}

	write("interlock.yaml", "listeners: {mcp: {address: '0.0.0.0:1', tls: {cert: c, key: k}}}\ngovernence: g.yaml\n")
	_, errOut, err = runCheck(t, "--config", conf)
	if err == nil || !strings.Contains(errOut, conf+`:2:1: unknown key "governence" (did you mean "governance"?)`) {
		t.Errorf("a wrong configuration: %q %v", errOut, err)
	}
	if _, _, err = runCheck(t, "--config", filepath.Join(dir, "none.yaml")); err == nil {
		t.Error("a missing file is good")
	}
	if _, _, err = runCheck(t, "surplus"); err == nil {
		t.Error("an argument is taken")
	}
}

func TestCheckSchema(t *testing.T) {
	for _, which := range []string{"interlock", "governance"} {
		out, _, err := runCheck(t, "--schema", which)
		published, readErr := os.ReadFile(filepath.Join("..", "..", "docs", "schema", which+".schema.json"))
		if err != nil || readErr != nil || out != string(published) {
			t.Errorf("%s: %v %v", which, err, readErr)
		}
	}
	if _, _, err := runCheck(t, "--schema", "other"); err == nil {
		t.Error("there is no third schema")
	}
}
