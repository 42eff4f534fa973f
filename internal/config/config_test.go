package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// environ is the environment of the tests.
func environ(name string) (string, bool) {
	value, ok := map[string]string{"PORT": "7777", "NAME": "shop", "NO": "false", "EMPTY": "", "NUMBER": "16", "TRICK": "x: [", "REF": "env:PW", "SECRET": "hunter2"}[name]
	return value, ok
}

func TestDefault(t *testing.T) {
	want := &Config{
		DataDir: "interlock-data", Governance: "governance.yaml",
		Listeners: Listeners{Listener{Address: "127.0.0.1:6432"}, Listener{Address: "127.0.0.1:8642"}, Listener{Address: "127.0.0.1:8643"}},
		Store:     Store{Driver: "sqlite"}, Audit: Audit{Sync: "group", SyncInterval: 20 * time.Millisecond, RelaxedWindow: 2 * time.Second, SegmentBytes: 64 << 20,
			Compression: "zstd", CompressionBacklog: 1 << 30, CheckpointInterval: time.Minute},
		Limits: Limits{1000, 500, 256, 30 * time.Second, 0, 64 << 20, 10 << 20, 1_000_000, 10_000, 64 << 20, 64 << 20, 30 * time.Second, 4 << 20, 64,
			10 * time.Second, 10 * time.Second, 5 * time.Minute, time.Hour, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 60},
		Approvals: Approvals{1000, 50, 1 << 20, 15 * time.Second, 720 * time.Hour, Webhook{}},
		Breaker:   Breaker{5, 10 * time.Second}, Redis: Redis{Prefix: "interlock", Timeout: 250 * time.Millisecond, LostShare: 25},
		Log: Log{"info", "json"},
	}
	if got := Default(); !reflect.DeepEqual(got, want) {
		t.Errorf("default %+v", got)
	}
	for _, empty := range []string{"", "\n# nothing\n", "---\n", "{}"} {
		got, err := parse("x", []byte(empty), environ)
		if empty == "---\n" {
			if err == nil {
				t.Error("an empty document in a file that begins one is null, not a mapping")
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v %v", empty, got, err)
		}
	}
}

const full = `# all keys
data_dir: data
governance: /etc/interlock/g.yaml
listeners:
  pgwire: {address: "0.0.0.0:${PORT}", tls: {cert: tls/c.pem, key: tls/k.pem, client_ca: tls/ca.pem}}
  mcp: {address: "[::1]:0", disabled: true}
  admin: {address: localhost:9}
store: {driver: sqlite, dir: shared}
approvals:
  max_pending: 10
  max_pending_per_identity: 5
  max_bytes: 64KiB
  lease: 5s
  keep: 24h
  webhook: {url: "https://hooks.example/x", secret: "file:hook.secret"}
audit: {sync: always, sync_interval: 5ms, segment_bytes: 1MiB, shared_index: {dsn: "file:index.dsn"}}
limits:
  max_connections: 0x20
  max_connections_per_identity: 10
  max_unauthenticated: ${NUMBER9}
  login_timeout: 1m30s
  idle_timeout: 0s
  max_message_bytes: 65536
  max_statement_bytes: 64KiB
  max_statement_tokens: 1000
  max_statements: 1
  facts_cache_bytes: 1GiB
  result_cache_bytes: 2MiB
  write_lease: 9s
  mcp_body_bytes: 2KiB
  mcp_concurrency: 2
  upstream_connect_timeout: 1s
  upstream_wait_timeout: 2s
  upstream_idle_timeout: 3s
  upstream_lifetime: 4h
  shutdown_timeout: 0s
  stranger_failures: 7
breaker: {failures: 3, pause: 1m}
redis: {url: "file:redis.url", ca: tls/ca.pem, prefix: "gateway:eu", timeout: 100ms, lost_share: 10}
mcp:
  allowed_origins: ["https://chat.example", "http://localhost:3000"]
  allowed_hosts: [gateway.example, "gateway.example:8642"]
log: {level: debug, format: console}
`

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "interlock.yaml")
	if err := os.WriteFile(path, []byte(full), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PORT", "7777")
	t.Setenv("NUMBER9", "9")
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		File: path, DataDir: filepath.Join(dir, "data"), Governance: "/etc/interlock/g.yaml",
		Listeners: Listeners{
			Listener{Address: "0.0.0.0:7777", TLS: &TLS{filepath.Join(dir, "tls/c.pem"), filepath.Join(dir, "tls/k.pem"), filepath.Join(dir, "tls/ca.pem")}},
			Listener{Address: "[::1]:0", Disabled: true}, Listener{Address: "localhost:9"}},
		Store: Store{"sqlite", filepath.Join(dir, "shared")}, Audit: Audit{Sync: "always", SyncInterval: 5 * time.Millisecond, RelaxedWindow: 2 * time.Second,
			SegmentBytes: 1 << 20, Compression: "zstd", CompressionBacklog: 1 << 30, CheckpointInterval: time.Minute, SharedIndex: SharedIndex{"file:" + filepath.Join(dir, "index.dsn")}},
		Limits: Limits{32, 10, 9, 90 * time.Second, 0, 65536, 64 << 10, 1000, 1, 1 << 30, 2 << 20, 9 * time.Second, 2 << 10, 2, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Hour, 0, 2 * time.Minute, 10 * time.Minute, 7},
		Approvals: Approvals{10, 5, 64 << 10, 5 * time.Second, 24 * time.Hour,
			Webhook{"https://hooks.example/x", "file:" + filepath.Join(dir, "hook.secret")}},
		Breaker: Breaker{3, time.Minute},
		Redis:   Redis{"file:" + filepath.Join(dir, "redis.url"), filepath.Join(dir, "tls/ca.pem"), "gateway:eu", 100 * time.Millisecond, 10},
		MCP:     MCP{[]string{"https://chat.example", "http://localhost:3000"}, []string{"gateway.example", "gateway.example:8642"}},
		Log:     Log{"debug", "console"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if _, err := Load(filepath.Join(dir, "none.yaml")); err == nil || !os.IsNotExist(unwrap(err)) {
		t.Errorf("a missing file: %v", err)
	}
}

func unwrap(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = u.Unwrap()
	}
}

