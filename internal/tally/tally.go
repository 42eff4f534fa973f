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
	// Unexplained are statements that one log has more of than the other. A statement counts by its application and text, but for those
	// that the gateway rewrites, those that are too long for a record, and those of a client that changes its name: as many as are
	// missing under one are there under another.
	Unexplained int
	// Differences say where to look: the texts, without literals, that one log has more often than the other.
	Differences []string
}

// Equal reports if both logs have the same statements: all that have run, and of those that failed the ones that had begun.
func (t Tally) Equal() bool { return t.Unexplained == 0 }

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
	Log      func() string // the server's log
	Login    string        // of the gateway on the server
	Database string        // that the gateway stands before; "" if no others log their statements
	Beside   string        // application_name of sessions with that login that do not come through the gateway
	Audit    string        // directory of the audit log
	Since    time.Time     // requests before it do not count
	From     int           // what the server's log has before this byte does not count
}

// Compare reads both logs. The server writes its log before it runs a statement and the gateway its record, so both are there
// when a client has its answer; Await is for clients that did not wait for one.
func Compare(ctx context.Context, src Source) (Tally, error) {
	logged := statements{}
	for _, e := range src.entries() {
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
	t.compare(logged, recorded, failed)
	return t, err
}

// compare holds the statements against each other.
func (t *Tally) compare(logged, recorded, failed statements) {
	var unlogged, unrecorded, spare int
	for _, application := range keys(logged, recorded, failed) {
		for _, text := range keys(logged[application], recorded[application], failed[application]) {
			in, ran, not := logged[application][text], recorded[application][text], failed[application][text]
			unlogged += max(0, ran-in)
			unrecorded += max(0, in-ran-not)
			spare += not - min(not, max(0, in-ran)) // turned down before they began, or rewritten
			if in < ran || in > ran+not {
				t.Differences = append(t.Differences, fmt.Sprintf("(%s) %.250s: %d logged, %d on record as run and %d as failed", application, text, in, ran, not))
			}
		}
	}
	t.Unexplained = max(0, unlogged-unrecorded, unrecorded-unlogged-spare)
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

var line = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\d \S+ \S+ \[\d+\] (?:(\S+?)@(\S*) \((.*?)\) )?([A-Z]+):  `)

// ran is how an entry begins that is a statement.
var ran = regexp.MustCompile(`^(statement|execute [^\n]*?|fastpath function call): `)

// entry is a caller's statement in a server's log.
type entry struct{ application, text string }

// entries returns the statements in the server's log, without those that the gateway has made up.
func (src Source) entries() []entry {
	var found []entry
	log := src.Log()[src.From:]
	starts := line.FindAllStringSubmatchIndex(log, -1)
	for i, at := range starts {
		end := len(log)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		part := func(n int) string { return log[at[2*n]:at[2*n+1]] }
		if at[2] < 0 || part(4) != "LOG" || !src.counts(part(1), part(2), part(3)) {
			continue
		}
		said := strings.ReplaceAll(strings.TrimSuffix(log[at[1]:end], "\n"), "\n\t", "\n")
		if !ran.MatchString(said) {
			continue
		}
		if text, ok := upstream.CallersPart(part(3), said); ok {
			found = append(found, entry{part(3), text})
		}
	}
	return found
}

// counts reports if a session is the gateway's.
func (src Source) counts(login, database, application string) bool {
	return login == src.Login && (src.Database == "" || database == src.Database) && (src.Beside == "" || application != src.Beside)
}

// statements are counted by application, and by their text without literals and the numbers of parameters.
type statements map[string]map[string]int

// add counts the n statements of a text, each by itself, since a Query with several can be sent in one piece or in parts. A text
// without any is an empty query, which the server does not log in the extended protocol.
func (s statements) add(application, text string, n int) {
	text = analyze.Normalize(text)
	parts := analyze.RawFacts(text, analyze.Limits{}).Statements
	if len(parts) != n { // it cannot be parsed without its literals, or its end is not on record
		s.addOne(application, text, n)
		return
	}
	for _, p := range parts {
		s.addOne(application, text[p.Start:p.End], 1)
	}
}

func (s statements) addOne(application, text string, n int) {
	if text = strings.Trim(number.ReplaceAllString(text, "$$"), "; \n"); text == "" {
		return
	}
	if s[application] == nil {
		s[application] = map[string]int{}
	}
	s[application][text] += n
}

var number = regexp.MustCompile(`\$\d+`)

func (s statements) total() (n int) {
	for _, texts := range s {
		for _, times := range texts {
			n += times
		}
	}
	return n
}

// keys returns the keys of all, sorted.
func keys[V any](all ...map[string]V) []string {
	var found []string
	for _, m := range all {
		found = slices.AppendSeq(found, maps.Keys(m))
	}
	slices.Sort(found)
	return slices.Compact(found)
}
