package upstream

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

// lease is what a session of a source in transaction mode has instead of a connection. It implements sqlgov.Lease.
//
// Connections that were started with the same parameters are interchangeable. application_name, which is another for each program, is
// no such parameter but is set when a connection is taken, as everything is that the session has set since.
type lease struct {
	pool        *Pool
	src         *policy.SourceSpec
	slots       *slots
	startup     map[string]string
	kind        string
	params      []sqlgov.Parameter
	application string // "" is that of the connection

	mu       sync.Mutex
	changed  *sync.Cond // signalled when Receive may go on
	held     *wire      // nil between transactions
	settings string     // of the session, as callsSQL has it
	stopWait context.CancelFunc
	closed   bool
	failed   error // there will be no connection any more
	answers  answers
}

// openLease makes a lease. It takes a connection for a moment: the server may not like what the client asks for, and the client wants
// to know what the server is.
func (p *Pool) openLease(ctx context.Context, src *policy.SourceSpec, s *slots, params map[string]string) (sqlgov.Wire, error) {
	l := &lease{pool: p, src: src, slots: s, startup: maps.Clone(params), application: params["application_name"]}
	l.changed = sync.NewCond(&l.mu)
	delete(l.startup, "application_name")
	l.kind = kindOf(l.startup)
	if l.application != "" {
		l.settings = callSQL("application_name", l.application)
	}
	c, err := l.take(ctx)
	if err != nil {
		return nil, aboutSetting(err)
	}
	l.params = slices.Clone(c.params)
	if err := l.greet(c); err != nil {
		c.close()
		s.drop()
		return nil, &sqlgov.OpenError{Reason: sqlgov.OpenUnreachable, Err: err}
	}
	s.give(c)
	return l, nil
}

// greet puts the name of the client's program, as the server shows it, among the parameters.
func (l *lease) greet(c *conn) error {
	rows, err := c.ask(applicationSQL)
	if err != nil {
		return err
	}
	for i := range l.params {
		if l.params[i].Name == "application_name" && len(rows) == 1 && len(rows[0]) == 1 {
			l.params[i].Value = rows[0][0]
		}
	}
	return nil
}

// kindOf is equal for equal start-up parameters, and never empty.
func kindOf(params map[string]string) string {
	kind := "shared"
	for _, name := range slices.Sorted(maps.Keys(params)) {
		kind += "\x00" + name + "\x00" + params[name]
	}
	return kind
}

// take gets a connection with the session's settings.
func (l *lease) take(ctx context.Context) (*conn, error) {
	c, err := l.slots.take(ctx, func(c *conn) bool { return c.kind == l.kind })
	if err != nil {
		return nil, err
	}
	if c != nil && (time.Since(c.born) >= l.pool.cfg.Lifetime || c.settle() != nil || c.adopt(l.settings) != nil) {
		c.close()
		c = nil
	}
	if c == nil {
		c, err = l.dial(ctx)
	}
	if err != nil {
		l.slots.drop()
	}
	return c, err
}

func (l *lease) dial(ctx context.Context) (*conn, error) {
	c, err := l.pool.connect(ctx, l.src, l.startup)
	if err != nil {
		return nil, err
	}
	c.kind = l.kind
	if err := c.adopt(l.settings); err != nil {
		c.close()
		return nil, &sqlgov.OpenError{Reason: sqlgov.OpenRejected, Err: fmt.Errorf("setting what the session has set: %w", err)}
	}
	return c, nil
}

// errLeft is why a session that has ended needs no connection.
var errLeft = fmt.Errorf("%w: the session has ended", context.Canceled)

func (l *lease) Hold(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := l.beginWait(stop); err != nil {
		return err
	}
	c, err := l.take(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopWait = nil
	if err != nil {
		return err
	}
	if l.closed {
		l.slots.give(c)
		return errLeft
	}
	l.held = &wire{conn: c, slots: l.slots}
	l.changed.Broadcast()
	return nil
}

// beginWait reports why there is no sense in a wait. A source that is defined otherwise by now gets no new connections as it was.
func (l *lease) beginWait(stop context.CancelFunc) error {
	retired := l.slots.isRetired()
	l.mu.Lock()
	defer l.mu.Unlock()
	if retired && l.failed == nil {
		l.failed = fmt.Errorf("%w: the source has been defined anew", sqlgov.ErrConnectionLost)
		l.changed.Broadcast()
	}
	if l.closed {
		return errLeft
	}
	l.stopWait = stop
	return l.failed
}

func (l *lease) Interrupt() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopWait == nil {
		return false
	}
	l.stopWait()
	return true
}

