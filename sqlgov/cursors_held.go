package sqlgov

import (
	"fmt"

	"interlock/sqlgov/analyze"
)

// A cursor WITH HOLD has its rows from when its transaction ended, and holds no locks after that. FETCH is judged by what its query
// would mean now, so nothing that the query touches may have become something else since it was declared.

// cursorMeaning is a digest of what the query of a cursor touches, from a statement that declares the cursor or fetches from it.
func (j *judged) cursorMeaning(statement int) string {
	st := &j.facts.Statements[statement]
	query := analyze.Statement{Kind: analyze.Select, Reads: st.Reads, Functions: st.Functions, Uses: st.Uses}
	return (&judged{facts: &analyze.Facts{Statements: []analyze.Statement{query}}, index: j.index}).meaning()
}

// cursorsStand refuses to fetch from a cursor WITH HOLD whose query means something else by now.
func (a *admission) cursorsStand() *Refusal {
	if a.stored == nil {
		return nil
	}
	declared := map[string]bool{}
	for i := range a.judged.facts.Statements {
		st := &a.judged.facts.Statements[i]
		switch st.Kind {
		case analyze.Declare:
			declared[st.Name] = true
		case analyze.Fetch, analyze.Move:
			if declared[st.Name] {
				continue
			}
			if def := a.stored(objectKey{'P', st.Name}); def != nil && def.held != "" && def.held != a.judged.cursorMeaning(i) {
				return &Refusal{Kind: Denied, SQLState: "55000", Message: fmt.Sprintf("what cursor %q was declared for has been changed since", st.Name),
					Hint: "Close it and declare it again."}
			}
		}
	}
	return nil
}
