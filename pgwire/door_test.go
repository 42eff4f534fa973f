package pgwire

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"interlock/internal/loop"
	"interlock/internal/pgtest"
	"interlock/sqlgov"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/rs/zerolog"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// ungoverned is a core that allows everything: it relays to a real PostgreSQL, so that what is tested is the door alone.
type ungoverned struct {
	dsn     string // database of the source "shop"
	refuses func(sqlgov.SessionOptions) error

	mu       sync.Mutex
	recorded []*sqlgov.Refusal
	opened   []sqlgov.SessionOptions
	callers  []sqlgov.Caller
	open     atomic.Int32 // sessions not yet closed
}

func (u *ungoverned) RecordRefusal(_ context.Context, _ sqlgov.Caller, _ string, r *sqlgov.Refusal) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.recorded = append(u.recorded, r)
	r.DecisionID = fmt.Sprintf("01TEST%03d", len(u.recorded))
}

func (u *ungoverned) OpenSession(ctx context.Context, caller sqlgov.Caller, opt sqlgov.SessionOptions) (Session, error) {
	u.mu.Lock()
	u.opened, u.callers = append(u.opened, opt), append(u.callers, caller)
	u.mu.Unlock()
	if u.refuses != nil {
		if err := u.refuses(opt); err != nil {
			return nil, err
		}
	}
	cfg, err := pgconn.ParseConfig(u.dsn)
	if err != nil {
		return nil, err
	}
	for name, value := range opt.Parameters {
		cfg.RuntimeParams[name] = value
	}
	up, err := hijack(ctx, cfg)
	if err != nil {
		return nil, err
	}
	u.open.Add(1)
	socket := loop.Wrap(up.Conn)
	up.Conn = socket
	return &relaySession{core: u, up: up, in: newReader(socket), out: &writer{dst: socket}}, nil
}

// hijack logs in and hands over the socket, from which pgconn must not have read ahead.
func hijack(ctx context.Context, cfg *pgconn.Config) (*pgconn.HijackedConn, error) {
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := conn.SyncConn(ctx); err != nil {
		return nil, err
	}
	return conn.Hijack()
}

// rawSession logs in and hands over the socket.
func rawSession(t testing.TB, dsn string) *pgconn.HijackedConn {
	t.Helper()
	cfg, err := pgconn.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hijack(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Conn.Close() })
	return raw
}

// relaySession is a session without governance.
type relaySession struct {
	core *ungoverned
	up   *pgconn.HijackedConn
	in   *reader
	out  *writer

	owed   atomic.Int32
	status atomic.Int32
	mu     sync.Mutex
	token  int
	reject map[string]*sqlgov.Refusal
	once   sync.Once
}

func (s *relaySession) KnownAs(uint32) {}

func (s *relaySession) Parameters() []sqlgov.Parameter {
	var list []sqlgov.Parameter
	for name, value := range s.up.ParameterStatuses {
		list = append(list, sqlgov.Parameter{Name: name, Value: value})
	}
	slices.SortFunc(list, func(a, b sqlgov.Parameter) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return list
}

func (s *relaySession) Query(_ context.Context, _ string, frame []byte) error {
	s.owed.Add(1)
	return s.out.frame(frame)
}
func (s *relaySession) TakesCopy() (bool, error)       { return true, nil }
func (s *relaySession) CopyMessage(frame []byte) error { return s.out.frame(frame) }
func (s *relaySession) FailCopy(string) error          { return nil }
func (s *relaySession) Parse(_ context.Context, _ sqlgov.Parse, frame []byte) error {
	return s.out.frame(frame)
}
func (s *relaySession) Bind(_ context.Context, _, _ string, frame []byte) error {
	return s.out.frame(frame)
}
func (s *relaySession) Describe(_ context.Context, _ byte, _ string, frame []byte) error {
	return s.out.frame(frame)
}
func (s *relaySession) Execute(_ context.Context, _ string, _ uint32, frame []byte) error {
	return s.out.frame(frame)
}
func (s *relaySession) CloseObject(_ context.Context, _ byte, _ string, frame []byte) error {
	return s.out.frame(frame)
}
func (s *relaySession) FunctionCall(_ context.Context, _ uint32, frame []byte) error {
	s.owed.Add(1)
	return s.out.frame(frame)
}
func (s *relaySession) Sync(frame []byte) error {
	s.owed.Add(1)
	return s.out.frame(frame)
}
func (s *relaySession) FlushRequest(frame []byte) error { return s.out.frame(frame) }
func (s *relaySession) Push() error                     { return s.out.flush() }

// Reject sends a statement that fails with a mark, by which the error is known when it comes back.
func (s *relaySession) Reject(_ context.Context, simple bool, r *sqlgov.Refusal) error {
	s.mu.Lock()
	s.token++
	mark := fmt.Sprintf("rejected_%d", s.token)
	if s.reject == nil {
		s.reject = map[string]*sqlgov.Refusal{}
	}
	s.reject[mark] = r
	s.mu.Unlock()
	var m pgproto3.FrontendMessage = &pgproto3.Parse{Query: mark}
	if simple {
		s.owed.Add(1)
		m = &pgproto3.Query{String: mark}
	}
	b, err := m.Encode(nil)
	if err != nil {
		return err
	}
	return s.out.frame(b)
}

func (s *relaySession) Socket() net.Conn { return s.up.Conn }

func (s *relaySession) Next(context.Context) (sqlgov.Output, error) {
	n, err := s.in.length()
	if err != nil {
		return sqlgov.Output{}, err
	}
	frame, err := s.in.take(n)
	if err != nil {
		return sqlgov.Output{}, err
	}
	out := sqlgov.Output{Frame: frame, Buffered: s.in.whole()}
	switch frame[0] {
	case 'Z':
		s.owed.Add(-1)
		out.Ready = frame[5]
		s.status.Store(int32(frame[5]))
	case 'E':
		var e pgproto3.ErrorResponse
		if err := e.Decode(frame[5:]); err != nil {
			return out, err
		}
		if r := s.rejected(e.Message); r != nil {
			out.Frame, out.Refusal = nil, r
		}
		out.Fatal = e.Severity == "FATAL"
	}
	return out, nil
}

func (s *relaySession) rejected(message string) *sqlgov.Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	for mark, r := range s.reject {
		if strings.Contains(message, `"`+mark+`"`) {
			return r
		}
	}
	return nil
}