func (l *lease) Return(left sqlgov.Left) {
	l.mu.Lock()
	w := l.held
	l.held = nil
	l.mu.Unlock()
	if w == nil {
		return
	}
	w.cancelling.Lock() // a cancel request that is on its way must not hit the next one
	w.closed.Store(true)
	w.cancelling.Unlock()
	if err := l.clean(w, left); err != nil {
		w.conn.abandon()
		w.slots.drop()
		return
	}
	w.slots.give(w.conn)
}

// clean takes what a transaction has left behind out of a connection, or has it taken out by the server; settle sees to it that it was.
func (l *lease) clean(w *wire, left sqlgov.Left) error {
	c := w.conn
	if w.busy() || w.Buffered() {
		return fmt.Errorf("the session is not at the end of a transaction")
	}
	if left&sqlgov.LeftSettings != 0 {
		if err := l.learn(c); err != nil {
			l.fail(err)
			return err
		}
	}
	b := c.trim(nil)
	if left&sqlgov.LeftTraces != 0 {
		b = appendMessage(b, 'Q', cleanSQL+replaySQL(c.settings), "\x00")
		c.owed++
	}
	if len(b) == 0 {
		return nil
	}
	return c.write(b)
}

// learn asks the server what the session has set. The name of the client's program is that of its start if it is not set any more.
func (l *lease) learn(c *conn) error {
	rows, err := c.ask(learnSQL)
	if err != nil {
		return err
	}
	c.settings = callsSQL(rows)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settings = c.settings
	named := slices.ContainsFunc(rows, func(row []string) bool { return row[0] == "application_name" })
	if !named && l.application != "" {
		l.settings = callsSQL(append(rows, []string{"application_name", l.application}))
	}
	return nil
}

// fail ends the session: what it has set is not known, so no other connection will do.
func (l *lease) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = fmt.Errorf("%w: %w", sqlgov.ErrConnectionLost, err)
	l.changed.Broadcast()
}

func (l *lease) wire() *wire {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func (l *lease) Parameters() []sqlgov.Parameter { return slices.Clone(l.params) }

func (l *lease) Process() uint32 {
	if w := l.wire(); w != nil {
		return w.Process()
	}
	return 0
}

// Socket is none, for it is another one at every transaction: who serves the session waits for the lease.
func (l *lease) Socket() net.Conn { return nil }

func (l *lease) Statements() sqlgov.Statements {
	if w := l.wire(); w != nil {
		return (*statements)(w.conn)
	}
	return (*statements)(&conn{})
}

func (l *lease) Send(frames []byte) error {
	if w := l.wire(); w != nil {
		return w.Send(frames)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers.take(frames)
	l.changed.Broadcast()
	return nil
}

func (l *lease) SendRejected(m sqlgov.Rejected) error { return l.Send(rejected(m)) }

func (l *lease) SendPart(p sqlgov.Part) error { return l.Send(appendPart(nil, p)) }

func (l *lease) Answer(e *sqlgov.UpstreamError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers.fail(e)
}

func (l *lease) Flush() error {
	if w := l.wire(); w != nil {
		return w.Flush()
	}
	return nil
}

func (l *lease) Receive() (sqlgov.Reply, error) {
	l.mu.Lock()
	for l.held == nil && !l.closed && l.failed == nil && !l.answers.ready() {
		l.changed.Wait()
	}
	w, err := l.held, l.failed
	if l.closed && err == nil {
		err = fmt.Errorf("%w: %w", sqlgov.ErrConnectionLost, net.ErrClosed)
	}
	if err == nil && w == nil {
		reply := l.answers.next()
		l.mu.Unlock()
		return reply, nil
	}
	l.mu.Unlock()
	if err != nil {
		return sqlgov.Reply{}, err
	}
	return w.Receive()
}

// More is called after a message with data, which only a server sends.
func (l *lease) More() (frames []byte, n int) { return l.wire().More() }

func (l *lease) Buffered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil {
		return l.held.Buffered()
	}
	return l.answers.ready()
}

func (l *lease) Cancel(ctx context.Context) error {
	if w := l.wire(); w != nil {
		return w.Cancel(ctx)
	}
	return nil
}

// Close closes the connection that is held: what the session was at is not at its end, or is kept from others.
func (l *lease) Close() error {
	l.mu.Lock()
	w := l.held
	l.held, l.closed = nil, true
	if l.stopWait != nil {
		l.stopWait()
	}
	l.changed.Broadcast()
	l.mu.Unlock()
	if w != nil {
		return w.Close()
	}
	return nil
}
