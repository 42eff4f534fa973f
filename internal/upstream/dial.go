package upstream

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"interlock/internal/loop"
	"interlock/internal/sockets"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	// startMessage and startTotal bound what a server may send before it is ready for queries.
	startMessage = 64 << 10
	startTotal   = 1 << 20
	// farewell bounds the closing of a connection.
	farewell = 2 * time.Second
)

// target is how to reach a server of a source, with secrets resolved.
type target struct {
	spec     policy.UpstreamSpec // of this server
	password string
	tls      *tls.Config // nil is plaintext

	server  policy.Server
	servers *servers // what is known of all servers of the source
	several bool     // there is more than one
	peer    sockets.Bounds
	want    string // which kind of server will do
	probing bool   // the connection is for asking what the server is
}

// targets returns how to reach each server of a source.
func (p *Pool) targets(src *policy.SourceSpec) ([]*target, error) {
	all, err := src.Upstream.Servers()
	if err != nil {
		return nil, &sqlgov.OpenError{Reason: sqlgov.OpenRejected, Err: fmt.Errorf("source %s: %w", src.ID, err)}
	}
	var password string
	if ref := src.Upstream.Password; ref != "" {
		if password, err = p.cfg.Secret(ref); err != nil {
			return nil, &sqlgov.OpenError{Reason: sqlgov.OpenAuth, Err: fmt.Errorf("source %s: password: %w", src.ID, err)}
		}
	}
	known := &p.slots(src).servers
	targets := make([]*target, len(all))
	for i, server := range all {
		t := &target{spec: src.Upstream.On(server), password: password, server: server, servers: known, several: len(all) > 1, peer: p.cfg.Peer}
		if t.tls, err = tlsConfig(&t.spec, p.cfg.Secret); err != nil {
			return nil, &sqlgov.OpenError{Reason: sqlgov.OpenTLS, Err: fmt.Errorf("source %s: %w", src.ID, err)}
		}
		targets[i] = t
	}
	return targets, nil
}

// wanting returns a target that only a certain kind of server fits.
func (t *target) wanting(want string) *target {
	asking := *t
	asking.want = want
	return &asking
}

// asks reports if a server is asked what it is before it is used.
func (t *target) asks() bool { return t.several || t.want != "" && t.want != policy.TargetAny }

// dial opens a network connection, secured as the source demands, on which nothing of PostgreSQL has been said yet.
func (t *target) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	socket, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, &dialError{sqlgov.OpenUnreachable, err}
	}
	if err := sockets.Watch(socket, t.peer); err != nil {
		_ = socket.Close()
		return nil, &dialError{sqlgov.OpenUnreachable, err}
	}
	raw := loop.Wrap(socket)
	if t.tls == nil {
		if !local(raw.RemoteAddr()) {
			_ = raw.Close()
			return nil, &dialError{sqlgov.OpenTLS, fmt.Errorf("%s is not a loopback address, so TLS cannot be disabled", raw.RemoteAddr())}
		}
		return raw, nil
	}
	secured, err := startTLS(ctx, raw, t.tls)
	if err != nil {
		_ = raw.Close()
		return nil, &dialError{sqlgov.OpenTLS, err}
	}
	return secured, nil
}

// dialError is a dial that failed before anything of PostgreSQL was said. Unlike sqlgov.OpenError it says why.
type dialError struct {
	reason sqlgov.OpenReason
	err    error
}

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

func local(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// acceptedAuth lists the authentication methods by which the server may ask for the password, as pgconn's
// RequireAuth. A server that proved itself by its certificate may ask for it in any way. One that did not must
// prove by SCRAM that it knows the password too; on this machine it only must not ask for it in clear.
func (t *target) acceptedAuth() string {
	switch {
	case t.tls == nil:
		return "!password"
	case t.tls.InsecureSkipVerify && t.tls.VerifyConnection == nil && t.password != "":
		return "scram-sha-256"
	}
	return ""
}

// connConfig is the configuration for pgx. Every field that the environment could have set is set again.
func (p *Pool) connConfig(t *target, params map[string]string) *pgx.ConnConfig {
	cfg := p.template.Copy()
	cfg.Host, cfg.Port = t.spec.Host, uint16(t.spec.Port)
	cfg.Database, cfg.User, cfg.Password = t.spec.Database, t.spec.User, t.password
	cfg.TLSConfig, cfg.Fallbacks, cfg.SSLNegotiation, cfg.SSLCertMode = nil, nil, "", "" // dial does TLS
	cfg.ConnectTimeout = 0                                                               // the context has it
	cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	cfg.DialFunc = t.dial
	cfg.RequireAuth, cfg.ChannelBinding = t.acceptedAuth(), "prefer"
	cfg.MinProtocolVersion, cfg.MaxProtocolVersion = "3.0", "3.0"
	cfg.KerberosSrvName, cfg.KerberosSpn = "", ""
	cfg.ValidateConnect = nil
	if t.asks() {
		cfg.ValidateConnect = t.fits
	}
	cfg.RuntimeParams = map[string]string{"application_name": appName}
	for name, value := range params {
		cfg.RuntimeParams[name] = value
	}
	return cfg
}

// connect dials a source and returns a connection that is ready for queries. params are start-up parameters.
func (p *Pool) connect(ctx context.Context, src *policy.SourceSpec, params map[string]string) (*conn, error) {
	return reach(ctx, p, src, func(ctx context.Context, t *target) (*conn, error) { return p.connectTo(ctx, t, params) })
}

func (p *Pool) connectTo(ctx context.Context, t *target, params map[string]string) (*conn, error) {
	cfg := &p.connConfig(t, params).Config
	cfg.MaxProtocolMessageBodyLen = startMessage
	var start *startReader
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		start = &startReader{r: r}
		return pgproto3.NewFrontend(start, w)
	}
	pc, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := pc.SyncConn(ctx); err != nil { // nothing may be left in pgconn's own buffers
		_ = pc.Close(ctx)
		return nil, err
	}
	h, err := pc.Hijack()
	if err != nil {
		return nil, err
	}
	c := &conn{
		net: h.Conn, in: newFrameReader(h.Conn, p.cfg.MaxMessage), target: t, pid: h.PID, secret: h.SecretKey,
		params: start.parameters(h.ParameterStatuses), born: time.Now(), startup: params,
	}
	if err := c.checkSettings(params); err != nil {
		c.close()
		return nil, &dialError{sqlgov.OpenRejected, err}
	}
	return c, nil
}

