package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rs/zerolog"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"interlock/audit"
	"interlock/internal/config"
	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
	"interlock/internal/tally"
)

func TestMain(m *testing.M) {
	if file := os.Getenv("GATEWAY_TEST_CONFIG"); file != "" {
		serveUntilKilled(file)
	}
	if file := os.Getenv("INTERLOCK_TEST_NODE"); file != "" {
		runNode(file, os.Getenv("INTERLOCK_TEST_DIES"))
	}
	pgtest.Main(m)
}

const countedTable = `create table counted (id int primary key, note text, ssn text);
	insert into counted select i, 'note ' || i, '078-05-1120' from generate_series(1, 50) i`

// governed allows everything but counted.ssn, and has full texts kept for an owner if it has a key.
func governed(owner string) string {
	doc := strings.Replace(gatewaytest.AllowAll, "identities:\n", `      - deny: [db.table.select]
        on: [public.counted.ssn]
identities:
`, 1)
	if owner != "" {
		doc += "audit: {keep_text: " + owner + "}\n"
	}
	return doc
}

// What no one may find without the owner's key. The first two are a literal and a parameter.
const literal, parameter = "LITERAL-4711-secret", "PARAMETER-0815-secret"

// mixedLoad sends statements by every way there is: prepared, simple, several in one text, over MCP, refused, failing.
func mixedLoad(t *testing.T, g *gatewaytest.Gateway) {
	ctx := t.Context()
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			conn, err := pgx.Connect(ctx, g.DSN("ana", "shop", "application_name=mixed"))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close(context.WithoutCancel(ctx))
			for i := range 15 {
				id := 1000*(worker+1) + i
				for _, do := range []func() error{
					func() error {
						return conn.QueryRow(ctx, "select count(*) from counted where note <> $1", parameter).Scan(new(int))
					},
					func() error {
						_, err := conn.Exec(ctx, "insert into counted values ($1, $2)", id, parameter)
						return err
					},
					func() error {
						_, err := conn.PgConn().Exec(ctx, fmt.Sprintf("update counted set note = '%s' where id = %d", literal, id)).ReadAll()
						return err
					},
					func() error {
						_, err := conn.PgConn().Exec(ctx, "select 1 from counted where id = 1; select 2 from counted where id = 2").ReadAll()
						return err
					},
				} {
					if err := do(); err != nil {
						t.Error(err)
					}
				}
				refused(t, conn, "select ssn from counted where note = '"+literal+"'", "42501")
				refused(t, conn, "select 1 / (id - id) from counted", "22012")
				refused(t, conn, "selec '"+literal+"'", "42601")
			}
		})
	}
	for range 10 {
		callMCP(t, g, "select id from counted where note = '"+literal+"' or id = 1")
		callMCP(t, g, "select ssn from counted where note = '"+literal+"'")
		callMCP(t, g, "select 1 / (id - id) from counted")
	}
	wait.Wait()
}

func refused(t *testing.T, conn *pgx.Conn, sql, state string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	if err == nil || !strings.Contains(err.Error(), state) {
		t.Errorf("%s: %v, want %s", sql, err, state)
	}
}

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func callMCP(t *testing.T, g *gatewaytest.Gateway, sql string) {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{"name": "interlock_query", "arguments": map[string]any{"source_id": "shop", "sql": sql}}})
	req, _ := http.NewRequestWithContext(t.Context(), "POST", g.MCP, bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer "+g.Key("bob"))
	req.Header.Set("Traceparent", traceparent)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}

