// Package tally compares the statements that PostgreSQL's own log shows with those that the audit log says have run. It is for
// tests and benches.
//
// The server must log with log_statement = all and the log_line_prefix of package cluster. A statement of a Query with several is
// counted as one, for PostgreSQL logs them in one line and the audit log has one record of them.
package tally

import (
	"context"
	"fmt"
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
	Recorded int // statements that reached the server by the audit log
	Alone    int // requests that are in the audit log alone: refused, or turned down before they ran
	// Differences are texts without their literals, with how often each is in either log. They say where to look: a statement of
	// several can be sent in one piece or in parts, so the numbers above can agree where texts differ.
	Differences []string
}

// Equal reports if both logs have the same statements.
func (t Tally) Equal() bool { return t.Logged == t.Recorded }

// String says it in a line, with the first differences if there are any that matter.
func (t Tally) String() string {
	s := fmt.Sprintf("PostgreSQL has logged %d statements, %d are on record as run, %d requests are on record alone", t.Logged, t.Recorded, t.Alone)
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
	logged := texts{}
	for _, entry := range entries(src.Log()[src.From:], src.Login) {
		logged.add(entry, statements(entry))
	}
	recorded, t := texts{}, Tally{}
	err := audit.Search(ctx, src.Audit, audit.Filter{Since: src.Since}, func(v audit.View) bool {
		switch {
		case v.Judgement == nil || v.Statement == "" && len(v.Kinds) == 0:
		case reached(v):
			recorded.add(v.Statement, len(v.Kinds))
		default:
			t.Alone++
		}
		return true
	})
	t.Logged, t.Recorded = logged.total(), recorded.total()
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

// entries returns the texts of a login's statements in a server's log, without those that the gateway has made up.
func entries(log, login string) []string {
	var found []string
	starts := line.FindAllStringSubmatchIndex(log, -1)
	for i, at := range starts {
		end := len(log)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		if at[2] < 0 || log[at[2]:at[3]] != login || log[at[6]:at[7]] != "LOG" {
			continue
		}
		entry := strings.ReplaceAll(strings.TrimSuffix(log[at[1]:end], "\n"), "\n\t", "\n")
		if how := ran.FindString(entry); how != "" && !upstream.Own(log[at[4]:at[5]], entry) {
			found = append(found, strings.TrimPrefix(entry, how))
		}
	}
	return found
}

// statements is how many there are in a text. One without any is an empty query, which leaves nothing to count.
func statements(text string) int {
	if strings.Trim(analyze.Normalize(text), "; ") == "" {
		return 0
	}
	return len(analyze.RawFacts(text, analyze.Limits{}).Statements)
}

// texts are statements by their text without literals, counted.
type texts map[string]int

func (t texts) add(text string, n int) {
	if n > 0 {
		t[analyze.Normalize(text)] += n
	}
}

func (t texts) total() (n int) {
	for _, times := range t {
		n += times
	}
	return n
}

func differences(logged, recorded texts) []string {
	var all []string
	for text, n := range logged {
		if n != recorded[text] {
			all = append(all, fmt.Sprintf("%d logged, %d on record: %.200s", n, recorded[text], text))
		}
	}
	for text, n := range recorded {
		if logged[text] == 0 {
			all = append(all, fmt.Sprintf("0 logged, %d on record: %.200s", n, text))
		}
	}
	slices.Sort(all)
	return all
}
