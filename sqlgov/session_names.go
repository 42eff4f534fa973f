package sqlgov

import (
	"fmt"
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// storedUnder is what EXECUTE or FETCH of a name runs. A portal of the protocol is no cursor: FETCH from one is refused as if
// there were none.
func (s *Session) storedUnder(key objectKey) *preparedStatement {
	st := s.lookup(key).statement
	if st != nil && key.kind == 'P' && !st.cursor {
		return nil
	}
	return st
}

// storedTexts gives the analyser the texts behind names: as the caller wrote them, or as they were sent.
type storedTexts struct {
	stored func(objectKey) *preparedStatement
	sent   bool
}

func (t storedTexts) prepared(name string) (string, bool) {
	st := t.get(objectKey{'S', name})
	if st == nil {
		return "", false
	}
	return st.text(t.sent), true
}

func (t storedTexts) cursor(name string) (string, []catalog.OID, bool) {
	st := t.get(objectKey{'P', name})
	if st == nil {
		return "", nil, false
	}
	return st.text(t.sent), st.params, true
}

func (t storedTexts) get(key objectKey) *preparedStatement {
	if t.stored == nil {
		return nil
	}
	return t.stored(key)
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

// keepsReserved refuses statements that would change what the gateway's own prepared statement is.
func keepsReserved(f *analyze.Facts) *Refusal {
	for i := range f.Statements {
		switch st := &f.Statements[i]; st.Kind {
		case analyze.Prepare, analyze.Deallocate:
			if isReserved(st.Name) {
				return reservedName()
			}
		}
	}
	return nil
}

func isReserved(name string) bool {
	return strings.HasPrefix(name, RecheckName) || strings.HasPrefix(name, leasedName)
}

// reservedName is the refusal of a name that the gateway uses itself.
func reservedName() *Refusal {
	return &Refusal{Kind: InvalidInput, SQLState: "42939", Message: fmt.Sprintf("the name %q is reserved", RecheckName),
		Hint: "Choose another name."}
}

func noPortal(name string) *Refusal {
	return &Refusal{Kind: InvalidInput, SQLState: "34000", Message: fmt.Sprintf("portal %q does not exist", name)}
}

func (s *Session) effectsOf(a *admission) []effect {
	var all []effect
	for i := range a.judged.facts.Statements {
		st := &a.judged.facts.Statements[i]
		switch st.Kind {
		case analyze.Prepare:
			prepared := s.core.store(a, &preparedStatement{sql: st.Prepared})
			all = append(all, effect{define: objectKey{'S', st.Name}, statementDef: prepared, statement: i})
		case analyze.Deallocate:
			k := objectKey{'S', st.Name}
			if st.Name == "" {
				k = allStatements
			}
			all = append(all, effect{forget: k, statement: i})
		case analyze.Declare:
			cursor := s.core.store(a, &preparedStatement{sql: st.Prepared, params: st.ParamTypes, cursor: true, taken: &taken{}})
			if st.Held {
				cursor.held = a.judged.cursorMeaning(i)
			}
			all = append(all, effect{define: objectKey{'P', st.Name}, portalDef: cursor, statement: i})
		case analyze.Close:
			k := objectKey{'P', st.Name}
			if st.Name == "" {
				k = allPortals
			}
			all = append(all, effect{forget: k, statement: i})
		case analyze.Discard:
			if st.Name == "all" {
				all = append(all, effect{forget: allStatements, statement: i}, effect{forget: allPortals, statement: i})
			}
		}
	}
	return all
}

func notByProtocol(name string) *Refusal {
	return &Refusal{Kind: Unsupported, SQLState: "0A000", Message: fmt.Sprintf("cursor %q cannot be executed by the protocol", name),
		Hint: "Use FETCH."}
}

// takenFrom counts what a text hands out: on the cursor that it fetches from, so that a cap holds for all that is fetched,
// or else as given.
func (s *Session) takenFrom(f *analyze.Facts, effects []effect, own *taken) *taken {
	for i := range f.Statements {
		if f.Statements[i].Kind != analyze.Fetch {
			continue
		}
		key := objectKey{'P', f.Statements[i].Name}
		for k := range effects {
			if effects[k].portalDef != nil && effects[k].define == key {
				return effects[k].portalDef.taken
			}
		}
		if st := s.lookup(key).statement; st != nil && st.taken != nil {
			return st.taken
		}
	}
	return own
}

func oids(types []uint32) []catalog.OID {
	all := make([]catalog.OID, len(types))
	for i, t := range types {
		all[i] = catalog.OID(t)
	}
	return all
}
