package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"interlock/sqlgov"
)

// maxBody bounds a request; a person's reason is the largest part of it.
const maxBody = 16 << 10

// ApprovalCore is the part of the governance core that people use. Every error is a *sqlgov.Refusal.
type ApprovalCore interface {
	ListApprovals(ctx context.Context, caller sqlgov.Caller, states []sqlgov.ApprovalState) ([]sqlgov.ApprovalView, error)
	ShowApproval(ctx context.Context, caller sqlgov.Caller, id string) (*sqlgov.ApprovalView, error)
	VoteApproval(ctx context.Context, caller sqlgov.Caller, id string, said sqlgov.ApprovalVote) (*sqlgov.ApprovalView, error)
	// RecordRefusal writes the audit record of a request that was turned down here.
	RecordRefusal(ctx context.Context, caller sqlgov.Caller, source string, r *sqlgov.Refusal)
}

// Authenticator verifies a bearer token. Its error is a *sqlgov.Refusal.
type Authenticator interface {
	Bearer(ctx context.Context, token string) (identity, keyID string, err error)
}

// People serves what people do with statements that wait for them. Each request carries an API key of theirs.
//
//	GET  /v1/approvals?state=pending       200 and a list of sqlgov.ApprovalView, newest first
//	GET  /v1/approvals/{id}                200 and a sqlgov.ApprovalView
//	POST /v1/approvals/{id}/approve        200 and a sqlgov.ApprovalView; the body is {"reason": "..."} or empty
//	POST /v1/approvals/{id}/reject         likewise
//
// A refusal is {"error", "message", "detail", "hint", "decision_id"}.
type People struct {
	Core          ApprovalCore
	Authenticator Authenticator
}

// statuses are those of refusals. What is not listed is 500.
var statuses = map[sqlgov.Kind]int{
	sqlgov.InvalidInput:      http.StatusBadRequest,
	sqlgov.Unauthenticated:   http.StatusUnauthorized,
	sqlgov.Denied:            http.StatusForbidden,
	sqlgov.RateLimited:       http.StatusTooManyRequests,
	sqlgov.UnknownApproval:   http.StatusNotFound,
	sqlgov.ApprovalDecided:   http.StatusConflict,
	sqlgov.SourceUnavailable: http.StatusServiceUnavailable,
	sqlgov.AuditUnavailable:  http.StatusServiceUnavailable,
	sqlgov.Unsupported:       http.StatusNotImplemented,
}

func (p *People) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/approvals", p.serve(func(r *http.Request, caller sqlgov.Caller) (any, error) {
		states, err := statesOf(r)
		if err != nil {
			return nil, err
		}
		return p.Core.ListApprovals(r.Context(), caller, states)
	}))
	mux.HandleFunc("GET /v1/approvals/{id}", p.serve(func(r *http.Request, caller sqlgov.Caller) (any, error) {
		return p.Core.ShowApproval(r.Context(), caller, r.PathValue("id"))
	}))
	for verb, reject := range map[string]bool{"approve": false, "reject": true} {
		mux.HandleFunc("POST /v1/approvals/{id}/"+verb, p.serve(func(r *http.Request, caller sqlgov.Caller) (any, error) {
			reason, err := reasonOf(r)
			if err != nil {
				return nil, err
			}
			return p.Core.VoteApproval(r.Context(), caller, r.PathValue("id"), sqlgov.ApprovalVote{Reject: reject, Reason: reason})
		}))
	}
}

// serve authenticates who asks. Pages of other origins have no business here, and browsers say where they come from.
func (p *People) serve(f func(*http.Request, sqlgov.Caller) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller := sqlgov.Caller{Door: sqlgov.Admin, ClientAddr: r.RemoteAddr}
		if err := p.authenticate(r, &caller); err != nil {
			refused := asRefusal(err)
			p.Core.RecordRefusal(r.Context(), caller, "", refused)
			refuse(w, refused)
			return
		}
		answer, err := f(r, caller)
		if err != nil {
			refuse(w, asRefusal(err))
			return
		}
		write(w, http.StatusOK, answer)
	}
}

func (p *People) authenticate(r *http.Request, caller *sqlgov.Caller) (err error) {
	if r.Header.Get("Origin") != "" {
		return &sqlgov.Refusal{Kind: sqlgov.Denied, SQLState: "42501", Message: "requests of web pages are not served here"}
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || strings.TrimSpace(token) == "" {
		return &sqlgov.Refusal{Kind: sqlgov.Unauthenticated, SQLState: "28000", Message: "this needs an API key",
			Hint: "Send it as \"Authorization: Bearer <key>\"."}
	}
	caller.Identity, caller.KeyID, err = p.Authenticator.Bearer(r.Context(), strings.TrimSpace(token))
	return err
}

func statesOf(r *http.Request) ([]sqlgov.ApprovalState, error) {
	var states []sqlgov.ApprovalState
	for _, s := range r.URL.Query()["state"] {
		if !slices.Contains(sqlgov.ApprovalStates, sqlgov.ApprovalState(s)) {
			return nil, invalid("there is no state " + s)
		}
		states = append(states, sqlgov.ApprovalState(s))
	}
	return states, nil
}

func reasonOf(r *http.Request) (string, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return "", invalid("the body cannot be read, or is too large")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return "", nil
	}
	var said struct {
		Reason string `json:"reason"`
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&said); err != nil || dec.More() {
		return "", invalid(`the body is not of the form {"reason": "..."}`)
	}
	return said.Reason, nil
}

func invalid(message string) error {
	return &sqlgov.Refusal{Kind: sqlgov.InvalidInput, SQLState: "22023", Message: message}
}

// asRefusal makes a refusal of any error: one that is none is a defect, and denies.
func asRefusal(err error) *sqlgov.Refusal {
	var r *sqlgov.Refusal
	if errors.As(err, &r) {
		return r
	}
	return &sqlgov.Refusal{Kind: sqlgov.Internal, Message: "internal error of the gateway", Err: err}
}

// Refusal is the body of a request that was turned down.
type Refusal struct {
	Error      string `json:"error"`
	Message    string `json:"message"`
	Detail     string `json:"detail,omitempty"`
	Hint       string `json:"hint,omitempty"`
	DecisionID string `json:"decision_id,omitempty"`
}

func refuse(w http.ResponseWriter, r *sqlgov.Refusal) {
	status, ok := statuses[r.Kind]
	if !ok {
		status = http.StatusInternalServerError
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	write(w, status, Refusal{r.Kind.String(), r.Message, r.Detail, r.Hint, r.DecisionID})
}
