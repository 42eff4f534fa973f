package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock/internal/config"
	"interlock/internal/gateway"
	"interlock/internal/identity"
	"interlock/sqlgov"
)

// keyConfig writes a configuration with one identity, ana, and returns its path.
func keyConfig(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"interlock.yaml": "governance: g.yaml\ndata_dir: " + filepath.Join(dir, "data") + "\n",
		"g.yaml":         "version: 1\nsources: {}\nsource_roles: {}\nidentities:\n  ana: {kind: human}\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "interlock.yaml")
}

func runKey(t *testing.T, conf string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := rootCommand()
	var out, errOut bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errOut)
	root.SetArgs(append([]string{"--config", conf, "key"}, args...))
	err = root.ExecuteContext(t.Context())
	return out.String(), errOut.String(), err
}

// TestKeyVerbs follows a key from its making to its end, with a second handle on the store as a gateway has it.
func TestKeyVerbs(t *testing.T) {
	conf := keyConfig(t)
	cfg, err := config.Load(conf)
	if err != nil {
		t.Fatal(err)
	}
	st, running, err := gateway.OpenControl(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()

	out, errOut, err := runKey(t, conf, "create", "ana", "--name", "laptop", "--expires", "90d")
	if err != nil {
		t.Fatal(err)
	}
	key := strings.TrimSuffix(out, "\n")
	if strings.ContainsAny(key, " \n") || !strings.HasPrefix(key, "ilk_") || !strings.Contains(errOut, "for ana, valid until 20") {
		t.Errorf("%q, %q", out, errOut)
	}
	who, id, err := running.Bearer(t.Context(), key)
	if who != "ana" || err != nil {
		t.Fatalf("%q, %v", who, err)
	}
	for range 3 {
		if err := running.Active(t.Context(), id); err != nil {
			t.Error(err)
		}
	}

	out, _, err = runKey(t, conf, "list", "--json")
	var listed []identity.KeyInfo
	if jsonErr := json.Unmarshal([]byte(out), &listed); err != nil || jsonErr != nil || len(listed) != 1 || listed[0].ID != id ||
		listed[0].Status != identity.StatusActive || listed[0].Name != "laptop" || !strings.HasSuffix(key, listed[0].Hint) {
		t.Errorf("%s, %v, %v", out, err, jsonErr)
	}
	if days := time.Until(*listed[0].Expires).Hours() / 24; days < 89.9 || days > 90.1 {
		t.Errorf("valid for %.1f days", days)
	}

	if out, _, err = runKey(t, conf, "revoke", id); err != nil || !strings.Contains(out, "is revoked") {
		t.Errorf("%q, %v", out, err)
	}
	var refusal *sqlgov.Refusal
	if err := running.Active(t.Context(), id); !errors.As(err, &refusal) || refusal.Kind != sqlgov.Unauthenticated {
		t.Errorf("after revocation: %v", err)
	}
	if _, _, err := running.Bearer(t.Context(), key); err == nil {
		t.Error("a revoked key still logs in")
	}
	out, _, err = runKey(t, conf, "list", "ana")
	if err != nil || !strings.Contains(out, "revoked") || strings.Contains(out, key) {
		t.Errorf("%q, %v", out, err)
	}
	if out, _, err = runKey(t, conf, "list", "bob"); err != nil || strings.Count(out, "\n") != 1 {
		t.Errorf("%q, %v", out, err)
	}
}

func TestKeyRefuses(t *testing.T) {
	conf := keyConfig(t)
	for _, test := range []struct {
		args  []string
		usage bool
		text  string
	}{
		{[]string{"create", "bob"}, false, `no identity "bob"`},
		{[]string{"create"}, true, ""},
		{[]string{"create", "ana", "bob"}, true, ""},
		{[]string{"create", "ana", "--expires", "soon"}, true, "neither a duration"},
		{[]string{"create", "ana", "--expires", "-1h"}, true, "not in the future"},
		{[]string{"revoke", "nothing"}, false, "no key with id"},
		{[]string{"shred"}, true, ""},
		{nil, true, ""},
	} {
		out, _, err := runKey(t, conf, test.args...)
		if err == nil || errors.Is(err, errUsage) != test.usage || !strings.Contains(err.Error(), test.text) || out != "" {
			t.Errorf("%q: %q, %v", test.args, out, err)
		}
	}
	out, _, err := runKey(t, conf, "create", "bob", "--force", "--json")
	var created createdKey
	if jsonErr := json.Unmarshal([]byte(out), &created); err != nil || jsonErr != nil || !strings.HasPrefix(created.Key, "ilk_") || created.Identity != "bob" {
		t.Errorf("--force: %q, %v, %v", out, err, jsonErr)
	}
}

func TestParseExpiry(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Time{
		"": {}, "90d": now.AddDate(0, 0, 90), "12h": now.Add(12 * time.Hour), "1h30m": now.Add(90 * time.Minute),
		"2026-03-01": time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), "2027-01-31": time.Date(2027, 2, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := parseExpiry(s, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, %v", s, got, err)
		}
	}
	for _, s := range []string{"0d", "-1d", "d", "2026-02-28", "2026-13-01", "90", "x"} {
		if got, err := parseExpiry(s, now); err == nil {
			t.Errorf("%q: %s", s, got)
		}
	}
}
