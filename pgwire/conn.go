package pgwire

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"interlock/internal/loop"
	"interlock/sqlgov"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/rs/zerolog"
)

const (
	lastMoment = time.Second      // for a client to take a last message
	drainTime  = 10 * time.Second // for a client to take the replies of an upstream that is gone
	lingerTime = 500 * time.Millisecond
	lingerSize = 1 << 20
)

// past is a deadline that wakes who waits.
var past = time.Unix(1, 0)

// conn is a client's connection, from accept to close.
type conn struct {
	srv       *Server
	task      *loop.Task // that reads the client's messages
	raw       *loop.Conn // the socket
	net       net.Conn   // raw, or TLS over it
	in        *reader
	out       *writer
	since     time.Time
	encrypted bool
	binding   []byte // channel binding of the TLS connection
	caller    sqlgov.Caller
	source    string // database that it asks for

	session Session
	pid     uint32
	// openSegment is set while the client has sent messages that only a Sync will have answered. Reader only.
	openSegment bool
	said        bool // a last message was sent
	// final is what the client is told before the connection closes; farewell if nothing.
	final atomic.Pointer[sqlgov.Refusal]
	// answered gets a token after each ReadyForQuery that was sent.
	answered chan struct{}
	// noRoom is set when the connection has to go because there are too many.
	noRoom atomic.Bool
}

// farewell as a connection's final word is none.
var farewell = &sqlgov.Refusal{}

func newConn(s *Server, socket net.Conn) *conn {
	raw := loop.Wrap(socket)
	return &conn{srv: s, raw: raw, net: raw, in: newReader(raw), out: &writer{dst: raw}, since: time.Now(),
		answered: make(chan struct{}, 1)}
}

// wake makes a reader that waits for the client look up.
func (c *conn) wake() { c.raw.SetReadDeadline(past) }

// serve owns the connection until it is closed.
func (c *conn) serve(ctx context.Context) {
	defer c.raw.Close()
	defer c.survive()
	deadline := c.since.Add(c.srv.limits.StartupTime)
	if c.noRoom.Load() {
		deadline = c.since.Add(min(c.srv.limits.StartupTime, unwelcomeTime))
	}
	c.raw.SetDeadline(deadline)
	startup, cancel := context.WithDeadline(ctx, deadline)
	err := c.open(startup)
	cancel()
	switch {
	case err != nil:
		c.turnAway(err)
	case c.session != nil:
		c.raw.SetDeadline(time.Time{})
		c.relay(ctx)
	}
	if c.said {
		c.linger()
	}
}

// survive keeps a defect that one client's messages bring out from ending the sessions of all others.
func (c *conn) survive() {
	if p := recover(); p != nil {
		c.srv.Log.Error().Interface("panic", p).Str("client", c.raw.RemoteAddr().String()).Stack().Msg("PostgreSQL connection")
	}
}

// open takes the connection from its first byte to ReadyForQuery. If it served a cancel request instead, it leaves the
// session nil.
func (c *conn) open(ctx context.Context) error {
	h, err := c.negotiate(ctx)
	if err != nil {
		return err
	}
	if h.cancel != nil {
		c.srv.cancel(ctx, h.cancel)
		return nil
	}
	if r := c.srv.claims(c); r != nil {
		return r
	}
	user, database, err := c.greet(h)
	if err != nil {
		return err
	}
	c.source = database
	c.caller = sqlgov.Caller{Identity: user, Door: sqlgov.PGWire, ClientAddr: c.raw.RemoteAddr().String(),
		Application: h.param("application_name"), Session: rand.Text()}
	settings, err := c.logIn(ctx, h)
	if err != nil {
		return c.record(ctx, err)
	}
	c.session, err = c.srv.Core.OpenSession(ctx, c.caller, sqlgov.SessionOptions{Source: database, Parameters: settings, Waits: c.task.Leave})
	if err != nil {
		return asRefusal(err)
	}
	return c.welcome(h.version)
}

// logIn authenticates the client and returns the settings that it asks for.
func (c *conn) logIn(ctx context.Context, h *hello) (settings map[string]string, err error) {
	if c.caller.KeyID, err = c.authenticate(ctx, c.caller.Identity); err != nil {
		return nil, err
	}
	if bad := c.srv.admit(c); bad != nil {
		return nil, bad
	}
	return sessionParameters(h)
}

// record accounts for a client that is turned away here, if it was by a decision and not by the network.
func (c *conn) record(ctx context.Context, err error) error {
	if r := (*sqlgov.Refusal)(nil); errors.As(err, &r) {
		c.srv.Core.RecordRefusal(context.WithoutCancel(ctx), c.caller, c.source, r)
	}
	return err
}

// turnAway says why, if there is someone to say it to.
func (c *conn) turnAway(err error) {
	if c.session != nil {
		c.srv.keys.remove(c.pid)
		c.session.Close()
	}
	if c.noRoom.Load() && quiet(err) { // woken, or late
		c.raw.SetWriteDeadline(time.Now().Add(lastMoment))
		err = noRoom()
	}
	if quiet(err) {
		c.srv.Log.Debug().Err(err).Str("client", c.raw.RemoteAddr().String()).Msg("PostgreSQL connection not opened")
		return
	}
	r := asRefusal(err)
	level := zerolog.InfoLevel
	if c.noRoom.Load() { // there may be very many
		level = zerolog.DebugLevel
	}
	c.srv.Log.WithLevel(level).Err(err).AnErr("cause", r.Err).Str("client", c.raw.RemoteAddr().String()).
		Str("identity", c.caller.Identity).Str("sqlstate", sqlState(r)).Msg("PostgreSQL client turned away")
	c.say(r)
}

// quiet holds for a client that has left or does not speak the protocol: there is no one to answer.
func quiet(err error) bool {
	if r := (*sqlgov.Refusal)(nil); errors.As(err, &r) {
		return false
	}
	var network net.Error
	return errors.Is(err, errNotPostgres) || errors.Is(err, errLength) || errors.Is(err, errHandshake) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

// say sends a last message.
func (c *conn) say(r *sqlgov.Refusal) {
	c.out.message(errorResponse(severityFatal, r))
	c.said = c.out.flush() == nil
}

// linger waits a little for the client to close: a socket that is closed with unread bytes resets the connection, and takes
// the last message along.
func (c *conn) linger() {
	closeWrite(c.net)
	closeWrite(c.raw)
	c.raw.SetReadDeadline(time.Now().Add(lingerTime))
	io.CopyN(io.Discard, c.raw, lingerSize)
}

// welcome completes the start-up: from here on the client may ask.
func (c *conn) welcome(version uint32) error {
	var key []byte
	c.pid, key = c.srv.keys.add(version, c.session)
	c.session.KnownAs(c.pid)
	c.out.message(&pgproto3.AuthenticationOk{})
	for _, p := range c.session.Parameters() {
		c.out.message(&pgproto3.ParameterStatus{Name: p.Name, Value: p.Value})
	}
	c.out.message(&pgproto3.BackendKeyData{ProcessID: c.pid, SecretKey: key})
	c.out.message(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return c.out.flush()
}
