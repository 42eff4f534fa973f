package pgwire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"interlock/sqlgov"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Codes in the place of a protocol version (PostgreSQL manual, "Message Formats").
const (
	cancelRequest = 80877102
	sslRequest    = 80877103
	gssRequest    = 80877104
)

// Protocol versions, major in the upper half.
const (
	version30 = 3 << 16
	version32 = 3<<16 | 2 // longer cancel keys
)

const (
	minStartup = 8      // length and code
	maxStartup = 10_004 // PostgreSQL's limit
	maxKey     = 256    // of a CancelRequest
)

// errNotPostgres is a client that does not speak this protocol, or has gone. It gets no answer, as from PostgreSQL.
var errNotPostgres = errors.New("not a PostgreSQL client")

// hello is what a client wants, once TLS is settled: a session, or, if cancel is not nil, to cancel what another does.
type hello struct {
	version uint32 // that the session speaks
	params  []startupParam
	// negotiate tells that the client asked for a newer version or for options (unknown) that we do not have.
	negotiate bool
	unknown   []string
	cancel    []byte // process id and key
}

// startupParam is a parameter of the StartupMessage. A name may come twice; the last counts.
type startupParam struct{ name, value string }

func (h *hello) param(name string) string {
	for _, p := range slices.Backward(h.params) {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// negotiate reads up to the StartupMessage or CancelRequest and settles encryption on the way. The client may ask for
// TLS once and for GSSAPI once, and nothing after TLS.
func (c *conn) negotiate(ctx context.Context) (*hello, error) {
	first, err := c.in.kind()
	if err != nil {
		return nil, err
	}
	if first == tlsRecord {
		if c.srv.TLS == nil {
			return nil, errNotPostgres
		}
		if err := c.startTLS(ctx, true); err != nil {
			return nil, err
		}
	}
	askedTLS, askedGSS := c.encrypted, c.encrypted
	for {
		code, body, err := c.startupPacket()
		switch {
		case err != nil:
			return nil, err
		case code == sslRequest && !askedTLS:
			askedTLS = true
			err = c.answerTLS(ctx)
			askedGSS = askedGSS || c.encrypted
		case code == gssRequest && !askedGSS:
			askedGSS = true
			err = c.decline("GSSAPI encryption")
		default:
			return parseHello(code, body)
		}
		if err != nil {
			return nil, err
		}
	}
}

// startupPacket reads a message without type byte.
func (c *conn) startupPacket() (code uint32, body []byte, err error) {
	head, err := c.in.peek(4)
	if err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n < minStartup || n > maxStartup {
		return 0, nil, errNotPostgres
	}
	packet, err := c.in.take(int(n))
	if err != nil {
		return 0, nil, err
	}
	return binary.BigEndian.Uint32(packet[4:]), packet[minStartup:], nil
}

// answerTLS answers an SSLRequest. Bytes that came along with it were sent in the clear by someone who could not know the answer; to
// take them for what the client says inside TLS would let anyone on the way speak for it.
func (c *conn) answerTLS(ctx context.Context) error {
	if c.srv.TLS == nil || c.in.buffered() > 0 {
		return c.decline("SSL")
	}
	if _, err := c.net.Write([]byte{'S'}); err != nil {
		return err
	}
	return c.startTLS(ctx, false)
}

// decline says no to a request for encryption; the client may go on in the clear.
func (c *conn) decline(what string) error {
	if _, err := c.net.Write([]byte{'N'}); err != nil {
		return err
	}
	if c.in.buffered() > 0 {
		return malformed("received unencrypted data after " + what + " request")
	}
	return nil
}

// parseHello reads a StartupMessage or CancelRequest.
func parseHello(code uint32, body []byte) (*hello, error) {
	if code == cancelRequest {
		if len(body) < 8 || len(body) > 4+maxKey {
			return nil, errNotPostgres
		}
		return &hello{cancel: slices.Clone(body)}, nil
	}
	switch major, minor := code>>16, code&0xffff; {
	case major < 3:
		return nil, errNotPostgres // what it would understand is not ours to say
	case major > 3:
		return nil, unsupported(fmt.Sprintf("unsupported frontend protocol %d.%d: server supports 3.0 to 3.2", major, minor))
	}
	h := &hello{version: min(code, version32), negotiate: code > version32}
	return h, h.parseParams(body)
}

// parseParams reads pairs of strings up to an empty name, which must be the last byte.
func (h *hello) parseParams(body []byte) error {
	for {
		name, rest, ok := cutString(body)
		if ok && name == "" && len(rest) == 0 {
			return nil
		}
		value, rest, more := cutString(rest)
		if !ok || name == "" || !more {
			return malformed("invalid startup packet layout: expected terminator as last byte")
		}
		body = rest
		if strings.HasPrefix(name, "_pq_.") {
			h.unknown, h.negotiate = append(h.unknown, name), true
			continue
		}
		h.params = append(h.params, startupParam{name, value})
	}
}

func cutString(b []byte) (s string, rest []byte, ok bool) {
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		return "", nil, false
	}
	return string(b[:i]), b[i+1:], true
}

// greet settles the version with the client and names the user and database that it asks for.
func (c *conn) greet(h *hello) (user, database string, err error) {
	if h.negotiate {
		c.out.message(&pgproto3.NegotiateProtocolVersion{NewestMinorProtocol: h.version, UnrecognizedOptions: h.unknown})
	}
	user = h.param("user")
	if c.srv.RequireTLS && !c.encrypted {
		return "", "", &sqlgov.Refusal{Kind: sqlgov.Unauthenticated, SQLState: "28000",
			Message: "this server accepts TLS connections only", Hint: "Connect with sslmode=require or stronger."}
	}
	if user == "" {
		return "", "", &sqlgov.Refusal{Kind: sqlgov.Unauthenticated, SQLState: "28000",
			Message: "no PostgreSQL user name specified in startup packet"}
	}
	for _, p := range h.params {
		if bad := validText(p); bad != nil {
			return "", "", bad
		}
	}
	if database = h.param("database"); database == "" {
		database = user
	}
	return user, database, nil
}
