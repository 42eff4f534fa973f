package sqlgov

import (
	"context"
	"fmt"
	"strings"
	"time"

	"interlock/audit"
	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// witness holds the server's description of a result against what the analyser predicted for a statement: as many
// fields, and every field that the server traces to a column traced to one that was reported. The server is the
// second witness: when the two disagree, the catalog or the analyser is wrong, and the result is withheld.
func (a *admission) witness(statement int, fields []Field) *Refusal {
	if a.raw {
		return nil // nothing was predicted
	}
	statements := a.sent().Statements
	if statement >= len(statements) {
		return disagreement("a result for statement %d of %d", statement+1, len(statements))
	}
	st := &statements[statement]
	if st.Output == nil {
		return disagreement("rows from a statement of kind %s", st.Kind)
	}
	if len(st.Output) != len(fields) {
		return disagreement("%d columns where %d were predicted", len(fields), len(st.Output))
	}
	for i := range fields {
		if f := &fields[i]; f.Relation != 0 && !reported(st, f.Relation, f.Num) {
			return disagreement("column %d comes from relation %d, column %d, which was not reported", i+1, f.Relation, f.Num)
		}
	}
	return a.witnessMasks(statement, fields)
}

// reported reports if a statement was found to read a column. A whole row has number 0 and reads every column.
func reported(st *analyze.Statement, relation catalog.OID, num int16) bool {
	for i := range st.Reads {
		if c := &st.Reads[i]; c.Relation == relation && (c.Num == num || num == 0) {
			return true
		}
	}
	return false
}

func disagreement(format string, args ...any) *Refusal {
	return &Refusal{Kind: Internal, SQLState: "XX000",
		Message: "the server's answer is not what the gateway predicted, so it is withheld",
		Detail:  "The server sent " + fmt.Sprintf(format, args...) + ".",
		Hint:    "The catalog may have changed at this moment: try again. If it happens again, tell your administrator."}
}

// withholds reports if messages of the server must lose what could show a value that the caller may not read.
func (a *admission) withholds() bool { return a.decision != nil && a.decision.WithholdDetail }

// reduce returns what the caller may see of an error or notice of the server. When a table in the statement has
// columns that the caller may not read, the fields that can quote a row are dropped: DETAIL prints whole rows and
// keys, CONTEXT prints statements, and column and constraint names can name what the caller cannot see.
func (a *admission) reduce(e *UpstreamError) *UpstreamError {
	if !a.withholds() || strings.HasPrefix(e.SQLState, "25") { // the transaction's state, which holds no data
		return e
	}
	return &UpstreamError{Severity: e.Severity, SQLState: e.SQLState, Message: a.reducedMessage(e), Position: e.Position,
		Hint: "Details are withheld because the statement touches a table with columns that you may not read."}
}

// reducedMessage keeps the message of errors whose text is fixed or names only what the caller typed. Data exceptions
// and integrity violations can quote values, names of hidden columns and constraints, so they are named by their
// condition.
func (a *admission) reducedMessage(e *UpstreamError) string {
	if len(e.SQLState) != 5 {
		return "error on the server"
	}
	switch e.SQLState {
	case "23502":
		return "a column that must have a value was left null"
	case "23503":
		return "the row violates a foreign key constraint"
	case "23505":
		return "the row duplicates a value that must be unique"
	case "23514":
		return "the row violates a check constraint"
	case "23P01":
		return "the row violates an exclusion constraint"
	}
	switch e.SQLState[:2] {
	case "22", "23", "44", "P0", "XX", "38", "39":
		return "the server refused a value (SQLSTATE " + e.SQLState + ")"
	}
	if a.decision.WithholdAll && !holdsNoValue(e.SQLState) {
		return "the server refused the statement (SQLSTATE " + e.SQLState + ")"
	}
	return e.Message
}

// failRehearsal records a statement that was judged and sent to be prepared, and that the server did not accept.
func (a *admission) failRehearsal(sqlstate string) *Refusal {
	out := &audit.Outcome{ID: a.id, Time: time.Now(), Status: audit.Failed, SQLState: sqlstate, Duration: time.Since(a.started)}
	rec, err := a.newRecord()
	if err == nil {
		err = a.core.Audit.Request(context.Background(), rec, out)
	}
	if err != nil {
		return auditUnavailable(err)
	}
	return nil
}
