package pgwire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"interlock/sqlgov"
)

// body reads the fields of a client's message, as strictly as PostgreSQL does, so that no message means one thing here
// and another there. The first failure sticks; what is read after it is zero.
type body struct {
	rest []byte
	err  *sqlgov.Refusal
}

func malformed(message string) *sqlgov.Refusal {
	return &sqlgov.Refusal{Kind: sqlgov.InvalidInput, SQLState: "08P01", Message: message}
}

func (b *body) fail(r *sqlgov.Refusal) {
	if b.err == nil {
		b.err, b.rest = r, nil
	}
}

// text reads a string that ends with a NUL and is valid UTF-8, the only client encoding.
func (b *body) text() string {
	i := bytes.IndexByte(b.rest, 0)
	if i < 0 {
		b.fail(malformed("invalid string in message"))
		return ""
	}
	s := string(b.rest[:i])
	if !utf8.ValidString(s) {
		b.fail(badEncoding(s))
		return ""
	}
	b.rest = b.rest[i+1:]
	return s
}

func (b *body) bytes(n int) []byte {
	if len(b.rest) < n {
		b.fail(malformed("insufficient data left in message"))
		return make([]byte, n)
	}
	v := b.rest[:n]
	b.rest = b.rest[n:]
	return v
}

func (b *body) byte() byte {
	if len(b.rest) == 0 {
		b.fail(malformed("no data left in message"))
		return 0
	}
	return b.bytes(1)[0]
}

func (b *body) uint16() uint16 { return binary.BigEndian.Uint16(b.bytes(2)) }
func (b *body) uint32() uint32 { return binary.BigEndian.Uint32(b.bytes(4)) }

// object reads the kind of a Describe or Close: a statement or a portal.
func (b *body) object(message string) byte {
	kind := b.byte()
	if b.err == nil && kind != 'S' && kind != 'P' {
		b.fail(malformed(fmt.Sprintf("invalid %s message subtype %d", message, kind)))
	}
	return kind
}

// end demands that nothing is left over.
func (b *body) end() *sqlgov.Refusal {
	if b.err == nil && len(b.rest) > 0 {
		b.fail(malformed("invalid message format"))
	}
	return b.err
}

func decodeQuery(frame []byte) (sql string, bad *sqlgov.Refusal) {
	b := &body{rest: frame[frameHeader:]}
	sql = b.text()
	return sql, b.end()
}

func decodeParse(frame []byte) (p sqlgov.Parse, bad *sqlgov.Refusal) {
	b := &body{rest: frame[frameHeader:]}
	p.Name, p.SQL = b.text(), b.text()
	for n := b.uint16(); n > 0 && b.err == nil; n-- {
		p.Types = append(p.Types, b.uint32())
	}
	return p, b.end()
}

// decodeBind reads the names of a Bind. Its values are for the server to judge.
func decodeBind(frame []byte) (portal, statement string, bad *sqlgov.Refusal) {
	b := &body{rest: frame[frameHeader:]}
	portal, statement = b.text(), b.text()
	return portal, statement, b.err
}

func decodeObject(frame []byte, message string) (object byte, name string, bad *sqlgov.Refusal) {
	b := &body{rest: frame[frameHeader:]}
	object, name = b.object(message), b.text()
	return object, name, b.end()
}

func decodeExecute(frame []byte) (portal string, maxRows uint32, bad *sqlgov.Refusal) {
	b := &body{rest: frame[frameHeader:]}
	portal, maxRows = b.text(), b.uint32()
	return portal, maxRows, b.end()
}

// decodeFunctionCall reads which function is called. Its arguments are for the server to judge.
func decodeFunctionCall(frame []byte) (function uint32, bad *sqlgov.Refusal) {
	b := &body{rest: frame[frameHeader:]}
	function = b.uint32()
	return function, b.err
}

func decodeNothing(frame []byte) *sqlgov.Refusal {
	b := &body{rest: frame[frameHeader:]}
	return b.end()
}

// badEncoding words the refusal of a text that is not UTF-8 as PostgreSQL does, naming the first bytes at fault.
func badEncoding(s string) *sqlgov.Refusal {
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			break
		}
		s = s[n:]
	}
	var hex strings.Builder
	for i := 0; i < min(sequenceLength(s), len(s)); i++ {
		fmt.Fprintf(&hex, " 0x%02x", s[i])
	}
	return &sqlgov.Refusal{Kind: sqlgov.InvalidInput, SQLState: "22021",
		Message: `invalid byte sequence for encoding "UTF8":` + hex.String()}
}

// sequenceLength is how many bytes the first byte of s announces.
func sequenceLength(s string) int {
	switch {
	case s == "":
		return 0
	case s[0]&0xe0 == 0xc0:
		return 2
	case s[0]&0xf0 == 0xe0:
		return 3
	case s[0]&0xf8 == 0xf0:
		return 4
	}
	return 1
}
