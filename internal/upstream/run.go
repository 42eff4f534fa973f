package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"interlock/internal/loop"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

const (
	// stopWithin is how long a statement may go on after it was to be stopped; then its connection is closed.
	stopWithin = 3 * time.Second
	// overrun is how long a statement may go on by itself when its rows are no longer wanted, before it is cancelled.
	// Most such results are nearly at their end, and then a cancel request is not worth its connection.
	overrun = 5 * time.Millisecond
	// commitWithin bounds the wait for the answer to COMMIT or ROLLBACK.
	commitWithin = 30 * time.Second
)

// Run executes one statement on a pooled connection, by the extended protocol, with every result column in text
// format.
//
// Pooled connections are read-only by default, so that a read is one round trip; a write opens a READ WRITE
// transaction, and is committed after its last row was accepted. Between two uses a connection is put back to how it
// was when it was opened (DISCARD ALL), unless the statement is known to leave nothing behind; one that cannot be is
// closed.
func (p *Pool) Run(ctx context.Context, src *policy.SourceSpec, req sqlgov.RunRequest, sink sqlgov.Sink) (sqlgov.Summary, error) {
	loop.Leave(ctx)
	if strings.IndexByte(req.SQL, 0) >= 0 {
		return sqlgov.Summary{}, &sqlgov.UpstreamError{Severity: "ERROR", SQLState: "22021", Message: "the statement contains a zero byte"}
	}
	s := p.slots(src)
	c, err := p.checkout(ctx, s, src, req)
	if err != nil {
		return sqlgov.Summary{}, err
	}
	r := &execution{conn: c, req: req, sink: sink}
	summary, err := r.execute(ctx)
	switch {
	case r.running:
		c.abandon()
		s.drop()
	case r.broken:
		c.close()
		s.drop()
	default:
		s.give(c)
	}
	return summary, err
}

// checkout takes a connection that is as good as new: a pooled one or else a fresh one.
func (p *Pool) checkout(ctx context.Context, s *slots, src *policy.SourceSpec, req sqlgov.RunRequest) (*conn, error) {
	startup := pooledSettings(req)
	c, err := s.take(ctx, func(c *conn) bool { return c.kind == "" && sameSession(c.startup, startup) })
	if err != nil {
		return nil, err
	}
	if c != nil && time.Since(c.born) < p.cfg.Lifetime && c.settle() == nil {
		return c, nil
	}
	if c != nil {
		c.close()
	}
	if c, err = p.connect(ctx, src, startup); err != nil {
		s.drop()
		return nil, err
	}
	return c, nil
}

func pooledSettings(req sqlgov.RunRequest) map[string]string {
	startup := maps.Clone(req.Pinned)
	if startup == nil {
		startup = map[string]string{}
	}
	startup["application_name"] = poolName
	startup["default_transaction_read_only"] = "on"
	startup["statement_timeout"] = strconv.FormatInt(milliseconds(req.Timeout), 10)
	return startup
}

// sameSession tells if connections with these start-up settings are interchangeable. A different statement_timeout
// is set by the run itself.
func sameSession(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, value := range a {
		if other, ok := b[name]; !ok || other != value && name != "statement_timeout" {
			return false
		}
	}
	return true
}

// settle reads the answers that the last user left, and checks that the session is clean and the connection alive.
func (c *conn) settle() error {
	if c.owed > 0 {
		_ = c.net.SetReadDeadline(time.Now().Add(farewell))
		defer c.net.SetReadDeadline(time.Time{})
	}
	for c.owed > 0 {
		reply, err := c.receive()
		if err != nil {
			return err
		}
		switch {
		case reply.Kind == sqlgov.ErrorResponse:
			return reply.Error
		case reply.Kind == sqlgov.ReadyForQuery && reply.TxStatus != 'I':
			return errors.New("the session is still in a transaction")
		case reply.Kind == sqlgov.ReadyForQuery:
			c.owed--
		}
	}
	if c.in.end > c.in.start || !quiet(c.net) {
		return errors.New("the server closed the connection or sent something unasked")
	}
	return nil
}

