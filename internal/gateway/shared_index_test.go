package gateway_test

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"interlock/audit"
	"interlock/internal/admin"
	"interlock/internal/config"
	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
	"interlock/internal/store"
)

// indexedAs makes a gateway a node whose log is in the index of env:TEST_SHARED_INDEX.
func indexedAs(node string) func(*config.Config) {
	return func(c *config.Config) {
		c.Audit.Node = node
		c.Audit.SharedIndex.DSN = "env:TEST_SHARED_INDEX"
	}
}

func statusOf(t *testing.T, g *gatewaytest.Gateway) (s admin.Status) {
	t.Helper()
	resp, err := http.Get(g.AdminURL() + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	if err = errors.Join(json.NewDecoder(resp.Body).Decode(&s), resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return s
}

// awaitStatus waits until a gateway says of itself what is wanted.
func awaitStatus(t *testing.T, g *gatewaytest.Gateway, what string, wanted func(*admin.Status) bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		s := statusOf(t, g)
		if wanted(&s) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %+v, %+v", what, s, s.Audit.Shared)
		}
	}
}

// awaitSharedIndex waits until the shared index has all that a node has written up to now.
func awaitSharedIndex(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	want := g.Audit.Stats().Seq
	awaitStatus(t, g, "not in the shared index", func(s *admin.Status) bool {
		return s.Audit.Shared != nil && s.Audit.Shared.Indexed >= want && !s.Audit.Shared.Failing
	})
}

func ask(t *testing.T, g *gatewaytest.Gateway, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), g.DSN("ana", "shop"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// TestTwoNodesShareAnIndex: what two gateways have recorded is found by one search, also what came while the database was lost,
// which holds up nobody and shows.
func TestTwoNodesShareAnIndex(t *testing.T) {
	server := pgtest.Start(t)
	dsn := server.Database(t)
	t.Setenv("TEST_SHARED_INDEX", dsn)
	database := server.Database(t, countedTable)
	nodes := map[string]*gatewaytest.Gateway{}
	for _, name := range []string{"n1", "n2"} {
		nodes[name] = gatewaytest.Start(t, gatewaytest.Options{Database: database, Configure: indexedAs(name)})
		ask(t, nodes[name], "select 1 from counted", "select id from counted where id = 7")
	}
	found := func() {
		t.Helper()
		want, got := map[string]bool{}, map[string]bool{}
		for name, g := range nodes {
			awaitSharedIndex(t, g)
			for _, v := range g.Records(audit.Filter{Source: "shop", Verdict: "allow"}) {
				want[name+" "+v.ID+" "+string(v.Status)+" "+v.Statement] = true
			}
		}
		x, err := store.ReadShared(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		if err := x.Search(t.Context(), audit.Filter{Source: "shop", Verdict: "allow"}, func(v audit.View) bool {
			got[v.Node+" "+v.ID+" "+string(v.Status)+" "+v.Statement] = true
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if len(want) < 4 || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	found()
	name := dsn[strings.LastIndex(dsn, "/")+1 : strings.Index(dsn, "?")]
	server.Exec(t, server.DSN("postgres"), "alter database "+name+" allow_connections false")
	server.Exec(t, server.DSN("postgres"), "select pg_terminate_backend(pid, 60000) from pg_stat_activity where datname = '"+name+"'")
	ask(t, nodes["n1"], "select 2 from counted")
	awaitStatus(t, nodes["n1"], "it is not said that the index is lost", func(s *admin.Status) bool {
		return s.Ready && s.Audit.Shared.Failing && s.Audit.Shared.Lag > 0 && strings.Contains(strings.Join(s.Problems, "\n"), "the shared audit index does not take entries")
	})
	server.Exec(t, server.DSN("postgres"), "alter database "+name+" allow_connections true")
	found()
}

// sharedTexts returns everything that is in a shared index, with what is compressed in it.
func sharedTexts(t *testing.T, dsn string) []byte {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var all bytes.Buffer
	for _, table := range []string{"part", "meta", "who", "shape", "touch", "ending", "session", "loose"} {
		rows, err := conn.Query(t.Context(), "select x::text from interlock_audit."+table+" x")
		if err != nil {
			t.Fatal(err)
		}
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(strings.Join(texts, "\n"))
	}
	chunks := 0
	for table, columns := range map[string][]string{"block": {"head", "keys", "places", "traces"}, "counts": {"callers", "shapes", "sums"}, "judgement": {"members"},
		"loose_text": {"record", "outcome"}, "chunk": {"texts"}} {
		for _, column := range columns {
			rows, err := conn.Query(t.Context(), "select "+column+" from interlock_audit."+table)
			if err != nil {
				t.Fatal(err)
			}
			values, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range values {
				if table == "chunk" {
					chunks++
					if v, err = io.ReadAll(flate.NewReader(bytes.NewReader(v))); err != nil {
						t.Fatal(err)
					}
				}
				all.Write(v)
			}
		}
	}
	if chunks == 0 || !bytes.Contains(all.Bytes(), []byte("select ")) || !bytes.Contains(all.Bytes(), []byte(`"outcome":{"status"`)) {
		t.Error("the shared index has no requests")
	}
	return all.Bytes()
}
