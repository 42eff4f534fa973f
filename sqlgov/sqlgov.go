// Package sqlgov is the governance core: it decides what an identity may do with a statement, does it, and accounts
// for it.
//
// A door (pgwire, mcp) hands the core an authenticated Caller and a statement; it gets back rows, or a *Refusal. A
// door never decides. Every statement takes the steps of admit, in one order: identity, source, analysis, source
// roles, audit intent; then it is executed, and its outcome is recorded before the last byte of its result is
// released. Every error path denies.
package sqlgov

import (
	"context"
	"net"
	"time"

	"interlock/catalog"
	"interlock/sqlgov/policy"
)

// Door is how a request came in.
type Door string

// The doors.
const (
	PGWire Door = "pgwire"
	MCP    Door = "mcp"
	Admin  Door = "admin" // people's HTTP API
)

// Caller is an authenticated identity on a door.
type Caller struct {
	Identity    string
	KeyID       string // the API key that it showed; checked again at every statement
	Door        Door
	ClientAddr  string // remote address, host:port
	Application string // application_name, or the MCP client's name and version
	Session     string // one wire connection, or one MCP request
	Trace       string // W3C traceparent that came with the request; "" if none or not well formed
}

// Credential is one active API key of an identity in the form that SCRAM-SHA-256 needs (RFC 5802).
type Credential struct {
	KeyID     string
	StoredKey []byte
	ServerKey []byte
}

// ScramSet is what a door needs to run SCRAM for a user name. All keys of an identity share one salt. For a name
// that does not exist the set has a stable made-up salt and no credentials, so that the exchange looks the same.
type ScramSet struct {
	Salt        []byte
	Iterations  int
	Credentials []Credential
}

// Keys tells if an API key is still good. It is asked at every statement, so that a revoked or expired key ends an
// open session at its next statement.
type Keys interface {
	// Active returns nil if the key exists, is not revoked and has not expired. Any error denies.
	Active(ctx context.Context, keyID string) error
}

// Upstream reaches the governed databases.
type Upstream interface {
	// Open dials a connection that one wire session owns until it closes it. Errors are *OpenError, or ctx's.
	Open(ctx context.Context, src *policy.SourceSpec, opt OpenOptions) (Wire, error)
	// Run executes one statement by the extended protocol on a pooled connection and hands its rows, in text
	// format, to sink. Cancelling ctx cancels the statement on the server. Errors are *OpenError, *UpstreamError,
	// the sink's, ctx's, or wrap ErrCatalogChanged, ErrConnectionLost or ErrOutcomeUnknown.
	Run(ctx context.Context, src *policy.SourceSpec, req RunRequest, sink Sink) (Summary, error)
}

// OpenOptions are the session's start-up choices that reach the server.
type OpenOptions struct {
	// Parameters are start-up parameters that the client asked for and the core accepted.
	Parameters map[string]string
	// Pinned are settings that fix what a statement means; they win over Parameters.
	Pinned   map[string]string
	ReadOnly bool
	// Shared says that the session gives its connection back between transactions. Then the Wire is a Lease.
	Shared bool
}

// RunRequest is a judged statement for Upstream.Run.
type RunRequest struct {
	SQL      string
	ReadOnly bool // run in a READ ONLY transaction
	Pinned   map[string]string
	Timeout  time.Duration // statement_timeout on the server
	MaxRows  int           // stop the statement after handing out this many rows; 0 is no limit. Only with ReadOnly
	// Recheck is asked when the server has resolved the statement's names, before it runs. Nil asks nothing.
	Recheck *Recheck
	// Stateless says that the statement is known to leave nothing behind in the session: it calls nothing that could
	// change a setting, take an advisory lock, advance a sequence or make a temporary object. Then the session need not
	// be reset before another caller's statement. Only with ReadOnly.
	Stateless bool
	// Parameters are those of the statement.
	Parameters BoundParameters
	// Then are further statements of the same text, without parameters, that are run behind it in the same transaction. Not
	// with ReadOnly.
	Then []string
}

// Sink receives a result as it arrives. An error from either func stops the statement and is returned by Run.
type Sink struct {
	Fields func([]Field) error
	// Row gets one row in text format; nil is NULL. The slices are valid until Row returns.
	Row func([][]byte) error
	// Done gets the command tag of each statement that was completed, before its transaction is committed. An error rolls it
	// back. It may be nil.
	Done func(tag string) error
}

// Summary is how a statement ended well.
type Summary struct {
	Tag  string // command tag: "SELECT 3"; "" if MaxRows stopped the statement
	Rows int64  // rows returned, or rows changed
}

// Field describes a result column as the server's RowDescription has it.
type Field struct {
	Name     string
	Relation catalog.OID
	Num      int16
	Type     catalog.OID
	TypeMod  int32
	Binary   bool
}