// checkSettings compares the settings that decide what a statement means with what the server says it uses. Servers
// report the first two always, the others only in later versions.
func (c *conn) checkSettings(want map[string]string) error {
	for _, name := range [...]string{"standard_conforming_strings", "client_encoding", "default_transaction_read_only", "search_path"} {
		for _, p := range c.params {
			if value, asked := want[name]; asked && p.Name == name && p.Value != value {
				return fmt.Errorf("the server uses %s = %q although %q was asked for", name, p.Value, value)
			}
		}
	}
	return nil
}

// openError classifies what went wrong during a dial. The caller's own cancellation stays what it is.
func openError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &sqlgov.OpenError{Reason: openReason(err), Err: err}
}

// aboutSetting returns the server's own error if it did not like a start-up parameter: there is none of that name, not such a
// value, or it cannot be changed. Every other error stays as it is.
func aboutSetting(err error) error {
	var said *pgconn.PgError
	if errors.As(err, &said) && slices.Contains([]string{"42704", "22023", "55P02"}, said.Code) {
		return &sqlgov.UpstreamError{Severity: said.Severity, SQLState: said.Code, Message: said.Message, Detail: said.Detail, Hint: said.Hint}
	}
	return err
}

func openReason(err error) sqlgov.OpenReason {
	var dial *dialError
	var fromServer *pgconn.PgError
	var network net.Error
	switch {
	case errors.As(err, &dial):
		return dial.reason
	case !errors.As(err, &fromServer):
		if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded) {
			return sqlgov.OpenUnreachable
		}
		return sqlgov.OpenRejected
	case strings.HasPrefix(fromServer.Code, "28"):
		return sqlgov.OpenAuth
	case fromServer.Code == "53300":
		return sqlgov.OpenTooMany
	case strings.HasPrefix(fromServer.Code, "57P"):
		return sqlgov.OpenUnreachable
	}
	return sqlgov.OpenRejected
}

// startReader passes on what a server sends while a connection starts, bounds it, and keeps it, so that the order of
// the parameters can be told afterwards.
type startReader struct {
	r    io.Reader
	seen []byte
}

func (s *startReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if len(s.seen)+n > startTotal {
		return 0, errors.New("the server sent too much before it was ready for queries")
	}
	s.seen = append(s.seen, p[:n]...)
	return n, err
}

// parameters returns values in the order in which the server first sent them.
func (s *startReader) parameters(values map[string]string) []sqlgov.Parameter {
	var all []sqlgov.Parameter
	listed := map[string]bool{}
	for rest := s.seen; len(rest) >= 5; {
		n := 1 + int(binary.BigEndian.Uint32(rest[1:]))
		if n < 5 || n > len(rest) {
			break
		}
		if name, _, ok := cstring(rest[5:n]); rest[0] == 'S' && ok && !listed[name] {
			listed[name] = true
			all = append(all, sqlgov.Parameter{Name: name, Value: values[name]})
		}
		rest = rest[n:]
	}
	return all
}

// clientParameters are the start-up parameters of a wire session. The client's choices were accepted by the core, but
// those that are not settings at all must never get this far.
func clientParameters(opt sqlgov.OpenOptions) (map[string]string, error) {
	params := make(map[string]string, len(opt.Parameters)+len(opt.Pinned)+1)
	for _, from := range [...]map[string]string{opt.Parameters, opt.Pinned} {
		for name, value := range from {
			name = strings.ToLower(name)
			if name == "user" || name == "database" || name == "replication" || name == "options" ||
				name == "" || strings.HasPrefix(name, "_pq_") || strings.ContainsRune(name+value, 0) {
				return nil, fmt.Errorf("start-up parameter %q is not a setting", name)
			}
			params[name] = value
		}
	}
	if opt.ReadOnly {
		params["default_transaction_read_only"] = "on"
	}
	return params, nil
}

// remote is where the other end of nc is, for another connection to the very same server.
func remote(nc net.Conn, spec *policy.UpstreamSpec) (network, address string) {
	addr := nc.RemoteAddr()
	if path.IsAbs(spec.Host) {
		return pgconn.NetworkAddress(spec.Host, uint16(spec.Port))
	}
	return addr.Network(), addr.String()
}
