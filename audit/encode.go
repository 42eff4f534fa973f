package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// The encoder is written by hand because every request passes it twice, and because the layout of a line is part of
// the format.

const (
	maxStatement = 64 << 10 // bytes of a statement that are kept
	maxEntry     = 8 << 20  // bytes of one line
)

var errEntry = errors.New("audit: the entry cannot be encoded")

// encodeRecord appends the body of an intent or request entry: the members between seq and prev.
func encodeRecord(b []byte, typ Type, rec *Record, out *Outcome) ([]byte, error) {
	b, err := appendStart(b, rec.Time, typ, rec.ID)
	if err != nil {
		return nil, err
	}
	b = appendWho(b, rec)
	if rec.Judgement != nil {
		judged, err := rec.Judgement.encode()
		if err != nil {
			return nil, err
		}
		b = append(b, judged...)
	}
	if out != nil {
		b = appendOutcome(b, out)
	}
	return b, nil
}

func encodeOutcome(b []byte, out *Outcome) ([]byte, error) {
	b, err := appendStart(b, out.Time, TypeOutcome, out.ID)
	if err != nil {
		return nil, err
	}
	return appendOutcome(b, out), nil
}

func encodeEvent(b []byte, rec *Record, ev *Event) ([]byte, error) {
	b, err := encodeRecord(b, TypeEvent, rec, nil)
	if err != nil {
		return nil, err
	}
	b = append(b, `,"event":{"name":`...)
	b = appendQuoted(b, ev.Name)
	if len(ev.Attributes) > 0 {
		b = append(b, `,"attributes":`...)
		sep := byte('{')
		for _, k := range sortedKeys(ev.Attributes) {
			b = append(b, sep)
			b = append(appendQuoted(b, k), ':')
			b = appendQuoted(b, ev.Attributes[k])
			sep = ','
		}
		b = append(b, '}')
	}
	return append(b, '}'), nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func appendStart(b []byte, t time.Time, typ Type, id string) ([]byte, error) {
	if !validID(id) {
		return nil, fmt.Errorf("%w: bad id %q", errEntry, id)
	}
	b = append(b, `"time":"`...)
	b = t.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","type":"`...)
	b = append(b, typ...)
	b = append(b, `","id":"`...)
	b = append(b, id...)
	return append(b, '"'), nil
}

// validID reports if id can stand in a line without escapes.
func validID(id string) bool {
	for i := range len(id) {
		c := id[i]
		if !('0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || c == '-' || c == '_') {
			return false
		}
	}
	return len(id) > 0 && len(id) <= 64
}

func appendWho(b []byte, rec *Record) []byte {
	b = appendString(b, "identity", rec.Identity)
	b = appendString(b, "key", rec.KeyID)
	b = appendString(b, "door", rec.Door)
	b = appendString(b, "client", rec.ClientAddr)
	b = appendString(b, "application", rec.Application)
	b = appendString(b, "session", rec.Session)
	b = appendString(b, "source", rec.Source)
	b = appendString(b, "trace", rec.Trace)
	return appendString(b, "sealed", rec.Sealed)
}

// encode returns the members of a judgement, each with a comma before it.
func (j *Judgement) encode() ([]byte, error) {
	if p := j.encoded.Load(); p != nil {
		return *p, nil
	}
	text, whole := cutStatement(j.Statement, j.StatementBytes)
	b := appendInt(nil, "ruleset", j.Ruleset)
	b = appendString(b, "ruleset_digest", j.RulesetDigest)
	b = appendString(b, "catalog", j.Catalog)
	b = appendString(b, "statement", text)
	b = appendInt(b, "statement_bytes", int64(whole))
	b = appendString(b, "fingerprint", j.Fingerprint)
	b = appendStrings(b, "kinds", j.Kinds)
	b = appendStrings(b, "reads", j.Reads)
	b = appendStrings(b, "writes", j.Writes)
	b = appendStrings(b, "functions", j.Functions)
	b = appendStrings(b, "labels", j.Labels)
	b = appendStrings(b, "channels", j.Channels)
	b = appendString(b, "verdict", j.Verdict)
	b, err := appendRaw(b, "reasons", j.Reasons)
	if err != nil {
		return nil, err
	}
	if j.Write {
		b = append(b, `,"write":true`...)
	}
	j.encoded.Store(&b)
	return b, nil
}

func cutStatement(s string, whole int) (string, int) {
	if len(s) <= maxStatement {
		return s, whole
	}
	end := maxStatement
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end], max(whole, len(s))
}

func appendOutcome(b []byte, out *Outcome) []byte {
	b = append(b, `,"outcome":{"status":`...)
	b = appendQuoted(b, string(out.Status))
	b = appendString(b, "sqlstate", out.SQLState)
	b = appendInt(b, "rows", out.Rows)
	b = appendInt(b, "bytes", out.Bytes)
	b = appendInt(b, "duration_ns", int64(out.Duration))
	b = appendString(b, "cache", out.Cache)
	if r := out.Refusal; r != nil {
		b = append(b, `,"refusal":{"kind":`...)
		b = appendQuoted(b, r.Kind)
		b = appendString(b, "message", r.Message)
		b = appendString(b, "detail", r.Detail)
		b = appendString(b, "hint", r.Hint)
		b = append(b, '}')
	}
	return append(appendFound(appendMasks(b, out.Masks), out.Found), '}')
}

func appendFound(b []byte, found []Found) []byte {
	for i, f := range found {
		if i == 0 {
			b = append(b, `,"found":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendQuoted(append(b, `{"kind":`...), f.Kind)
		b = append(appendInt(b, "values", f.Values), '}')
		if i == len(found)-1 {
			b = append(b, ']')
		}
	}
	return b
}

func appendMasks(b []byte, masks []Masked) []byte {
	for i, m := range masks {
		if i == 0 {
			b = append(b, `,"masks":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendQuoted(append(b, `{"mask":`...), m.Mask)
		b = appendStrings(b, "columns", m.Columns)
		b = append(appendInt(b, "values", m.Values), '}')
		if i == len(masks)-1 {
			b = append(b, ']')
		}
	}
	return b
}

// appendName appends ,"name": where name needs no escape.
func appendName(b []byte, name string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// appendString appends a member unless it is empty; so do its kin.
func appendString(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendQuoted(appendName(b, name), value)
}

func appendInt(b []byte, name string, value int64) []byte {
	if value == 0 {
		return b
	}
	return strconv.AppendInt(appendName(b, name), value, 10)
}

func appendStrings(b []byte, name string, values []string) []byte {
	if len(values) == 0 {
		return b
	}
	b = append(appendName(b, name), '[')
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQuoted(b, v)
	}
	return append(b, ']')
}

func appendRaw(b []byte, name string, value json.RawMessage) ([]byte, error) {
	if len(value) == 0 {
		return b, nil
	}
	var line bytes.Buffer // compact: a line break inside would break the format
	if err := json.Compact(&line, value); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errEntry, name, err)
	}
	return append(appendName(b, name), line.Bytes()...), nil
}

// appendQuoted appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendQuoted(b []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf && c != 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if c >= utf8.RuneSelf && !(r == utf8.RuneError && n == 1) {
			i += n
			continue
		}
		b = append(b, s[start:i]...)
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < utf8.RuneSelf:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, `\ufffd`...)
		}
		i += n
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}
