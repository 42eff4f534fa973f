package analyze_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock/catalog"
	"interlock/internal/oracle"
	"interlock/internal/pgtest"
	"interlock/internal/upstream"
	"interlock/sqlgov/analyze"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// searchPath is what unqualified names of the test statements are looked up along.
var searchPath = []string{"app", "public"}

// server is the attack schema with testdata/schema.sql beside it, on a real PostgreSQL, and its catalog.
type server struct {
	*oracle.Server
	dsn   string
	index *catalog.Index
}

var prepared struct {
	sync.Mutex
	index *catalog.Index
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{dsn: pgtest.Attacks(t)}
	s.index = prepare(t, s.dsn)
	ctx := context.Background()
	var err error
	if s.Server, err = oracle.Connect(ctx, s.dsn, s.index); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(ctx) })
	if err := s.Run(ctx, "set search_path = "+strings.Join(searchPath, ",")); err != nil {
		t.Fatal(err)
	}
	return s
}

// prepare lays out testdata/schema.sql and scans the database, once for all tests.
func prepare(t testing.TB, dsn string) *catalog.Index {
	t.Helper()
	prepared.Lock()
	defer prepared.Unlock()
	if prepared.index != nil {
		return prepared.index
	}
	setup, err := os.ReadFile("testdata/schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Start(t).Exec(t, dsn, string(setup))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	snapshot, err := upstream.Scan(ctx, conn, "gov")
	if err != nil {
		t.Fatal(err)
	}
	prepared.index = catalog.NewIndex(snapshot)
	return prepared.index
}

func (s *server) analyze(sql string) (*analyze.Facts, error) {
	return analyze.Analyze(sql, analyze.Env{Catalog: s.index, SearchPath: searchPath})
}

// statements reads a file of statements that end in a semicolon at the end of a line. Lines that begin with "--" are comments.
func statements(t testing.TB, file string) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	sql := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if sql == "" && (line == "" || strings.HasPrefix(line, "--")) {
			continue
		}
		sql += line + "\n"
		if strings.HasSuffix(line, ";") {
			all = append(all, strings.TrimSuffix(strings.TrimSpace(sql), ";"))
			sql = ""
		}
	}
	return all
}

// demands are what a statement's facts say of relations, in the oracle's words.
func demands(st *analyze.Statement) []oracle.Demand {
	var all []oracle.Demand
	for _, c := range st.Reads {
		all = append(all, oracle.Demand{Action: oracle.Select, Relation: c.Relation, Num: c.Num})
	}
	actions := map[analyze.WriteAction]oracle.Action{
		analyze.Inserting: oracle.Insert, analyze.Updating: oracle.Update,
		analyze.Deleting: oracle.Delete, analyze.Truncating: oracle.Truncate,
	}
	for _, w := range st.Writes {
		all = append(all, oracle.Demand{Action: actions[w.Action], Relation: w.Column.Relation, Num: w.Column.Num})
	}
	return oracle.Normal(all)
}

func functions(st *analyze.Statement) []catalog.OID {
	var all []catalog.OID
	for _, f := range st.Functions {
		all = append(all, f.OID)
	}
	return all
}

// TestServerAgrees holds the facts of every test statement against the server's own analysis: what it demands, what it
// calls, and how it describes the result.
func TestServerAgrees(t *testing.T) {
	s := newServer(t)
	list := append(statements(t, "statements.sql"), viewStatements(s.index)...)
	for _, sql := range list {
		facts, err := s.analyze(sql)
		if err != nil {
			t.Errorf("%s\n\trefused: %v", sql, err)
			continue
		}
		st := &facts.Statements[0]
		if !slices.Contains([]analyze.Kind{analyze.Select, analyze.Insert, analyze.Update, analyze.Delete, analyze.Merge}, st.Kind) {
			continue
		}
		needs, err := s.Analysed(context.Background(), sql)
		if err != nil {
			t.Errorf("%s\n\tthe server refuses it: %v", sql, err)
			continue
		}
		s.compareDemands(t, sql, st, needs)
		compareFields(t, sql, st, needs)
	}
	t.Logf("%d statements", len(list))
}

