package mcp

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"interlock/sqlgov"
)

// TestEveryKindHasWords: a kind that is missing from the table would be answered as a defect of ours.
func TestEveryKindHasWords(t *testing.T) {
	for _, k := range sqlgov.Kinds() {
		w, found := wordings[k]
		if !found || w.status == "" || http.StatusText(w.code) == "" && w.code != 499 {
			t.Errorf("kind %d: %+v", k, w)
		}
		for _, a := range []answer{w.handshake, w.modern} {
			if a.code == 0 && a.http != http.StatusOK {
				t.Errorf("kind %d: a tool result with HTTP status %d", k, a.http)
			}
		}
		// Handshake clients do not see the body of a reply that is not 200.
		if w.handshake.http != http.StatusOK {
			t.Errorf("kind %d: handshake status %d", k, w.handshake.http)
		}
	}
	if len(wordings) != len(sqlgov.Kinds()) {
		t.Errorf("%d entries for %d kinds", len(wordings), len(sqlgov.Kinds()))
	}
}

func TestApplicationIsHarmless(t *testing.T) {
	x := exchange{r: &http.Request{Header: http.Header{"User-Agent": {"a\x1b[31m\u202e" + strings.Repeat("é", 200)}}}}
	got := x.application()
	if len(got) > maxApplication || strings.ContainsAny(got, "\x1b\u202e") || !strings.HasPrefix(got, "a[31mé") {
		t.Errorf("got %q", got)
	}
}

// TestCatalogue: every tool is listed once, in order, within what an agent can spare for it. The first needs no
// arguments, so that a client can probe with it.
func TestCatalogue(t *testing.T) {
	var names []string
	for name := range runners {
		names = append(names, name)
	}
	slices.Sort(names)
	last := 0
	for _, name := range names {
		at := strings.Index(string(catalogue.list), `"name":"`+name+`"`)
		if at < last {
			t.Errorf("%s is missing or out of order", name)
		}
		last = at
	}
	if len(catalogue.tools[names[0]].input.Required) != 0 {
		t.Errorf("%s needs arguments", names[0])
	}
	// Four characters a token is the usual rule for English and JSON.
	if tokens := (len(catalogue.list) + len(instructions)) / 4; tokens > 2000 {
		t.Errorf("the tools and instructions cost about %d tokens", tokens)
	}
	for former, name := range formerNames {
		if catalogue.tools[former].run == nil || strings.Contains(string(catalogue.list), former) {
			t.Errorf("%s, formerly of %s, must work and not be listed", former, name)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add("2026-07-28", "tools/call", "=?base64?eA==?=", "application/json, */*;q=0.1", "application/json;charset=utf-8", "http://localhost", "localhost:1")
	f.Add("", "", "", ", ,;", "a/b;c", "null", "[::1]:0")
	f.Fuzz(func(t *testing.T, version, method, name, accept, contentType, origin, host string) {
		h := http.Header{"Mcp-Protocol-Version": {version}, "Mcp-Method": {method}, "Mcp-Name": {name}, "Accept": {accept},
			"Content-Type": {contentType}, "Origin": {origin}}
		x := exchange{server: &Server{}, r: &http.Request{Header: h, Host: host}}
		x.msg.method = "tools/call"
		x.msg.params = value{shape: object, members: []member{{"name", value{shape: text, str: "interlock_query"}}}}
		if x.checkHost() == nil && strings.Contains(host, "evil") {
			t.Errorf("host %q is let in", host)
		}
		if x.checkOrigin() == nil && canonicalOrigin(origin) != canonicalOrigin("http://"+host) {
			t.Errorf("origin %q is let in for host %q", origin, host)
		}
		if x.checkMedia() == nil && (!strings.Contains(strings.ToLower(accept), "application/json") || !strings.Contains(strings.ToLower(accept), "text/event-stream")) {
			t.Errorf("Accept %q is let in", accept)
		}
		if x.checkVersion() == nil && !slices.Contains(versions, version) {
			t.Errorf("version %q is let in", version)
		}
		x.dialect = modern
		if x.checkMirrors() == nil && (method != "tools/call" || name != "interlock_query" && !strings.HasPrefix(name, "=?base64?")) {
			t.Errorf("method %q and name %q are let in", method, name)
		}
	})
}

// TestIdentifiers: the identifiers that the contract publishes are given to machines.
func TestIdentifiers(t *testing.T) {
	given := map[string]bool{}
	for _, w := range wordings {
		given[w.identifier] = true
	}
	for _, identifier := range []string{"cache_consistency_unavailable", "request_too_large", "response_too_large", "upstream_request_failed"} {
		if !given[identifier] {
			t.Errorf("%s is given to no refusal", identifier)
		}
	}
	_, failed := parseMessage([]byte("{"))
	if failed == nil || !strings.Contains(string(failed.data), "invalid_json") {
		t.Errorf("invalid JSON is answered %+v", failed)
	}
}