// execution is one statement on its way through a connection.
type execution struct {
	conn    *conn
	req     sqlgov.RunRequest
	sink    sqlgov.Sink
	row     [][]byte
	broken  bool // the connection must not be used again
	running bool // the server may be at work for it

	prelude int  // commands of ours that come before the statement
	binds   int  // BindComplete messages to come until the Recheck runs
	keeps   bool // what is prepared for the Recheck stays on the connection
	fields  int  // columns of the result, -1 before RowDescription
	summary sqlgov.Summary
	failed  error // the first error of the server or of the sink
	full    bool  // MaxRows was reached
	stop    stopper
}

func (r *execution) execute(ctx context.Context) (sqlgov.Summary, error) {
	if err := ctx.Err(); err != nil {
		return sqlgov.Summary{}, err
	}
	r.fields = -1
	r.stop.conn = r.conn
	unwatch := context.AfterFunc(ctx, func() { r.stop.after(0) })
	err := r.statement()
	unwatch()
	r.stop.finish()
	switch {
	case err != nil:
		r.broken = true
		if r.failed == nil {
			r.failed = err
		}
	case !r.req.ReadOnly:
		r.end(ctx)
	}
	if r.failed != nil {
		return sqlgov.Summary{}, r.reason(ctx)
	}
	return r.summary, nil
}

// reason is what failed, or the caller's own cancellation if that is why.
func (r *execution) reason(ctx context.Context) error {
	var fromServer *sqlgov.UpstreamError
	switch {
	case ctx.Err() == nil || errors.Is(r.failed, sqlgov.ErrOutcomeUnknown):
	case errors.Is(r.failed, sqlgov.ErrConnectionLost), errors.As(r.failed, &fromServer) && fromServer.SQLState == "57014":
		return ctx.Err()
	}
	return r.failed
}

// statement sends everything up to the statement's end and reads the answers.
func (r *execution) statement() error {
	r.running = true
	if err := r.conn.write(r.messages()); err != nil {
		return err
	}
	for {
		reply, err := r.conn.receive()
		if err != nil {
			return err
		}
		if reply.Kind == sqlgov.ReadyForQuery {
			r.running = false
			return r.ready(reply.TxStatus)
		}
		if err := r.take(&reply); err != nil {
			return err
		}
	}
}

// messages are what is sent before anything is read. A read is followed by what makes the session clean again, so
// that the server does it without being woken for it.
func (r *execution) messages() []byte {
	b := make([]byte, 0, 256+len(r.req.SQL))
	if !r.req.ReadOnly {
		b = appendCommand(b, "begin read write")
		r.prelude++
	}
	timeout := strconv.FormatInt(milliseconds(r.req.Timeout), 10)
	if r.conn.startup["statement_timeout"] != timeout {
		b = appendCommand(b, "set statement_timeout = "+timeout)
		r.prelude++
	}
	discard := r.req.ReadOnly && (!r.req.Stateless || r.prelude > 0)
	b = appendBind(b, r.req.SQL, r.req.Parameters)
	if r.req.Recheck != nil {
		b = appendRecheck(b, r.req.Recheck, !r.conn.asks)
		r.binds = r.prelude + 2
		r.prelude++
	}
	r.keeps = r.req.ReadOnly && !discard
	r.conn.asks = r.conn.asks && r.keeps
	b = appendRun(b)
	for _, sql := range r.req.Then {
		b = appendRun(appendBind(b, sql, sqlgov.BoundParameters{}))
	}
	b = appendMessage(b, 'S')
	if discard {
		b = appendMessage(b, 'Q', "discard all\x00")
		r.conn.owed = 1
	}
	return b
}

