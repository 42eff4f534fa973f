package mcp

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
)

// The protocol versions, newest first.
const (
	version20260728 = "2026-07-28"
	version20251125 = "2025-11-25"
	version20250618 = "2025-06-18"
	version20250326 = "2025-03-26"
)

var versions = []string{version20260728, version20251125, version20250618, version20250326}

// dialect is how a protocol version frames things. The verdicts are the same in both.
type dialect int

const (
	handshake dialect = iota
	modern
)

// Keys of _meta that the modern dialect defines.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaServer       = "io.modelcontextprotocol/serverInfo"
)

// checkVersion chooses the dialect. A client that names no version gets the oldest one, as MCP 2025-06-18 says.
func (x *exchange) checkVersion() *failure {
	version := version20250326
	if len(x.r.Header.Values("MCP-Protocol-Version")) > 0 {
		version = joined(x.r.Header, "MCP-Protocol-Version")
	}
	if !slices.Contains(versions, version) {
		f := fail(http.StatusBadRequest, codeUnsupportedVersion, "protocol version %q is not supported", version)
		f.data = appendStrings([]byte(`{"supported":`), versions)
		f.data = append(appendString(append(f.data, `,"requested":`...), version), '}')
		return f
	}
	if version == version20260728 {
		x.dialect = modern
	}
	return nil
}

// checkMirrors compares the headers that the modern dialect demands with the body, so that an intermediary that
// routes by header and we who act by body cannot be told different things. Handshake clients may send anything there.
func (x *exchange) checkMirrors() *failure {
	if x.dialect != modern {
		return nil
	}
	if sent := joined(x.r.Header, "Mcp-Method"); sent != x.msg.method {
		return mismatch("header Mcp-Method must be the method of the body, %q, not %q", x.msg.method, sent)
	}
	sent, valid := mirroredName(joined(x.r.Header, "Mcp-Name"))
	if x.msg.method != "tools/call" {
		if sent != "" || !valid {
			return mismatch("header Mcp-Name has no meaning for method %q", x.msg.method)
		}
		return nil
	}
	if name := x.msg.params.get("name").str; !valid || sent != name {
		return mismatch("header Mcp-Name must be the name of the tool, %q, not %q", name, sent)
	}
	return nil
}

func mismatch(format string, args ...any) *failure {
	return fail(http.StatusBadRequest, codeHeaderMismatch, format, args...)
}

// mirroredName decodes the value of a Mcp-Name header: plain printable ASCII, or =?base64?...?= of UTF-8.
func mirroredName(sent string) (name string, valid bool) {
	if inner, found := strings.CutPrefix(sent, "=?base64?"); found {
		inner, found = strings.CutSuffix(inner, "?=")
		decoded, err := base64.StdEncoding.Strict().DecodeString(inner)
		if !found || err != nil || !utf8.Valid(decoded) {
			return sent, false
		}
		return string(decoded), true
	}
	for i := range len(sent) {
		if sent[i] < ' ' || sent[i] > '~' {
			return sent, false
		}
	}
	return sent, true
}

// checkMeta wants the keys of _meta that the modern dialect requires in every request.
func (x *exchange) checkMeta() *failure {
	meta := x.msg.params.get("_meta")
	if name, found := strayCase(meta, metaVersion, metaCapabilities, metaClient, "progressToken"); found {
		return fail(http.StatusBadRequest, codeInvalidParams, "unknown key %q in _meta: keys are case-sensitive", name)
	}
	if token := meta.get("progressToken"); token.shape != absent && token.shape != text && (token.shape != number || bytes.ContainsAny(token.raw, ".eE")) {
		return fail(http.StatusBadRequest, codeInvalidParams, "progressToken must be a string or an integer")
	}
	if x.dialect != modern {
		return nil
	}
	version := meta.get(metaVersion)
	if version.shape != text {
		return missingMeta(metaVersion, "a string")
	}
	if meta.get(metaCapabilities).shape != object {
		return missingMeta(metaCapabilities, "an object")
	}
	if header := joined(x.r.Header, "MCP-Protocol-Version"); version.str != header {
		return mismatch("header MCP-Protocol-Version is %q, but _meta of the body says %q", header, version.str)
	}
	return nil
}

func missingMeta(key, kind string) *failure {
	return fail(http.StatusBadRequest, codeInvalidParams, "params._meta must have the key %q, %s", key, kind)
}
