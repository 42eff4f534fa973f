package sqlgov

import (
	"errors"
	"time"
)

// OpenReason is why an upstream connection could not be had.
type OpenReason string

// The reasons. Doors may show them; they say nothing about where the upstream is.
const (
	OpenUnreachable OpenReason = "unreachable"          // no network connection, or the server is starting or stopping
	OpenTLS         OpenReason = "tls"                  // TLS refused, or the certificate is not the expected one
	OpenAuth        OpenReason = "authentication"       // the server did not accept the source's login, or a secret is missing
	OpenTooMany     OpenReason = "too_many_connections" // the server has no room
	OpenBusy        OpenReason = "busy"                 // the source's own connection limit stayed exhausted while we waited
	OpenCircuit     OpenReason = "circuit_open"         // it failed so often that it is not tried for a while
	OpenRejected    OpenReason = "rejected"             // anything else: no such database, a refused setting, a broken server
)

// OpenError says that an upstream connection could not be had. Its text may be shown; Err, which may name hosts and
// logins, is for the operational log only.
type OpenError struct {
	Reason OpenReason
	Err    error
	Again  time.Duration // with OpenCircuit: when it is tried again
}

func (e *OpenError) Error() string {
	return "the upstream connection cannot be opened: " + string(e.Reason)
}

// Unwrap returns the cause.
func (e *OpenError) Unwrap() error { return e.Err }

// ErrConnectionLost is what Wire and Run report, wrapped, when an open connection breaks. What a statement was doing
// is rolled back by the server.
var ErrConnectionLost = errors.New("the upstream connection was lost")

// ErrOutcomeUnknown is what Run reports, wrapped, when the connection breaks after COMMIT was sent and before it was
// answered: the write may or may not have happened.
var ErrOutcomeUnknown = errors.New("the upstream connection was lost during commit, so the outcome is unknown")
