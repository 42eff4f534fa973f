package sqlgov

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// functionCall is a FunctionCall message: it names a function by its OID, so no name in it can come to mean another. It is judged
// and recorded as the SELECT that calls the function with a parameter for each of its arguments, and sent as it came.
type functionCall struct {
	oid      catalog.OID
	function *catalog.Function // nil until it is found in the catalog
}

// FunctionCall takes a FunctionCall message, which runs a function by its OID. How many arguments it has, and what is in
// them, is for the server to judge.
func (s *Session) FunctionCall(ctx context.Context, function uint32, frame []byte) error {
	s.minds(ctx)
	text := fmt.Sprintf("function \"%d\"", function) // until more is known of it
	if s.raw {
		return s.rawRun(ctx, s.rawAdmission(&preparedStatement{sql: text}), &op{kind: opQuery}, frame)
	}
	a := s.admission(&preparedStatement{sql: text})
	a.call, a.accept = &functionCall{oid: catalog.OID(function)}, nil
	a.bound = s.calledFrame(frame)
	if r := s.core.admit(ctx, a); r != nil {
		return s.reject(&op{kind: opQuery, refusal: r})
	}
	s.tally.statements.Add(1)
	return s.send(&op{kind: opQuery, run: a, taken: &taken{}}, frame)
}

// calledFrame is the Bind message with the arguments of a FunctionCall, if full texts are kept. Both write them in the same way
// (PostgreSQL manual, "Message Formats").
func (s *Session) calledFrame(frame []byte) bindFrame {
	rules := s.core.Rules.Current()
	if rules == nil || rules.Document.Audit.KeepText == "" {
		return nil
	}
	const names = "\x00\x00" // of no portal and no statement
	return bytes.Join([][]byte{frame[:messageHeader], frame[messageHeader+4:]}, []byte(names))
}

// write puts the SELECT in the place of the message, as far as the catalog has the function.
func (f *functionCall) write(a *admission) *analyze.Error {
	f.function = a.index.Function(f.oid)
	if f.function == nil {
		return &analyze.Error{SQLState: "42883", Message: fmt.Sprintf("function with OID %d does not exist", f.oid), Unknown: true}
	}
	parameters := make([]string, len(f.function.Args))
	for i := range parameters {
		parameters[i] = "$" + strconv.Itoa(i+1)
	}
	a.params = f.function.Args
	a.sql = "SELECT " + quoteName(f.function.Schema) + "." + quoteName(f.function.Name) + "(" + strings.Join(parameters, ", ") + ")"
	return nil
}

// isJudged reports if what was judged is the function of the message. Of several with one name, or with arguments of any type, SQL
// could mean another one.
func (f *functionCall) isJudged(facts *analyze.Facts) bool {
	return f.function != nil && len(facts.Statements) == 1 && slices.Contains(facts.Statements[0].Functions, f.function)
}

// told says what the caller may know of why a call is refused. Who sends a number has typed no name, so that of a function of the
// database stays untold, and if there is one.
func (f *functionCall) told(a *admission, r *Refusal) *Refusal {
	if f.function != nil && catalog.IsSystemSchema(f.function.Schema) && f.isJudged(a.judged.facts) {
		return r
	}
	return f.denied()
}

func (f *functionCall) denied() *Refusal {
	return &Refusal{Kind: Denied, SQLState: "42501", Message: fmt.Sprintf("permission denied for function with OID %d", f.oid),
		Hint: "Call it by its name in a SELECT, or ask your administrator for db.function.execute on it."}
}

// callable refuses a message whose reply would have to be another than the server's. Its own form leaves no place for that.
func (c *Core) callable(_ context.Context, a *admission) *Refusal {
	if a.call == nil {
		return nil
	}
	must := a.obligations()
	switch {
	case a.decision.needs != nil:
		return inSelect("a function that shows each identity something else cannot be called by its OID")
	case len(must.Masks)+len(must.Content)+len(must.Guarded) > 0:
		return inSelect("the result would be masked, so the function cannot be called by its OID")
	case must.Hold != nil:
		return inSelect("a call of a function by its OID cannot wait for an approval")
	}
	return nil
}

func inSelect(message string) *Refusal {
	return &Refusal{Kind: Unsupported, SQLState: "0A000", Message: message, Hint: "Call the function by its name in a SELECT."}
}

// takeFunctionResult relays the result of a FunctionCall. It counts as a row. What comes behind it is the end of the transaction,
// which can still fail, so the outcome is recorded then.
func (s *Session) takeFunctionResult(r *Reply) (Output, bool) {
	o := s.front()
	if o == nil || o.run == nil || o.kind != opQuery || o.returned || !s.raw && o.run.call == nil {
		return s.alarm("the server sent the result of a function that nobody called"), true
	}
	o.returned = true
	if !s.row(o, len(r.Frame), 1) {
		return s.stoppedLate(o), true
	}
	o.bytes += int64(len(r.Frame))
	o.rows++
	return Output{Frame: r.Frame}, true
}
