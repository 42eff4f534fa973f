package sqlgov

import (
	"fmt"

	"interlock/sqlgov/analyze"
)

func (s *Session) preparedText(name string) (string, bool) {
	st := s.lookup(objectKey{'S', name}).statement
	if st == nil {
		return "", false
	}
	return st.sql, true
}

// lookup finds a statement or portal as it will be when the server comes to the message that names it. If an earlier
// segment that is still under way may change it, lookup waits for that segment: what a failed message leaves behind
// is known only then.
func (s *Session) lookup(key objectKey) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.await(func() bool {
		segment, pending := s.names.pendingBefore(key, s.sent)
		return !pending || s.ended >= segment
	})
	if err != nil && s.broken == nil {
		return object{}
	}
	return s.names.get(key, s.sent)
}

func noStatement(name string) *Refusal {
	m := fmt.Sprintf("prepared statement %q does not exist", name)
	if name == "" {
		m = "unnamed prepared statement does not exist"
	}
	return &Refusal{Kind: InvalidInput, SQLState: "26000", Message: m}
}

func noPortal(name string) *Refusal {
	return &Refusal{Kind: InvalidInput, SQLState: "34000", Message: fmt.Sprintf("portal %q does not exist", name)}
}

func (s *Session) effectsOf(f *analyze.Facts) []effect {
	var all []effect
	for i := range f.Statements {
		st := &f.Statements[i]
		switch st.Kind {
		case analyze.Prepare:
			all = append(all, effect{define: objectKey{'S', st.Name}, statementDef: &preparedStatement{sql: st.Prepared}, statement: i})
		case analyze.Deallocate:
			k := objectKey{'S', st.Name}
			if st.Name == "" {
				k = allStatements
			}
			all = append(all, effect{forget: k, statement: i})
		case analyze.Discard:
			all = append(all, effect{forget: allStatements, statement: i})
		}
	}
	return all
}