// TestCountEquality: PostgreSQL logs as many statements as the audit log has that ran, and what was refused is in ours alone.
func TestCountEquality(t *testing.T) {
	server := pgtest.Start(t)
	dsn := server.Database(t, countedTable)
	server.Exec(t, dsn, "do $$ begin execute format('alter database %I set log_statement = ''all''', current_database()); end $$")
	both := tally.Source{Log: server.Log, Login: pgtest.Superuser, From: len(server.Log())}
	g := gatewaytest.Start(t, gatewaytest.Options{Database: dsn, Governance: governed("")})
	both.Audit = g.AuditDir
	mixedLoad(t, g)
	got, err := tally.Await(t.Context(), both, 30*time.Second)
	if err != nil || !got.Equal() {
		t.Errorf("%v %v", got, err)
	}
	const rounds, calls = 4 * 15, 10
	ran, failed := rounds*5+calls, rounds+calls // of each round, one text has two statements; what fails does so while it runs
	if got.Recorded != ran || got.Failed != failed || got.Logged != ran+failed {
		t.Errorf("%+v, want %d that ran and %d that failed", got, ran, failed)
	}
	if want := rounds*2 + calls; got.Alone != want { // the column that is denied, and what is no SQL
		t.Errorf("%d requests are on record alone, want %d", got.Alone, want)
	}
	differs(t, both, dsn)
}

// differs says that a comparison which was equal no longer is when a statement goes past the gateway, with a text that others have
// failed with, and when the server has not run one that is on record.
func differs(t *testing.T, both tally.Source, dsn string) {
	log := both.Log()
	one := regexp.MustCompile(`\(mixed\) LOG:  execute [^\n]*: select count`).FindString(log[both.From:])
	less := log[:both.From] + strings.Replace(log[both.From:], one, "(mixed) DETAIL:  ", 1)
	past, err := pgx.Connect(t.Context(), dsn+"&application_name=mixed")
	if err != nil {
		t.Fatal(err)
	}
	defer past.Close(context.WithoutCancel(t.Context()))
	refused(t, past, "select 1 / (id - id) from counted", "22012")
	for name, log := range map[string]string{"one more": both.Log(), "one less": less} {
		both.Log = func() string { return log }
		if got, err := tally.Compare(t.Context(), both); err != nil || got.Equal() || len(got.Differences) == 0 {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}

// TestAuditTellsNoSecrets looks for what must not be found, in everything that is written.
func TestAuditTellsNoSecrets(t *testing.T) {
	owner, err := audit.NewOwnerKey()
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuffer
	sink := filepath.Join(t.TempDir(), "sink.jsonl")
	index := pgtest.Start(t).Database(t)
	t.Setenv("TEST_SHARED_INDEX", index)
	var data string
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{countedTable}, Governance: governed(owner.Public()), Log: zerolog.New(&log),
		Configure: func(c *config.Config) {
			data = c.DataDir
			c.Audit.Sinks = []config.AuditSink{{Name: "copy", Kind: "file", Path: sink, Only: "all"}}
			indexedAs("n1")(c)
		}})
	mixedLoad(t, g)
	g.Revoke("bob")
	broken := governed(owner.Public()) + "nonsense: '" + literal + "'\n"
	if err := os.WriteFile(filepath.Join(filepath.Dir(data), "governance.yaml"), []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	key := g.Key("ana")
	if conn, err := pgx.Connect(t.Context(), strings.Replace(g.DSN("ana", "shop"), key, "wrong-"+parameter, 1)); err == nil {
		conn.Close(t.Context())
		t.Error("a wrong key was taken")
	}
	events := []string{audit.SessionOpened, audit.SessionClosed, audit.RulesetApplied, audit.RulesetBroken, audit.CatalogChanged,
		audit.SourceAvailable, audit.KeyCreated, audit.KeyRevoked, "log.opened", "log.checkpoint"}
	awaitEvents(t, g, events)
	awaitShipped(t, g)
	awaitSharedIndex(t, g)
	if n := len(g.Records(audit.Filter{Trace: "4bf92f3577b34da6a3ce929d0e0e4736"})); n != 30 {
		t.Errorf("%d requests with the caller's trace, want 30", n)
	}
	if n := len(g.Records(audit.Filter{Kind: "unauthenticated"})); n != 1 {
		t.Errorf("%d failed authentications, want 1", n)
	}
	checkSealed(t, g, owner)
	files, err := filepath.Glob(filepath.Join(data, "audit*"))
	if err != nil {
		t.Fatal(err)
	}
	written := map[string][]byte{"the operational log": log.bytes(), "the sink": read(t, sink), "the shared index": sharedTexts(t, index)}
	for _, f := range append(files, glob(t, data, "audit*", "*")...) {
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() && !strings.HasSuffix(f, "signing.key") {
			written[f] = read(t, f)
		}
	}
	upstream := strings.SplitN(strings.SplitN(g.Upstream, "@", 2)[1], "/", 2)[0]
	for where, text := range written {
		for _, secret := range []string{literal, parameter, key, "078-05-1120", owner.Secret()} {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s holds %q", where, secret)
			}
		}
		if where != "the operational log" && bytes.Contains(text, []byte(upstream)) {
			t.Errorf("%s holds the address of the server", where)
		}
	}
	if len(written) < 5 {
		t.Errorf("only %d files were looked at", len(written))
	}
	checkSchema(t, g.AuditDir)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func glob(t *testing.T, parts ...string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func awaitEvents(t *testing.T, g *gatewaytest.Gateway, names []string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		missing := []string{}
		for _, name := range names {
			if len(g.Records(audit.Filter{Event: name, Limit: 1})) == 0 {
				missing = append(missing, name)
			}
		}
		if len(missing) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no events %v", missing)
		}
	}
}

