package mcp

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
)

// JSON-RPC and MCP error codes.
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeHeaderMismatch     = -32020
	codeUnsupportedVersion = -32022
)

// failure is a JSON-RPC error together with the HTTP status that it travels with.
type failure struct {
	status  int
	code    int
	message string
	data    []byte // JSON; may be nil
}

func fail(status, code int, format string, args ...any) *failure {
	return &failure{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

// identified adds a published error identifier, for machines.
func (f *failure) identified(identifier string) *failure {
	f.data = appendString([]byte(`{"identifier":`), identifier)
	f.data = append(f.data, '}')
	return f
}

// message is one JSON-RPC request, or a notification when id is nil.
type message struct {
	id     []byte // as sent, to be echoed byte for byte
	method string
	params value // an object, or absent
}

// parseMessage reads one message. When it fails, the message still carries the id if there was one to read.
func parseMessage(body []byte) (message, *failure) {
	root, flaw, err := readJSON(body)
	if err != nil && err.malformed {
		return message{}, fail(http.StatusBadRequest, codeParse, "invalid JSON: %s", err.message).identified("invalid_json")
	}
	if err != nil {
		return message{}, fail(http.StatusBadRequest, codeInvalidRequest, "%s", err.message)
	}
	if root.shape == array {
		return message{}, invalid("batches are not supported: send one JSON-RPC message per request")
	}
	if root.shape != object {
		return message{}, invalid("the body must be one JSON-RPC message, which is a JSON object")
	}
	id, refused := readID(root)
	msg := message{id: id}
	if refused == nil && flaw != "" {
		refused = invalid(flaw)
	}
	if refused == nil {
		refused = msg.read(root)
	}
	return msg, refused
}

func invalid(message string) *failure {
	return &failure{status: http.StatusBadRequest, code: codeInvalidRequest, message: message}
}

// readID returns the id as sent; nil if there is none, or if it cannot be told which one is meant.
func readID(root value) ([]byte, *failure) {
	var id []byte
	for _, m := range root.members {
		if !strings.EqualFold(m.name, "id") {
			continue
		}
		if id != nil || m.name != "id" {
			return nil, invalid(`the message must have at most one member "id", written in lower case`)
		}
		integer := m.value.shape == number && !bytes.ContainsAny(m.value.raw, ".eE")
		if m.value.shape != text && !integer {
			return nil, invalid("id must be a string or an integer")
		}
		id = m.value.raw
	}
	return id, nil
}

// read takes the method and the parameters out of the message object.
func (m *message) read(root value) *failure {
	if name, found := strayCase(root, "jsonrpc", "method", "params"); found {
		return invalid(fmt.Sprintf("unknown member %q: member names are lower case", name))
	}
	if root.get("jsonrpc").str != "2.0" {
		return invalid(`jsonrpc must be "2.0"`)
	}
	method := root.get("method")
	if method.shape == absent && (root.get("result").shape != absent || root.get("error").shape != absent) {
		return invalid("this server sends no requests, so it takes no responses")
	}
	if method.shape != text || method.str == "" {
		return invalid("method must be a string")
	}
	m.method = method.str
	if m.id == nil && !strings.HasPrefix(m.method, "notifications/") {
		return invalid("a request must have an id")
	}
	m.params = root.get("params")
	if m.params.shape != absent && m.params.shape != object {
		return fail(http.StatusBadRequest, codeInvalidParams, "params must be an object")
	}
	if name, found := strayCase(m.params, "_meta", "name", "arguments", "cursor", "protocolVersion"); found {
		return fail(http.StatusBadRequest, codeInvalidParams, "unknown parameter %q: parameter names are case-sensitive", name)
	}
	return nil
}

// strayCase finds a member that is one of names but for case: a sloppy reader would take it for that member.
func strayCase(v value, names ...string) (string, bool) {
	for _, m := range v.members {
		for _, name := range names {
			if m.name != name && strings.EqualFold(m.name, name) {
				return m.name, true
			}
		}
	}
	return "", false
}
