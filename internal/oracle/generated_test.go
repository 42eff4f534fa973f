package oracle_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"interlock/catalog"
	"interlock/internal/oracle"
	"interlock/sqlgov/analyze"

	"github.com/jackc/pgx/v5/pgconn"
)

// tally counts what became of invented statements.
type tally struct {
	invented, invalid, lenient, agreed int
	refusals                           map[string]int // valid statements that we refuse, by reason
	examples                           map[string]string
	under, over, output                int
	invalidBy                          map[string]int
	seen                               map[string]bool // differences that were reported
	claims                             []*oracle.Claim // some of what agreed, to be tried
	byPolicy                           int             // of the refusals: those that are meant
}

// policy is what we refuse by intent: rules run what the statement does not say, and the server refuses at run time to
// change a materialized view.
var policy = regexp.MustCompile(`which has rules|cannot change materialized view`)

func (c *tally) valid() int { return c.invented - c.invalid }

func (c *tally) refused() int {
	n := 0
	for _, k := range c.refusals {
		n += k
	}
	return n
}

// TestOracleGenerated invents statements, asks PostgreSQL which are valid, and compares our report on those with its
// analysis. ORACLE_GENERATE and ORACLE_SEED change how many there are and which.
func TestOracleGenerated(t *testing.T) {
	j := shopJudge(t)
	count, seed := setting(t, "ORACLE_GENERATE", 2000), setting(t, "ORACLE_SEED", 1)
	g := oracle.NewGenerator(j.index, []string{"shop", "hr", "alt"}, uint64(seed))
	c := &tally{refusals: map[string]int{}, examples: map[string]string{}, invalidBy: map[string]int{}, seen: map[string]bool{}}
	start := time.Now()
	for range count {
		j.generated(t, g.Statement(), c)
	}
	t.Logf("%d invented in %v: %d valid, %d agree, %d not reported, %d in vain, %d outputs differ, %d valid ones refused (%d by intent), %d invalid ones accepted",
		c.invented, time.Since(start).Round(time.Millisecond), c.valid(), c.agreed, c.under, c.over, c.output, c.refused(), c.byPolicy, c.lenient)
	c.list(t, "refused though valid", c.refusals)
	j.triedGenerated(t, c.claims)
	if testing.Verbose() {
		c.list(t, "invalid", c.invalidBy)
	}
	if c.valid() < count/3 {
		t.Errorf("only %d of %d statements are valid", c.valid(), count)
	}
	if 100*(c.refused()-c.byPolicy) > 2*c.valid() {
		t.Errorf("%d of %d valid statements are refused, more than 2%%", c.refused()-c.byPolicy, c.valid())
	}
}

func setting(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func (c *tally) list(t *testing.T, what string, reasons map[string]int) {
	t.Helper()
	names := make([]string, 0, len(reasons))
	for r := range reasons {
		names = append(names, r)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(reasons[b]-reasons[a], strings.Compare(a, b)) })
	for _, r := range names[:min(len(names), 20)] {
		t.Logf("%s: %5d %s\n\t%s", what, reasons[r], r, c.examples[what+r])
	}
}

var quoted = regexp.MustCompile(`"[^"]*"|[a-z0-9_]+\.[a-z0-9_.]+|\b\d+\b`)

// reason is an error without the names in it.
func reason(err error) string {
	var server *pgconn.PgError
	if errors.As(err, &server) {
		return server.Code + " " + quoted.ReplaceAllString(server.Message, "…")
	}
	return quoted.ReplaceAllString(describeError(err), "…")
}

// verdict of one statement: what PostgreSQL says, what we say, and where the two differ.
type verdict struct {
	invalid  error // the server's
	refusal  error // ours
	kinds    []disagreement
	accepted bool
	claim    *oracle.Claim
}

// tryEvery is how many statements that agree there are for each that is also run.
const tryEvery = 4

