package sqlgov

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"interlock/audit"
	"interlock/catalog"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// OpenSession opens a connection to a source for a caller. Errors are *Refusal.
func (c *Core) OpenSession(ctx context.Context, caller Caller, opt SessionOptions) (*Session, error) {
	a := &admission{core: c, caller: caller, source: opt.Source}
	wire, r := c.open(ctx, a, opt.Parameters)
	if r != nil {
		return nil, c.refuse(ctx, a, r)
	}
	s := &Session{core: c, caller: caller, source: opt.Source, wire: wire, waits: opt.Waits, sent: 1, txStatus: 'I', names: newNamespace(),
		asking: asking{drops: 1}, path: pathState{pinned: a.index.Snapshot.SearchPath}}
	s.progress = sync.NewCond(&s.mu)
	s.shares()
	s.common = admission{core: c, caller: caller, source: opt.Source, stored: s.storedUnder, place: &s.place, writer: &s.writer,
		settings: s.settings, accept: s.accepts}
	s.inSegment = s.acceptsInSegment
	s.keepSettings(opt.Parameters)
	s.raw = a.raw
	s.writer.data, s.writer.position = a.src.Upstream.Data(), s.position
	if r := s.open(parameter(wire.Parameters(), "server_version")); r != nil {
		return nil, errors.Join(c.refuse(ctx, a, r), wire.Close())
	}
	return s, nil
}

// admission begins the way of a statement of the session.
func (s *Session) admission(st *preparedStatement) *admission {
	a := s.common
	a.sql, a.params, a.judged, a.bound = st.sql, st.params, st.judged, st.bound
	a.path, a.pathless = s.path.pinned, s.path.empty
	return &a
}

func (c *Core) open(ctx context.Context, a *admission, parameters map[string]string) (Wire, *Refusal) {
	a.core, a.id, a.started = c, audit.NewID(), time.Now()
	if r := c.identify(ctx, a); r != nil {
		return nil, r
	}
	if r := c.resolveSource(ctx, a); r != nil {
		return nil, r
	}
	if r := c.connectable(ctx, a); r != nil {
		return nil, r
	}
	opt := OpenOptions{Parameters: parameters}
	if a.raw = a.rules.Raw(a.caller.Identity, a.source); !a.raw {
		for name, value := range parameters {
			if err := analyze.CheckSetting(name, value); err != nil {
				return nil, &Refusal{Kind: Unsupported, SQLState: err.SQLState, Message: err.Message, Hint: err.Hint}
			}
		}
		opt.Pinned, opt.ReadOnly = pinnedSession(a.index, a.src), !a.rules.MayChange(a.caller.Identity, a.source)
		opt.Shared = a.src.Upstream.PoolMode == policy.PoolTransaction
	}
	wire, err := c.Upstream.Open(ctx, a.src, opt)
	if err != nil {
		var ue *UpstreamError
		if errors.As(err, &ue) {
			return nil, &Refusal{Kind: UpstreamFailed, SQLState: ue.SQLState, Message: ue.Message, Upstream: ue}
		}
		return nil, c.unreachable(a.source, err)
	}
	return wire, nil
}

// pinned are the settings that decide what a text means. They are the ones under which it was analysed.
func pinned(x *catalog.Index) map[string]string {
	return map[string]string{
		"search_path":                 quoteList(x.Snapshot.SearchPath),
		"standard_conforming_strings": "on",
		"client_encoding":             "UTF8",
		"row_security":                "on",
	}
}

// pinnedSession adds the bounds that a session starts with.
func pinnedSession(x *catalog.Index, src *policy.SourceSpec) map[string]string {
	pins := pinned(x)
	pins["statement_timeout"] = strconv.FormatInt(statementTimeout(src).Milliseconds(), 10)
	return pins
}

func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func quoteList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quoteName(n)
	}
	if len(quoted) == 0 {
		return `""`
	}
	return strings.Join(quoted, ", ")
}