// Each case is a document and the problems that it has, in order.
func TestConfigProblems(t *testing.T) {
	for _, tc := range []struct{ doc, want string }{
		{"listners: {}", `1:1: unknown key "listners" (did you mean "listeners"?)`},
		{"limits:\n  max_conections: 5\n  idle_timeout: 5 m\n", "2:3: unknown key \"max_conections\" (did you mean \"max_connections\"?)\n3:17: \"5 m\" is no time span; write it as in 500ms, 30s, 5m, 1h30m"},
		{"data_dir: a\ndata_dir: b", `2:1: key "data_dir" stands twice; the first is on line 1`},
		{"1: x", `1:1: a key must be a string; put it in quotes`},
		{"data_dir: 5", `1:11: must be a string, but is an integer`},
		{"data_dir:", `1:10: must be a string, but is empty`},
		{"data_dir: ' '", `1:11: must not be empty`},
		{"data_dir: {a: b}", `1:11: must be a string, but is a mapping`},
		{"[a]", `1:1: must be a mapping, but is a list`},
		{"limits: 5", `1:9: must be a mapping, but is a single value`},
		{"limits:", `1:8: must be a mapping, but is empty`},
		{"log: {level: loud}", `1:14: must be one of debug, info, warn, error, but is "loud"`},
		{"log: {format: jsn}", `1:15: must be one of json, console, but is "jsn" (did you mean "json"?)`},
		{"data_dir: ${NOPE}", `1:11: variable NOPE is not set`},
		{"data_dir: ${NO-PE}", `1:11: "${NO-PE}" is no variable; write ${NAME}, or $${ for the characters themselves`},
		{"data_dir: ${NAME", `1:11: "${NAME" is no variable; write ${NAME}, or $${ for the characters themselves`},
		{"data_dir: ${EMPTY}", `1:11: must not be empty`},
		{"limits: {max_connections: '5'}", `1:27: must be an integer, but is a string`},
		{"limits: {max_connections: 5.5}", `1:27: must be an integer, but is a number with a fraction`},
		{"limits: {max_connections: 0}", `1:27: must be between 1 and 1000000`},
		{"limits: {max_connections: \"${NAME}\"}", `1:27: must be an integer, but is "shop"`},
		{"limits: {max_message_bytes: 1KiB}", `1:29: must be between 16KiB and 1073741823B`},
		{"limits: {max_message_bytes: 64MB}", `1:29: "64MB" is no size; write bytes, or a unit as in 64KiB, 16MiB, 1GiB`},
		{"limits: {max_message_bytes: -1}", `1:29: "-1" is no size; write bytes, or a unit as in 64KiB, 16MiB, 1GiB`},
		{"limits: {max_message_bytes: 9999999999999GiB}", `1:29: "9999999999999GiB" is no size; write bytes, or a unit as in 64KiB, 16MiB, 1GiB`},
		{"limits: {login_timeout: 30}", `1:25: must be a string, but is an integer`},
		{"limits: {login_timeout: 1ms}", `1:25: must be between 1s and 10m`},
		{"limits: {login_timeout: 1.5s}", `1:25: "1.5s" is no time span; write it as in 500ms, 30s, 5m, 1h30m`},
		{"listeners: {pgwire: {address: '0.0.0.0:6432'}}", `1:31: 0.0.0.0:6432 is not on the loopback interface, so the listener needs tls with cert and key`},
		{"listeners: {mcp: {address: ':8642'}}", `1:28: :8642 is not on the loopback interface, so the listener needs tls with cert and key`},
		{"listeners: {admin: {address: 'ops.example:8643'}}", `1:30: ops.example:8643 is not on the loopback interface, so the listener needs tls with cert and key`},
		{"listeners: {pgwire: {address: '127.0.0.1'}}", `1:31: "127.0.0.1" is no address; write host:port`},
		{"listeners: {pgwire: {address: '127.0.0.1:70000'}}", `1:31: "70000" is no port; it is a number from 0 to 65535`},
		{`listeners: {pgwire: {disabled: "false"}}`, `1:32: must be true or false, but is a string`},
		{"listeners: {pgwire: {disabled: yes}}", `1:32: must be true or false, but is a string`},
		{"listeners: {pgwire: {tls: {cert: c}}}", `1:27: key "key" is missing`},
		{"mcp: {allowed_origins: ['https://x.example/path', 'x.example']}", "1:25: \"https://x.example/path\" is no origin; write it as in https://chat.example\n1:51: \"x.example\" is no origin; write it as in https://chat.example"},
		{"mcp: {allowed_hosts: x}", `1:22: must be a list, but is a single value`},
		{"a: &x 1\nb: *x", "1:4: anchors are not supported; write the value out\n2:4: aliases are not supported; write the value out"},
		{"a: 1\n---\nb: 2", `2:1: there is a second document in the file; only one is read`},
		{"a: [1", "1:1: did not find expected ',' or ']'"},
		{"a: \x01", "1:1: control characters are not allowed"},
		{"# one\ndata_dir: a\nmcp:\n  allowed_hosts: [\n    a,\n    b]\nlog: {{level}}/x\nstore: {}\n", "7:1: did not find expected key"},
		{"data_dir: a\nlog:\n  level: info\n format: json\nstore: {}\n", "4:1: did not find expected key"},
		{"data_dir: 'a\nlog: {}\n", "1:1: found unexpected end of stream"},
		{"log: !!binary aGk=", `1:6: must be a mapping, but is a single value`},
	} {
		_, err := parse("f", []byte(tc.doc), environ)
		if got := strings.ReplaceAll(errorText(err), "f:", ""); got != tc.want {
			t.Errorf("%s\ngot  %s\nwant %s", tc.doc, got, tc.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// A variable is a value: it cannot bring structure, and $${ keeps the characters.
func TestVariables(t *testing.T) {
	c, err := parse("f", []byte("data_dir: ${TRICK}/$${NAME}/${NAME}$\nlisteners: {pgwire: {disabled: \"${NO}\", address: 'localhost:${PORT}'}}"), environ)
	if err != nil || c.DataDir != "x: [/${NAME}/shop$" || c.Listeners.PGWire.Disabled || c.Listeners.PGWire.Address != "localhost:7777" {
		t.Errorf("%+v %v", c, err)
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("CFG_SECRET", " p w ")
	t.Setenv("CFG_EMPTY", "")
	for ref, want := range map[string]string{
		"env:CFG_SECRET":                   " p w ",
		"file:" + write("a", "secret\n"):   "secret",
		"file:" + write("b", "secret\r\n"): "secret",
		"file:" + write("c", "two\n\n"):    "two\n",
	} {
		if got, err := Resolve(ref); err != nil || got != want {
			t.Errorf("%s: %q %v", ref, got, err)
		}
	}
	for _, ref := range []string{"", "hunter2", "env:", "env:CFG_EMPTY", "env:CFG_UNSET", "file:", "file:" + dir, "file:" + dir + "/none", "file:" + write("d", "\n"), "http://x"} {
		got, err := Resolve(ref)
		if err == nil || got != "" {
			t.Errorf("%s resolves to %q", ref, got)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, s := range []string{full, "a: &x [*x]", "limits: {max_connections: ${PORT}}", "listeners: {mcp: {tls: {}}}", "? [a]\n: b", "%YAML 1.1\n---\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse("f", data, environ)
		if (c == nil) == (err == nil) {
			t.Fatalf("%v with %v", c, err)
		}
		if err == nil {
			for _, l := range []Listener{c.Listeners.PGWire, c.Listeners.MCP, c.Listeners.Admin} {
				if !l.Disabled && l.TLS == nil && !loopback(l.Address) {
					t.Fatalf("%+v is open to the network without TLS", l)
				}
			}
		}
	})
}