func (s *relaySession) Cancel(ctx context.Context) {
	b, err := (&pgproto3.CancelRequest{ProcessID: s.up.PID, SecretKey: s.up.SecretKey}).Encode(nil)
	if err != nil {
		return
	}
	c, err := net.Dial(s.up.Conn.RemoteAddr().Network(), s.up.Conn.RemoteAddr().String())
	if err != nil {
		return
	}
	defer c.Close()
	c.Write(b)
	io.Copy(io.Discard, c)
}

func (s *relaySession) Close() error {
	s.once.Do(func() { s.core.open.Add(-1) })
	return s.up.Conn.Close()
}
func (s *relaySession) Idle() bool          { return s.owed.Load() <= 0 }
func (s *relaySession) InTransaction() bool { return s.status.Load() == 'T' || s.status.Load() == 'E' }

// passwords is an Authenticator: keys by user.
type passwords map[string]string

var testSalt = []byte("0123456789abcdef")

func (p passwords) Scram(_ context.Context, user string) (sqlgov.ScramSet, error) {
	set := sqlgov.ScramSet{Salt: testSalt, Iterations: 4096}
	if password, ok := p[user]; ok {
		set.Credentials = []sqlgov.Credential{credentialOf(user, password)}
	}
	return set, nil
}

var derived sync.Map

func credentialOf(user, password string) sqlgov.Credential {
	if c, ok := derived.Load(user + "\x00" + password); ok {
		return c.(sqlgov.Credential)
	}
	c := deriveCredential("key of "+user, password, testSalt, 4096)
	derived.Store(user+"\x00"+password, c)
	return c
}

// door is a running server in front of a database.
type door struct {
	*Server
	core *ungoverned
	addr string
	once sync.Once
}

// startDoor serves until t ends, and sees then that nothing is left over.
func startDoor(t testing.TB, dsn string, setup ...func(*Server)) *door {
	t.Helper()
	before := runtime.NumGoroutine()
	core := &ungoverned{dsn: dsn}
	s := &Server{Core: core, Authenticator: passwords{"ana": "secret", "bob": "secret"}, Log: zerolog.Nop()}
	for _, f := range setup {
		f(s)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Server: s, core: core, addr: l.Addr().String()}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		d.stop(t)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if n := core.open.Load(); n != 0 {
			t.Errorf("%d sessions are still open", n)
		}
		settled(t, before)
	})
	return d
}

func (d *door) stop(t testing.TB) {
	d.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := d.Shutdown(ctx); err != nil {
			t.Logf("Shutdown: %v", err)
		}
	})
}

// settled waits for the goroutines of a test to end.
func settled(t testing.TB, before int) {
	deadline := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// dsn is for libpq and pgx alike.
func (d *door) dsn(settings ...string) string {
	host, port, _ := net.SplitHostPort(d.addr)
	u := url.URL{Scheme: "postgres", User: url.UserPassword("ana", "secret"), Host: net.JoinHostPort(host, port), Path: "/shop",
		RawQuery: strings.Join(append(settings, "connect_timeout=10"), "&")}
	return u.String()
}

// withTLS gives a server the certificate that internal/pgtest's authority would issue.
func withTLS(t testing.TB) func(*Server) {
	cert := selfSigned(t)
	return func(s *Server) { s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}} }
}
