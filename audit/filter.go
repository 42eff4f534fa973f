package audit

import (
	"net"
	"slices"
	"strings"
	"time"
)

// Filter selects requests. An empty field selects everything; fields are combined by "and".
type Filter struct {
	ID          string // decision id
	Identity    string
	Source      string
	Door        string
	Session     string
	Client      string // address of the client: host, or host:port
	Application string
	Trace       string // trace id, or the whole traceparent
	Kind        string // of refusal, or of a statement
	Event       string // name of an event; selects events
	Fingerprint string
	// Table is "schema.table", or "table" for that name in every schema; read or written.
	Table string
	// Column is "schema.table.column", or the end of it from a dot on: "table.column", "column".
	Column   string
	Label    string // of a column that was read or written
	Verdict  string
	Status   Status
	SQLState string
	Since    time.Time // at or after
	Until    time.Time // before
	Text     string    // part of the statement, in any case
	// Events also selects events; those that have the wanted fields.
	Events bool
	// OldestFirst turns the order: the default is newest first, by the time at which the request was recorded.
	OldestFirst bool
	Limit       int // 0 is no limit
	// After leaves out entries up to this number, and UpTo those behind this number (0: none).
	After, UpTo uint64
}

// clockSlack is how much later than its time an entry may stand in the log: analysis takes time, clocks are set back.
const clockSlack = 10 * time.Minute

// normalized returns f in the form that matches expects.
func (f Filter) normalized() Filter {
	f.Text = strings.ToLower(f.Text)
	return f
}

// past reports if l, and everything before it in the log, is too old to match.
func (f *Filter) past(l *line) bool {
	if l.seq <= f.After && f.After > 0 {
		return true
	}
	if !f.Since.IsZero() && l.when().Before(f.Since.Add(-clockSlack)) {
		return true
	}
	if f.ID == "" {
		return false
	}
	wanted, ok := idTime(f.ID)
	made, ok2 := idTime(string(l.id))
	return ok && ok2 && made.Before(wanted.Add(-clockSlack))
}

// Matches reports if f selects v.
func (f Filter) Matches(v *View) bool {
	f = f.normalized()
	return f.matches(v)
}

// matches reports if v is wanted.
func (f *Filter) matches(v *View) bool {
	if v.Seq <= f.After && f.After > 0 || v.Seq > f.UpTo && f.UpTo > 0 {
		return false
	}
	return f.matchesRecord(v) && f.matchesOutcome(v)
}

func (f *Filter) matchesRecord(v *View) bool {
	if v.Type == TypeEvent && !f.Events && f.ID == "" && f.Event == "" {
		return false
	}
	j := v.Judgement
	if j == nil {
		j = &Judgement{}
	}
	return equal(f.ID, v.ID) && equal(f.Identity, v.Identity) && equal(f.Source, v.Source) && equal(f.Door, v.Door) &&
		equal(f.Session, v.Session) && equal(f.Application, v.Application) && f.matchesClient(v.ClientAddr) &&
		(f.Trace == "" || f.Trace == v.Trace || strings.Contains(v.Trace, "-"+f.Trace+"-")) &&
		(f.Event == "" || v.Event != nil && v.Event.Name == f.Event) && equal(f.Fingerprint, j.Fingerprint) && equal(f.Verdict, j.Verdict) &&
		(f.Since.IsZero() || !v.Time.Before(f.Since)) && (f.Until.IsZero() || v.Time.Before(f.Until)) &&
		(f.Text == "" || strings.Contains(strings.ToLower(j.Statement), f.Text)) && f.touches(j)
}

func (f *Filter) matchesOutcome(v *View) bool {
	if f.Status != "" && f.Status != v.Status {
		return false
	}
	if f.Kind != "" && !(v.Outcome != nil && v.Outcome.Refusal != nil && v.Outcome.Refusal.Kind == f.Kind) &&
		!(v.Judgement != nil && slices.Contains(v.Kinds, f.Kind)) {
		return false
	}
	return f.SQLState == "" || v.Outcome != nil && v.Outcome.SQLState == f.SQLState
}

func (f *Filter) matchesClient(address string) bool {
	return f.Client == "" || f.Client == address || f.Client == ClientHost(address)
}

// ClientHost returns the host of a client's address.
func ClientHost(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

func equal(want, got string) bool { return want == "" || want == got }

func (f *Filter) touches(j *Judgement) bool {
	if f.Label != "" && !slices.Contains(j.Labels, f.Label) {
		return false
	}
	if f.Table == "" && f.Column == "" {
		return true
	}
	wanted := func(name string) bool { return f.touchesName(splitName(name)) }
	return slices.ContainsFunc(j.Reads, wanted) || slices.ContainsFunc(j.Writes, func(w string) bool {
		_, name, _ := strings.Cut(w, " ")
		return wanted(name)
	})
}

func (f *Filter) touchesName(name []string) bool {
	table := name[:min(len(name), 2)]
	return (f.Table == "" || endsWith(table, splitName(f.Table))) &&
		(f.Column == "" || len(name) > 2 && endsWith(name, splitName(f.Column)))
}

func endsWith(name, end []string) bool {
	return len(end) <= len(name) && slices.Equal(name[len(name)-len(end):], end)
}

// splitName splits a qualified name at the dots that are not in double quotes.
func splitName(name string) []string {
	if !strings.Contains(name, `"`) {
		return strings.Split(name, ".")
	}
	var parts []string
	quoted, start := false, 0
	for i := range len(name) {
		switch {
		case name[i] == '"':
			quoted = !quoted
		case name[i] == '.' && !quoted:
			parts = append(parts, name[start:i])
			start = i + 1
		}
	}
	return append(parts, name[start:])
}
