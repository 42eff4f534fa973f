package mcp

import (
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
)

const (
	mediaJSON   = "application/json"
	mediaStream = "text/event-stream"
)

// checkHost refuses names under which nobody was told to reach us. A page that has rebound its own name to our
// address sends a Host and an Origin that agree with each other, so the Origin check alone would let it in.
func (x *exchange) checkHost() *failure {
	host := x.r.Host
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if isLoopback(name) {
		return nil
	}
	for _, allowed := range x.server.AllowedHosts {
		if strings.EqualFold(allowed, host) || strings.EqualFold(allowed, name) {
			return nil
		}
	}
	return fail(http.StatusForbidden, codeInvalidRequest, "host %q is not a name of this server; an operator can add it to the allowed hosts", host)
}

func isLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return ip != nil && ip.IsLoopback()
}

// checkOrigin refuses calls from web pages of other origins.
func (x *exchange) checkOrigin() *failure {
	if len(x.r.Header.Values("Origin")) == 0 {
		return nil
	}
	sent := joined(x.r.Header, "Origin")
	own := "http://" + x.r.Host
	if x.r.TLS != nil {
		own = "https://" + x.r.Host
	}
	origin := canonicalOrigin(sent)
	if origin != "" && origin == canonicalOrigin(own) {
		return nil
	}
	for _, allowed := range x.server.AllowedOrigins {
		if origin != "" && origin == canonicalOrigin(allowed) {
			return nil
		}
	}
	return fail(http.StatusForbidden, codeInvalidRequest, "origin %q may not call this server; an operator can add it to the allowed origins", sent)
}

// canonicalOrigin is scheme://host:port in lower case; "" if s is no such thing ("null" is not).
func canonicalOrigin(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	port := u.Port()
	switch {
	case u.Scheme == "http" && port == "":
		port = "80"
	case u.Scheme == "https" && port == "":
		port = "443"
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// checkMedia wants a JSON body in UTF-8 and a client that takes either form of reply.
func (x *exchange) checkMedia() *failure {
	if failed := x.checkBodyType(); failed != nil {
		return failed
	}
	accept := joined(x.r.Header, "Accept")
	if weight(accept, mediaJSON) == 0 || weight(accept, mediaStream) == 0 {
		return fail(http.StatusNotAcceptable, codeInvalidRequest, "Accept must list both %s and %s", mediaJSON, mediaStream)
	}
	return nil
}

func (x *exchange) checkBodyType() *failure {
	kind, params, err := mime.ParseMediaType(joined(x.r.Header, "Content-Type"))
	if err != nil || kind != mediaJSON {
		return fail(http.StatusUnsupportedMediaType, codeInvalidRequest, "Content-Type must be %s", mediaJSON)
	}
	if charset, given := params["charset"]; given && !strings.EqualFold(charset, "utf-8") {
		return fail(http.StatusUnsupportedMediaType, codeInvalidRequest, "JSON is sent in UTF-8, not in %s", charset)
	}
	if coding := joined(x.r.Header, "Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return fail(http.StatusUnsupportedMediaType, codeInvalidRequest, "Content-Encoding %s is not supported", coding)
	}
	return nil
}
