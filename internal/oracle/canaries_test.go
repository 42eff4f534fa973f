package oracle_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"interlock/internal/gatewaytest"
	"interlock/internal/oracle"
	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rs/zerolog"
)

const canariesDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
    limits: {statement_timeout: 2s, rows: 1000}
masks:
  fixed: {kind: fixed, value: hidden, countable: true}
  gone: {kind: "null"}
  alias: {kind: hash, key: env:CANARY_TEST_KEY}
  token: {kind: json, hide: [$.token]}
  thousands: {kind: number, step: 1000}
source_roles:
  everything:
    source: gov
    permissions:
      - allow: [db.table.select, db.table.insert, db.table.update, db.table.delete_rows, db.function.execute]
        on: ["canary.*"]
    masks:
      - {with: fixed, on: [canary.people.secret, canary.people.tags]}
      - {with: gone, on: [canary.people.code]}
      - {with: alias, on: [canary.orders.card]}
      - {with: token, on: [canary.people.doc]}
      - {with: thousands, on: [canary.people.amount]}
identities:
  ana: {kind: human, grants: [{source: gov, roles: [everything]}]}
`

// The letters of canaries are typed nowhere else, so that a single one of them is a leak, whatever was done to the value.
const canariesData = `
create schema canary;
create table canary.people (id int primary key, name text, secret text, code varchar, tags text[], doc jsonb, amount numeric, born date);
create table canary.orders (id bigint primary key, person int references canary.people, card text, note text);
create view canary.cards as select o.id, p.name, p.secret, upper(o.card) as card from canary.people p join canary.orders o on o.person = p.id;`

const canariesRows = `
truncate canary.people, canary.orders;
insert into canary.people values (1, 'Ana', 'ζξψϟζζξψ', 'ξψζϟξ', '{ψψζξ,ζϟ}', '{"k": 1, "token": "ϟζξψξ"}', 7776123.456789, '2026-01-01'),
	(2, 'a', 'ψζζϟξξψζ', 'ϟϟξζψ', '{ξζψ}', '{"token": ["ζψϟξ"]}', 7776124.456789, '1999-12-31'), (42, 'v', 'ξϟψζζψξϟ', null, '{}', '{}', 7776125.456789, null);
