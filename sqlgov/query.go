package sqlgov

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"interlock/audit"
	"interlock/catalog"
	"interlock/redact"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// Defaults of policy.SourceLimits.
const (
	defaultStatementTimeout = 5 * time.Minute
	defaultRows             = 1000
	defaultBytes            = 8 << 20
)

// Request is one statement of a caller for a source.
type Request struct {
	Caller  Caller
	Source  string
	SQL     string
	MaxRows int // rows wanted at most; 0 or more than the source's limit means the source's limit
}

// Result is the outcome of a statement that ran.
type Result struct {
	DecisionID string
	Columns    []ResultColumn // empty for a statement that returns no rows
	Rows       [][][]byte     // in text format, as the server printed them; nil is NULL
	Tag        string         // "SELECT 3", "INSERT 0 1"
	Truncated  bool           // the statement has more rows than Limit
	Limit      int
	Cached     bool // it is that of an earlier run, since when nothing was changed through the gateway
}

// ResultColumn describes a column of a result.
type ResultColumn struct {
	Name     string
	Type     catalog.OID
	Mask     string // name of its mask, "null" if it is hidden whole, "" if it is shown as it is
	TypeName string // as format_type prints it, without its modifier: "integer", "numeric"
}

// Query runs one statement for a caller. It may run in any order with other statements, so statements that only make
// sense in a session (transaction control, SET, PREPARE) are refused. Cancelling ctx cancels it on the server. All
// errors are *Refusal.
func (c *Core) Query(ctx context.Context, req Request) (*Result, error) {
	a := &admission{caller: req.Caller, source: req.Source, sql: req.SQL, accept: onlyStateless}
	if r := c.admit(ctx, a); r != nil {
		a.wrote(nil)
		return nil, r
	}
	res, e, r := c.answer(ctx, a, req.MaxRows)
	a.wrote(r)
	if r != nil {
		a.spends.undo(ctx)
	}
	if lost := a.finish(ctx, e); lost != nil {
		return nil, lost
	}
	if r != nil {
		r.DecisionID = a.id
		return nil, r
	}
	return res, nil
}

// onlyStateless refuses texts that are not exactly one statement that stands by itself.
func onlyStateless(f *analyze.Facts) *Refusal {
	if len(f.Statements) != 1 || f.Statements[0].Kind == analyze.Empty {
		return &Refusal{Kind: InvalidInput, SQLState: "42601",
			Message: fmt.Sprintf("one statement is expected, not %d", countStatements(f)),
			Hint:    "Send each statement in a call of its own."}
	}
	switch k := f.Statements[0].Kind; k {
	case analyze.Select, analyze.Insert, analyze.Update, analyze.Delete, analyze.Merge, analyze.Truncate, analyze.Explain, analyze.Show, analyze.Notify:
		return nil
	default:
		return &Refusal{Kind: Unsupported, SQLState: "0A000",
			Message: fmt.Sprintf("%s needs a session, which this door does not have", k),
			Hint:    "Every call runs in a transaction of its own. Use the PostgreSQL door for sessions."}
	}
}

func countStatements(f *analyze.Facts) int {
	n := 0
	for i := range f.Statements {
		if f.Statements[i].Kind != analyze.Empty {
			n++
		}
	}
	return n
}

// collector takes a result from the server up to its limits.
type collector struct {
	a        *admission
	res      *Result
	maxBytes int64
	bytes    int64
	masks    *redact.Row // nil if nothing is masked
}

// errWithheld stops a statement whose result must not be released; the refusal says why.
type errWithheld struct{ refusal *Refusal }

func (e errWithheld) Error() string { return e.refusal.Message }

