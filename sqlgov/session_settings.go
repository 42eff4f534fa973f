package sqlgov

import (
	"bytes"

	"interlock/sqlgov/analyze"
)

// shaping are the settings of a session that decide how a text or a parameter becomes the value that is written. The
// server reports each change of the first three; the others are known if they were given at start-up.
var shaping = []string{"DateStyle", "IntervalStyle", "TimeZone", "extra_float_digits", "bytea_output", "xmloption"}

// keepSettings takes down the start-up parameters that a held statement will be run with.
func (s *Session) keepSettings(startup map[string]string) {
	s.shaped = make(map[string]string, len(shaping))
	for _, name := range shaping {
		if value, ok := startup[name]; ok {
			s.shaped[name] = value
		}
	}
	for _, p := range s.wire.Parameters() {
		s.reported(p)
	}
}

// reported notes the value of a setting that the server has told.
func (s *Session) reported(p Parameter) {
	for _, name := range shaping[:3] {
		if p.Name == name {
			s.mu.Lock()
			s.shaped[name] = p.Value
			s.mu.Unlock()
		}
	}
}

// settings returns the settings under which the message that comes next will run. What earlier segments set is waited
// for; what the segment under way sets is not known yet.
func (s *Session) settings() (map[string]string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.ended+1 < s.sent && s.broken == nil {
		s.mu.Unlock()
		err := s.wire.Flush()
		s.mu.Lock()
		if err != nil {
			return nil, false
		}
		if s.ended+1 < s.sent && s.broken == nil {
			s.progress.Wait()
		}
	}
	for _, o := range s.queue {
		if o.run != nil && !o.run.rehearse && changesSettings(o.run.judged.facts) {
			return nil, false
		}
	}
	kept := make(map[string]string, len(s.shaped))
	for name, value := range s.shaped {
		kept[name] = value
	}
	return kept, s.broken == nil
}

// changesSettings reports if a text may leave the session with other settings: it sets some, or ends what set them.
func changesSettings(f *analyze.Facts) bool {
	for i := range f.Statements {
		switch f.Statements[i].Kind {
		case analyze.Set, analyze.Discard, analyze.Commit, analyze.Rollback:
			return true
		}
	}
	return false
}

// boundFrame keeps a Bind message if it may be needed later: for the owner of the audit log, or because the statement
// may have to wait for people.
func (s *Session) boundFrame(st *preparedStatement, frame []byte) bindFrame {
	rules := s.core.Rules.Current()
	if rules == nil || rules.Document.Audit.KeepText == "" && !st.assigns() && (s.core.Approvals == nil || !rules.Holding() || !st.mayChange()) {
		return nil
	}
	return bytes.Clone(frame)
}

// mayChange reports if a statement could be one that waits for people.
func (st *preparedStatement) mayChange() bool {
	if st.judged == nil || st.judged.names.changes {
		return true
	}
	for i := range st.judged.facts.Statements {
		if len(st.judged.facts.Statements[i].Functions) > 0 {
			return true
		}
	}
	return false
}
