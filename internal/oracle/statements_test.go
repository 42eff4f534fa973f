package oracle_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock/catalog"
	"interlock/internal/oracle"
	"interlock/internal/pgtest"
	"interlock/internal/upstream"
	"interlock/sqlgov/analyze"

	"github.com/jackc/pgx/v5"
	pg_query "github.com/pganalyze/pg_query_go/v5"
)

// judge is a database with its catalog, and PostgreSQL to ask about it.
type judge struct {
	dsn    string
	index  *catalog.Index
	server *oracle.Server
	path   string // the search_path that the server has
}

func newJudge(t *testing.T, dsn string) *judge {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	snapshot, err := upstream.Scan(ctx, conn, "test")
	if err != nil {
		t.Fatal(err)
	}
	j := &judge{dsn: dsn, index: catalog.NewIndex(snapshot)}
	if j.server, err = oracle.Connect(ctx, dsn, j.index); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.server.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return j
}

// shopJudge knows testdata/oracle/schema.sql.
func shopJudge(t *testing.T) *judge {
	t.Helper()
	return newJudge(t, pgtest.Start(t).Shared(t, "oracle", repositoryFile(t, "testdata/oracle/schema.sql")))
}

func repositoryFile(t *testing.T, name string) string {
	t.Helper()
	path, err := pgtest.File(name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOracleStatements asks PostgreSQL about every statement of testdata/oracle/statements.sql, in both forms. The variable
// ORACLE_STATEMENTS names another file, from the root of the repository, to ask about as well.
func TestOracleStatements(t *testing.T) {
	j := shopJudge(t)
	questions := readQuestions(repositoryFile(t, "testdata/oracle/statements.sql"))
	if more := os.Getenv("ORACLE_STATEMENTS"); more != "" {
		questions = append(questions, readQuestions(repositoryFile(t, more))...)
	}
	if len(questions) < 250 {
		t.Fatalf("%d statements only", len(questions))
	}
	claims := make([]*oracle.Claim, len(questions))
	start := time.Now()
	for i := range questions {
		claims[i] = j.analysed(t, &questions[i])
	}
	analysed := time.Since(start)
	j.tried(t, questions, claims)
	t.Logf("%d statements; analysed in %v, tried in %v", len(questions), analysed, time.Since(start)-analysed)
}

// analysed compares what we report with PostgreSQL's analysis, and returns the report as a claim to be tried.
func (j *judge) analysed(t *testing.T, q *question) *oracle.Claim {
	t.Helper()
	facts, err := analyze.Analyze(q.sql, q.env(j.index))
	if err != nil {
		_, serverErr := j.needs(q, &analyze.Statement{})
		t.Errorf("%s\n\trefused: %v; the server says %v", q, describeError(err), serverErr)
		return nil
	}
	st := &facts.Statements[0]
	needs, err := j.needs(q, st)
	if err != nil {
		t.Errorf("%s\n\tthe server refuses it: %v", q, err)
		return nil
	}
	for _, d := range j.disagreements(st, needs, q) {
		t.Errorf("%s\n\t%s", q, d)
	}
	c := q.claim(st, needs)
	for i := range j.index.Snapshot.Functions {
		f := &j.index.Snapshot.Functions[i]
		if q.also[oracle.FunctionText(j.index, f.OID)] {
			c.Functions = append(c.Functions, f.OID)
		}
	}
	return c
}

// claim puts a report into the form in which it is tried.
func (q *question) claim(st *analyze.Statement, needs *oracle.Needs) *oracle.Claim {
	c := &oracle.Claim{SQL: q.sql, Before: "set local search_path = " + q.path}
	if q.before != "" {
		c.Before += ";" + q.before
	}
	if st.Kind == analyze.Prepare {
		c.Before, c.SQL = c.Before+";"+q.sql, "execute "+st.Name+q.arguments()
	}
	for _, d := range demands(st) {
		if slices.Contains(needs.Unchecked, d) {
			c.Free = append(c.Free, d)
		} else {
			c.Demands = append(c.Demands, d)
		}
	}
	for _, f := range st.Functions {
		if q.isNeedless(f) {
			c.FreeFunctions = append(c.FreeFunctions, f.OID)
		} else {
			c.Functions = append(c.Functions, f.OID)
		}
	}
	return c
}

func (j *judge) needs(q *question, st *analyze.Statement) (*oracle.Needs, error) {
	ctx := context.Background()
	if j.path != q.path {
		if err := j.server.Run(ctx, "set search_path = "+q.path); err != nil {
			return nil, err
		}
		j.path = q.path
	}
	switch {
	case st.Kind == analyze.Prepare:
		return j.server.AnalysedPrepare(ctx, q.sql)
	case q.before != "":
		return j.server.AnalysedPrepare(ctx, q.before)
	}
	if inner := q.inside(); inner != "" {
		return j.server.Analysed(ctx, inner)
	}
	return j.server.Analysed(ctx, q.sql)
}

// inside is the statement inside EXPLAIN or COPY, of which Parse says nothing; "" for others.
func (q *question) inside() string {
	tree, err := pg_query.Parse(q.sql)
	if err != nil || len(tree.Stmts) != 1 {
		return ""
	}
	inner := tree.Stmts[0].Stmt.GetExplainStmt().GetQuery()
	if inner == nil {
		inner = tree.Stmts[0].Stmt.GetCopyStmt().GetQuery()
	}
	if inner == nil {
		return ""
	}
	text, err := pg_query.Deparse(&pg_query.ParseResult{Stmts: []*pg_query.RawStmt{{Stmt: inner}}})
	if err != nil {
		panic(err) // what was parsed can be printed
	}
	return text
}

// tried lets a role that holds exactly what we report run the statements, and without any one of its privileges.
func (j *judge) tried(t *testing.T, questions []question, claims []*oracle.Claim) {
	t.Helper()
	ctx := context.Background()
	trial, err := j.server.Try(ctx, j.index)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := trial.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	for i, c := range claims {
		if c == nil {
			continue
		}
		v, err := trial.Judge(ctx, c)
		if err != nil {
			t.Errorf("%s\n\t%v", &questions[i], err)
			continue
		}
		if v.Refused != "" {
			t.Errorf("%s\n\trefused to a role that holds all that is reported: %s", &questions[i], v.Refused)
		}
		if len(v.Needless) > 0 {
			t.Errorf("%s\n\truns without %s", &questions[i], strings.Join(v.Needless, ", "))
		}
		if v.Failure != "" {
			t.Errorf("%s\n\tfails: %s", &questions[i], v.Failure)
		}
	}
}
