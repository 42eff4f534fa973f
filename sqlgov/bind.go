package sqlgov

import (
	"encoding/hex"
	"unicode/utf8"
)

// bindFrame is a client's Bind message, header included; nil if nothing was bound.
type bindFrame []byte

// parameters returns the parameters of a Bind message (PostgreSQL manual, "Message Formats"), without their types. What
// is not well formed has none: the server refuses it.
func (f bindFrame) parameters() (p BoundParameters, ok bool) {
	r := frameReader{rest: f}
	r.take(5)
	r.text()
	r.text()
	for n := r.int16(); n > 0 && !r.bad; n-- {
		p.Formats = append(p.Formats, int16(r.int16()))
	}
	for n := r.int16(); n > 0 && !r.bad; n-- {
		size := r.int32()
		if size < 0 {
			p.Values = append(p.Values, nil)
			continue
		}
		p.Values = append(p.Values, r.take(size))
	}
	if r.bad {
		return BoundParameters{}, false
	}
	return p, true
}

// decode returns the parameters for people: text as it was sent, hexadecimal digits for the binary format.
func (f bindFrame) decode() []any {
	p, _ := f.parameters()
	return p.Shown()
}

// Shown are the values as JSON shows them to people: text as it was sent, {"hex": ...} for the binary format, or null.
func (p *BoundParameters) Shown() []any {
	var shown []any
	for i, v := range p.Values {
		format := int16(0)
		if len(p.Formats) == 1 {
			format = p.Formats[0]
		} else if i < len(p.Formats) {
			format = p.Formats[i]
		}
		shown = append(shown, parameterValue(v, format))
	}
	return shown
}

func parameterValue(data []byte, format int16) any {
	switch {
	case data == nil:
		return nil
	case format == 0 && utf8.Valid(data):
		return string(data)
	}
	return map[string]string{"hex": hex.EncodeToString(data)}
}

// frameReader reads big-endian values. Past the end everything is zero and bad is set.
type frameReader struct {
	rest []byte
	bad  bool
}

func (r *frameReader) take(n int) []byte {
	if n > len(r.rest) {
		r.bad, r.rest = true, nil
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *frameReader) text() {
	for i, c := range r.rest {
		if c == 0 {
			r.take(i + 1)
			return
		}
	}
	r.bad, r.rest = true, nil
}

func (r *frameReader) int16() int {
	b := r.take(2)
	if b == nil {
		return 0
	}
	return int(b[0])<<8 | int(b[1])
}

func (r *frameReader) int32() int {
	b := r.take(4)
	if b == nil {
		return 0
	}
	return int(int32(uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])))
}
