package mcp

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"interlock/sqlgov"
)

// answer is how a dialect says that a tool call was refused: as a JSON-RPC error with this code and HTTP status, or,
// when code is 0, as a tool result.
type answer struct{ http, code int }

var (
	asResult   = answer{http: http.StatusOK}
	asParams   = answer{http: http.StatusOK, code: codeInvalidParams}
	asInternal = answer{http: http.StatusOK, code: codeInternal}
)

// wording is what a kind of refusal looks like to an agent.
type wording struct {
	status     string // a stable word, for programs
	code       int    // the HTTP status that the refusal amounts to
	identifier string // published error identifier, if there is one
	handshake  answer
	modern     answer
}

// wordings says how each kind of refusal is answered. In the modern dialect 401, 403 and 429 travel with that HTTP
// status. 404 and 503 travel with 200, because clients drop the body of those and with it the reason.
var wordings = map[sqlgov.Kind]wording{
	sqlgov.Internal:            {"failed", 500, "", asInternal, asInternal},
	sqlgov.InvalidInput:        {"invalid", 422, "", asParams, asParams},
	sqlgov.Unauthenticated:     {"unauthenticated", 401, "", asResult, answer{401, codeInvalidParams}},
	sqlgov.Denied:              {"denied", 403, "", asResult, answer{403, codeInvalidParams}},
	sqlgov.HeldForApproval:     {"queued", 202, "", asResult, asResult},
	sqlgov.RateLimited:         {"rate_limited", 429, "", asResult, answer{429, codeInvalidParams}},
	sqlgov.RequestTooLarge:     {"too_large", 413, "request_too_large", asResult, asResult},
	sqlgov.ResponseTooLarge:    {"too_large", 413, "response_too_large", asResult, asResult},
	sqlgov.UnknownSource:       {"not_found", 404, "", asResult, asParams},
	sqlgov.SourceUnavailable:   {"unavailable", 503, "", asResult, asInternal},
	sqlgov.UpstreamUnreachable: {"unavailable", 502, "upstream_request_failed", asResult, asInternal},
	sqlgov.UpstreamFailed:      {"query_error", 422, "", asResult, asParams},
	sqlgov.AuditUnavailable:    {"unavailable", 503, "audit_unavailable", asResult, asInternal},
	sqlgov.CacheUnavailable:    {"unavailable", 503, "cache_consistency_unavailable", asResult, asInternal},
	sqlgov.Unsupported:         {"unsupported", 422, "", asResult, asParams},
	sqlgov.Canceled:            {"canceled", 499, "", asResult, asParams},
	sqlgov.UnknownApproval:     {"not_found", 404, "", asResult, asParams},
	sqlgov.ApprovalDecided:     {"conflict", 409, "", asResult, asResult},
}

// refused answers a tool call that was turned down.
func (x *exchange) refused(r *sqlgov.Refusal) ([]byte, *failure) {
	r, w := x.worded(r)
	how := w.handshake
	if x.dialect == modern {
		how = w.modern
	}
	reason := w.reason(r)
	if how.code != 0 {
		x.challenge(how.http)
		return nil, &failure{status: how.http, code: how.code, message: explain(r), data: reason}
	}
	return x.complete(content{
		texts:      [][]byte{[]byte(explain(r))},
		structured: [][]byte{reason},
		isError:    r.Kind != sqlgov.HeldForApproval,
		decision:   r.DecisionID,
	}), nil
}

// worded returns what the client is told of a refusal, and has its log line and its headers in place.
func (x *exchange) worded(r *sqlgov.Refusal) (*sqlgov.Refusal, wording) {
	w, known := wordings[r.Kind]
	if !known || r.Kind == sqlgov.Internal {
		w = wordings[sqlgov.Internal]
		r = &sqlgov.Refusal{Kind: sqlgov.Internal, Message: "tool execution failed", DecisionID: r.DecisionID, Err: r.Err}
	}
	x.note(r)
	if r.Kind == sqlgov.Internal {
		r.Hint = "An operator finds the cause in the log under " + x.correlation + "."
	}
	if r.RetryAfter > 0 {
		seconds := (r.RetryAfter + time.Second - 1) / time.Second
		x.w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	return r, w
}

// challenge says how to authenticate, in a reply that has this HTTP status (RFC 9110, section 15.5.2).
func (x *exchange) challenge(status int) {
	if status == http.StatusUnauthorized {
		x.w.Header().Set("WWW-Authenticate", "Bearer")
	}
}

// note keeps the decision id for the reply's header, and puts the cause where operators look.
func (x *exchange) note(r *sqlgov.Refusal) {
	if r.DecisionID != "" {
		x.correlation = r.DecisionID
	}
	event := x.server.Log.Debug()
	if r.Err != nil && r.Kind != sqlgov.Canceled {
		event = x.server.Log.Warn()
	}
	event.Err(r.Err).Str("correlation_id", x.correlation).Str("status", wordings[r.Kind].status).
		Str("sqlstate", r.SQLState).Msg(r.Message)
}

// reason is the refusal for programs.
func (w wording) reason(r *sqlgov.Refusal) []byte {
	b := appendString([]byte(`{"status":`), w.status)
	b = strconv.AppendInt(append(b, `,"code":`...), int64(w.code), 10)
	b = appendString(append(b, `,"message":`...), r.Message)
	for _, f := range []struct{ name, value string }{
		{"detail", r.Detail}, {"hint", r.Hint}, {"identifier", w.identifier}, {"sqlstate", r.SQLState},
	} {
		if f.value != "" {
			b = appendString(append(appendString(append(b, ','), f.name), ':'), f.value)
		}
	}
	if r.Approval != "" {
		b = appendString(append(b, `,"approval_id":`...), r.Approval)
		b = appendString(append(b, `,"approval_state":`...), string(sqlgov.ApprovalPending))
	}
	if r.Position > 0 {
		b = strconv.AppendInt(append(b, `,"position":`...), int64(r.Position), 10)
	}
	if r.RetryAfter > 0 {
		b = strconv.AppendInt(append(b, `,"retry_after_ms":`...), max(1, r.RetryAfter.Milliseconds()), 10)
	}
	if r.DecisionID != "" {
		b = appendString(append(b, `,"decision_id":`...), r.DecisionID)
	}
	return append(b, '}')
}

// explain is the refusal for the agent to read: what, why, what to do instead, and where to ask.
func explain(r *sqlgov.Refusal) string {
	var b strings.Builder
	b.WriteString(r.Message)
	if r.SQLState != "" && (r.Kind == sqlgov.UpstreamFailed || r.Kind == sqlgov.InvalidInput) {
		b.WriteString(" (SQLSTATE " + r.SQLState + ")")
	}
	for _, line := range []string{r.Detail, r.Hint} {
		if line != "" {
			b.WriteString("\n" + line)
		}
	}
	if r.DecisionID != "" && !strings.Contains(b.String(), r.DecisionID) {
		b.WriteString("\nDecision " + r.DecisionID)
	}
	return b.String()
}
