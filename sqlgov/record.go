package sqlgov

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"interlock/audit"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// recordNames are the lists of an audit record that depend on the facts only.
type recordNames struct {
	kinds     []string
	reads     []string
	writes    []string
	functions []string
	channels  []string
	changes   bool // something is written, locked or defined, so the record must be on disk before it runs
}

func namesOf(f *analyze.Facts) recordNames {
	var n recordNames
	reads, writes, functions, channels := newNameSet(), newNameSet(), newNameSet(), newNameSet()
	for i := range f.Statements {
		s := &f.Statements[i]
		n.kinds = append(n.kinds, string(s.Kind))
		n.changes = n.changes || s.Kind == analyze.Raw
		for _, c := range s.Reads {
			reads.add(columnName(c))
		}
		for _, w := range s.Writes {
			writes.add(string(w.Action) + " " + columnName(w.Column))
			n.changes = true
		}
		for _, fn := range s.Functions {
			functions.add(fn.Schema + "." + fn.Name + "(" + fn.Signature + ")")
			n.changes = n.changes || policy.WritesLargeObjects(fn)
		}
		for _, ch := range s.Channels {
			channels.add(string(ch.Action) + " " + ch.Name)
		}
	}
	n.reads, n.writes, n.functions, n.channels = reads.names, writes.names, functions.names, channels.names
	return n
}

// columnName is schema.table.column, or schema.table when no column is meant.
func columnName(c analyze.Column) string {
	if c.Name == "" {
		return c.Schema + "." + c.Table
	}
	return c.Schema + "." + c.Table + "." + c.Name
}

// nameSet keeps the order of first use.
type nameSet struct {
	names []string
	seen  map[string]bool
}

func newNameSet() *nameSet { return &nameSet{seen: make(map[string]bool)} }

func (s *nameSet) add(name string) {
	if !s.seen[name] {
		s.seen[name] = true
		s.names = append(s.names, name)
	}
}

// newRecord builds the audit record from what is known so far. The statement is shown with its literals replaced.
func (a *admission) newRecord() (*audit.Record, error) {
	rec := a.caller.record(a.source)
	rec.ID, rec.Time, rec.Judgement = a.id, a.started, a.judgement()
	var err error
	rec.Sealed, err = a.seal()
	return &rec, err
}

// judgement is the decision's own one if it tells how the request fared, so that it is encoded once for all requests.
func (a *admission) judgement() *audit.Judgement {
	if a.decision != nil && (!a.refused || a.decision.Verdict != policy.Allowed) {
		return a.decision.judgement
	}
	j := &audit.Judgement{Verdict: string(policy.Refused)}
	a.nameVersions(j)
	if a.judged != nil {
		a.judged.fill(j)
	} else if a.sql != "" {
		j.Statement = analyze.Normalize(a.sql)
	}
	if a.failed != nil && !quotesText(a.failed.SQLState) {
		j.Reasons = recorded(a.failed.Reasons)
	}
	return j
}

// recordedReason is a reason as the audit log has it, for all objects that it is the reason for: the columns of a table are mostly
// allowed by one permission.
type recordedReason struct {
	Action    policy.Action `json:"action,omitempty"`
	On        []string      `json:"on,omitempty"` // as in the lists of what is read and written
	AnyColumn bool          `json:"any_column,omitempty"`
	Granted   bool          `json:"granted"`
	Effect    policy.Effect `json:"effect,omitempty"`
	Role      string        `json:"role,omitempty"`
	Pattern   string        `json:"pattern,omitempty"`
	Line      int           `json:"line,omitempty"`
	Note      string        `json:"note,omitempty"`
	Mask      string        `json:"mask,omitempty"`
	Filtered  bool          `json:"filtered,omitempty"`
	Policy    *policy.Match `json:"policy,omitempty"`
}

// recorded returns the reasons of a decision as the audit log has them.
func recorded(reasons []policy.Reason) json.RawMessage {
	all := make([]recordedReason, 0, len(reasons))
	places := map[policy.Reason]int{} // of those that differ in the object only
	for _, r := range reasons {
		name := joined(r.Need.Schema, r.Need.Object, r.Need.Column)
		r.Need = policy.Need{Action: r.Need.Action, AnyColumn: r.Need.AnyColumn}
		at, known := places[r]
		if !known {
			at = len(all)
			places[r] = at
			all = append(all, recordedReason{Action: r.Need.Action, AnyColumn: r.Need.AnyColumn, Granted: r.Granted, Effect: r.Effect, Role: r.Role,
				Pattern: r.Pattern, Line: r.Line, Note: r.Note, Mask: r.Mask, Filtered: r.Filtered, Policy: r.Policy})
		}
		if name != "" {
			all[at].On = append(all[at].On, name)
		}
	}
	text, _ := json.Marshal(all) // plain strings and numbers: it cannot fail
	return text
}

// joined is a name of those parts that there are.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ".")
}

func (a *admission) nameVersions(j *audit.Judgement) {
	if a.rules != nil {
		j.Ruleset, j.RulesetDigest = a.rules.Number, a.rules.Digest
	}
	if a.index != nil {
		j.Catalog = a.index.Snapshot.Version
	}
}

func (j *judged) fill(to *audit.Judgement) {
	n := &j.names
	to.Statement, to.Fingerprint = j.facts.Normalized, j.facts.Fingerprint
	to.Kinds, to.Reads, to.Writes, to.Functions, to.Channels, to.Write = n.kinds, n.reads, n.writes, n.functions, n.channels, n.changes
}

// told is what the audit log says that the caller was told. PostgreSQL's syntax errors quote the text, literals
// included, so they are named and not quoted.
func (r *Refusal) told() *audit.Refusal {
	t := &audit.Refusal{Kind: r.Kind.String(), Message: r.Message, Detail: r.Detail, Hint: r.Hint}
	switch {
	case r.Kind == UpstreamFailed:
		t.Message, t.Detail, t.Hint = "error of the server", "", ""
	case r.Kind == InvalidInput && quotesText(r.SQLState):
		t.Message, t.Detail, t.Hint = "the statement is not valid SQL", "", ""
	}
	return t
}

// quotesText reports if PostgreSQL's messages with a code quote the statement: syntax errors and data exceptions do.
func quotesText(sqlstate string) bool {
	return sqlstate == "42601" || strings.HasPrefix(sqlstate, "22")
}

// ending is how an admitted request ended.
type ending struct {
	status   audit.Status
	rows     int64
	bytes    int64
	sqlstate string
	refusal  *Refusal // why the result was withheld, if it was
	cache    string   // audit.CacheHit, or ""
}

// finish records the outcome of an admitted request. Its error means that the result must be withheld.
func (a *admission) finish(ctx context.Context, e ending) *Refusal {
	a.leaveTurn()
	a.spends.close(ctx)
	out := &audit.Outcome{ID: a.id, Status: e.status, Rows: e.rows, Bytes: e.bytes, SQLState: e.sqlstate, Cache: e.cache,
		Duration: time.Since(a.started), Time: time.Now(), Masks: a.maskStatistics(), Found: a.contentStatistics()}
	if e.refusal != nil {
		out.Refusal = e.refusal.told()
	}
	if err := a.core.Audit.Outcome(ctx, out); err != nil {
		a.core.Log.Error().Err(err).Str("decision", a.id).Msg("outcome not recorded")
		r := auditUnavailable(err)
		r.Message = "the audit log cannot be written, so the result is withheld"
		r.DecisionID = a.id
		return r
	}
	return nil
}
