// Package pgtest gives tests a real PostgreSQL, one throwaway server for each test binary.
//
//	func TestX(t *testing.T) {
//		srv := pgtest.Start(t)
//		dsn := srv.Database(t, `create table c (id int)`)
//		conn, err := pgx.Connect(ctx, dsn)
//
// The first Start of a binary starts the server, later ones return the same. It ends with the process, whatever ends
// the process; a package that wants to be sure that it is gone when `go test` returns calls Main from its TestMain.
//
// The superuser is postgres and needs no password. Other roles need none either, but for members of the role
// pgtest_scram, which must prove their password by SCRAM-SHA-256 over TCP. The server speaks TLS as well as plain TCP;
// CA is the certificate to verify it by. Roles are shared by all databases of the server: tests that make roles give
// them names of their own.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock/internal/cluster"

	"github.com/jackc/pgx/v5"
)

// Superuser is the role that Server.DSN and Server.Database connect as.
const Superuser = cluster.Superuser

// ScramGroup is the role whose members need a password over TCP.
const ScramGroup = "pgtest_scram"

// Server is a running PostgreSQL. Its methods may be called by parallel tests.
type Server struct {
	cluster *cluster.Cluster
	ca      []byte

	mu     sync.Mutex
	serial int
	shared map[string]*sharedDatabase
}

type sharedDatabase struct {
	once sync.Once
	dsn  string
	err  error
}

var start = sync.OnceValues(startServer)

// Start returns the server of this test binary. A machine without PostgreSQL fails the test: nothing is skipped.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := start()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s
}

// Main runs a package's tests and stops the server before the process ends. For use as the body of TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if running != nil {
		if err := running.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// running is what Main stops. It is written inside start and read after the tests.
var running *cluster.Cluster

func startServer() (*Server, error) {
	ca, cert, key, err := certificate()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	bin, err := cluster.FindBin()
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Config{
		BinDir:   bin,
		Template: filepath.Join(os.TempDir(), fmt.Sprintf("interlock-pgtest-%d", os.Getuid())),
		Settings: map[string]string{
			"ssl": "on", "ssl_cert_file": "server.crt", "ssl_key_file": "server.key",
			"password_encryption":       "scram-sha-256",
			"max_prepared_transactions": "10",
			"shared_preload_libraries":  preloaded(bin),
		},
		HBA:   []string{"host all +" + ScramGroup + " 127.0.0.1/32 scram-sha-256"},
		Files: map[string][]byte{"server.crt": cert, "server.key": key},
	})
	if err != nil {
		return nil, err
	}
	running = c
	s := &Server{cluster: c, ca: ca, shared: map[string]*sharedDatabase{}}
	return s, execute(s.DSN("postgres"), "create role "+ScramGroup+" nologin")
}

// preloaded names the libraries that some tests attack through, where they are installed.
func preloaded(bin string) string {
	const library = "pg_stat_statements"
	if _, err := os.Stat(filepath.Join(filepath.Dir(bin), "lib", library+".so")); err != nil {
		return ""
	}
	return library
}

// Host is 127.0.0.1.
func (s *Server) Host() string { return s.cluster.Host() }

// Port is the TCP port.
func (s *Server) Port() int { return s.cluster.Port() }

// SocketDir holds the Unix socket.
func (s *Server) SocketDir() string { return s.cluster.SocketDir() }

// CA is the PEM certificate that the server's own is signed by. The server's is valid for 127.0.0.1 and localhost.
func (s *Server) CA() []byte { return s.ca }

// Log is what the server has logged so far.
func (s *Server) Log() string { return s.cluster.Log() }

// DSN is a URI for the superuser over plain TCP.
func (s *Server) DSN(database string) string { return s.cluster.DSN(Superuser, database) }

// As returns the DSN for another role. The password may be empty.
func (s *Server) As(dsn, role, password string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		panic("pgtest: not a DSN of this server: " + dsn)
	}
	u.User = url.User(role)
	if password != "" {
		u.User = url.UserPassword(role, password)
	}
	return u.String()
}

// Database makes a new empty database, runs the setup in it as superuser and returns the superuser's DSN. Each text may hold several
// statements. The database is dropped when t ends.
func (s *Server) Database(t testing.TB, setup ...string) string {
	t.Helper()
	s.mu.Lock()
	s.serial++
	name := fmt.Sprintf("t%d_%s", s.serial, sanitize(t.Name()))
	s.mu.Unlock()
	dsn, err := s.create(name, setup)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := execute(s.DSN("postgres"), "drop database "+name+" with (force)"); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return dsn
}

// Shared returns the database of that name, made by the first call and kept for all tests of the binary. Later calls
// ignore setup.
func (s *Server) Shared(t testing.TB, name string, setup ...string) string {
	t.Helper()
	s.mu.Lock()
	d := s.shared[name]
	if d == nil {
		d = &sharedDatabase{}
		s.shared[name] = d
	}
	s.mu.Unlock()
	d.once.Do(func() { d.dsn, d.err = s.create(name, setup) })
	if d.err != nil {
		t.Fatalf("pgtest: %v", d.err)
	}
	return d.dsn
}

func (s *Server) create(name string, setup []string) (string, error) {
	if err := execute(s.DSN("postgres"), "create database "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", err
	}
	dsn := s.DSN(name)
	for _, text := range setup {
		if err := execute(dsn, text); err != nil {
			return "", err
		}
	}
	return dsn, nil
}

// Exec runs statements on a new connection, as one simple query (so as one transaction, unless they say otherwise).
func (s *Server) Exec(t testing.TB, dsn, sql string) {
	t.Helper()
	if err := execute(dsn, sql); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

func execute(dsn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		return fmt.Errorf("running %.200q: %w", sql, err)
	}
	return nil
}

var unusual = regexp.MustCompile(`[^a-z0-9]+`)

// sanitize makes a test's name a part of an identifier that needs no quotes.
func sanitize(name string) string {
	s := unusual.ReplaceAllString(strings.ToLower(name), "_")
	return s[:min(len(s), 40)]
}
