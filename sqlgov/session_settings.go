package sqlgov

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"interlock/sqlgov/analyze"
)

// shaping are the settings of a session that decide how a text or a parameter becomes the value that is written. The
// server reports each change of the first three; the others are followed.
var shaping = []string{"DateStyle", "IntervalStyle", "TimeZone", "extra_float_digits", "bytea_output", "xmloption"}

// unreported are those of which the server does not tell.
var unreported = shaping[3:]

// shape is what a session knows of its shaping settings. Under the session's lock.
type shape struct {
	startup, values map[string]string // one that is missing has the server's default
	// unsure are those whose value depends on how something ended that is not followed: a transaction that set them.
	unsure map[string]bool

	// Of the segment whose replies come now: what was set in it, and if something in it may have undone that.
	set    []analyze.Setting
	undone bool
}

// keepSettings takes down the start-up parameters that a held statement will be run with.
func (s *Session) keepSettings(startup map[string]string) {
	s.shape = shape{startup: make(map[string]string), unsure: make(map[string]bool)}
	for given, value := range startup {
		for _, name := range shaping {
			if strings.EqualFold(given, name) {
				s.shape.startup[name] = value
			}
		}
	}
	s.shape.values = maps.Clone(s.shape.startup)
	for _, p := range s.wire.Parameters() {
		s.reported(p)
	}
}

// reported notes the value of a setting that the server has told.
func (s *Session) reported(p Parameter) {
	if slices.Contains(shaping, p.Name) && !slices.Contains(unreported, p.Name) {
		s.mu.Lock()
		s.shape.values[p.Name] = p.Value
		s.mu.Unlock()
	}
}

// setsShape are the unreported settings that a statement sets.
func setsShape(st *analyze.Statement) []analyze.Setting {
	all := st.Kind == analyze.Discard || st.Kind == analyze.Set && st.Name == "all" // what DISCARD leaves alone is set once more
	var set []analyze.Setting
	for _, name := range unreported {
		if all {
			set = append(set, analyze.Setting{Name: name, Default: true})
		}
	}
	for _, one := range st.Settings {
		if st.Kind == analyze.Set && slices.Contains(unreported, one.Name) {
			set = append(set, one)
		}
	}
	return set
}

// send notes a message that is sent: what it sets is not known before its segment has ended well.
func (p *shape) send(o *op) {
	if o.run == nil || o.run.rehearse {
		return
	}
	for i := range o.run.judged.facts.Statements {
		for _, one := range setsShape(&o.run.judged.facts.Statements[i]) {
			p.unsure[one.Name] = true
		}
	}
}

// complete notes a statement that the server has completed.
func (p *shape) complete(st *analyze.Statement) {
	switch st.Kind {
	case analyze.Begin, analyze.Commit, analyze.Rollback, analyze.Savepoint, analyze.Release:
		p.undone = true
	}
	p.set = append(p.set, setsShape(st)...)
}

// completed notes that the statement of a message whose replies come now is complete.
func (s *Session) completed(o *op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names.undone = s.names.undone || o.undone
	if statements := o.run.judged.facts.Statements; o.statement < len(statements) {
		s.shape.complete(&statements[o.statement])
	}
}

// end ends a segment. What was set outside a transaction, in a segment without errors, holds from now on.
func (p *shape) end(status byte) {
	if status == 'I' && !p.undone {
		for _, one := range p.set {
			p.apply(one)
		}
	}
	p.set, p.undone = nil, false
}

func (p *shape) apply(one analyze.Setting) {
	if one.Local { // which ended with the segment
		return
	}
	delete(p.unsure, one.Name)
	value, given := p.startup[one.Name]
	switch {
	case !one.Default:
		p.values[one.Name] = one.Value
	case given:
		p.values[one.Name] = value
	default:
		delete(p.values, one.Name)
	}
}

// settings returns the settings under which the message that comes next will run, or why they are not known, and what to
// do about it. What earlier segments set is waited for; what the segment under way sets is not known yet.
func (s *Session) settings() (kept map[string]string, unknown, hint string) {
	const early, sync = "settings that were sent before the statement have not been answered yet", "Send a Sync before the statement."
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.ended+1 < s.sent && s.broken == nil {
		s.mu.Unlock()
		err := s.wire.Flush()
		s.mu.Lock()
		if err != nil {
			return nil, early, sync
		}
		if s.ended+1 < s.sent && s.broken == nil {
			s.wait()
		}
	}
	for _, o := range s.queue {
		if o.run != nil && !o.run.rehearse && changesSettings(o.run.judged.facts) {
			return nil, early, sync
		}
	}
	if s.broken != nil {
		return nil, early, sync
	}
	for _, name := range unreported {
		if s.shape.unsure[name] {
			return nil, fmt.Sprintf("it is not known what %s is in this session, for it was set in a transaction or for one", name),
				fmt.Sprintf("Send RESET %s, or SET it, outside a transaction before the statement.", name)
		}
	}
	return maps.Clone(s.shape.values), "", ""
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