// viewStatements select everything from every view, the system's own too.
func viewStatements(index *catalog.Index) []string {
	var all []string
	for i := range index.Snapshot.Relations {
		if r := &index.Snapshot.Relations[i]; r.Kind == catalog.View || r.Kind == catalog.MaterializedView {
			all = append(all, "select * from "+pgx.Identifier{r.Schema, r.Name}.Sanitize())
		}
	}
	return all
}

func (s *server) compareDemands(t *testing.T, sql string, st *analyze.Statement, needs *oracle.Needs) {
	t.Helper()
	ours := demands(st)
	for _, d := range needs.Demands {
		if !slices.Contains(ours, d) {
			t.Errorf("%s\n\tnot reported: %s", sql, oracle.Text(s.index, d))
		}
	}
	for _, d := range ours {
		if !slices.Contains(needs.Demands, d) && !slices.Contains(needs.Unchecked, d) {
			t.Errorf("%s\n\treported in vain: %s", sql, oracle.Text(s.index, d))
		}
	}
	called := functions(st)
	for _, f := range needs.Functions {
		if !slices.Contains(called, f) {
			t.Errorf("%s\n\tnot reported: %s", sql, oracle.FunctionText(s.index, f))
		}
	}
	for _, f := range called {
		if !slices.Contains(needs.Functions, f) && !slices.Contains(needs.Behind, f) && !slices.Contains(inVain, oracle.FunctionText(s.index, f)) {
			t.Errorf("%s\n\treported in vain: %s", sql, oracle.FunctionText(s.index, f))
		}
	}
}

// inVain are functions that are reported although no tree shows them: the conversion of a constant in a branch of UNION,
// which the server makes when it plans, and what a conversion to regclass amounts to.
var inVain = []string{"pg_catalog.numeric(integer)", "pg_catalog.int8(integer)", "pg_catalog.to_regclass(text)"}

func compareFields(t *testing.T, sql string, st *analyze.Statement, needs *oracle.Needs) {
	t.Helper()
	if len(st.Output) != len(needs.Fields) {
		t.Errorf("%s\n\t%d output columns, want %d", sql, len(st.Output), len(needs.Fields))
		return
	}
	for i, f := range needs.Fields {
		o := st.Output[i]
		if o.Name != f.Name || o.Origin.Relation != f.Relation || o.Origin.Num != f.Num {
			t.Errorf("%s\n\toutput column %d is %q from %d.%d, want %q from %d.%d", sql, i+1,
				o.Name, o.Origin.Relation, o.Origin.Num, f.Name, f.Relation, f.Num)
		}
	}
}

// TestServerDemands runs test statements as a role that holds exactly what is reported, which must do, and without any one of
// it, which must fail. It takes those that change something or call functions outside pg_catalog; package oracle asks about
// the rest.
func TestServerDemands(t *testing.T) {
	s := newServer(t)
	ctx := context.Background()
	trial, err := s.Try(ctx, s.index)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := trial.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	for _, sql := range statements(t, "statements.sql") {
		facts, err := s.analyze(sql)
		if err != nil {
			continue // TestServerAgrees says so
		}
		st := &facts.Statements[0]
		own := slices.ContainsFunc(st.Functions, func(f *catalog.Function) bool { return !catalog.IsSystemSchema(f.Schema) })
		if st.Kind == analyze.Prepare || strings.Contains(sql, "$") || len(st.Writes) == 0 && !own {
			continue
		}
		claim := &oracle.Claim{SQL: sql, Before: "set local search_path = app, public", Demands: demands(st)}
		for _, f := range st.Functions {
			if f.Name == "system_rows" { // sampling methods are not checked
				claim.FreeFunctions = append(claim.FreeFunctions, f.OID)
			} else {
				claim.Functions = append(claim.Functions, f.OID)
			}
		}
		verdict, err := trial.Judge(ctx, claim)
		if err != nil {
			t.Fatalf("%s\n\t%v", sql, err)
		}
		if verdict.Refused != "" {
			t.Errorf("%s\n\trefused to a role that holds all that is reported: %s", sql, verdict.Refused)
		}
		if len(verdict.Needless) > 0 {
			t.Errorf("%s\n\truns without %s", sql, strings.Join(verdict.Needless, ", "))
		}
	}
}
