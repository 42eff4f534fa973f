package sqlgov

import (
	"context"

	"interlock/catalog"
)

// Lease is a Wire without a connection of its own: it holds one of the source's from the first message of a transaction to its end.
// Hold is called by the goroutine that sends, Return by the one that receives, and never while there is anything to send or to
// receive. Between Return and Hold Receive waits, and nothing else but Interrupt, Cancel and Close is called.
type Lease interface {
	Wire
	// Hold waits for a connection on which the session's settings are what they were when it held one last. Errors are *OpenError, or
	// ctx's; they wrap context.Canceled if Interrupt ended the wait, and ErrConnectionLost if there will never be one.
	Hold(ctx context.Context) error
	// Answer is called when Hold has failed, before anything is sent. The lease answers what is sent up to the end of the segment
	// itself, as a server does that fails at the first message.
	Answer(e *UpstreamError)
	// Interrupt ends the wait for a connection. It reports if there was one.
	Interrupt() bool
	// Return gives the connection to others. If that is not possible it is closed; the session goes on with another one.
	Return(left Left)
	// Statements are the prepared statements of the connection that is held.
	Statements() Statements
}

// Left is what the statements of a transaction may have left behind in a session, as far as it can be kept or taken away.
type Left uint8

const (
	// LeftSettings are settings. They stay the session's, on whichever connection.
	LeftSettings Left = 1 << iota
	// LeftTraces are the values of sequences, and whatever the functions have done that a table or view calls by itself. Nothing of
	// it stays.
	LeftTraces
)

// Statements are the named prepared statements of a connection, which sessions share, and the one by which a Recheck asks. Its methods
// are called under the lock of the session that holds the connection.
type Statements interface {
	// Has reports if the connection is known to have a statement.
	Has(name string) bool
	// Add notes that the server has prepared a statement; Forget that it has dropped one, and Clear all.
	Add(name string)
	Forget(name string)
	Clear()
	// Asks reports if the statement by which a Recheck asks is there; SetAsks notes it.
	Asks() bool
	SetAsks(bool)
}

// NamedStatement is what a Parse message holds.
type NamedStatement struct {
	Name  string
	SQL   string
	Types []catalog.OID
}