// awaitShipped waits until the sink and the index have all that was written up to now.
func awaitShipped(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	want := g.Audit.Stats().Seq
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(g.AdminURL() + "/v1/status")
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			Audit struct {
				Indexed uint64
				Sinks   []struct{ Sent uint64 }
			}
		}
		err = errors.Join(json.NewDecoder(resp.Body).Decode(&s), resp.Body.Close())
		if err != nil {
			t.Fatal(err)
		}
		if s.Audit.Indexed >= want && len(s.Audit.Sinks) == 1 && s.Audit.Sinks[0].Sent >= want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v behind %d", s.Audit, want)
		}
	}
}

// checkSealed opens full texts with the owner's key: literals and bound parameters are there.
func checkSealed(t *testing.T, g *gatewaytest.Gateway, owner audit.OwnerKey) {
	t.Helper()
	found := map[string]bool{}
	for _, v := range g.Records(audit.Filter{Identity: "ana"}) {
		if v.Sealed == "" {
			continue
		}
		text, err := owner.Open(v.ID, v.Sealed)
		if err != nil {
			t.Fatal(err)
		}
		var full struct {
			SQL        string
			Parameters []any
		}
		if err := json.Unmarshal([]byte(text), &full); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(full.SQL, literal) {
			found["literal"] = true
		}
		if len(full.Parameters) > 0 && full.Parameters[len(full.Parameters)-1] == parameter {
			found["parameter"] = true
		}
	}
	if len(found) != 2 {
		t.Errorf("only %v found with the owner's key", found)
	}
}

// checkSchema holds every entry of a log against the published schema.
func checkSchema(t *testing.T, dir string) {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(read(t, "../../docs/schema/audit.schema.json")))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("audit.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("audit.json")
	if err != nil {
		t.Fatal(err)
	}
	known := doc.(map[string]any)["properties"].(map[string]any)
	n := 0
	for _, file := range glob(t, dir, "audit-*.jsonl") {
		for line := range bytes.Lines(read(t, file)) {
			entry, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
			if err == nil {
				err = schema.Validate(entry)
			}
			if err != nil {
				t.Fatalf("%s\n%v", line, err)
			}
			for name := range entry.(map[string]any) {
				if known[name] == nil {
					t.Errorf("the schema does not know %q", name)
				}
			}
			n++
		}
	}
	if n < 500 {
		t.Errorf("only %d entries", n)
	}
}