func (c *Core) run(ctx context.Context, a *admission, maxRows int) (*Result, ending, *Refusal) {
	stmt := &a.judged.facts.Statements[0]
	col := newCollector(a, maxRows)
	must := a.obligations()
	req := RunRequest{SQL: a.text(), Pinned: pinned(a.index), Timeout: statementTimeout(a.src),
		ReadOnly: must.ReadOnly || !a.judged.names.changes && !callsOutside(stmt)}
	if must.Timeout > 0 {
		req.Timeout = min(req.Timeout, must.Timeout)
	}
	if a.decision.footing == policy.OnCatalog {
		req.Recheck = a.judged.recheck()
	}
	if req.ReadOnly {
		req.Stateless, req.MaxRows = leavesNothing(stmt, a.index), col.res.Limit+1
	}
	sum, err := c.Upstream.Run(ctx, a.src, req, Sink{Fields: col.fields, Row: col.row})
	e := ending{status: audit.OK, rows: sum.Rows, bytes: col.bytes}
	if err != nil {
		r := c.failure(ctx, a, err)
		e.status, e.sqlstate = statusOf(err, r), r.SQLState
		if r.Kind != UpstreamFailed && r.Kind != Canceled { // those are told by their SQLSTATE, as in a session
			e.refusal = r
		}
		return nil, e, r
	}
	col.res.Tag = sum.Tag
	if len(col.res.Rows) > col.res.Limit {
		col.res.Rows, col.res.Truncated = col.res.Rows[:col.res.Limit], true
	}
	if len(col.res.Columns) > 0 {
		e.rows = int64(len(col.res.Rows))
	}
	return col.res, e, nil
}

// callsOutside reports if a statement calls functions that are not PostgreSQL's own: what they do is not known, and
// the grant to execute them covers it.
func callsOutside(s *analyze.Statement) bool {
	for _, f := range s.Functions {
		if !catalog.IsSystemSchema(f.Schema) {
			return true
		}
	}
	return false
}

// leavesNothing reports if a read is known to leave nothing behind in its session: all that runs are functions reviewed
// as free. What a view or a row security policy calls is not known here.
func leavesNothing(s *analyze.Statement, x *catalog.Index) bool {
	for _, f := range s.Functions {
		if !policy.Free(f) {
			return false
		}
	}
	for i := range s.Reads {
		rel := x.Relation(s.Reads[i].Relation)
		if rel == nil || !isPlain(rel) {
			return false
		}
	}
	return true
}

func newCollector(a *admission, maxRows int) *collector {
	limit := a.src.Limits.Rows
	if limit <= 0 {
		limit = defaultRows
	}
	if maxRows > 0 && maxRows < limit {
		limit = maxRows
	}
	bytes := int64(a.src.Limits.Bytes)
	if bytes <= 0 {
		bytes = defaultBytes
	}
	if must := a.obligations(); must.MaxRows > 0 || must.MaxBytes > 0 {
		limit = min(limit, cmp.Or(must.MaxRows, limit))
		bytes = min(bytes, cmp.Or(must.MaxBytes, bytes))
	}
	return &collector{a: a, res: &Result{DecisionID: a.id, Limit: limit, Rows: [][][]byte{}}, maxBytes: bytes}
}

func (c *collector) fields(fields []Field) error {
	if r := c.a.witness(0, fields); r != nil {
		c.a.core.witnessAlarm(c.a.caller, c.a.source, c.a.id, r.Detail)
		return errWithheld{r}
	}
	var err error
	if c.masks, err = c.a.masksFor(0, nil); err != nil {
		return errWithheld{c.a.unmaskable(err)}
	}
	c.res.Columns = make([]ResultColumn, len(fields))
	for i, f := range fields {
		c.res.Columns[i] = ResultColumn{Name: f.Name, Type: f.Type, Mask: c.a.maskOf(i), TypeName: typeName(c.a.index, f.Type)}
	}
	return nil
}

// row keeps one row more than the limit, which shows that there are more. A write runs to its end all the same.
func (c *collector) row(values [][]byte) error {
	if len(c.res.Rows) > c.res.Limit {
		return nil
	}
	row := copyRow(values)
	if err := c.mask(row); err != nil {
		return err
	}
	size := int64(0)
	for _, v := range row {
		size += int64(len(v)) + 4
	}
	c.bytes += size
	if c.bytes > c.maxBytes {
		return errWithheld{&Refusal{Kind: ResponseTooLarge, SQLState: "54000",
			Message: fmt.Sprintf("the result is larger than %d bytes", c.maxBytes),
			Hint:    "Select fewer columns, aggregate, or add a LIMIT."}}
	}
	if len(c.res.Rows) < c.res.Limit { // the one after that is not released
		if r := c.a.spends.spend(context.Background(), 1, size); r != nil {
			return errWithheld{r}
		}
	}
	c.res.Rows = append(c.res.Rows, row)
	return nil
}