insert into canary.orders values (1, 1, 'ζϟζξψψξζ', 'a'), (7, 42, 'ψξϟξζψϟϟ', 'w');`

// leak finds the letters of canaries in either case: raw, as escapes of JSON, and two of them in hexadecimal digits of UTF-8 or
// UTF-16; and the fraction of the amounts.
var leak = regexp.MustCompile(`[ζξψϟΖΞΨϞ]|(?i:\\u03(b6|be|c8|df|96|9e|a8|de))|(?i:(ceb6|cebe|cf88|cf9f|ce96|ce9e|cea8|cf9e){2})|(?i:(03(b6|be|c8|df|96|9e|a8|de)){2})|777612[345]|\.456789`)

// leaks is leak, and whole canaries in base64 at each of its three offsets.
func leaks(heard []byte) string {
	if found := leak.Find(heard); found != nil {
		return string(found)
	}
	for _, canary := range []string{"ζξψϟζζξψ", "ψζζϟξξψζ", "ξϟψζζψξϟ", "ζϟζξψψξζ", "ψξϟξζψϟϟ", "ξψζϟξ", "ϟϟξζψ"} {
		for offset := range 3 {
			coded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + canary))
			if inner := coded[4 : len(coded)-4]; bytes.Contains(heard, []byte(inner)) {
				return inner
			}
		}
	}
	return ""
}

// written finds canaries in files, which may hold any two bytes by chance.
var written = regexp.MustCompile(`[ζξψϟ]{3}|[ΖΞΨϞ]{3}|777612[345]\.456`)

// Pieces of statements about masked columns, for more of those than invention comes upon.
var (
	maskedColumns = []string{"p.secret", "p.code", "p.tags", "p.doc", "p.amount", "o.card", "p.doc -> 'token'", "p.doc ->> 'k'"}
	wrappers      = []string{"%s", "upper(%s::text)", "%s::text || 'x'", "to_jsonb(%s)", "array[%s]", "coalesce(%s, null)", "(select %s)", "case when p.id > 0 then %s end",
		"length(%s::text)", "row(%s)", "%s::text", "left(%s::text, 3)", "%s is null", "max(%s::text)", "md5(%s::text)", "format('%%s', %s)", "nullif(%s::text, 'a')",
		"json_build_object('a', %s)", "string_agg(%s::text, ',')", "concat(p.name, %s)", "lag(%s) over (order by p.id)", "reverse(%s::text)", "convert_to(%s::text, 'UTF16')"}
	frames = []string{"select %s from F", "select p.id, %s as x, p.name from F order by 1", "with q as (select %s as x from F) select q.x from q", "select %s from F union all select null",
		"select to_jsonb(q) from (select %s as x, p.id from F) q", "copy (select %s from F) to stdout (format csv)", "select p.id from F where (%s)::text like 'a%%'",
		"select p.name from F order by %s", "explain (costs off) select %s from F", "select distinct %s from F", "update canary.people p set name = 'x' from canary.orders o where o.person = p.id returning %s",
		"select (%s)::int from F", "select * from (select p.*, %s as x from F) q", "copy (select %s from F) to stdout (format binary)"}
)

// denser makes a statement about a masked column.
func denser(rng *rand.Rand) string {
	x := maskedColumns[rng.IntN(len(maskedColumns))]
	for range rng.IntN(3) {
		x = strings.Replace(strings.ReplaceAll(wrappers[rng.IntN(len(wrappers))], "%%", "%"), "%s", x, 1)
	}
	sql := strings.Replace(strings.ReplaceAll(frames[rng.IntN(len(frames))], "%%", "%"), "%s", x, 1)
	return strings.ReplaceAll(sql, "F", "canary.people p join canary.orders o on o.person = p.id")
}

// heardConn keeps what comes from the server.
type heardConn struct {
	net.Conn
	heard *bytes.Buffer
}

func (c heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.heard.Write(b[:n])
	return n, err
}

// client runs invented statements, each in a transaction that is rolled back.
type client struct {
	conn  *pgconn.PgConn
	heard bytes.Buffer
	dsn   string
}

func (c *client) run(t *testing.T, sql string, extended bool) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if c.conn == nil || c.conn.IsClosed() {
		config, err := pgconn.ParseConfig(c.dsn)
		if err != nil {
			t.Fatal(err)
		}
		dial := config.DialFunc
		config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return heardConn{conn, &c.heard}, err
		}
		if c.conn, err = pgconn.ConnectConfig(ctx, config); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.conn.Exec(ctx, "begin").ReadAll(); err != nil {
		t.Fatal(err)
	}
	c.heard.Reset()
	var failed error
	if extended {
		failed = c.conn.ExecParams(ctx, sql, nil, nil, nil, nil).Read().Err
	} else {
		_, failed = c.conn.Exec(ctx, sql).ReadAll()
	}
	if !c.conn.IsClosed() {
		_, _ = c.conn.Exec(ctx, "rollback").ReadAll()
	}
	return failed
}

// TestOracleCanaries runs invented statements over tables with masked canaries. No letter of a canary leaves the gateway, at
// either door, in its log or in anything that it writes. ORACLE_CANARIES and ORACLE_SEED change how many statements there are
// and which.
func TestOracleCanaries(t *testing.T) {
	t.Setenv("CANARY_TEST_KEY", "a secret of the tests")
	count, seed := setting(t, "ORACLE_CANARIES", 200), setting(t, "ORACLE_SEED", 1)
	server := pgtest.Start(t)
	dsn := server.Database(t, canariesData)
	invented := oracle.NewGenerator(newJudge(t, dsn).index, []string{"canary"}, uint64(seed))
	var log bytes.Buffer
	g := gatewaytest.Start(t, gatewaytest.Options{Database: dsn, Governance: canariesDocument, Log: zerolog.New(zerolog.SyncWriter(&log))})
	guarded, unguarded := &client{dsn: g.DSN("ana", "gov")}, &client{dsn: dsn}
	rng := rand.New(rand.NewPCG(uint64(seed), 16))
	var ran, masked, proven int
	for i := range count {
		if i%50 == 0 { // what is invented for MCP is not rolled back, and would leave no canary
			server.Exec(t, dsn, canariesRows)
		}
		sql := denser(rng)
		if i%2 == 0 {
			sql = invented.Statement().String()
		}
		if guarded.run(t, sql, i%4 < 2) == nil {
			ran++
		}
		if found := leaks(guarded.heard.Bytes()); found != "" {
			t.Errorf("%q is heard: %s", found, sql)
		}
		if i%5 == 0 {
			if found := leaks(callQuery(t, g, sql)); found != "" {
				t.Errorf("%q is heard over MCP: %s", found, sql)
			}
		}
		if strings.Contains(guarded.heard.String(), "hidden") {
			masked++
		}
		if i >= 1000 || i%2 == 0 {
			continue
		}
		_ = unguarded.run(t, sql, false) // it may fail
		if leaks(unguarded.heard.Bytes()) != "" {
			proven++
		}
	}
	t.Logf("%d statements, %d ran, %d showed the fixed mask; of those about masked columns among the first 1000, %d leak without the gateway", count, ran, masked, proven)
	if ran < count/10 || proven < min(count, 1000)/10 || masked < count/100 {
		t.Error("too few statements show anything")
	}

	if found := leaks(log.Bytes()); found != "" {
		t.Errorf("%q is in the log", found)
	}
	nothingWritten(t, filepath.Dir(g.AuditDir))
}

// nothingWritten looks through all files of the gateway: audit log, index, store.
func nothingWritten(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if found := written.Find(content); found != nil {
			t.Errorf("%q is in %s", found, filepath.Base(path))
		}
		files++
		return err
	})
	if err != nil || files < 3 {
		t.Errorf("%d files, %v", files, err)
	}
}

// callQuery returns the answer of interlock_query.
func callQuery(t *testing.T, g *gatewaytest.Gateway, sql string) []byte {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"interlock_query","arguments":{"source_id":"gov","sql":` + strconv.QuoteToASCII(sql) + `}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.MCP, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Authorization": "Bearer " + g.Key("ana"), "MCP-Protocol-Version": "2025-06-18"} {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer
}
