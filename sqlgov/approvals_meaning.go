package sqlgov

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// meaning is a digest of what a text was found to do, and of the definitions of the relations and functions that it
// touches: an approval holds for these. A table that was made anew under the same name, a trigger, a rule, another view
// behind the name give another meaning to the same text.
func (j *judged) meaning() string {
	var relations []catalog.Relation
	seen := map[catalog.OID]bool{}
	touch := func(columns ...analyze.Column) {
		for _, c := range columns {
			rel := j.index.Relation(c.Relation)
			if rel == nil || seen[c.Relation] {
				continue
			}
			seen[c.Relation] = true
			defined := *rel
			defined.RowEstimate, defined.Comment = 0, ""
			relations = append(relations, defined)
		}
	}
	for i := range j.facts.Statements {
		s := &j.facts.Statements[i]
		touch(s.Reads...)
		for k := range s.Writes {
			touch(s.Writes[k].Column)
		}
		for k := range s.Output {
			touch(s.Output[k].Columns...)
		}
	}
	slices.SortFunc(relations, func(a, b catalog.Relation) int { return int(int64(a.OID) - int64(b.OID)) })
	b, err := json.Marshal(struct {
		Statements []analyze.Statement
		Relations  []catalog.Relation
		SearchPath []string
	}{j.facts.Statements, relations, j.index.Snapshot.SearchPath})
	if err != nil {
		return "" // equal to no digest; see stillApproved
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// stillApproved judges an approved statement by the rules, the people and the catalog of now.
func (a *admission) stillApproved() *Refusal {
	held := &a.approved.Held
	if m := a.judged.meaning(); m == "" || m != held.Meaning {
		return a.notHoldable("the statement does not mean any more what it meant when it was held",
			"What it touches has been changed since. Send it again.")
	}
	var people []string
	for _, v := range a.approved.Votes {
		if !v.Reject {
			people = append(people, v.By)
		}
	}
	for _, holds := range [][]policy.Hold{held.Holds, a.decision.Obligations.Holds()} {
		for i := range holds {
			if !a.rules.Met(&holds[i], a.approved.Requester, people) {
				return a.notHoldable("the people who approved the statement are not enough under the ruleset of now", "Send it again.")
			}
		}
	}
	return nil
}
