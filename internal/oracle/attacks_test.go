package oracle_test

import (
	"encoding/json"
	"strings"
	"testing"

	"interlock/internal/pgtest"
	"interlock/sqlgov/analyze"
)

type attack struct {
	ID  string          `json:"id"`
	SQL json.RawMessage `json:"sql"`
}

// texts are the texts of a case: one, or several that a session runs in order. A step can be an object whose q is the text.
func (a *attack) texts(t *testing.T) []string {
	t.Helper()
	var steps []json.RawMessage
	if json.Unmarshal(a.SQL, &steps) != nil {
		steps = []json.RawMessage{a.SQL}
	}
	var all []string
	for _, step := range steps {
		var text string
		var object struct{ Q string }
		if json.Unmarshal(step, &text) != nil {
			if err := json.Unmarshal(step, &object); err != nil {
				t.Fatalf("%s: %v", a.ID, err)
			}
			text = object.Q
		}
		all = append(all, text)
	}
	return all
}

// TestOracleAttacks compares our report with PostgreSQL's analysis for every statement of the attack corpus that the
// analyser accepts. What an earlier statement of the case would have changed does not count: nothing is run.
func TestOracleAttacks(t *testing.T) {
	j := newJudge(t, pgtest.Attacks(t))
	accepted, refused, invalid := 0, 0, 0
	for _, line := range strings.Split(strings.TrimSpace(repositoryFile(t, "testdata/attacks/cases.jsonl")), "\n") {
		var a attack
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		for _, text := range a.texts(t) {
			q := &question{sql: text, path: "public", group: a.ID}
			facts, err := analyze.Analyze(text, q.env(j.index))
			if err != nil {
				refused++
				continue
			}
			for i := range facts.Statements {
				st := &facts.Statements[i]
				q.sql = text[st.Start:st.End]
				switch ok := j.attacked(t, q, st); {
				case ok:
					accepted++
				default:
					invalid++
				}
			}
		}
	}
	t.Logf("%d statements agree or were reported above; %d texts refused; %d statements that the server refuses", accepted, refused, invalid)
	if accepted < 300 {
		t.Errorf("only %d statements were compared", accepted)
	}
}

// attacked compares one statement. It reports false when the server refuses the statement by itself.
func (j *judge) attacked(t *testing.T, q *question, st *analyze.Statement) bool {
	t.Helper()
	if st.Kind == analyze.Execute {
		return false // of a name that nothing prepared here
	}
	needs, err := j.needs(q, st)
	if err != nil {
		return false
	}
	for _, d := range j.disagreements(st, needs, q) {
		t.Errorf("%s\n\t%s", q, d)
	}
	return true
}
