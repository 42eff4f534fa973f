package gateway_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"interlock/internal/config"
	"interlock/internal/gatewaytest"
	"interlock/internal/redistest"
)

// Results are kept no longer than the source says, and no more of them than the node has room for.
func TestResultsAreBounded(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: keptTables, Governance: strings.Replace(keeping, "ttl: 1h", "ttl: 3s", 1), Configure: func(c *config.Config) {
		c.Limits.WriteLease, c.Limits.ResultCacheBytes = time.Second, 64<<10
	}})
	warm(t, g)
	read := func(sql string) said { return call(t, g.MCP, g.Key("ana"), sql) }
	direct, err := pgx.Connect(t.Context(), g.Upstream)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close(context.Background())

	const sql = "select secret from t where i = 1"
	if s := read(sql); s.rows != `[{"secret":"hidden"}]` {
		t.Fatal(s)
	}
	kept := time.Now() // or before
	if _, err := direct.Exec(t.Context(), "update t set secret = 'new' where i = 1"); err != nil {
		t.Fatal(err)
	}
	for {
		begun := time.Now()
		s := read(sql)
		if s.rows == `[{"secret":"new"}]` {
			break
		}
		if begun.Sub(kept) > ttl {
			t.Fatalf("%+v is served after %s", s, begun.Sub(kept))
		}
	}

	wide := func(i int) string { return fmt.Sprintf("select repeat('x', 4000) || %d as a", i) }
	for i := range 40 {
		read(wide(i))
	}
	hits := 0
	for i := 39; i >= 0; i-- { // the newest first, for a read that is no hit is kept as well
		if read(wide(i)).cache == "hit" {
			hits++
		}
	}
	if hits > 16 {
		t.Errorf("%d results of 4 kB are kept in 64 KiB", hits)
	}
	for range 3 {
		if s := read("select repeat('x', 9000) as a"); s.state != "" || s.cache != "" {
			t.Errorf("a result of more than an eighth: %q", s.cache)
		}
	}
}

// The attack: a node is killed while a statement of its runs, which the server carries through and nobody tells of. No
// read on another node that begins after it is committed may be without it.
func TestNodeKilledWhileItWrites(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	n := nodesOf(t, keeping, keptTables...)
	file := filepath.Join(n.dir, "redis.url")
	if err := os.WriteFile(file, []byte(redis.URL()), 0o600); err != nil {
		t.Fatal(err)
	}
	n.more = "redis: {url: \"file:" + file + "\", timeout: 10s}\nlimits: {write_lease: 1s}\n"
	dies := n.start("dies", "")
	other := sharing(t, n.upstream, redis.URL(), keeping, short)
	warm(t, other)
	direct, err := pgx.Connect(t.Context(), n.upstream)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close(context.Background())
	state := func() (rows string, writing bool) {
		t.Helper()
		err := direct.QueryRow(t.Context(), `select (select json_agg(x order by i) from (select i from t) x)::jsonb::text,
			exists (select from pg_stat_activity where datname = current_database() and state = 'active' and query like 'insert into t (i)%')`).Scan(&rows, &writing)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(rows, " ", ""), writing
	}
	const sql = "select i from t order by i"
	read := func() said { return call(t, other.MCP, other.Key("ana"), sql) }
	read()
	before := read()
	if before.cache != "hit" {
		t.Fatalf("before: %+v", before)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("ana", n.ana), Host: dies.pg, Path: "/shop", RawQuery: "sslmode=disable"}
	conn, s := connect(t, u.String())
	if s.state != "" {
		t.Fatal(s)
	}
	ended := make(chan said, 1)
	go func() { ended <- simple(conn, "insert into t (i) select 2 from pg_sleep(0.7)") }()
	for deadline := time.Now().Add(time.Minute); ; {
		if rows, writing := state(); writing || rows != before.rows {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the statement does not begin")
		}
	}
	dies.kill()
	<-ended
	for deadline := time.Now().Add(time.Minute); ; {
		rows, writing := state()
		s := read()
		if rows != before.rows && s.rows != rows || s.state != "" {
			t.Fatalf("%s is committed, and %+v was read", rows, s)
		}
		if s.cache == "hit" && !writing {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing is kept any more")
		}
	}
	if rows, _ := state(); rows == before.rows {
		t.Error("the server has not carried the statement through, so this shows nothing")
	}
}
