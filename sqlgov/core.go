package sqlgov

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"interlock/audit"
	"interlock/catalog"
	"interlock/internal/lru"
	"interlock/internal/ratelimit"
	"interlock/redact"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/introspect"
	"interlock/sqlgov/policy"
)

// Recorder writes the audit log. An error from any method refuses the request.
type Recorder interface {
	// Intent records an allowed request before it runs.
	Intent(context.Context, *audit.Record) error
	// Outcome records how a request with an intent ended. Like the methods below it does so also if the context has ended.
	Outcome(context.Context, *audit.Outcome) error
	// Request records a request that did not run, with its outcome.
	Request(context.Context, *audit.Record, *audit.Outcome) error
	// Event records what is no request: a session, an alarm.
	Event(context.Context, *audit.Record, *audit.Event) error
}

// Core is the governance core. Its fields are set before first use and not changed afterwards; all methods are safe
// for concurrent use.
type Core struct {
	Rules    *Rules
	Catalogs *Catalogs
	Keys     Keys
	Upstream Upstream
	Audit    Recorder
	Log      zerolog.Logger

	// Rates counts statements against rate limits; nil means in the memory of this process.
	Rates Rates
	// Budgets counts what is released against budgets; nil means in the memory of this process.
	Budgets Budgets
	// Circuit tells if the circuit of a source is open, and when it is tried again; nil means that none ever is.
	Circuit func(source string) (again time.Duration, open bool)
	// Approvals holds statements for people; nil means that what a policy holds is refused.
	Approvals *Approvals
	// Secret resolves the reference to the key of a mask. Nil means that there are no keys.
	Secret func(ref string) (string, error)
	// StrangerFailures is how many failures a minute are recorded of one client address that proves no identity; 0 means 60.
	StrangerFailures int

	// Assets finds what sources contain by words; nil means that searches are refused.
	Assets AssetIndex

	// FactsBytes bounds the cache of facts; 0 means 64 MiB.
	FactsBytes int64
	// Generations tells the nodes that keep results of writes to their data; nil means that this is the only node.
	Generations Generations
	// ResultBytes bounds the results that are kept; 0 means 64 MiB. WriteLease is how much longer than its statement timeout
	// a write of which nothing is heard counts as under way; 0 means 30 s.
	ResultBytes int64
	WriteLease  time.Duration
	// Limits bound the texts that are analysed; the zero value means the defaults.
	Limits analyze.Limits

	factsOnce sync.Once
	facts     *lru.Cache[factsKey, *judged]
	rewrites  rewrites
	sealers   sealers
	buckets   ratelimit.Buckets
	budgets   ratelimit.Budgets
	running   ratelimit.Turns
	strangers strangers

	ownGenerations ownGenerations
	writing        announcements
	results        results
	leasedNames    atomic.Uint64 // given so far
}

// admission is a request on its way through the steps, and afterwards the permit to run it.
type admission struct {
	core    *Core
	id      string
	caller  Caller
	source  string
	sql     string
	params  []catalog.OID // types of $1... that the client declared, 0 for those that it left open
	started time.Time
	bound   bindFrame // parameters of the statement, if the ruleset keeps full texts or the statement may be held
	portal  bool      // it is run from a portal, so it was bound
	// stored looks up what the session prepared ('S'), for EXECUTE, or the cursor that it declared ('P'), for FETCH; nil if
	// there is none. It is nil itself on doors without sessions.
	stored func(objectKey) *preparedStatement
	// accept lets a door turn down what it cannot carry, after the analysis. It may be nil.
	accept func(*analyze.Facts) *Refusal
	// raw is set when the statement is run as it is; see raw.go.
	raw bool
	// call is set for a FunctionCall message, which is judged as the SELECT that calls the function.
	call *functionCall
	// path is the search path that the session is pinned to; nil on doors without sessions. pathless is set when the session
	// has emptied it.
	path     []string
	pathless bool
	// rehearse is set to judge without running: nothing is recorded unless the request is refused.
	rehearse bool
	// looks is what a request that runs no statement does; "" is describe.
	looks string
	// continues is set when more rows of a portal are fetched that has run before.
	continues bool
	// settings are those of the session that shape what a statement writes, or why they are not known, with a hint. Nil on
	// doors without sessions.
	settings func() (_ map[string]string, unknown, hint string)
	// approved is set to run a statement that people have approved.
	approved *Approval
	// place is that of the session; nil means that the request has one of its own.
	place *place
	// maskedRows counts the rows of which something was masked.
	maskedRows int64
	found      redact.Found // content in its results
	turn       uint32       // 1 while it has a turn at place; for atomic functions
	spends     *spender     // counts what is released; nil if there is no budget for it
	// writer is that of the session. On a request of its own it is set when that is announced as a writer.
	writer *writer

	rules    *policy.Ruleset
	src      *policy.SourceSpec
	index    *catalog.Index
	judged   *judged
	decision *ruledDecision
	written  *rewritten // what is sent instead of sql; nil if sql is
	// sentBefore is the text that a prepared statement has on the server, if it is another than sql. Nil if none is prepared yet.
	sentBefore *string
	failed     *policy.Decision // instead of decision, when the analysis failed
	refused    bool             // by whichever step
}