// appendCommand appends the messages that run a statement of ours, which has neither parameters nor a result.
func appendCommand(b []byte, sql string) []byte {
	b = appendBind(b, sql, sqlgov.BoundParameters{})
	return appendMessage(b, 'E', "\x00", "\x00\x00\x00\x00")
}

// appendBind appends Parse and Bind of an unnamed statement, with every result column in text format.
func appendBind(b []byte, sql string, p sqlgov.BoundParameters) []byte {
	b = appendMessage(b, 'P', "\x00", sql, "\x00", parameterTypes(p))
	return appendMessage(b, 'B', "\x00\x00", parameterValues(p), "\x00\x00")
}

// appendRun appends the messages that run what is bound: Describe, Execute without a row limit (which would forbid
// parallel plans).
func appendRun(b []byte) []byte {
	b = appendMessage(b, 'D', "P\x00")
	return appendMessage(b, 'E', "\x00", "\x00\x00\x00\x00")
}

func parameterTypes(p sqlgov.BoundParameters) string {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(p.Types)))
	for _, t := range p.Types {
		b = binary.BigEndian.AppendUint32(b, uint32(t))
	}
	return string(b)
}

// parameterValues are the formats and the values as Bind has them.
func parameterValues(p sqlgov.BoundParameters) string {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(p.Formats)))
	for _, f := range p.Formats {
		b = binary.BigEndian.AppendUint16(b, uint16(f))
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(p.Values)))
	for _, v := range p.Values {
		if v == nil {
			b = binary.BigEndian.AppendUint32(b, 0xffffffff)
			continue
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
		b = append(b, v...)
	}
	return string(b)
}

// take deals with a message that comes before ReadyForQuery. An error means that the connection is of no use anymore.
func (r *execution) take(reply *sqlgov.Reply) error {
	switch reply.Kind {
	case sqlgov.RowDescription:
		r.fields = len(reply.Fields)
		if r.failed == nil && r.sink.Fields != nil {
			r.fail(r.sink.Fields(reply.Fields))
		}
	case sqlgov.DataRow:
		return r.dataRow(reply.Frame[5:])
	case sqlgov.BindComplete:
		r.binds--
	case sqlgov.CommandComplete, sqlgov.EmptyQuery:
		if r.prelude > 0 {
			r.conn.asks = r.conn.asks || r.keeps && r.rechecking()
			r.prelude--
			break
		}
		r.complete(reply.Tag)
	case sqlgov.ErrorResponse:
		switch {
		case r.failed != nil || r.full: // it is only our own cancel request
		case r.rechecking() && reply.Error.SQLState == sqlgov.RecheckFailed:
			r.failed = sqlgov.ErrCatalogChanged
		default:
			r.failed = reply.Error
		}
	case sqlgov.ParameterStatus:
		r.broken = true // the statement changed a setting of the session
	case sqlgov.CopyInResponse, sqlgov.CopyOutResponse, sqlgov.CopyBothResponse:
		return errors.New("the statement is a COPY, which has no rows")
	}
	return nil
}

// rechecking reports if the replies that come now are those to the Recheck.
func (r *execution) rechecking() bool { return r.req.Recheck != nil && r.binds == 0 && r.prelude > 0 }

func (r *execution) complete(tag string) {
	r.summary.Tag = tag
	if r.fields < 0 {
		r.summary.Rows, _ = strconv.ParseInt(tag[strings.LastIndexByte(tag, ' ')+1:], 10, 64)
	}
	r.fields = -1 // of the next statement, if there is one
	if r.failed == nil && r.sink.Done != nil {
		r.fail(r.sink.Done(tag))
	}
}

// fail stops the statement because the sink wants no more.
func (r *execution) fail(err error) {
	if err != nil {
		r.failed = err
		r.stop.after(overrun)
	}
}

