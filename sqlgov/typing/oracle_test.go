package typing_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock/catalog"
	"interlock/internal/pgtest"
	"interlock/internal/upstream"
	"interlock/sqlgov/typing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// answer is what an expression resolves to, by the server or by the resolver.
type answer struct {
	state  string        // SQLSTATE of the failure
	picked catalog.OID   // function behind the outermost call, operator or cast; 0 when nothing is called
	result catalog.OID   // type
	calls  []catalog.OID // every function called, sorted, each once

	message   string      // of the failure, if it is that a function or operator is unknown or ambiguous
	described catalog.OID // type that the server describes the result as: never a domain
}

func (a answer) String() string {
	if a.state != "" {
		return a.state + " " + a.message
	}
	return fmt.Sprintf("function %d -> type %d, calls %v", a.picked, a.result, a.calls)
}

// equal treats an internal error of the server (it happens where a common type is no type to convert to) as any failure.
func (a answer) equal(b answer) bool {
	if b.state == "XX000" {
		return a.state != ""
	}
	return a.state == b.state && a.message == b.message && a.picked == b.picked && a.result == b.result && slices.Equal(a.calls, b.calls)
}

// comparable leaves out of an answer what the other side cannot know: the server does not print the checks of
// domains, and describes a result of a domain as of its base type where no function is called.
func (o *oracle) comparable(a answer) answer {
	r := typing.Resolver{Catalog: o.index}
	if a.picked == 0 {
		a.result = r.Base(a.result)
	}
	a.calls = slices.DeleteFunc(slices.Clone(a.calls), func(f catalog.OID) bool { return o.checks[f] && f != a.picked })
	return a
}

// domainChecks lists the functions that domains check their values by.
func domainChecks(x *catalog.Index) map[catalog.OID]bool {
	checks := map[catalog.OID]bool{}
	for i := range x.Snapshot.Types {
		for _, f := range x.Snapshot.Types[i].CheckFuncs {
			checks[f] = true
		}
	}
	return checks
}

// oracle asks a real server how it analyses expressions. Nothing is run: the statements are only parsed, and the
// server prints the analysed tree into a notice.
type oracle struct {
	conn   *pgx.Conn
	index  *catalog.Index
	checks map[catalog.OID]bool
	tree   string
}

//go:embed testdata/setup.sql
var setup string

// scan reads the database of these tests, once for all of them.
var scan = sync.OnceValues(func() (*catalog.Index, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	snapshot, err := upstream.Scan(ctx, conn, "test")
	if err != nil {
		return nil, err
	}
	return catalog.NewIndex(snapshot), nil
})

// dsn names the database that newOracle has made, for scan.
var dsn string

// newOracle connects to the database of these tests, and makes and scans it first if need be.
func newOracle(t *testing.T) (*oracle, *catalog.Index) {
	t.Helper()
	dsn = pgtest.Start(t).Shared(t, "typing", setup)
	x, err := scan()
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	o := &oracle{index: x, checks: domainChecks(x)}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.Message == "parse tree:" {
			o.tree = n.Detail
		}
	}
	ctx := context.Background()
	if o.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.conn.Close(ctx) })
	const chatty = `set log_min_messages = panic; set client_min_messages = log; set debug_print_parse = on;
		set debug_pretty_print = off`
	if _, err := o.conn.PgConn().Exec(ctx, chatty).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return o, x
}

// resolver resolves along a path, which the server searches from now on, too.
func (o *oracle) resolver(t *testing.T, x *catalog.Index, path ...string) *typing.Resolver {
	t.Helper()
	if _, err := o.conn.Exec(context.Background(), "set search_path = "+strings.Join(path, ",")); err != nil {
		t.Fatal(err)
	}
	return &typing.Resolver{Catalog: x, Path: path}
}

// ask returns the server's answers to expressions, in order.
func (o *oracle) ask(t *testing.T, expressions []string) []answer {
	t.Helper()
	var answers []answer
	for batch := range slices.Chunk(expressions, 200) {
		answers = append(answers, o.askBatch(t, batch)...)
	}
	return answers
}