// admit takes a request through every step that comes before execution, in the one order there is. It returns nil
// when the request may run: then finish must be called with how it ended. A refusal has been recorded already.
func (c *Core) admit(ctx context.Context, a *admission) *Refusal {
	a.core, a.started = c, time.Now()
	if a.id == "" {
		a.id = audit.NewID()
	}
	for _, step := range [...]func(context.Context, *admission) *Refusal{
		c.identify, c.resolveSource, c.connectable, c.analyse, c.authorise, c.applyPolicies, c.callable, c.keepData, c.bound, c.afford, c.meter, c.hold, c.queue, c.announce, c.intend,
	} {
		if r := step(ctx, a); r != nil {
			a.leaveTurn()
			return c.refuse(ctx, a, r)
		}
	}
	return nil
}

// identify checks that the key still stands and that the identity is in the ruleset.
func (c *Core) identify(ctx context.Context, a *admission) *Refusal {
	a.rules = c.Rules.Current()
	if a.rules == nil {
		return &Refusal{Kind: SourceUnavailable, SQLState: "08004", Message: "the gateway has no ruleset in force"}
	}
	if err := c.Keys.Active(ctx, a.caller.KeyID); err != nil {
		var r *Refusal
		if errors.As(err, &r) {
			return r
		}
		return &Refusal{Kind: Unauthenticated, SQLState: "28000", Message: "the API key cannot be checked", Err: err}
	}
	if !a.rules.Knows(a.caller.Identity) {
		kind := Unauthenticated
		if a.looks == describesAccess {
			kind = Denied // the key is good
		}
		return &Refusal{Kind: kind, SQLState: "28000",
			Message: fmt.Sprintf("identity %q is not in the ruleset in force", a.caller.Identity),
			Hint:    "Ask your administrator to add it to the governance document."}
	}
	return nil
}

// resolveSource finds the source. One that the caller has no grant on is answered as one that does not exist.
func (c *Core) resolveSource(_ context.Context, a *admission) *Refusal {
	src := a.rules.Source(a.source)
	if src == nil || !a.rules.Granted(a.caller.Identity, a.source) {
		return &Refusal{Kind: UnknownSource, SQLState: "3D000",
			Message: fmt.Sprintf("source %q does not exist", a.source),
			Hint:    "List the sources that you may use, or ask your administrator for access."}
	}
	if src.Disabled {
		return disabled(a.source)
	}
	a.src = src
	if a.index = c.indexFor(a); a.index == nil {
		return &Refusal{Kind: SourceUnavailable, SQLState: "08004",
			Message: fmt.Sprintf("source %q has not been catalogued yet", a.source),
			Hint:    "Its server could not be scanned so far; try again shortly."}
	}
	return nil
}

// indexFor returns the newest catalog for a request, or nil.
func (c *Core) indexFor(a *admission) *catalog.Index {
	index := c.Catalogs.Index(a.source)
	if index != nil && a.pathless {
		return index.Pathless()
	}
	return index
}

// disabled is the refusal of a source that is switched off. Open sessions end with it.
func disabled(source string) *Refusal {
	return &Refusal{Kind: SourceUnavailable, SQLState: "08004", Message: fmt.Sprintf("source %q is disabled", source), ends: true}
}

// analyse finds out what the text touches. When it names something unknown, the catalog may be behind the server.
func (c *Core) analyse(ctx context.Context, a *admission) *Refusal {
	if a.raw {
		c.judgeRaw(a)
		return nil
	}
	if a.path != nil && !a.pathless && !slices.Equal(a.path, a.index.Snapshot.SearchPath) {
		return &Refusal{Kind: SourceUnavailable, SQLState: "57P01", ends: true,
			Message: "the search path of the source has changed, so names mean something else in this session", Hint: "Connect again."}
	}
	err := c.judge(a)
	if err != nil && err.Unknown {
		c.Catalogs.refreshUnknown(ctx, a.src, a.index)
		if newer := c.indexFor(a); newer != a.index {
			a.index = newer
			err = c.judge(a)
		}
	}
	switch {
	case a.call != nil && (err != nil || !a.call.isJudged(a.judged.facts)):
		return a.call.denied()
	case err != nil:
		return c.unanalysed(a, err)
	}
	if a.accept != nil {
		if r := a.accept(a.judged.facts); r != nil {
			return r
		}
	}
	return a.cursorsStand()
}

