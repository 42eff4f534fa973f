// Package pgwire serves the PostgreSQL protocol to clients and turns each request into a governed statement.
//
// A connection begins with a StartupMessage, inside TLS or not, and proves its identity by SCRAM-SHA-256: the user
// name is the identity, the password one of its API keys, the database the id of a source. From then on two tasks
// relay for it: one reads the client's messages and hands each to the core's session, the other writes what the session
// answers, in order. This package frames, decodes and encodes; what may run, and what of a result may be seen, is
// decided by the core alone.
//
// The protocol is that of the PostgreSQL manual, part "Frontend/Backend Protocol"; where the manual leaves an answer
// open, PostgreSQL's own is given.
package pgwire

import (
	"context"
	"net"

	"interlock/sqlgov"
)

// Core opens governed sessions. Errors are *sqlgov.Refusal; anything else is treated as an internal one.
type Core interface {
	// OpenSession opens the upstream connection of an authenticated caller. What it refuses is fatal for the
	// connection.
	OpenSession(ctx context.Context, caller sqlgov.Caller, opt sqlgov.SessionOptions) (Session, error)
	// RecordRefusal accounts for a request that the door turned down itself, and sets r.DecisionID.
	RecordRefusal(ctx context.Context, caller sqlgov.Caller, source string, r *sqlgov.Refusal)
}

// Session is a governed connection. Query to Push are called from one goroutine, Next from another, the rest from
// any. A frame is a client's whole message, header included, and is not kept after the call. An error means that the
// upstream connection is lost; a refusal is no error but comes out of Next, in its place in the stream of replies.
type Session interface {
	Parameters() []sqlgov.Parameter
	// Socket is the network connection to the server, beneath TLS.
	Socket() net.Conn
	// KnownAs is called with the process id that the client gets, before anything else.
	KnownAs(process uint32)
	Query(ctx context.Context, sql string, frame []byte) error
	Parse(ctx context.Context, p sqlgov.Parse, frame []byte) error
	Bind(ctx context.Context, portal, statement string, frame []byte) error
	Describe(ctx context.Context, object byte, name string, frame []byte) error
	Execute(ctx context.Context, portal string, maxRows uint32, frame []byte) error
	CloseObject(ctx context.Context, object byte, name string, frame []byte) error
	FunctionCall(ctx context.Context, function uint32, frame []byte) error
	Sync(frame []byte) error
	FlushRequest(frame []byte) error
	// TakesCopy tells if data of a COPY is wanted from the client now.
	TakesCopy() (bool, error)
	CopyMessage(frame []byte) error
	FailCopy(why string) error
	Reject(ctx context.Context, simple bool, r *sqlgov.Refusal) error
	Push() error
	Next(ctx context.Context) (sqlgov.Output, error)
	Cancel(ctx context.Context)
	Close() error
	// Idle tells that every message of the client has been answered.
	Idle() bool
	InTransaction() bool
}

// Authenticator knows the keys of identities.
type Authenticator interface {
	// Scram returns what SCRAM needs for a user name, also for a name that does not exist.
	Scram(ctx context.Context, user string) (sqlgov.ScramSet, error)
}
