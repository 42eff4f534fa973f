// Package admin serves operators' HTTP endpoints: is the process alive, can it serve, and with which ruleset and
// catalogs; and those by which people decide about statements that wait for them. It listens on loopback unless the
// configuration says otherwise. What needs no API key shows no statement, key or address.
package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Status is what /v1/status shows.
type Status struct {
	Version  string         `json:"version"`
	Started  time.Time      `json:"started"`
	Ready    bool           `json:"ready"`
	Problems []string       `json:"problems,omitempty"` // why it is not ready, or what an operator should look at
	Ruleset  Ruleset        `json:"ruleset"`
	Sources  []SourceStatus `json:"sources"`
	Audit    AuditStatus    `json:"audit"`
}

// AuditStatus is the state of the audit log: how far each of those who take it on has come.
type AuditStatus struct {
	Written uint64      `json:"written"` // last entry
	Synced  uint64      `json:"synced"`  // last entry on the disk
	Waiting int         `json:"waiting"` // entries that wait to be written
	Failing bool        `json:"failing"` // it takes no entries
	Indexed uint64      `json:"indexed"` // last entry that searches find by the index
	Sinks   []AuditSink `json:"sinks"`
	// Shared is the part of this node in the index that nodes share; nil if there is none.
	Shared *AuditShared `json:"shared_index,omitempty"`
}

// AuditShared is how far the part of this node in a shared index has come.
type AuditShared struct {
	Indexed uint64 `json:"indexed"` // last entry that is known to be there
	Lag     uint64 `json:"lag"`     // entries on the disk that are not
	Failing bool   `json:"failing"`
	Reason  string `json:"reason,omitempty"` // why, where the database is not the reason
}

// AuditSink is the state of a place that the log is sent to.
type AuditSink struct {
	Name    string `json:"name"`
	Sent    uint64 `json:"sent"` // last entry that was confirmed
	Lag     uint64 `json:"lag"`  // entries on the disk that were not
	Failing bool   `json:"failing"`
}

// Ruleset names the ruleset in force.
type Ruleset struct {
	Number int64  `json:"number"`
	Digest string `json:"digest"`
	// LastError is why the newest document was not put in force; "" if it was.
	LastError string `json:"last_error,omitempty"`
}

// SourceStatus is the state of a source.
type SourceStatus struct {
	ID        string     `json:"id"`
	Enabled   bool       `json:"enabled"`
	Catalog   string     `json:"catalog,omitempty"` // version of its snapshot; "" when it was never scanned
	ScannedAt *time.Time `json:"scanned_at,omitempty"`
	// CurrentAt is when the server was last seen to have this catalog.
	CurrentAt *time.Time `json:"current_at,omitempty"`
}

// Handler serves the endpoints from a func that reports the current state.
//
//	GET /healthz    200 while the process runs
//	GET /readyz     200 when statements can be served, else 503; the body lists the problems
//	GET /v1/status  200 and a Status
//
// and those of People. Everything else is answered 404 or 405 with a JSON body {"error": ...}.
func Handler(status func(context.Context) Status, people *People) http.Handler {
	mux := http.NewServeMux()
	people.register(mux)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		s := status(r.Context())
		code := http.StatusOK
		if !s.Ready {
			code = http.StatusServiceUnavailable
		}
		write(w, code, map[string]any{"ready": s.Ready, "problems": nonNil(s.Problems)})
	})
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		write(w, http.StatusOK, status(r.Context()))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusNotFound, map[string]string{"error": "not_found"})
	})
	return mux
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func write(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	// The client is gone if this fails; there is nobody left to tell.
	_ = json.NewEncoder(w).Encode(body)
}
