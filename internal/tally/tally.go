// Package tally compares the statements that PostgreSQL's own log shows with those that the audit log says have run. It is for
// tests and benches.
//
// The server must log with log_statement = all and the log_line_prefix of package cluster. A statement of a Query with several is
// counted as one, for PostgreSQL logs them in one line and the audit log has one record of them.
package tally

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"interlock/audit"
	"interlock/internal/upstream"
	"interlock/sqlgov/analyze"
)

// Tally is a comparison.
type Tally struct {
	Logged   int // statements in the server's log, without the gateway's own
	Recorded int // statements that have run by the audit log
	Failed   int // those that the server has not run to an end. What fails before it begins, in Parse or Bind, the server does not log
	Alone    int // requests that are in the audit log alone: refused, or turned down before they ran
	// Differences say where to look: applications whose numbers differ, and their texts without literals. A statement of several
	// can be sent in one piece or in parts, and one on the system's catalogs is rewritten, so texts differ where numbers do not.
	Differences []string
}

// Equal reports if both logs have the same statements: all that have run, and of those that failed the ones that had begun.
func (t Tally) Equal() bool { return t.Recorded <= t.Logged && t.Logged <= t.Recorded+t.Failed }

// String says it in a line, with the first differences if there are any that matter.
func (t Tally) String() string {
	s := fmt.Sprintf("PostgreSQL has logged %d statements; %d are on record as run and %d as failed, %d requests are on record alone",
		t.Logged, t.Recorded, t.Failed, t.Alone)
	if !t.Equal() {
		s += "\n" + strings.Join(t.Differences[:min(len(t.Differences), 40)], "\n")
	}
	return s
}

// Source is where the two logs are, and from where on they count.
type Source struct {
	Log   func() string // the server's log
	Login string        // of the gateway on the server
	Audit string        // directory of the audit log
	Since time.Time     // requests before it do not count
	From  int           // what the server's log has before this byte does not count
}

// Compare reads both logs. The server writes its log before it runs a statement and the gateway its record, so both are there
// when a client has its answer; Await is for clients that did not wait for one.
func Compare(ctx context.Context, src Source) (Tally, error) {
	logged := statements{}
	for _, e := range entries(src.Log()[src.From:], src.Login) {
		logged.add(e.application, e.text, len(analyze.RawFacts(e.text, analyze.Limits{}).Statements))
	}
	recorded, failed, t := statements{}, statements{}, Tally{}
	err := audit.Search(ctx, src.Audit, audit.Filter{Since: src.Since}, func(v audit.View) bool {
		switch {
		case v.Judgement == nil || v.Statement == "" && len(v.Kinds) == 0:
		case reached(v) && v.Status != audit.OK:
			failed.add(upstream.ApplicationOf(v.Door, v.Application), v.Statement, len(v.Kinds))
		case reached(v):
			recorded.add(upstream.ApplicationOf(v.Door, v.Application), v.Statement, len(v.Kinds))
		default:
			t.Alone++
		}
		return true
	})
	t.Logged, t.Recorded, t.Failed = logged.total(), recorded.total(), failed.total()
	t.Differences = differences(logged, recorded)
	return t, err
}

// reached reports if a request has had the server run something: its intent was recorded, and it was not answered from what is kept.
func reached(v audit.View) bool {
	return v.Type == audit.TypeIntent && (v.Outcome == nil || v.Outcome.Cache != audit.CacheHit)
}

// Await compares until both logs have the same or the bound is over.
func Await(ctx context.Context, src Source, bound time.Duration) (Tally, error) {
	for deadline := time.Now().Add(bound); ; time.Sleep(200 * time.Millisecond) {
		t, err := Compare(ctx, src)
		if err != nil || t.Equal() || time.Now().After(deadline) {
			return t, err
		}
	}
}

var line = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d \S+ \S+ \[\d+\] (?:(\S+?)@\S* \((.*?)\) )?([A-Z]+):  `)

// ran is how an entry begins that is a statement.
var ran = regexp.MustCompile(`^(statement|execute [^\n]*?|fastpath function call): `)

// entry is a caller's statement in a server's log.
type entry struct{ application, text string }

// entries returns a login's statements in a server's log, without those that the gateway has made up.
func entries(log, login string) []entry {
	var found []entry
	starts := line.FindAllStringSubmatchIndex(log, -1)
	for i, at := range starts {
		end := len(log)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		if at[2] < 0 || log[at[2]:at[3]] != login || log[at[6]:at[7]] != "LOG" {
			continue
		}
		application := log[at[4]:at[5]]
		said := strings.ReplaceAll(strings.TrimSuffix(log[at[1]:end], "\n"), "\n\t", "\n")
		if !ran.MatchString(said) {
			continue
		}
		if text, ok := upstream.CallersPart(application, said); ok {
			found = append(found, entry{application, text})
		}
	}
	return found
}

// statements are counted by application, and by their text without literals.
type statements map[string]map[string]int

// add counts n statements of a text. One without any is an empty query, which the server does not log in the extended protocol.
func (s statements) add(application, text string, n int) {
	if text = strings.Trim(analyze.Normalize(text), "; "); text == "" {
		return
	}
	if s[application] == nil {
		s[application] = map[string]int{}
	}
	s[application][text] += n
}

func (s statements) total() (n int) {
	for application := range s {
		n += s.of(application)
	}
	return n
}

func (s statements) of(application string) (n int) {
	for _, times := range s[application] {
		n += times
	}
	return n
}

func differences(logged, recorded statements) []string {
	var all []string
	say := func(what string, a, b int) {
		if a != b {
			all = append(all, fmt.Sprintf("%.250s: %d logged, %d on record", what, a, b))
		}
	}
	applications := union(logged, recorded)
	for _, app := range applications {
		say("("+app+")", logged.of(app), recorded.of(app))
	}
	for _, app := range applications {
		if logged.of(app) == recorded.of(app) {
			continue
		}
		for _, text := range union(logged[app], recorded[app]) {
			say("("+app+") "+text, logged[app][text], recorded[app][text])
		}
	}
	return all
}

func union[V any](a, b map[string]V) []string {
	both := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(both)
	return slices.Compact(both)
}