// Wire is an upstream connection that relays a client's own protocol messages. Send and Flush are called from one
// goroutine, Receive from another; Cancel and Close from any.
type Wire interface {
	// Parameters are the ParameterStatus values at start, in the order in which the server sent them.
	Parameters() []Parameter
	// Process is the server's id of the session.
	Process() uint32
	// Socket is the network connection itself, beneath TLS.
	Socket() net.Conn
	// Send queues frontend messages, complete frames as the client sent them.
	Send(frames []byte) error
	// SendRejected queues, in place of a message that was refused, one that the server is certain to reject before
	// it does anything. The server then does all that an error implies: it fails the transaction and skips to the next
	// Sync.
	SendRejected(m Rejected) error
	// SendPart queues messages of the core's own.
	SendPart(p Part) error
	// Flush writes what is queued to the network.
	Flush() error
	// Receive returns the next message of the server. The reply and its frame are valid until the next call.
	Receive() (Reply, error)
	// More takes the messages behind the one that Receive returned that are of its kind and have arrived already. It returns
	// all of them as they came, that one at the beginning, with their number; they are valid until Receive is called again.
	More() (frames []byte, n int)
	// Buffered tells if Receive would return without waiting for the network. For the goroutine that calls Receive.
	Buffered() bool
	// Cancel asks the server to cancel what runs on this connection.
	Cancel(ctx context.Context) error
	Close() error
}

// Rejected says which message was refused, as far as it matters for what the server does with an error in it.
type Rejected int

// A Query is answered by a ReadyForQuery; the Parse of an unnamed statement drops the one before, even if it fails.
const (
	RejectedQuery Rejected = iota
	RejectedUnnamedParse
	RejectedOther
)

// Part is messages of the core's own beside those of a client, in the order of its fields.
type Part struct {
	// Bind is a text that is prepared and bound without a name. It is answered by ParseComplete and BindComplete.
	Bind string
	// Recheck is asked. It is answered by BindComplete, CommandComplete and CloseComplete; before that, if it locks, by
	// ParseComplete and CloseComplete.
	Recheck *Recheck
	// Prepare prepares the statement by which a Recheck asks, in the place of one that may be there. It is answered by
	// CloseComplete and ParseComplete, before what answers the Recheck.
	Prepare bool
	// Statement is prepared, in the place of one of its name. It is answered by CloseComplete and ParseComplete.
	Statement *NamedStatement
	// Execute describes and executes what was bound without a name, and Sync ends the segment.
	Execute, Sync bool
}

// Parameter is a run-time parameter that the server reports.
type Parameter struct{ Name, Value string }

// ReplyKind is a backend message type that the core has to understand.
type ReplyKind byte

// The kinds of reply, by their message type byte. A message of any other type ends the session.
const (
	ParseComplete    ReplyKind = '1'
	BindComplete     ReplyKind = '2'
	CloseComplete    ReplyKind = '3'
	ParamDescription ReplyKind = 't'
	RowDescription   ReplyKind = 'T'
	NoData           ReplyKind = 'n'
	DataRow          ReplyKind = 'D'
	PortalSuspended  ReplyKind = 's'
	CommandComplete  ReplyKind = 'C'
	EmptyQuery       ReplyKind = 'I'
	ErrorResponse    ReplyKind = 'E'
	NoticeResponse   ReplyKind = 'N'
	ReadyForQuery    ReplyKind = 'Z'
	ParameterStatus  ReplyKind = 'S'
	Notification     ReplyKind = 'A'
	CopyInResponse   ReplyKind = 'G'
	CopyOutResponse  ReplyKind = 'H'
	CopyBothResponse ReplyKind = 'W'
	CopyData         ReplyKind = 'd'
	CopyDone         ReplyKind = 'c'
	FunctionResult   ReplyKind = 'V'
)

// Reply is one backend message, decoded as far as the core needs it.
type Reply struct {
	Kind     ReplyKind
	Frame    []byte         // the whole message as it arrived, header included
	Fields   []Field        // RowDescription
	Tag      string         // CommandComplete
	Error    *UpstreamError // ErrorResponse and NoticeResponse
	TxStatus byte           // ReadyForQuery: I, T or E
	Param    Parameter      // ParameterStatus
	Copy     CopyShape      // CopyInResponse and CopyOutResponse
}

// UpstreamError is an error or notice of the server, field by field (PostgreSQL manual, "Error and Notice Message
// Fields").
type UpstreamError struct {
	Severity   string
	SQLState   string
	Message    string
	Detail     string
	Hint       string
	Position   int32
	Where      string
	Schema     string
	Table      string
	Column     string
	DataType   string
	Constraint string
}

func (e *UpstreamError) Error() string { return e.Message }
