package mcp_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"interlock/mcp"
	"interlock/sqlgov"
)

// TestRefusals holds every kind against the table of the contract, in every version.
func TestRefusals(t *testing.T) {
	type expected struct {
		status  string // structuredContent.status, or data.status of an error
		code    int
		isError bool // of a result
		rpc     int  // 0: a result
		http    int
	}
	result := func(status string, code int) expected { return expected{status, code, true, 0, 200} }
	both := func(e expected) [2]expected { return [2]expected{e, e} }
	contract := map[sqlgov.Kind][2]expected{ // handshake, modern
		sqlgov.Internal:            both(expected{"failed", 500, false, -32603, 200}),
		sqlgov.InvalidInput:        both(expected{"invalid", 422, false, -32602, 200}),
		sqlgov.Unauthenticated:     {result("unauthenticated", 401), {"unauthenticated", 401, false, -32602, 401}},
		sqlgov.Denied:              {result("denied", 403), {"denied", 403, false, -32602, 403}},
		sqlgov.HeldForApproval:     both(expected{"queued", 202, false, 0, 200}),
		sqlgov.RateLimited:         {result("rate_limited", 429), {"rate_limited", 429, false, -32602, 429}},
		sqlgov.RequestTooLarge:     both(result("too_large", 413)),
		sqlgov.ResponseTooLarge:    both(result("too_large", 413)),
		sqlgov.UnknownSource:       {result("not_found", 404), {"not_found", 404, false, -32602, 200}},
		sqlgov.SourceUnavailable:   {result("unavailable", 503), {"unavailable", 503, false, -32603, 200}},
		sqlgov.UpstreamUnreachable: {result("unavailable", 502), {"unavailable", 502, false, -32603, 200}},
		sqlgov.UpstreamFailed:      {result("query_error", 422), {"query_error", 422, false, -32602, 200}},
		sqlgov.AuditUnavailable:    {result("unavailable", 503), {"unavailable", 503, false, -32603, 200}},
		sqlgov.CacheUnavailable:    {result("unavailable", 503), {"unavailable", 503, false, -32603, 200}},
		sqlgov.Unsupported:         {result("unsupported", 422), {"unsupported", 422, false, -32602, 200}},
		sqlgov.UnknownApproval:     {result("not_found", 404), {"not_found", 404, false, -32602, 200}},
		sqlgov.ApprovalDecided:     both(result("conflict", 409)),
		sqlgov.Canceled:            {result("canceled", 499), {"canceled", 499, false, -32602, 200}},
	}
	server, core := newScripted()
	for _, version := range mcp.Versions {
		c := newCaller(t, server, version)
		for _, kind := range sqlgov.Kinds() {
			core.refusals["refuse"] = &sqlgov.Refusal{Kind: kind, SQLState: "42501", Message: "reason", Detail: "detail", Hint: "hint",
				DecisionID: decision, Err: errors.New("password=hunter2 at 10.1.2.3")}
			want := contract[kind][0]
			if version == modernVersion {
				want = contract[kind][1]
			}
			got := c.query("shop", "refuse")
			if got.http != want.http || got.rpc != want.rpc || got.isError != want.isError || got.reason.Status != want.status || got.reason.Code != want.code {
				t.Errorf("%s, kind %d: got %+v\nwant %+v", version, kind, got, want)
			}
			if strings.Contains(got.body, "hunter2") || strings.Contains(got.body, "10.1.2.3") {
				t.Errorf("%s, kind %d: the cause is shown: %s", version, kind, got.body)
			}
			if got.reason.DecisionID != decision || got.header.Get("X-Correlation-Id") != decision {
				t.Errorf("%s, kind %d: decision %q, header %q", version, kind, got.reason.DecisionID, got.header.Get("X-Correlation-Id"))
			}
			if kind != sqlgov.Internal && got.text[:len("reason")] != "reason" {
				t.Errorf("%s, kind %d: text %q", version, kind, got.text)
			}
			if kind == sqlgov.Internal && strings.Contains(got.text, "reason") {
				t.Errorf("%s: a defect is not opaque: %q", version, got.text)
			}
		}
	}
}

// reply is what came back from a tool call, whatever its form.
type reply struct {
	http       int
	header     http.Header
	body       string
	rpc        int
	isError    bool
	text       string // first text item, or the message of an error
	more       []string
	structured json.RawMessage
	reason     struct {
		Status     string `json:"status"`
		Code       int    `json:"code"`
		Message    string `json:"message"`
		SQLState   string `json:"sqlstate"`
		DecisionID string `json:"decision_id"`
	}
}

// caller calls tools of a server in one protocol version.
type caller struct{ conversation }

func (c caller) query(source, sql string) reply {
	c.t.Helper()
	args, err := json.Marshal(map[string]string{"source_id": source, "sql": sql})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.call("interlock_query", string(args))
}

func (c caller) call(tool, args string) reply {
	c.t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
	header := c.header(body)
	if c.version == modernVersion {
		body = withMeta(body)
	}
	return parseReply(c.t, c.send(http.MethodPost, mcp.Path, header, body))
}

func parseReply(t *testing.T, got received) reply {
	t.Helper()
	var m struct {
		Result struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
			IsError           bool
		}
		Error struct {
			Code    int
			Message string
			Data    json.RawMessage
		}
	}
	if err := json.Unmarshal(got.raw, &m); err != nil {
		t.Fatalf("%v in %s", err, got.raw)
	}
	r := reply{http: got.status, header: got.header, body: string(got.raw), rpc: m.Error.Code, isError: m.Result.IsError,
		text: m.Error.Message, structured: m.Result.StructuredContent}
	if r.rpc != 0 {
		r.structured = m.Error.Data
	}
	for i, item := range m.Result.Content {
		if i == 0 {
			r.text = item.Text
		} else {
			r.more = append(r.more, item.Text)
		}
	}
	if r.structured != nil {
		if err := json.Unmarshal(r.structured, &r.reason); err != nil {
			t.Fatal(err)
		}
	}
	return r
}
