package mcp

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"interlock/sqlgov"
)

// A reply to tools/call can be a stream of server-sent events that ends with the result: for a client that prefers
// text/event-stream by its Accept header, and, for one that gave a progress token, once the statement is slow. Until
// its first event is sent the reply can still be a plain one, so that whatever is refused at once keeps its HTTP status.

// defaultProgress is how often a client hears that its call still runs.
const defaultProgress = 2 * time.Second

// streamed is the state of an exchange's stream.
type streamed struct {
	wanted bool // the client prefers a stream to a JSON body
	open   bool // events have been sent, so everything else is an event as well
}

// preferStream notes what the client prefers. All clients must accept both, and the order of an Accept header means
// nothing (RFC 9110, section 12.5.1), so the weights decide.
func (x *exchange) preferStream() {
	accept := joined(x.r.Header, "Accept")
	x.stream.wanted = weight(accept, mediaStream) > weight(accept, mediaJSON)
}

// weight is the quality that an Accept header gives to a media type that it names literally; 0 if it does not.
func weight(accept, kind string) float64 {
	for part := range strings.SplitSeq(accept, ",") {
		got, params, err := mime.ParseMediaType(part)
		if err != nil || got != kind {
			continue
		}
		if params["q"] == "" {
			return 1
		}
		q, err := strconv.ParseFloat(params["q"], 64)
		if err != nil || !(q >= 0 && q <= 1) {
			return 0
		}
		return q
	}
	return 0
}

// progressToken is the token as sent, to be given back byte for byte; nil if there is none.
func (x *exchange) progressToken() []byte {
	return x.msg.params.get("_meta").get("progressToken").raw
}

// run runs a tool, and tells a client that listens, again and again, that it still runs. A client that cannot be told
// has gone, so its call is cancelled.
func (x *exchange) run(t tool, caller sqlgov.Caller, args value) (content, string, error) {
	token := x.progressToken()
	if token == nil && !x.stream.wanted {
		return t.run(x.server, x.r.Context(), caller, args)
	}
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	var telling sync.WaitGroup
	done := make(chan struct{})
	telling.Go(func() { x.tell(ctx, cancel, done, token) })
	defer telling.Wait() // from then on the reply is written from here
	defer close(done)
	return t.run(x.server, ctx, caller, args)
}

// tell sends an event in each interval until done is closed.
func (x *exchange) tell(ctx context.Context, cancel func(), done <-chan struct{}, token []byte) {
	tick := time.NewTicker(or(x.server.ProgressInterval, defaultProgress))
	defer tick.Stop()
	begun := time.Now()
	for n := 1; ; n++ {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		event := []byte(": still running\n\n")
		if token != nil {
			event = asEvent(progress(token, n, time.Since(begun)))
		}
		if err := x.sendEvent(event); err != nil {
			cancel()
			return
		}
	}
}

// progress is a notification that a call still runs. How long it will take is not known, so the progress is a count.
func progress(token []byte, n int, elapsed time.Duration) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`), token...)
	b = strconv.AppendInt(append(b, `,"progress":`...), int64(n), 10)
	message := fmt.Sprintf("The call has been running for %d s.", int(elapsed.Seconds()))
	return append(appendString(append(b, `,"message":`...), message), "}}"...)
}

// asEvent frames a JSON-RPC message. A json value of PostgreSQL can hold line feeds between its tokens; in an event they
// would end the line.
func asEvent(message ...[]byte) []byte {
	b := []byte("event: message\ndata: ")
	mark := len(b)
	for _, part := range message {
		b = append(b, part...)
	}
	for i, c := range b[mark:] {
		if c == '\n' || c == '\r' {
			b[mark+i] = ' '
		}
	}
	return append(b, "\n\n"...)
}

// sendEvent sends events, and opens the stream with the first. It is called by one goroutine at a time.
func (x *exchange) sendEvent(event []byte) error {
	if !x.stream.open {
		x.stream.open = true
		x.standardHeaders()
		x.w.Header().Set("Content-Type", mediaStream)
		x.w.Header().Set("X-Accel-Buffering", "no")
		x.w.WriteHeader(http.StatusOK)
	}
	control := http.NewResponseController(x.w)
	x.supported(control.SetWriteDeadline(time.Now().Add(or(x.server.WriteTimeout, defaultWriteTimeout))))
	if _, err := x.w.Write(event); err != nil {
		return err
	}
	if err := control.Flush(); err != nil {
		return err
	}
	x.supported(control.SetWriteDeadline(time.Time{}))
	return nil
}

// endStream sends the reply as the last event.
func (x *exchange) endStream(message ...[]byte) {
	if err := x.sendEvent(asEvent(message...)); err != nil {
		x.gone(err)
	}
}
