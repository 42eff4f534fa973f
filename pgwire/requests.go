package pgwire

import (
	"context"
	"fmt"

	"interlock/sqlgov"
)

// readMessages hands the client's messages to the session, one by one, until there are no more. The error says why; it
// is a *sqlgov.Refusal if the client has to be told.
func (c *conn) readMessages(ctx context.Context) error {
	for {
		kind, err := c.in.kind()
		if err != nil {
			return err
		}
		most := c.mostBytes(kind)
		if most == 0 {
			return malformed(fmt.Sprintf("invalid frontend message type %d", kind))
		}
		n, err := c.in.length()
		if err != nil {
			return err
		}
		switch {
		case kind == 'X':
			return errTerminated
		case copies(kind):
			err = c.copyMessage(n, most+frameHeader)
		case n > most+frameHeader:
			err = c.skipLarge(ctx, kind, n)
		default:
			err = c.request(ctx, n)
		}
		if err != nil {
			return err
		}
	}
}

// mostBytes is the limit for the body of a message, 0 for a message that no client sends at this point.
func (c *conn) mostBytes(kind byte) int {
	switch kind {
	case 'Q', 'P', 'B', 'F', 'd':
		return c.srv.limits.MessageBytes
	case 'C', 'D', 'E', 'H', 'S', 'X', 'c', 'f':
		return smallMessage
	}
	return 0
}

// copies holds for the messages of a COPY from the client.
func copies(kind byte) bool { return kind == 'd' || kind == 'c' || kind == 'f' }

// copyMessage hands on a message of a COPY that was allowed and is under way. Outside of one it goes nowhere: a client may send
// its data before it has seen that the COPY failed, and PostgreSQL ignores that.
func (c *conn) copyMessage(n, most int) error {
	switch taking, err := c.session.TakesCopy(); {
	case err != nil:
		return lost(err)
	case !taking:
		return c.in.discard(n)
	case n > most:
		if err := c.in.discard(n); err != nil {
			return err
		}
		return lost(c.session.FailCopy(fmt.Sprintf("message of %d bytes is too large for this gateway, whose limit is %d", n-frameHeader, most-frameHeader)))
	}
	frame, err := c.in.take(n)
	if err != nil {
		return err
	}
	return lost(c.session.CopyMessage(frame))
}

// skipLarge refuses a message that is over its limit without ever holding it. The connection lives on. A small message that claims to be large
// is a sign of a lost place in the stream.
func (c *conn) skipLarge(ctx context.Context, kind byte, n int) error {
	if c.mostBytes(kind) == smallMessage {
		return errLength
	}
	if err := c.in.discard(n); err != nil {
		return err
	}
	return c.reject(ctx, kind, &sqlgov.Refusal{Kind: sqlgov.RequestTooLarge, SQLState: "54000",
		Message: "message is too large",
		Detail:  fmt.Sprintf("It has %d bytes; the limit of this gateway is %d.", n-frameHeader, c.srv.limits.MessageBytes)})
}

// reject answers a message with an error, in its place among the replies.
func (c *conn) reject(ctx context.Context, kind byte, r *sqlgov.Refusal) error {
	return lost(c.session.Reject(ctx, kind == 'Q' || kind == 'F', r))
}

// lost marks an error of the session, as opposed to one of the client's connection.
func lost(err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return nil
}

// request takes a message of n bytes from the client and hands it to the session.
func (c *conn) request(ctx context.Context, n int) error {
	frame, err := c.in.take(n)
	if err != nil {
		return err
	}
	c.noteSegment(frame[0])
	bad, err := c.dispatch(ctx, frame)
	if bad != nil {
		return c.reject(ctx, frame[0], bad)
	}
	return lost(err)
}

// noteSegment tells whether what the client has asked so far ends with a message that is answered by ReadyForQuery.
func (c *conn) noteSegment(kind byte) {
	switch kind {
	case 'Q', 'F', 'S':
		c.openSegment = false
	case 'P', 'B', 'D', 'E', 'C':
		c.openSegment = true
	}
}

// dispatch decodes what the core has to know of a message. A message that is not well-formed is bad. Sync goes to the server as it came:
// only the server ends the skipping of messages, and it answers one that is malformed.
func (c *conn) dispatch(ctx context.Context, frame []byte) (bad *sqlgov.Refusal, err error) {
	switch frame[0] {
	case 'Q':
		sql, bad := decodeQuery(frame)
		return unlessBad(bad, func() error { return c.session.Query(ctx, sql, frame) })
	case 'P':
		p, bad := decodeParse(frame)
		return unlessBad(bad, func() error { return c.session.Parse(ctx, p, frame) })
	case 'B':
		portal, statement, bad := decodeBind(frame)
		return unlessBad(bad, func() error { return c.session.Bind(ctx, portal, statement, frame) })
	case 'D':
		object, name, bad := decodeObject(frame, "DESCRIBE")
		return unlessBad(bad, func() error { return c.session.Describe(ctx, object, name, frame) })
	case 'E':
		portal, maxRows, bad := decodeExecute(frame)
		return unlessBad(bad, func() error { return c.session.Execute(ctx, portal, maxRows, frame) })
	case 'C':
		object, name, bad := decodeObject(frame, "CLOSE")
		return unlessBad(bad, func() error { return c.session.CloseObject(ctx, object, name, frame) })
	case 'H':
		return unlessBad(decodeNothing(frame), func() error { return c.session.FlushRequest(frame) })
	case 'F':
		function, bad := decodeFunctionCall(frame)
		return unlessBad(bad, func() error { return c.session.FunctionCall(ctx, function, frame) })
	}
	return nil, c.session.Sync(frame) // 'S': mostBytes knows no other
}

func unlessBad(bad *sqlgov.Refusal, call func() error) (*sqlgov.Refusal, error) {
	if bad != nil {
		return bad, nil
	}
	return nil, call()
}
