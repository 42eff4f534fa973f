package mcp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"interlock/sqlgov"
)

// exchange is one HTTP request to the endpoint and its reply.
type exchange struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	// correlation is the id that every reply carries: the decision id if there is one, else an id of its own.
	correlation string

	body    []byte
	msg     message
	dialect dialect
	stream  streamed
}

// method is a JSON-RPC method: what it does and in which dialects it exists.
type method struct {
	answer    func(*exchange) ([]byte, *failure) // the result, as JSON
	handshake bool
	modern    bool
}

var methods = map[string]method{
	"initialize":      {answer: (*exchange).initialize, handshake: true},
	"ping":            {answer: (*exchange).ping, handshake: true},
	"server/discover": {answer: (*exchange).discover, handshake: true, modern: true},
	"tools/list":      {answer: (*exchange).listTools, handshake: true, modern: true},
	"tools/call":      {answer: (*exchange).call, handshake: true, modern: true},
}

// serve takes the message through every check and answers it.
func (x *exchange) serve() {
	failed := x.receive()
	if failed != nil {
		x.error(failed)
		return
	}
	if x.msg.id == nil {
		x.notified()
		x.send(http.StatusAccepted)
		return
	}
	m, failed := x.method()
	if failed == nil {
		failed = first(x.checkMirrors, x.checkMeta)
	}
	var result []byte
	if failed == nil {
		result, failed = m.answer(x)
	}
	if failed != nil {
		x.error(failed)
		return
	}
	x.result(result)
}

// receive takes the steps that lead to a message in a known dialect. Their order is what clients rely on to tell
// what is wrong.
func (x *exchange) receive() *failure {
	return first(x.checkHost, x.checkOrigin, x.checkLength, x.checkMedia, x.readBody, x.parse, x.checkVersion)
}

// first runs checks until one fails.
func first(checks ...func() *failure) *failure {
	for _, check := range checks {
		if failed := check(); failed != nil {
			return failed
		}
	}
	return nil
}

func (x *exchange) maxBody() int64 { return or(x.server.MaxBodyBytes, defaultMaxBody) }

func (x *exchange) checkLength() *failure {
	if x.r.ContentLength > x.maxBody() {
		return x.tooLarge()
	}
	return nil
}

func (x *exchange) tooLarge() *failure {
	return fail(http.StatusRequestEntityTooLarge, codeInvalidRequest,
		"the request is larger than %d bytes", x.maxBody()).identified("request_too_large")
}

// limitTime bounds how long the body may take. The bound holds until the body has been read to its end; if it never
// is, the HTTP server throws away what is left of it under the same bound.
func (x *exchange) limitTime() {
	control := http.NewResponseController(x.w)
	deadline := time.Now().Add(or(x.server.BodyTimeout, defaultBodyTimeout))
	x.supported(control.SetReadDeadline(deadline))
	x.supported(control.SetWriteDeadline(deadline)) // of a "100 Continue"
}

// readBody reads the body to its end. From then on the HTTP server watches the connection, and ends the request's
// context when the client goes away.
func (x *exchange) readBody() *failure {
	var err error
	x.body, err = io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, x.maxBody()))
	var large *http.MaxBytesError
	var timeout net.Error
	switch {
	case errors.As(err, &large):
		return x.tooLarge()
	case errors.As(err, &timeout) && timeout.Timeout():
		return x.abandoned(fail(http.StatusRequestTimeout, codeInvalidRequest, "the request's body did not arrive in time"))
	case err != nil:
		return x.abandoned(invalid("the request's body is incomplete"))
	}
	control := http.NewResponseController(x.w)
	x.supported(control.SetReadDeadline(time.Time{}))
	x.supported(control.SetWriteDeadline(time.Time{}))
	return nil
}

// abandoned puts a request on record whose body never came, if it showed a key: somebody asked, and nothing was done.
func (x *exchange) abandoned(failed *failure) *failure {
	if x.bearer() == "" {
		return failed
	}
	x.r = x.r.WithContext(context.WithoutCancel(x.r.Context())) // it ends when reading fails
	caller, refusal := x.authenticate()
	if refusal == nil {
		refusal = &sqlgov.Refusal{Kind: sqlgov.Canceled, SQLState: "57014", Message: failed.message}
	}
	x.server.Core.RecordRefusal(x.r.Context(), caller, "", refusal)
	x.note(refusal)
	return failed
}

// supported logs a deadline that could not be set. It can only fail on a connection that is closed already.
func (x *exchange) supported(err error) {
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		x.server.Log.Debug().Err(err).Str("correlation_id", x.correlation).Msg("setting a deadline")
	}
}

func (x *exchange) parse() (failed *failure) {
	x.msg, failed = parseMessage(x.body)
	return failed
}

// method looks the method up. It comes before the checks of headers and _meta, so that a client can find out
// cheaply that a method does not exist.
func (x *exchange) method() (method, *failure) {
	m, known := methods[x.msg.method]
	if known && (x.dialect == modern && m.modern || x.dialect == handshake && m.handshake) {
		return m, nil
	}
	status := http.StatusOK
	if x.dialect == modern {
		status = http.StatusNotFound
	}
	return method{}, fail(status, codeMethodNotFound, "method %q is not found", x.msg.method)
}

// result replies with a JSON-RPC result.
func (x *exchange) result(result []byte) {
	head := append(append([]byte(`{"jsonrpc":"2.0","id":`), x.msg.id...), `,"result":`...)
	if x.stream.wanted && x.msg.method == "tools/call" {
		x.endStream(head, result, []byte("}"))
		return
	}
	x.send(http.StatusOK, head, result, []byte("}"))
}

// error replies with a JSON-RPC error. The id is left out if the request had none that could be read.
func (x *exchange) error(f *failure) {
	body := []byte(`{"jsonrpc":"2.0",`)
	if x.msg.id != nil {
		body = append(append(append(body, `"id":`...), x.msg.id...), ',')
	}
	body = strconv.AppendInt(append(body, `"error":{"code":`...), int64(f.code), 10)
	body = appendString(append(body, `,"message":`...), f.message)
	if f.data != nil {
		body = append(append(body, `,"data":`...), f.data...)
	}
	x.send(f.status, append(body, "}}"...))
}

// standardHeaders sets the headers that every reply has.
func (x *exchange) standardHeaders() {
	h := x.w.Header()
	h.Set("X-Correlation-Id", x.correlation)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// send writes the reply, once. If there is a stream, the reply ends it.
func (x *exchange) send(status int, body ...[]byte) {
	if x.stream.open {
		x.endStream(body...)
		return
	}
	x.standardHeaders()
	size := 0
	for _, part := range body {
		size += len(part)
	}
	h := x.w.Header()
	if size > 0 {
		h.Set("Content-Type", mediaJSON)
	}
	h.Set("Content-Length", strconv.Itoa(size))
	deadline := time.Now().Add(or(x.server.WriteTimeout, defaultWriteTimeout))
	x.supported(http.NewResponseController(x.w).SetWriteDeadline(deadline))
	x.w.WriteHeader(status)
	for _, part := range body {
		if _, err := x.w.Write(part); err != nil {
			x.gone(err)
			return
		}
	}
}

// gone logs that a reply could not be sent.
func (x *exchange) gone(err error) {
	x.server.Log.Debug().Err(err).Str("correlation_id", x.correlation).Msg("the client went away before its reply")
}
