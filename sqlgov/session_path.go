package sqlgov

import (
	"context"
	"slices"

	"interlock/audit"
	"interlock/sqlgov/analyze"
)

// The search path of a session is pinned, because it decides what names mean. A client may empty it, as pg_dump and the scripts
// that it writes do before anything else, and bring it back. Such a statement comes in a Query of its own, and nothing is judged
// until the server has answered it. In a transaction the change may be undone: while there is one, the transaction ends by a Query
// of its own as well, and savepoints are not returned to.

// pathState is where the search path of a session stands. Of the goroutine that takes the client's messages.
type pathState struct {
	pinned  []string
	empty   bool
	changed bool // in the transaction that is open
	before  bool // empty, when the transaction began
}

func movesPath(f *analyze.Facts) (moves, empty bool) {
	for i := range f.Statements {
		if moves, empty = f.Statements[i].MovesPath(); moves {
			return moves, empty
		}
	}
	return false, false
}

// standsAlone reports if a text must be answered before anything after it is judged.
func (p *pathState) standsAlone(f *analyze.Facts) bool {
	moves, _ := movesPath(f)
	return moves || p.changed && slices.ContainsFunc(f.Statements, func(st analyze.Statement) bool {
		return st.Kind == analyze.Commit || st.Kind == analyze.Rollback
	})
}

// acceptsInSegment refuses what only a Query may hold as well: messages may follow before it is known how this one ended.
func (s *Session) acceptsInSegment(f *analyze.Facts) *Refusal {
	if s.path.standsAlone(f) {
		return pathAlone()
	}
	if r := s.acceptsNames(f, true); r != nil {
		return r
	}
	return s.accepts(f)
}

// accepts refuses statements that would change what has to stay as it is.
func (s *Session) accepts(f *analyze.Facts) *Refusal {
	if s.path.standsAlone(f) && (len(f.Statements) > 1 || f.Statements[0].Kind == analyze.Rollback && f.Statements[0].Name != "") {
		return pathAlone()
	}
	for i := range f.Statements {
		switch st := &f.Statements[i]; {
		case !s.path.empty && !s.path.changed:
		case st.Kind == analyze.Set && st.Name == "all", st.Kind == analyze.Discard && st.Name == "all":
			return &Refusal{Kind: Unsupported, SQLState: "0A000", Message: "this would bring back the search path, which this session has changed",
				Hint: "Send RESET search_path in a message of its own before it."}
		}
	}
	if r := s.acceptsNames(f, false); r != nil {
		return r
	}
	return keepsReserved(f)
}

func pathAlone() *Refusal {
	return &Refusal{Kind: Unsupported, SQLState: "0A000",
		Message: "the search path can only be changed, and a transaction that changed it only be ended, by a simple query of its own",
		Hint:    "Send the statement by itself, without parameters. Savepoints from before the change are not returned to."}
}

// sendAlone runs an admitted text that may move the search path, and returns when the server has answered.
func (s *Session) sendAlone(ctx context.Context, a *admission, frame []byte) error {
	s.mu.Lock()
	err := s.await(func() bool { return len(s.queue) == 0 })
	alone := !s.piped && !s.skipping
	s.mu.Unlock()
	o := &op{kind: opQuery, run: a, taken: &taken{}, effects: []effect{{forget: unnamedObjects, statement: -1}}}
	switch {
	case err != nil:
		s.finish(context.Background(), o, audit.Canceled)
		return err
	case !alone:
		r := pathAlone()
		s.core.abandon(ctx, a, r)
		return s.reject(&op{kind: opQuery, refusal: r})
	}
	s.tally.statements.Add(1)
	if err := s.send(o, frame); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.await(func() bool { return s.ended >= o.segment }); err != nil {
		return err
	}
	s.path.follow(a.judged.facts, o, s.txStatus)
	return nil
}

// follow notes what a text that stood alone has done.
func (p *pathState) follow(f *analyze.Facts, o *op, status byte) {
	moves, empty := movesPath(f)
	switch {
	case moves && o.sqlstate != "":
	case moves:
		if status != 'I' && !p.changed {
			p.changed, p.before = true, p.empty
		}
		p.empty = empty
	case o.undone, status == 'I' && o.sqlstate != "":
		p.changed, p.empty = false, p.before
	case o.sqlstate == "":
		p.changed = false
	}
}
