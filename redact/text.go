package redact

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// isText reports if values of a type are any text, in both formats.
func (t *Type) isText() bool {
	switch t.OID {
	case oidText, oidVarchar, oidBpchar, oidName:
		return true
	}
	return t.Text
}

// text makes a masking of text keep what the type demands of it: its length, and UTF-8.
func (c *compiler) text(mask masking) (masking, error) {
	if !c.typ.isText() {
		return nil, c.misfit()
	}
	return func(dst, value []byte) ([]byte, error) {
		if !utf8.Valid(value) {
			return dst, errUnreadable
		}
		if c.typ.OID == oidBpchar {
			value = bytes.TrimRight(value, " ") // blanks at the end are no part of a char(n)
		}
		start := len(dst)
		dst, err := mask(dst, value)
		return c.fit(dst, start), err
	}, nil
}

// maxName is NAMEDATALEN - 1.
const maxName = 63

// fit cuts what was appended to the length that the type has, and pads a char(n).
func (c *compiler) fit(dst []byte, start int) []byte {
	most := c.typ.Length
	if c.typ.OID == oidName {
		for len(dst)-start > maxName {
			_, size := utf8.DecodeLastRune(dst[start:])
			dst = dst[:len(dst)-size]
		}
	}
	if most <= 0 {
		return dst
	}
	n := utf8.RuneCount(dst[start:])
	for ; n > most; n-- {
		_, size := utf8.DecodeLastRune(dst[start:])
		dst = dst[:len(dst)-size]
	}
	for ; c.typ.OID == oidBpchar && n < most; n++ {
		dst = append(dst, ' ')
	}
	return dst
}

func (c *compiler) partial(dst, value []byte) ([]byte, error) {
	if n := utf8.RuneCount(value); 2*(c.First+c.Last) > n {
		return append(dst, Filler...), nil
	}
	dst = append(dst, value[:runes(value, c.First)]...)
	dst = append(dst, Filler...)
	return append(dst, lastRunes(value, c.Last)...), nil
}

// runes is how many bytes the first n characters have.
func runes(b []byte, n int) int {
	at := 0
	for ; n > 0; n-- {
		_, size := utf8.DecodeRune(b[at:])
		at += size
	}
	return at
}

func lastRunes(b []byte, n int) []byte {
	at := len(b)
	for ; n > 0; n-- {
		_, size := utf8.DecodeLastRune(b[:at])
		at -= size
	}
	return b[at:]
}

func (c *compiler) email(dst, value []byte) ([]byte, error) {
	at := bytes.LastIndexByte(value, '@')
	if at < 1 {
		return append(dst, Filler...), nil
	}
	dst = append(dst, value[:runes(value, 1)]...)
	dst = append(dst, Filler+"@"...)
	if !c.Domain {
		return append(dst, Filler...), nil
	}
	return append(dst, value[at+1:]...), nil
}

// fixed appends one value, which has been brought into the form of the type.
func (c *compiler) fixed() (masking, error) {
	form, err := c.encode(c.Value)
	if err != nil {
		return nil, err
	}
	return func(dst, _ []byte) ([]byte, error) { return append(dst, form...), nil }, nil
}

func (c *compiler) unfit() error {
	return fmt.Errorf("value %q is no value of type %s", c.Value, c.typ.Name)
}

// encode writes a value as the type has it.
func (c *compiler) encode(value string) ([]byte, error) {
	switch {
	case c.typ.isText():
		form := c.fit([]byte(value), 0)
		if !utf8.ValidString(value) || bytes.IndexByte(form, 0) >= 0 || len(bytes.TrimRight(form, " ")) < len(bytes.TrimRight([]byte(value), " ")) {
			return nil, c.unfit()
		}
		return form, nil
	case c.typ.numeric():
		n, ok := parseDecimal(value)
		if !ok {
			return nil, c.unfit()
		}
		form, err := c.putNumber(nil, n)
		if err != nil {
			return nil, c.unfit()
		}
		return form, nil
	}
	return c.encodeOther(value)
}

func (c *compiler) encodeOther(value string) ([]byte, error) {
	var form []byte
	ok := false
	switch c.typ.OID {
	case oidBool:
		form, ok = c.putBool(value)
	case oidUUID:
		var raw [16]byte
		raw, ok = parseUUID([]byte(value))
		form = c.putUUID(nil, raw)
	case oidBytea:
		var raw []byte
		raw, ok = parseBytea([]byte(value))
		form = c.putBytea(nil, raw)
	case oidDate, oidTimestamp, oidTimestampTZ:
		var m moment
		m, ok = c.parseMoment([]byte(value))
		form = c.putMoment(nil, m)
	case oidJSON, oidJSONB:
		form, ok = c.putJSON(value)
	default:
		return nil, c.misfit()
	}
	if !ok {
		return nil, c.unfit()
	}
	return form, nil
}

func (c *compiler) putBool(value string) ([]byte, bool) {
	text, bit := byte('f'), byte(0)
	switch value {
	case "true":
		text, bit = 't', 1
	case "false":
	default:
		return nil, false
	}
	if c.format == BinaryFormat {
		return []byte{bit}, true
	}
	return []byte{text}, true
}
