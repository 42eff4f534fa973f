package mcp

import (
	"net/http"
	"regexp"
)

// traceForm is a traceparent of version 00 (W3C Trace Context, section 3.2).
var traceForm = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traceparent returns the trace context of a request, for the audit record; "" if there is none that is well formed. It
// comes from the client, so it is carried and never relied on.
func traceparent(h http.Header) string {
	if v := h.Values("Traceparent"); len(v) == 1 && traceForm.MatchString(v[0]) {
		return v[0]
	}
	return ""
}
