package redact

import (
	"bytes"
	"encoding/json"
)

// Content is a kind of personal or secret data that is found in free text by its form.
type Content string

// The kinds of content. Numbers with check digits are found only if those are right.
const (
	EmailAddress   Content = "email"
	PhoneNumber    Content = "phone"
	SocialSecurity Content = "ssn"
	NationalNumber Content = "national" // of Brazil (CPF), France (NIR) and Spain (DNI, NIE)
	BankAccount    Content = "iban"
	CardNumber     Content = "card"
	IPAddress      Content = "ip"
	WebToken       Content = "jwt"
	PrivateKey     Content = "private_key"
	APIToken       Content = "api_token"
)

// Contents lists every kind of content, in the order in which documentation shows them.
var Contents = [...]Content{EmailAddress, PhoneNumber, SocialSecurity, NationalNumber, BankAccount, CardNumber, IPAddress, WebToken, PrivateKey, APIToken}

// Found counts what was found, by the place of its kind in Contents.
type Found [len(Contents)]int64

// finding finds content in the values of one column and puts its name in its place, unless it only reports.
type finding struct {
	kinds  [len(Contents)]bool
	report bool
	typ    compiler
}

// Detector returns a masker that puts "[email]" in the place of an e-mail address, and likewise for the other kinds, or that
// only counts them. It is nil for types that hold no free text. What a type that is made of others holds is hidden in binary
// format.
func Detector(kinds []Content, report bool, t Type, f Format) *Masker {
	d := &finding{report: report, typ: compiler{&Spec{}, t, f, nil}}
	for i, c := range Contents {
		for _, k := range kinds {
			d.kinds[i] = d.kinds[i] || k == c
		}
	}
	inner := t
	for inner.Element != nil {
		inner = *inner.Element
	}
	switch {
	case inner.OID == oidJSON, inner.OID == oidJSONB, inner.isText(), inner.OID == oidXML, inner.OID == oidUnknown:
		return &Masker{find: d}
	case plainTypes[inner.OID] || inner.Plain:
		return nil
	case f == TextFormat:
		return &Masker{find: d}
	case report:
		return nil
	}
	return Hidden
}

const (
	oidXML     = 142
	oidUnknown = 705
)

// plainTypes are built-in types whose values have no room for text.
var plainTypes = func() map[uint32]bool {
	all := map[uint32]bool{}
	for _, oid := range []uint32{oidBool, oidBytea, 18, oidInt8, oidInt2, oidInt4, 24, 26, 27, 28, 29, 600, 601, 602, 603, 604, 628, 650, oidFloat4, oidFloat8, 718, 774, 790, 829, 869,
		oidDate, 1083, oidTimestamp, oidTimestampTZ, 1186, 1266, 1560, 1562, oidNumeric, oidUUID, 3220, 3904, 3906, 3908, 3910, 3912, 3926, 4451, 4532, 4533, 4534, 4535, 4536, 5069} {
		all[oid] = true
	}
	return all
}()

func (d *finding) append(dst, value []byte, found *Found) ([]byte, error) {
	if d.typ.typ.Element == nil {
		return d.one(dst, value, found)
	}
	apply, before := textArray, *found
	if d.typ.format == BinaryFormat {
		apply = binaryArray
	}
	inner := *d
	for inner.typ.typ.Element != nil {
		inner.typ.typ = *inner.typ.typ.Element
	}
	start := len(dst)
	dst, err := apply(func(dst, element []byte) ([]byte, error) { return inner.one(dst, element, found) })(dst, value)
	if err == nil && (*found == before || d.report) { // as it was written
		return append(dst[:start], value...), nil
	}
	return dst, err
}

func (d *finding) one(dst, value []byte, found *Found) ([]byte, error) {
	switch d.typ.typ.OID {
	case oidJSON:
		return d.document(dst, value, found)
	case oidJSONB:
		if d.typ.format == TextFormat {
			return d.document(dst, value, found)
		}
		if len(value) < 1 || value[0] != jsonbVersion {
			return dst, errUnreadable
		}
		return d.document(append(dst, jsonbVersion), value[1:], found)
	}
	start, before := len(dst), *found
	dst = d.text(dst, value, found)
	if *found != before && !d.report && d.typ.typ.isText() {
		dst = d.typ.fit(dst, start)
	}
	return dst, nil
}

// text copies a text with the names of what is found in the place of it.
func (d *finding) text(dst, text []byte, found *Found) []byte {
	shown := 0
	for at := 0; ; {
		start, end, kind := d.next(text, at)
		if kind < 0 {
			return append(dst, text[shown:]...)
		}
		found[kind]++
		if !d.report {
			dst = append(dst, text[shown:start]...)
			dst = append(append(append(dst, '['), Contents[kind]...), ']')
			shown = end
		}
		at = end
	}
}

// document copies a JSON document; what is found in strings, names of members among them, and in numbers is replaced so that
// it stays one.
func (d *finding) document(dst, src []byte, found *Found) ([]byte, error) {
	if !json.Valid(src) {
		return dst, errUnreadable
	}
	w := documentWalk{src: src}
	for w.at < len(src) {
		start := w.at
		switch c := src[start]; {
		case c == '"':
			w.skipString()
			var err error
			if dst, err = d.quoted(dst, src[start:w.at], found); err != nil {
				return dst, err
			}
		case c == '-' || c >= '0' && c <= '9':
			w.skipWord()
			before := *found
			at := len(dst)
			if dst = d.text(dst, src[start:w.at], found); *found != before && !d.report {
				dst = append(dst, '"')
				copy(dst[at+1:], dst[at:])
				dst[at] = '"'
				dst = append(dst, '"')
			}
		default:
			w.at++
			dst = append(dst, c)
		}
	}
	return dst, nil
}

// quoted copies a string of a document. One with escapes is looked at as what it stands for.
func (d *finding) quoted(dst, quoted []byte, found *Found) ([]byte, error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		dst = append(dst, '"')
		return append(d.text(dst, quoted[1:len(quoted)-1], found), '"'), nil
	}
	var plain string
	if err := json.Unmarshal(quoted, &plain); err != nil {
		return dst, errUnreadable
	}
	before := *found
	masked := d.text(nil, []byte(plain), found)
	if *found == before || d.report {
		return append(dst, quoted...), nil
	}
	again, err := json.Marshal(string(masked))
	if err != nil {
		return dst, errUnreadable
	}
	return append(dst, again...), nil
}
