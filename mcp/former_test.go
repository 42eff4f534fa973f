package mcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"interlock/mcp"
	"interlock/sqlgov"
)

// former sends a request to a route that came before POST /mcp.
func former(t *testing.T, server *mcp.Server, verb, route, body string, header ...string) (*httptest.ResponseRecorder, map[string]any) {
	t.Helper()
	req := httptest.NewRequest(verb, "http://localhost"+route, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer ana-key")
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	server.ServeHTTP(w, req)
	var got map[string]any
	text := strings.TrimPrefix(w.Body.String(), "event: message\ndata: ")
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Errorf("%s %s: %v in %s", verb, route, err, w.Body)
	}
	for name, want := range map[string]string{"Deprecation": "@1767225600", "Sunset": "Fri, 31 Dec 2027 23:59:59 GMT", "Link": `</mcp>; rel="successor-version"`} {
		if w.Header().Get(name) != want {
			t.Errorf("%s %s: %s is %q", verb, route, name, w.Header().Get(name))
		}
	}
	if !ulids.MatchString(w.Header().Get("X-Correlation-Id")) {
		t.Errorf("%s %s: no correlation id", verb, route)
	}
	return w, got
}

const formerQuery = `{"name":"interlock_query","arguments":{"source_id":"shop","sql":%q}}`

// TestFormerRoutes: they list and run the same tools, and say that they are deprecated.
func TestFormerRoutes(t *testing.T) {
	server, _ := newScripted()
	for _, verb := range []string{"GET", "POST"} {
		if w, got := former(t, server, verb, "/mcp/tools/list", ""); w.Code != 200 || len(got["tools"].([]any)) < 6 {
			t.Errorf("%s: %d %v", verb, w.Code, got)
		}
	}
	for route, kind := range map[string]string{"/mcp/tools/call": "application/json", "/mcp/sse": "text/event-stream"} {
		w, got := former(t, server, "POST", route, fmt.Sprintf(formerQuery, "select 1"))
		if w.Code != 200 || w.Header().Get("Content-Type") != kind || got["isError"] != false || got["structuredContent"].(map[string]any)["row_count"] != 1.0 {
			t.Errorf("%s: %d %v %v", route, w.Code, w.Header(), got)
		}
		for _, verb := range []string{"GET", "DELETE", "OPTIONS"} {
			if w, got := former(t, server, verb, route, ""); w.Code != 405 || w.Header().Get("Allow") != "POST" || got["error"] == nil {
				t.Errorf("%s %s: %d %v", verb, route, w.Code, got)
			}
		}
	}
}

// TestFormerRefusals: each refusal has the HTTP status that it amounts to, a machine-readable reason beside the error,
// and its record.
func TestFormerRefusals(t *testing.T) {
	server, core := newScripted()
	for _, k := range sqlgov.Kinds() {
		core.refusals[fmt.Sprint("refuse ", int(k))] = &sqlgov.Refusal{Kind: k, SQLState: "42501", Message: "turned down", DecisionID: decision}
	}
	status := map[sqlgov.Kind]int{sqlgov.Internal: 500, sqlgov.InvalidInput: 422, sqlgov.Unauthenticated: 401, sqlgov.Denied: 403, sqlgov.HeldForApproval: 202,
		sqlgov.RateLimited: 429, sqlgov.RequestTooLarge: 413, sqlgov.ResponseTooLarge: 413, sqlgov.UnknownSource: 404, sqlgov.SourceUnavailable: 503,
		sqlgov.UpstreamUnreachable: 502, sqlgov.UpstreamFailed: 422, sqlgov.AuditUnavailable: 503, sqlgov.CacheUnavailable: 503, sqlgov.Unsupported: 422, sqlgov.Canceled: 499,
		sqlgov.UnknownApproval: 404, sqlgov.ApprovalDecided: 409}
	if len(status) != len(sqlgov.Kinds()) {
		t.Errorf("%d of %d kinds", len(status), len(sqlgov.Kinds()))
	}
	for k, want := range status {
		for _, route := range []string{"/mcp/tools/call", "/mcp/sse"} {
			w, got := former(t, server, "POST", route, fmt.Sprintf(formerQuery, fmt.Sprint("refuse ", int(k))))
			if w.Code != want || got["code"] != float64(want) || got["error"] == nil || got["status"] == nil || got["decision_id"] != decision {
				t.Errorf("%v on %s: %d %v, want %d", k, route, w.Code, got, want)
			}
		}
	}
	w, got := former(t, server, "POST", "/mcp/tools/call", fmt.Sprintf(formerQuery, "select 1"), "Authorization", "Bearer wrong")
	if w.Code != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" || got["status"] != "unauthenticated" || len(core.recorded) != 1 {
		t.Errorf("wrong key: %d %v, %d records", w.Code, got, len(core.recorded))
	}
}

// TestFormerGuards: the routes are guarded as the endpoint is.
func TestFormerGuards(t *testing.T) {
	server, core := newScripted()
	server.MaxBodyBytes = 1000
	whole := fmt.Sprintf(formerQuery, "select 1")
	for name, test := range map[string]struct {
		body   string
		header []string
		status int
	}{
		"foreign page":   {whole, []string{"Origin", "https://evil.example"}, 403},
		"no JSON type":   {whole, []string{"Content-Type", "text/plain"}, 415},
		"too large":      {whole + strings.Repeat(" ", 1000), nil, 413},
		"broken":         {`{"name":`, nil, 400},
		"two names":      {`{"name":"interlock_list_sources","name":"interlock_query"}`, nil, 400},
		"folded name":    {`{"Name":"interlock_query"}`, nil, 400},
		"array":          {`[` + whole + `]`, nil, 400},
		"unknown tool":   {`{"name":"shell"}`, nil, 422},
		"stray argument": {`{"name":"interlock_list_sources","arguments":{"x":1}}`, nil, 422},
	} {
		for _, route := range []string{"/mcp/tools/call", "/mcp/sse"} {
			if w, got := former(t, server, http.MethodPost, route, test.body, test.header...); w.Code != test.status || got["error"] == nil {
				t.Errorf("%s on %s: %d %v, want %d", name, route, w.Code, got, test.status)
			}
		}
	}
	if len(core.requests) != 0 {
		t.Errorf("%d requests reached the core", len(core.requests))
	}
}