// copyRow copies values that are valid for now only, into one piece of memory.
func copyRow(values [][]byte) [][]byte {
	size := 0
	for _, v := range values {
		size += len(v)
	}
	row, all := make([][]byte, len(values)), make([]byte, 0, size)
	for i, v := range values {
		if v != nil {
			begin := len(all)
			all = append(all, v...)
			row[i] = all[begin:len(all):len(all)]
		}
	}
	return row
}

func typeName(x *catalog.Index, oid catalog.OID) string {
	t := x.Type(oid)
	if t == nil {
		return "unknown"
	}
	return t.Display
}

func statementTimeout(src *policy.SourceSpec) time.Duration {
	if src.Limits.StatementTimeout > 0 {
		return src.Limits.StatementTimeout
	}
	return defaultStatementTimeout
}

// failure turns an error of Upstream into what the caller may know of it.
func (c *Core) failure(ctx context.Context, a *admission, err error) *Refusal {
	var withheld errWithheld
	var ue *UpstreamError
	switch {
	case errors.As(err, &withheld):
		return withheld.refusal
	case errors.Is(err, ErrCatalogChanged):
		return c.catalogChanged(ctx, a)
	case errors.Is(err, ErrOutcomeUnknown):
		return c.unreachable(a.source, err)
	case ctx.Err() != nil:
		return &Refusal{Kind: Canceled, SQLState: "57014", Message: "canceling statement due to user request", Err: err}
	case errors.As(err, &ue):
		shown := a.reduce(a.placed(ue))
		return &Refusal{Kind: UpstreamFailed, SQLState: ue.SQLState, Message: shown.Message, Detail: shown.Detail,
			Hint: shown.Hint, Position: int(shown.Position), Upstream: shown}
	default:
		return c.unreachable(a.source, err)
	}
}

// unreachable is the refusal for an upstream that cannot be reached or was lost; the cause goes to the log only, because
// it can carry addresses.
func (c *Core) unreachable(source string, err error) *Refusal {
	var oe *OpenError
	if errors.As(err, &oe) && oe.Reason == OpenCircuit { // it has been logged when the circuit opened
		return circuitOpen(source, oe.Again)
	}
	cause := err
	if errors.As(err, &oe) {
		cause = errors.Join(err, oe.Err) // its own text hides the cause, for it may be shown
	}
	c.Log.Error().Err(cause).Str("source", source).Msg("upstream")
	r := &Refusal{Kind: UpstreamUnreachable, SQLState: "08006", Err: err,
		Message: fmt.Sprintf("the connection to source %q failed", source),
		Hint:    "Try again; if it lasts, tell your administrator."}
	switch {
	case errors.As(err, &oe) && oe.Reason == OpenTLS:
		r.Kind, r.SQLState = SourceUnavailable, "08004"
		r.Message = fmt.Sprintf("source %q is unavailable: its server could not be verified by TLS", source)
		r.Hint = "Tell your administrator."
	case errors.As(err, &oe) && (oe.Reason == OpenBusy || oe.Reason == OpenTooMany):
		r.Kind, r.SQLState = SourceUnavailable, "53300"
		r.Message = fmt.Sprintf("source %q has no free connection", source)
		r.Hint = "Try again shortly."
	case errors.Is(err, ErrOutcomeUnknown):
		r.Message = fmt.Sprintf("the connection to source %q was lost during commit, so it is not known if the write took effect", source)
		r.Hint = "Check the data before you try again."
	}
	return r
}

// statusOf says how a request ended that did not end well.
func statusOf(err error, r *Refusal) audit.Status {
	var withheld errWithheld
	switch {
	case errors.As(err, &withheld), errors.Is(err, ErrCatalogChanged):
		return audit.Refused
	case errors.Is(err, ErrOutcomeUnknown):
		return audit.Unknown
	case r.Kind == Canceled || r.SQLState == "57014":
		return audit.Canceled
	}
	return audit.Failed
}
