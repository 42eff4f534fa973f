package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

func get(t *testing.T, s Status, method, path string) (int, map[string]any) {
	t.Helper()
	rec := httptest.NewRecorder()
	Handler(func(context.Context) Status { return s }, &People{}).ServeHTTP(rec, httptest.NewRequest(method, path, nil))
	var body map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
		t.Fatalf("%s %s: body is not JSON: %q", method, path, rec.Body)
	}
	return rec.Code, body
}

func TestReadinessFollowsTheStatus(t *testing.T) {
	notReady := Status{Problems: []string{"no ruleset is in force"}}
	if code, _ := get(t, notReady, "GET", "/healthz"); code != http.StatusOK {
		t.Errorf("healthz = %d while the process runs, want 200", code)
	}
	code, body := get(t, notReady, "GET", "/readyz")
	if code != http.StatusServiceUnavailable || len(body["problems"].([]any)) != 1 {
		t.Errorf("readyz = %d %v, want 503 and the problem", code, body)
	}
	if code, body = get(t, Status{Ready: true}, "GET", "/readyz"); code != http.StatusOK || body["ready"] != true {
		t.Errorf("readyz = %d %v, want 200", code, body)
	}
}

func TestStatusShowsTheRuleset(t *testing.T) {
	code, body := get(t, Status{Ruleset: Ruleset{Number: 7, Digest: "ab"}}, "GET", "/v1/status")
	if code != http.StatusOK || body["ruleset"].(map[string]any)["number"] != 7.0 {
		t.Errorf("status = %d %v, want ruleset 7", code, body)
	}
}

func TestOtherPathsAndMethodsAreJSON(t *testing.T) {
	if code, _ := get(t, Status{}, "GET", "/nothing"); code != http.StatusNotFound {
		t.Errorf("GET /nothing = %d, want 404", code)
	}
	if code, _ := get(t, Status{}, "POST", "/healthz"); code != http.StatusNotFound && code != http.StatusMethodNotAllowed {
		t.Errorf("POST /healthz = %d, want 404 or 405", code)
	}
}
