// Package mcp serves the same core to agents as MCP tools, one file per tool.
//
// A Server answers POST /mcp: one JSON-RPC message in, one reply out, no session. It speaks two dialects of the
// Model Context Protocol and chooses by the MCP-Protocol-Version header of each request: modern (2026-07-28) and
// handshake (2025-03-26, 2025-06-18, 2025-11-25). The steps of a request are listed once, in exchange.receive and
// exchange.call. What a tool may do, the core decides; this package authenticates, frames and encodes.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/rs/zerolog"

	"interlock/sqlgov"
)

// Path is where the endpoint is.
const Path = "/mcp"

// Core is the part of the governance core that this door uses. Every error is a *sqlgov.Refusal.
type Core interface {
	Query(ctx context.Context, req sqlgov.Request) (*sqlgov.Result, error)
	Sources(ctx context.Context, caller sqlgov.Caller) (_ []sqlgov.SourceInfo, decision string, _ error)
	DescribeAccess(ctx context.Context, caller sqlgov.Caller, source string) (_ map[string]sqlgov.Access, decision string, _ error)
	DescribeSource(ctx context.Context, caller sqlgov.Caller, source string) (_ []sqlgov.ColumnInfo, decision string, _ error)
	Discover(ctx context.Context, caller sqlgov.Caller, source string, s sqlgov.Search) (*sqlgov.Discovery, error)
	RelatedTo(ctx context.Context, caller sqlgov.Caller, assetID string, limit int) (*sqlgov.RelatedDocuments, error)
	ShowApproval(ctx context.Context, caller sqlgov.Caller, id string) (*sqlgov.ApprovalView, error)
	// RecordRefusal writes the audit record of a call that the door turned down itself, and sets r.DecisionID.
	RecordRefusal(ctx context.Context, caller sqlgov.Caller, source string, r *sqlgov.Refusal)
}

// Authenticator verifies a bearer token. Its error is a *sqlgov.Refusal, or denies as an internal failure.
type Authenticator interface {
	Bearer(ctx context.Context, token string) (identity, keyID string, err error)
}

// Server is the MCP endpoint. Core and Authenticator must be set; the zero value of every other field is a safe
// default. A Server must not be changed once it has been used.
type Server struct {
	Core          Core
	Authenticator Authenticator

	// AllowedOrigins are origins ("https://chat.example") of web pages that may call the endpoint, beside pages that
	// come from the endpoint's own origin. Requests without an Origin header, which no browser sends, always may.
	AllowedOrigins []string
	// AllowedHosts are the names, with or without a port, under which clients may reach the endpoint, beside
	// localhost and loopback addresses. Others are refused, so that a page cannot reach it by rebinding its own name.
	AllowedHosts []string

	MaxBodyBytes  int64         // of a request; 4 MiB
	MaxReplyBytes int           // of the rows of one result, as JSON; 8 MiB
	MaxConcurrent int           // calls of one identity that may run at the same time; 64
	BodyTimeout   time.Duration // to receive a body; 30 s
	WriteTimeout  time.Duration // to send a reply, or an event of a stream; 1 min

	ProgressInterval time.Duration // how often a client that wants to know hears that its call still runs; 2 s

	Version string // of InterLock, for clients to see
	Log     zerolog.Logger

	calls       callCounter
	cancellable cancellable
	active      inFlight
	http        struct {
		once   sync.Once
		server *http.Server
	}
}

// The defaults of Server's limits.
const (
	defaultMaxBody       = 4 << 20
	defaultMaxReply      = 8 << 20
	defaultMaxConcurrent = 64
	defaultBodyTimeout   = 30 * time.Second
	defaultWriteTimeout  = time.Minute
)

// Limits of connections, which need no adjusting.
const (
	headerTimeout  = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
)

// Serve answers requests that come in on l, which it closes, until Shutdown. It returns nil after Shutdown.
func (s *Server) Serve(l net.Listener) error {
	if err := s.httpServer().Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown stops accepting and lets running calls finish. When ctx ends first, it cancels them. It returns when all
// have ended and their records are written.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.httpServer().Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.httpServer().Close())
	}
	s.active.close()
	s.active.wait()
	return err
}

// httpServer has no read and write timeouts: they would end slow statements. An exchange sets its own deadlines
// around reading the body and writing the reply.
func (s *Server) httpServer() *http.Server {
	s.http.once.Do(func() {
		s.http.server = &http.Server{
			Handler:           s,
			ReadHeaderTimeout: headerTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			ErrorLog:          log.New(s.Log, "", 0),
		}
	})
	return s.http.server
}

// ServeHTTP answers POST /mcp, and the routes that came before it. Every other path is a 404 with a JSON body: clients look for OAuth metadata under
// /.well-known/ and take a page of HTML there for a broken server.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.active.enter() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.active.leave()
	x := &exchange{server: s, w: w, r: r, correlation: ulid.Make().String()}
	x.limitTime()
	former, isFormer := formerRoutes[r.URL.Path]
	switch {
	case isFormer:
		x.serveFormer(former)
	case r.URL.Path != Path:
		x.plain(http.StatusNotFound, "not_found", "The MCP endpoint is POST "+Path+".")
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		x.error(fail(http.StatusMethodNotAllowed, codeInvalidRequest,
			"%s is not supported: send JSON-RPC messages with POST; there is no stream to GET and no session to DELETE", r.Method))
	default:
		x.serve()
	}
}

// plain replies with an error that is no JSON-RPC message.
func (x *exchange) plain(status int, identifier, message string) {
	body, _ := json.Marshal(map[string]string{"error": identifier, "message": message}) // strings always marshal
	x.send(status, body)
}

// callCounter counts the running calls of each identity.
type callCounter struct {
	mu      sync.Mutex
	running map[string]int
}

// enter counts one more call unless limit are running.
func (c *callCounter) enter(identity string, limit int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[identity] >= limit {
		return false
	}
	if c.running == nil {
		c.running = make(map[string]int)
	}
	c.running[identity]++
	return true
}

func (c *callCounter) leave(identity string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[identity]--; c.running[identity] == 0 {
		delete(c.running, identity)
	}
}

// or returns v, or def if v is zero.
func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// joined is the value of a header as one list: a header sent twice never equals one sent once.
func joined(h http.Header, name string) string { return strings.Join(h.Values(name), ", ") }