func (r *execution) dataRow(body []byte) error {
	if r.failed != nil || r.full {
		return nil
	}
	if r.req.ReadOnly && r.req.MaxRows > 0 && r.summary.Rows >= int64(r.req.MaxRows) {
		r.full = true
		r.stop.after(overrun)
		return nil
	}
	if !r.split(body) {
		return fmt.Errorf("%w: the server sent a malformed row", sqlgov.ErrConnectionLost)
	}
	r.summary.Rows++
	if r.sink.Row != nil {
		r.fail(r.sink.Row(r.row))
	}
	return nil
}

// split sets r.row to the values of a DataRow.
func (r *execution) split(body []byte) bool {
	if len(body) < 2 || int(binary.BigEndian.Uint16(body)) != r.fields {
		return false
	}
	body = body[2:]
	r.row = r.row[:0]
	for range r.fields {
		if len(body) < 4 {
			return false
		}
		n := int64(int32(binary.BigEndian.Uint32(body)))
		body = body[4:]
		if n == -1 {
			r.row = append(r.row, nil)
			continue
		}
		if n < 0 || n > int64(len(body)) {
			return false
		}
		r.row = append(r.row, body[:n:n])
		body = body[n:]
	}
	return len(body) == 0
}

// ready checks in what state the statement left the session.
func (r *execution) ready(status byte) error {
	if r.full {
		r.summary.Tag = ""
	}
	want := byte('I')
	if !r.req.ReadOnly {
		want = 'T'
		if r.failed != nil && status == 'E' {
			want = 'E'
		}
	}
	if status != want {
		return fmt.Errorf("the statement left the transaction in state %q", status)
	}
	return nil
}

// end commits a write that went well and rolls back one that did not.
func (r *execution) end(ctx context.Context) {
	if r.failed == nil {
		r.failed = ctx.Err()
	}
	verb := "commit"
	if r.failed != nil {
		verb = "rollback"
	}
	_ = r.conn.net.SetDeadline(time.Now().Add(commitWithin))
	tag, err := r.simple(verb)
	_ = r.conn.net.SetDeadline(time.Time{})
	var fromServer *sqlgov.UpstreamError
	switch {
	case err == nil && verb == "commit" && tag != "COMMIT":
		err = fmt.Errorf("%w: the server answered COMMIT with %q", sqlgov.ErrConnectionLost, tag)
	case err != nil && verb == "commit" && !errors.As(err, &fromServer):
		err = fmt.Errorf("%w: %w", sqlgov.ErrOutcomeUnknown, err)
	}
	if err != nil {
		r.broken = true
	}
	if r.failed == nil {
		r.failed = err
	}
}

// simple runs a command of ours by the simple protocol, asks for a clean session behind it, and returns the tag.
func (r *execution) simple(sql string) (string, error) {
	b := appendMessage(nil, 'Q', sql, "\x00")
	b = appendMessage(b, 'Q', "discard all\x00")
	r.running = true
	if err := r.conn.write(b); err != nil {
		return "", err
	}
	r.conn.owed = 1
	var tag string
	var failed error
	for {
		reply, err := r.conn.receive()
		if err != nil {
			return "", err
		}
		switch reply.Kind {
		case sqlgov.CommandComplete:
			tag = reply.Tag
		case sqlgov.ErrorResponse:
			failed = reply.Error
		case sqlgov.ReadyForQuery:
			r.running = false
			return tag, failed
		}
	}
}

// stopper cancels what runs on a connection, and makes reading and writing fail if that does not help.
type stopper struct {
	conn *conn

	mu       sync.Mutex
	stops    []func()
	finished bool
}

// after cancels the statement in a while, or now.
func (s *stopper) after(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished || d > 0 && len(s.stops) > 0 {
		return
	}
	_ = s.conn.net.SetDeadline(time.Now().Add(stopWithin))
	s.stops = append(s.stops, s.conn.keepCancelling(d))
}

// finish makes sure that no cancel request can hit the next statement.
func (s *stopper) finish() {
	s.mu.Lock()
	s.finished = true
	stops := s.stops
	s.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	if len(stops) > 0 {
		_ = s.conn.net.SetDeadline(time.Time{})
	}
}
