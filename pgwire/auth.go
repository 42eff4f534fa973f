package pgwire

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"interlock/sqlgov"

	"github.com/jackc/pgx/v5/pgproto3"
)

// maxSASL bounds a message of the client during authentication; PostgreSQL's own limit for the SASL part is 1024.
const maxSASL = 2048

// authenticate runs SCRAM with the client and returns the id of the key that it showed. The server's last word in the exchange is
// queued, not sent: what follows it, AuthenticationOk or an error, goes with it.
func (c *conn) authenticate(ctx context.Context, user string) (keyID string, err error) {
	set, err := c.srv.Authenticator.Scram(ctx, user)
	if err != nil {
		return "", asRefusal(err)
	}
	exchange := &scram{set: set, binding: c.binding, nonce: newNonce}
	c.out.message(&pgproto3.AuthenticationSASL{AuthMechanisms: exchange.mechanisms()})
	first, err := c.saslInitial(exchange)
	if err != nil {
		return "", err
	}
	challenge, bad := exchange.challenge(first)
	if bad != nil {
		return "", bad
	}
	c.out.message(&pgproto3.AuthenticationSASLContinue{Data: []byte(challenge)})
	answer, err := c.saslMessage()
	if err != nil {
		return "", err
	}
	who, final, ok, bad := exchange.finish(string(answer))
	switch {
	case bad != nil:
		return "", bad
	case !ok:
		return "", wrongPassword(user)
	}
	return who.KeyID, c.out.message(&pgproto3.AuthenticationSASLFinal{Data: []byte(final)})
}

func wrongPassword(user string) error {
	return &sqlgov.Refusal{Kind: sqlgov.Unauthenticated, SQLState: "28P01",
		Message: fmt.Sprintf("password authentication failed for user %q", user)}
}

// saslInitial reads SASLInitialResponse: the mechanism and the client-first-message, which a client that has not put
// it there is asked for by an empty challenge.
func (c *conn) saslInitial(exchange *scram) (first string, err error) {
	message, err := c.saslMessage()
	if err != nil {
		return "", err
	}
	name, rest, ok := bytes.Cut(message, []byte{0})
	if !ok || len(rest) < 4 {
		return "", malformed("invalid SASL initial response")
	}
	if bad := exchange.choose(string(name)); bad != nil {
		return "", bad
	}
	size, data := int32(binary.BigEndian.Uint32(rest)), rest[4:]
	switch {
	case size == int32(len(data)):
		return string(data), nil
	case size != -1 || len(data) > 0:
		return "", malformed("invalid message format")
	}
	c.out.message(&pgproto3.AuthenticationSASLContinue{})
	message, err = c.saslMessage()
	return string(message), err
}

// saslMessage sends what is queued and reads the body of the client's answer.
func (c *conn) saslMessage() ([]byte, error) {
	if err := c.out.flush(); err != nil {
		return nil, err
	}
	kind, err := c.in.kind()
	if err != nil {
		return nil, err
	}
	if kind != 'p' {
		return nil, malformed(fmt.Sprintf("expected SASL response, got message type %d", kind))
	}
	n, err := c.in.length()
	if err != nil {
		return nil, err
	}
	if n > maxSASL {
		return nil, malformed("SASL response is too long")
	}
	frame, err := c.in.take(n)
	if err != nil {
		return nil, err
	}
	return frame[frameHeader:], nil
}
