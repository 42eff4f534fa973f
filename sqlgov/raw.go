package sqlgov

import (
	"context"
	"fmt"
	"strings"

	"interlock/sqlgov/analyze"
)

// A raw session is one of an identity that may run anything on the source (db.execute_raw). Its messages go to the server
// as they are, and nothing is pinned: what they touch and what a name means is not known. What stays is the account of it.
// Every statement takes the steps of admit and is on record before it runs. The session is raw to its end: an identity
// that may not run anything any more has to connect again, because what it has set would change what is judged.

// maxRawNames bounds the names of statements and portals that a raw session remembers, to have their texts for the record.
const maxRawNames = 4096

// judgeRaw sets a.judged to what is known of a raw statement.
func (c *Core) judgeRaw(a *admission) {
	if a.judged != nil && a.judged.index == a.index {
		return
	}
	facts := analyze.RawFacts(a.sql, c.Limits)
	a.judged = newJudged(facts, a.index)
}

func (s *Session) rawAdmission(st *preparedStatement) *admission {
	return &admission{core: s.core, caller: s.caller, source: s.source, sql: st.sql, judged: st.judged, bound: st.bound, place: &s.place, writer: &s.writer, raw: true}
}

// rawNamed returns what is known of a name. It does not wait for what is under way: the server alone says what there is.
func (s *Session) rawNamed(key objectKey) *preparedStatement {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.names.get(key, s.sent).statement; st != nil {
		return st
	}
	what := "statement"
	if key.kind == 'P' {
		what = "portal"
	}
	return &preparedStatement{sql: fmt.Sprintf("%s %s", what, quoteName(key.name))}
}

func (s *Session) rawQuery(ctx context.Context, sql string, frame []byte) error {
	o := &op{kind: opQuery, effects: []effect{{forget: unnamedObjects, statement: -1}}}
	if strings.Contains(strings.ToLower(sql), "copy") {
		o.copy.expected = 1 // perhaps in a way that only the server can parse: nothing is lost by waiting
	}
	return s.rawRun(ctx, s.rawAdmission(&preparedStatement{sql: sql}), o, frame)
}

// rawRun sends a message that runs something.
func (s *Session) rawRun(ctx context.Context, a *admission, o *op, frame []byte) error {
	if r := s.core.admit(ctx, a); r != nil {
		return s.reject(&op{kind: o.kind, refusal: r})
	}
	s.tally.statements.Add(1)
	o.run, o.copy.expected = a, max(o.copy.expected, copiesIn(a.judged.facts))
	if o.taken == nil {
		o.taken = &taken{}
	}
	return s.send(o, frame)
}

func (s *Session) rawParse(ctx context.Context, p Parse, frame []byte) error {
	st := &preparedStatement{sql: p.SQL}
	a := s.rawAdmission(st)
	a.rehearse = true
	if r := s.core.admit(ctx, a); r != nil {
		return s.reject(&op{kind: opParse, refusal: r, unnamed: p.Name == ""})
	}
	st.judged = a.judged
	s.mu.Lock()
	if len(s.names.objects) >= maxRawNames {
		s.names = newNamespace()
	}
	s.mu.Unlock()
	return s.send(&op{kind: opParse, run: a, effects: []effect{{define: objectKey{'S', p.Name}, statementDef: st}}}, frame)
}

func (s *Session) rawBind(portal, statement string, frame []byte) error {
	st := s.rawNamed(objectKey{'S', statement})
	bound := *st
	bound.taken = &taken{}
	bound.bound = s.boundFrame(st, frame)
	return s.send(&op{kind: opBind, effects: []effect{{define: objectKey{'P', portal}, portalDef: &bound}}}, frame)
}

func (s *Session) rawDescribe(ctx context.Context, object byte, name string, frame []byte) error {
	a := s.rawAdmission(s.rawNamed(objectKey{object, name}))
	a.rehearse = true
	if r := s.core.admit(ctx, a); r != nil {
		return s.reject(&op{kind: opDescribe, refusal: r})
	}
	return s.send(&op{kind: opDescribe, run: a}, frame)
}

func (s *Session) rawExecute(ctx context.Context, portal string, frame []byte) error {
	st := s.rawNamed(objectKey{'P', portal})
	a := s.rawAdmission(st)
	a.continues, a.portal = st.ran, true
	st.ran = true
	return s.rawRun(ctx, a, &op{kind: opExecute, taken: st.taken}, frame)
}

// expects notes that the server takes data of a COPY that could not be foreseen. With the session's lock held.
func (s *Session) expects(o *op) {
	if o.run.raw {
		s.copies, o.copy.expected = o, max(1, o.copy.expected)
	}
}