// triedGenerated runs invented statements as roles that hold what is reported. They must not be refused. That
// they do not run with less depends on the plan: a subquery in an expression that folds to a constant is never checked.
func (j *judge) triedGenerated(t *testing.T, claims []*oracle.Claim) {
	t.Helper()
	ctx := context.Background()
	trial, err := j.server.Try(ctx, j.index)
	if err != nil {
		t.Fatal(err)
	}
	// Defaults, constraints, domains and indexes call these whatever the statement says: see statements.sql. A plan that
	// remembers rows compares them by functions of their types, those of extensions too.
	own := []catalog.OID{}
	for i := range j.index.Snapshot.Functions {
		if f := &j.index.Snapshot.Functions[i]; f.Schema == "ext" {
			own = append(own, f.OID)
		}
	}
	for _, name := range []string{"next_note", "tax", "minus_text", "zip_ok"} {
		for _, f := range j.index.FunctionsNamed("shop", name) {
			own = append(own, f.OID)
		}
	}
	failed := 0
	for _, c := range claims {
		c.FreeFunctions, c.Functions = append(c.Functions, own...), nil
		c.Free, c.Demands = append(c.Free, c.Demands...), nil
		c.Before += "; set local statement_timeout = '500ms'"
		v, err := trial.Judge(ctx, c)
		switch {
		case err != nil:
			t.Fatalf("%s\n\t%v", c.SQL, err)
		case v.Failure != "":
			failed++
		case v.Refused != "":
			t.Errorf("%s\n\trefused to a role that holds all that is reported: %s", c.SQL, v.Refused)
		}
	}
	if err := trial.Close(ctx); err != nil {
		t.Error(err)
	}
	t.Logf("%d of them run as well; %d of these fail for other reasons", len(claims), failed)
}

func (j *judge) verdict(sql string) verdict {
	q := &question{sql: sql, path: "shop, hr"}
	facts, err := analyze.Analyze(sql, q.env(j.index))
	st := &analyze.Statement{}
	if err == nil && len(facts.Statements) == 1 {
		st = &facts.Statements[0]
	}
	needs, invalid := j.needs(q, st)
	v := verdict{invalid: invalid, refusal: err, accepted: err == nil}
	if invalid == nil && err == nil {
		v.kinds = j.disagreements(st, needs, nil)
		v.claim = q.claim(st, needs)
	}
	return v
}

func (j *judge) generated(t *testing.T, s *oracle.Statement, c *tally) {
	t.Helper()
	sql := s.String()
	v := j.verdict(sql)
	c.invented++
	switch {
	case v.invalid != nil:
		c.invalid++
		c.note("invalid", c.invalidBy, reason(v.invalid), sql)
		if v.accepted {
			c.lenient++
		}
	case v.refusal != nil:
		why := reason(v.refusal)
		if policy.MatchString(why) {
			c.byPolicy++
		}
		if c.refusals[why] == 0 {
			s.Shrink(func(sql string) bool {
				w := j.verdict(sql)
				return w.invalid == nil && w.refusal != nil && reason(w.refusal) == why
			})
			sql = s.String()
		}
		c.note("refused though valid", c.refusals, why, sql)
	case len(v.kinds) == 0:
		if c.agreed++; c.agreed%tryEvery == 0 {
			c.claims = append(c.claims, v.claim)
		}
	default:
		c.disagree(t, j, s, v.kinds[0])
	}
}

func (c *tally) note(what string, reasons map[string]int, why, example string) {
	if reasons[why]++; reasons[why] == 1 {
		c.examples[what+why] = example
	}
}

// disagree reports a difference on the smallest statement that still shows one of its kind.
func (c *tally) disagree(t *testing.T, j *judge, s *oracle.Statement, first disagreement) {
	t.Helper()
	switch {
	case strings.HasPrefix(first.what, "output"):
		c.output++
	case first.under:
		c.under++
	default:
		c.over++
	}
	if c.seen[first.String()] || len(c.seen) >= 40 {
		return
	}
	c.seen[first.String()] = true
	s.Shrink(func(sql string) bool { return j.verdict(sql).shows(first) })
	sql := s.String()
	t.Errorf("%s\n\t%s", sql, fmt.Sprint(j.verdict(sql).kinds))
}

// shows reports if a verdict has a difference of the same kind.
func (v verdict) shows(d disagreement) bool {
	return slices.ContainsFunc(v.kinds, func(e disagreement) bool {
		return e.under == d.under && strings.HasPrefix(e.what, "output") == strings.HasPrefix(d.what, "output")
	})
}