// unanalysed turns an analysis error into a refusal that tells the caller no more than the caller's roles allow.
func (c *Core) unanalysed(a *admission, err *analyze.Error) *Refusal {
	d := a.rules.DecideError(a.input(nil), err)
	a.failed = d
	r := &Refusal{Kind: InvalidInput, SQLState: d.SQLState, Message: d.Message, Detail: d.Detail, Hint: d.Hint,
		Position: characters(a.sql, d.Position), Err: err}
	switch d.SQLState {
	case "0A000":
		r.Kind = Unsupported
	case "42501":
		r.Kind = Denied
	case "54000", "54001":
		r.Kind = RequestTooLarge
	}
	return r
}

// characters turns a byte offset + 1 into PostgreSQL's position, which counts characters.
func characters(sql string, position int) int {
	if position <= 0 || position > len(sql)+1 {
		return 0
	}
	return utf8.RuneCountInString(sql[:position-1]) + 1
}

func (a *admission) input(facts *analyze.Facts) policy.Input {
	return policy.Input{Identity: a.caller.Identity, Source: a.source, Door: string(a.caller.Door), Typed: analyze.Typed(a.sql), Facts: facts, Catalog: a.index,
		Introspection: introspect.Catalogs{}}
}

// authorise asks for the decision on the facts, and refuses what the source roles refuse.
func (c *Core) authorise(ctx context.Context, a *admission) *Refusal {
	a.decision = a.judged.decide(a)
	if len(a.decision.Denied) > 0 && a.judged.template { // a refusal names places in the text
		if err := c.judgeText(a, factsKey{a.sql, paramsKey(a.params), a.index}); err != nil {
			return c.unanalysed(a, err)
		}
		return c.authorise(ctx, a)
	}
	d := a.decision.Decision
	if len(d.Denied) == 0 {
		return c.rewrite(a)
	}
	r := &Refusal{Kind: Denied, SQLState: d.SQLState, Message: d.Message, Detail: d.Detail, Hint: d.Hint}
	if r.SQLState == "0A000" {
		r.Kind = Unsupported
	}
	r.ends = a.raw
	if a.call != nil {
		return a.call.told(a, r)
	}
	return r
}

// intend records what is about to run. Nothing runs without it.
func (c *Core) intend(ctx context.Context, a *admission) *Refusal {
	if a.rehearse {
		return nil
	}
	rec, err := a.newRecord()
	if err == nil {
		err = c.Audit.Intent(ctx, rec)
	}
	if err != nil {
		return auditUnavailable(err)
	}
	return nil
}

func auditUnavailable(err error) *Refusal {
	return &Refusal{Kind: AuditUnavailable, SQLState: "58030", Err: err,
		Message: "the audit log cannot be written, so nothing was run",
		Hint:    "Try again later, or tell your administrator."}
}

// refuse records a refusal and completes it with its decision id. If that fails too, the caller learns that the
// audit log is unavailable, and nothing else.
func (c *Core) refuse(ctx context.Context, a *admission, r *Refusal) *Refusal {
	if r.Kind == AuditUnavailable {
		c.Log.Error().Err(r.Err).Msg("audit log unavailable")
		return r
	}
	a.refused = true
	now := time.Now()
	out := &audit.Outcome{ID: a.id, Time: now, Status: audit.Refused, SQLState: r.SQLState, Duration: now.Sub(a.started), Refusal: r.told()}
	rec, err := a.newRecord()
	if err == nil {
		err = c.Audit.Request(ctx, rec, out)
	}
	if err != nil {
		c.withdraw(ctx, r)
		return c.refuse(ctx, a, auditUnavailable(err))
	}
	shown := *r
	shown.DecisionID = a.id
	return &shown
}

// RecordRefusal records a request that a door turned down by itself (failed authentication, a message that it does
// not support) and sets r.DecisionID. When the audit log cannot be written, *r becomes the refusal that says so. When
// there have been too many of a client that has not proved who it is, *r becomes the refusal that says that, which is
// counted and not recorded; see RecordOmitted.
func (c *Core) RecordRefusal(ctx context.Context, caller Caller, source string, r *Refusal) {
	if caller.KeyID == "" {
		if tooMany := c.strangers.admit(caller.ClientAddr, c.StrangerFailures); tooMany != nil {
			*r = *tooMany
			return
		}
	}
	a := &admission{core: c, id: audit.NewID(), caller: caller, source: source, started: time.Now(), rules: c.Rules.Current()}
	*r = *c.refuse(ctx, a, r)
}
