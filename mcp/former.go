package mcp

import (
	"net/http"

	"interlock/sqlgov"
)

// The routes that came before POST /mcp. They take a tool call without JSON-RPC around it and answer with its result, or
// with an HTTP status and an object whose member "error" says what is wrong. Who may do what, and what is recorded, is
// the same as everywhere.

// formerRoute is one of them.
type formerRoute struct {
	allow  string // methods
	serve  func(*exchange)
	stream bool // the reply is a stream of events
}

var formerRoutes = map[string]formerRoute{
	Path + "/tools/list": {allow: "GET, POST", serve: (*exchange).formerList},
	Path + "/tools/call": {allow: http.MethodPost, serve: (*exchange).formerCall},
	Path + "/sse":        {allow: http.MethodPost, serve: (*exchange).formerCall, stream: true},
}

// When the routes were deprecated (RFC 9745), 2026-01-01, and until when they stay at least (RFC 8594).
const (
	formerSince = "@1767225600"
	formerUntil = "Fri, 31 Dec 2027 23:59:59 GMT"
)

func (x *exchange) serveFormer(route formerRoute) {
	h := x.w.Header()
	h.Set("Deprecation", formerSince)
	h.Set("Sunset", formerUntil)
	h.Set("Link", "<"+Path+`>; rel="successor-version"`)
	if failed := first(x.checkHost, x.checkOrigin); failed != nil {
		x.formerError(failed)
		return
	}
	get := x.r.Method == http.MethodGet && route.allow != http.MethodPost
	if !get && x.r.Method != http.MethodPost {
		h.Set("Allow", route.allow)
		x.formerError(fail(http.StatusMethodNotAllowed, codeInvalidRequest, "%s is not supported: use %s", x.r.Method, route.allow))
		return
	}
	x.stream.wanted = route.stream
	route.serve(x)
}

// formerList lists the tools, for anybody, as tools/list does.
func (x *exchange) formerList() {
	x.send(http.StatusOK, append(append([]byte(`{"tools":`), catalogue.list...), '}'))
}

// formerCall runs a tool: {"name": ..., "arguments": {...}}.
func (x *exchange) formerCall() {
	if failed := first(x.checkLength, x.checkBodyType, x.readBody, x.parseFormer); failed != nil {
		x.formerError(failed)
		return
	}
	said, refusal := x.perform()
	switch {
	case refusal != nil:
		x.formerRefusal(refusal)
	case x.stream.wanted:
		x.endStream(x.complete(said))
	default:
		x.send(http.StatusOK, x.complete(said))
	}
}

// parseFormer reads the body as strictly as a JSON-RPC message.
func (x *exchange) parseFormer() *failure {
	root, flaw, err := readJSON(x.body)
	switch {
	case err != nil:
		return fail(http.StatusBadRequest, codeParse, "invalid JSON: %s", err.message).identified("invalid_json")
	case root.shape != object:
		return invalid(`the body must be a JSON object: {"name": ..., "arguments": {...}}`)
	case flaw != "":
		return invalid(flaw)
	}
	if name, found := strayCase(root, "name", "arguments", "_meta"); found {
		return invalid("unknown member " + string(appendString(nil, name)) + ": member names are lower case")
	}
	x.msg.params = root
	return nil
}

// formerError answers what is wrong with the request itself.
func (x *exchange) formerError(f *failure) {
	b := appendString([]byte(`{"error":`), f.message)
	if f.data != nil { // {"identifier":...}
		b = append(append(b, ','), f.data[1:len(f.data)-1]...)
	}
	x.send(f.status, append(b, '}'))
}

// formerRefusal answers a tool call that was turned down: by its own HTTP status, which is 202 for a write that is held,
// with what a tool result says of it in structuredContent beside the error.
func (x *exchange) formerRefusal(r *sqlgov.Refusal) {
	r, w := x.worded(r)
	x.challenge(w.code)
	b := append(appendString([]byte(`{"error":`), explain(r)), ',')
	x.send(w.code, append(b, w.reason(r)[1:]...))
}