func (o *oracle) askBatch(t *testing.T, batch []string) []answer {
	t.Helper()
	p := o.conn.PgConn().StartPipeline(context.Background())
	for _, e := range batch {
		p.SendPrepare("", statement(e), nil)
		p.SendPipelineSync()
	}
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	answers := make([]answer, 0, len(batch))
	for range batch {
		o.tree = ""
		answers = append(answers, o.next(t, p))
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return answers
}

// statement wraps an expression, unless it is a statement already.
func statement(e string) string {
	if strings.HasPrefix(e, "CALL ") || strings.HasPrefix(e, "INSERT ") {
		return e
	}
	return "SELECT " + e
}

// next reads the answer to one statement, up to its synchronization.
func (o *oracle) next(t *testing.T, p *pgconn.Pipeline) answer {
	t.Helper()
	var a answer
	for {
		results, err := p.GetResults()
		var refused *pgconn.PgError
		switch {
		case errors.As(err, &refused):
			a = failure(refused.Code, refused.Message)
			continue
		case err != nil:
			t.Fatal(err)
		}
		switch r := results.(type) {
		case *pgconn.StatementDescription:
			a = readTree(o.tree)
			if len(r.Fields) == 1 {
				a.described = catalog.OID(r.Fields[0].DataTypeOID)
			}
			if a.picked == 0 {
				a.result = a.described
			}
		case *pgconn.PipelineSync:
			return a
		}
	}
}

// callee are the fields of a printed tree that name a function which is called.
var callee = map[string]bool{":funcid": true, ":opfuncid": true, ":aggfnoid": true, ":winfnoid": true}

// readTree finds the functions in a printed tree, a sequence of words. The first column's expression begins with
// "({TARGETENTRY :expr {OPEXPR :opno 96 :opfuncid 65 :opresulttype 16", or likewise without the operator.
func readTree(tree string) answer {
	var a answer
	words := strings.Fields(tree)
	for i, w := range words {
		switch {
		case callee[w]:
			a.calls = append(a.calls, oid(words[i+1]))
		case w == "({TARGETENTRY" && a.picked == 0 && len(words) > i+8:
			node := words[i+3:]
			if node[0] == ":opno" {
				node = node[2:]
			}
			if callee[node[0]] && strings.HasSuffix(node[2], "type") {
				a.picked, a.result = oid(node[1]), oid(node[3])
			}
		}
	}
	a.calls = distinct(a.calls)
	return a
}

func oid(s string) catalog.OID {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		panic(err)
	}
	return catalog.OID(n)
}

func distinct(oids []catalog.OID) []catalog.OID {
	slices.Sort(oids)
	return slices.Compact(oids)
}

// failed turns a resolver's error into an answer.
func failed(err error) answer {
	var e *typing.Error
	if !errors.As(err, &e) {
		return answer{state: err.Error()}
	}
	return failure(e.SQLState, e.Message)
}

// failure is the answer for a failure. The words of the two failures that callers see most are compared as well.
func failure(state, message string) answer {
	if state != "42883" && state != "42725" {
		message = ""
	}
	return answer{state: state, message: message}
}

// compare asks the server and reports every expression on which the resolver disagrees.
func (o *oracle) compare(t *testing.T, expressions []string, got []answer) {
	t.Helper()
	o.compareOnly(t, expressions, got, func(a answer) answer { return a })
}

// conversion is the part of an answer that matters where no function is called by name.
func conversion(a answer) answer { return answer{state: a.state, message: a.message, calls: a.calls} }

// described is the part of an answer that says what type an expression has, and what is called to get there.
func described(a answer) answer {
	if a.described != 0 {
		a.result = a.described
	}
	return answer{state: a.state, message: a.message, result: a.result, calls: a.calls}
}

// compareOnly is compare for a part of the answers.
func (o *oracle) compareOnly(t *testing.T, expressions []string, got []answer, part func(answer) answer) {
	t.Helper()
	want := o.ask(t, expressions)
	disagreements := 0
	for i, e := range expressions {
		got[i], want[i] = part(o.comparable(got[i])), part(o.comparable(want[i]))
		if strings.HasPrefix(e, "CALL ") {
			got[i] = failure(got[i].state, got[i].message) // the server does not print the tree of a CALL
		}
		if got[i].equal(want[i]) {
			continue
		}
		if disagreements++; disagreements <= 40 {
			t.Errorf("%s\n\tgot  %v\n\twant %v", e, got[i], want[i])
		}
	}
	resolved := 0
	for _, w := range want {
		if w.state == "" {
			resolved++
		}
	}
	t.Logf("%d cases (%d resolve, %d fail), %d disagreements", len(want), resolved, len(want)-resolved, disagreements)
}
