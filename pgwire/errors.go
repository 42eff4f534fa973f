package pgwire

import (
	"errors"
	"strings"

	"interlock/sqlgov"

	"github.com/jackc/pgx/v5/pgproto3"
)

// severity of an ErrorResponse or NoticeResponse that originates here.
type severity string

const (
	severityError severity = "ERROR"
	severityFatal severity = "FATAL" // the connection ends after it
)

// sqlStates maps each kind of refusal to its SQLSTATE (PostgreSQL manual, appendix A), for refusals that do not carry a
// more exact one.
var sqlStates = map[sqlgov.Kind]string{
	sqlgov.Internal:            "XX000",
	sqlgov.InvalidInput:        "42601",
	sqlgov.Unauthenticated:     "28000",
	sqlgov.Denied:              "42501",
	sqlgov.HeldForApproval:     "42501",
	sqlgov.RateLimited:         "53400",
	sqlgov.RequestTooLarge:     "54000",
	sqlgov.ResponseTooLarge:    "54000",
	sqlgov.UnknownSource:       "3D000",
	sqlgov.SourceUnavailable:   "08004",
	sqlgov.UpstreamUnreachable: "08006",
	sqlgov.UpstreamFailed:      "XX000",
	sqlgov.AuditUnavailable:    "58030",
	sqlgov.CacheUnavailable:    "58030",
	sqlgov.Unsupported:         "0A000",
	sqlgov.Canceled:            "57014",
	sqlgov.UnknownApproval:     "42704",
	sqlgov.ApprovalDecided:     "55000",
}

// sqlState of a refusal: its own if it is one, else that of its kind.
func sqlState(r *sqlgov.Refusal) string {
	if len(r.SQLState) == 5 {
		return r.SQLState
	}
	if s := sqlStates[r.Kind]; s != "" {
		return s
	}
	return "XX000"
}

// asRefusal returns the refusal in err. An error that is none says nothing of itself to a client.
func asRefusal(err error) *sqlgov.Refusal {
	var r *sqlgov.Refusal
	if errors.As(err, &r) {
		return r
	}
	return &sqlgov.Refusal{Kind: sqlgov.Internal, Message: "internal error of the gateway", Err: err}
}

// errorResponse says a refusal to a client.
func errorResponse(s severity, r *sqlgov.Refusal) *pgproto3.ErrorResponse {
	if r.Upstream != nil {
		m := upstreamError(r.Upstream)
		m.Hint = withDecision(m.Hint, r.DecisionID)
		return m
	}
	return &pgproto3.ErrorResponse{
		Severity:            string(s),
		SeverityUnlocalized: string(s),
		Code:                sqlState(r),
		Message:             clean(r.Message),
		Detail:              clean(r.Detail),
		Hint:                clean(withDecision(r.Hint, r.DecisionID)),
		Position:            int32(r.Position),
	}
}

// withDecision adds the id by which the audit log knows the refusal to its hint.
func withDecision(hint, id string) string {
	switch {
	case id == "" || strings.Contains(hint, id):
		return hint
	case hint == "":
		return "Decision " + id
	}
	return hint + " Decision " + id
}

// upstreamError passes on an error of the server, as far as the core left it its fields.
func upstreamError(e *sqlgov.UpstreamError) *pgproto3.ErrorResponse {
	return &pgproto3.ErrorResponse{
		Severity:            e.Severity,
		SeverityUnlocalized: e.Severity,
		Code:                e.SQLState,
		Message:             clean(e.Message),
		Detail:              clean(e.Detail),
		Hint:                clean(e.Hint),
		Position:            e.Position,
		Where:               clean(e.Where),
		SchemaName:          clean(e.Schema),
		TableName:           clean(e.Table),
		ColumnName:          clean(e.Column),
		DataTypeName:        clean(e.DataType),
		ConstraintName:      clean(e.Constraint),
	}
}

// clean keeps a NUL, which ends a field, out of it.
func clean(s string) string { return strings.ReplaceAll(s, "\x00", `\0`) }
