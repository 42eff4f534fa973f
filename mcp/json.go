package mcp

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Bounds of a JSON text. Messages are a few dozen values; the large part, SQL, is one string.
const (
	maxDepth  = 64
	maxValues = 10_000
)

// shape is the type of a JSON value.
type shape byte

const (
	absent shape = iota
	null
	boolean
	number
	text
	array
	object
)

// value is a JSON value together with the text that it was read from, so that nothing is lost by reading it.
type value struct {
	shape   shape
	raw     []byte   // as sent
	str     string   // of a text: its characters
	members []member // of an object, in the order sent
	items   []value  // of an array
}

type member struct {
	name  string
	value value
}

// get returns the member of an object with exactly this name; absent if there is none.
func (v value) get(name string) value {
	for _, m := range v.members {
		if m.name == name {
			return m.value
		}
	}
	return value{}
}

// jsonError says why a text was not read.
type jsonError struct {
	malformed bool // not JSON at all, as opposed to JSON that we refuse
	message   string
}

func (e *jsonError) Error() string { return e.message }

// reader reads one JSON text (RFC 8259), more strictly than the RFC demands: whatever two readers could understand
// differently is a flaw.
type reader struct {
	data   []byte
	pos    int
	values int
	flaw   string // the first flaw; reading goes on, so that an answer can carry the request's id
}

// readJSON reads a whole text. A flaw is JSON that must be refused: a member name that occurs twice in an object, the
// same but for case included, or a string that no database can hold.
func readJSON(data []byte) (v value, flaw string, err *jsonError) {
	if !utf8.Valid(data) {
		return value{}, "", &jsonError{malformed: true, message: "the body is not valid UTF-8"}
	}
	r := reader{data: data}
	v, err = r.value(0)
	if err != nil {
		return value{}, "", err
	}
	r.space()
	if r.pos != len(data) {
		return value{}, "", r.malformed("data after the end of the JSON text")
	}
	return v, r.flaw, nil
}

func (r *reader) malformed(message string) *jsonError {
	return &jsonError{malformed: true, message: fmt.Sprintf("%s at byte %d", message, r.pos)}
}

func (r *reader) note(flaw string) {
	if r.flaw == "" {
		r.flaw = flaw
	}
}

func (r *reader) space() {
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// take consumes c if it is next, after white space.
func (r *reader) take(c byte) bool {
	r.space()
	if r.pos < len(r.data) && r.data[r.pos] == c {
		r.pos++
		return true
	}
	return false
}

func (r *reader) value(depth int) (value, *jsonError) {
	if depth > maxDepth {
		return value{}, &jsonError{message: fmt.Sprintf("JSON nested deeper than %d levels", maxDepth)}
	}
	if r.values++; r.values > maxValues {
		return value{}, &jsonError{message: fmt.Sprintf("more than %d JSON values in one message", maxValues)}
	}
	r.space()
	if r.pos == len(r.data) {
		return value{}, r.malformed("unexpected end of JSON")
	}
	start := r.pos
	var v value
	var err *jsonError
	switch c := r.data[r.pos]; {
	case c == '{':
		v, err = r.object(depth)
	case c == '[':
		v, err = r.array(depth)
	case c == '"':
		v.shape = text
		v.str, err = r.string()
	case c == '-' || c >= '0' && c <= '9':
		v.shape = number
		err = r.number()
	default:
		v.shape, err = r.literal()
	}
	v.raw = r.data[start:r.pos]
	return v, err
}

func (r *reader) literal() (shape, *jsonError) {
	for _, l := range []struct {
		word  string
		shape shape
	}{{"null", null}, {"true", boolean}, {"false", boolean}} {
		if strings.HasPrefix(string(r.data[r.pos:min(len(r.data), r.pos+5)]), l.word) {
			r.pos += len(l.word)
			return l.shape, nil
		}
	}
	return absent, r.malformed("not a JSON value")
}

func (r *reader) number() *jsonError {
	n := numberLength(r.data[r.pos:])
	if n == 0 {
		return r.malformed("not a JSON number")
	}
	r.pos += n
	return nil
}

// numberLength is the length of the JSON number at the start of b; 0 if there is none.
func numberLength(b []byte) int {
	digits := func(i int) int {
		for i < len(b) && b[i] >= '0' && b[i] <= '9' {
			i++
		}
		return i
	}
	i := 0
	if i < len(b) && b[i] == '-' {
		i++
	}
	end := digits(i)
	if end == i || b[i] == '0' && end > i+1 {
		return 0
	}
	if end < len(b) && b[end] == '.' {
		i, end = end+1, digits(end+1)
		if end == i {
			return 0
		}
	}
	if end < len(b) && (b[end] == 'e' || b[end] == 'E') {
		i = end + 1
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if end = digits(i); end == i {
			return 0
		}
	}
	return end
}

func (r *reader) array(depth int) (value, *jsonError) {
	v := value{shape: array}
	r.pos++
	if r.take(']') {
		return v, nil
	}
	for {
		item, err := r.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.items = append(v.items, item)
		if r.take(']') {
			return v, nil
		}
		if !r.take(',') {
			return v, r.malformed("expected , or ] in an array")
		}
	}
}

func (r *reader) object(depth int) (value, *jsonError) {
	v := value{shape: object}
	r.pos++
	if r.take('}') {
		return v, nil
	}
	seen := make(map[string]struct{})
	for {
		m, err := r.member(depth)
		if err != nil {
			return v, err
		}
		key := fold(m.name)
		if _, twice := seen[key]; twice {
			r.note(fmt.Sprintf("member %q occurs more than once in an object (names that differ only by case count as the same)", m.name))
		}
		seen[key] = struct{}{}
		v.members = append(v.members, m)
		if r.take('}') {
			return v, nil
		}
		if !r.take(',') {
			return v, r.malformed("expected , or } in an object")
		}
	}
}

func (r *reader) member(depth int) (member, *jsonError) {
	r.space()
	if r.pos == len(r.data) || r.data[r.pos] != '"' {
		return member{}, r.malformed("expected a member name")
	}
	name, err := r.string()
	if err != nil {
		return member{}, err
	}
	if !r.take(':') {
		return member{}, r.malformed("expected : after a member name")
	}
	v, err := r.value(depth + 1)
	return member{name: name, value: v}, err
}

// string reads a string whose opening quote is next.
func (r *reader) string() (string, *jsonError) {
	r.pos++
	start := r.pos
	for ; r.pos < len(r.data); r.pos++ {
		switch c := r.data[r.pos]; {
		case c == '"':
			s := string(r.data[start:r.pos])
			r.pos++
			return s, nil
		case c == '\\':
			return r.escapedString(start)
		case c < ' ':
			return "", r.malformed("control character in a string")
		}
	}
	return "", r.malformed("unexpected end of a string")
}

// escapedString reads on from the first backslash of a string that began at start.
func (r *reader) escapedString(start int) (string, *jsonError) {
	buf := append(make([]byte, 0, 2*(r.pos-start)+16), r.data[start:r.pos]...)
	for r.pos < len(r.data) {
		c := r.data[r.pos]
		r.pos++
		switch {
		case c == '"':
			return string(buf), nil
		case c < ' ':
			return "", r.malformed("control character in a string")
		case c != '\\':
			buf = append(buf, c)
		default:
			char, err := r.escape()
			if err != nil {
				return "", err
			}
			buf = utf8.AppendRune(buf, char)
		}
	}
	return "", r.malformed("unexpected end of a string")
}

// escape reads what follows a backslash.
func (r *reader) escape() (rune, *jsonError) {
	if r.pos == len(r.data) {
		return 0, r.malformed("unexpected end of a string")
	}
	c := r.data[r.pos]
	r.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return r.unicodeEscape()
	}
	return 0, r.malformed("unknown escape in a string")
}

func (r *reader) unicodeEscape() (rune, *jsonError) {
	high, ok := r.hex()
	if !ok {
		return 0, r.malformed("unfinished \\u escape")
	}
	if high == 0 {
		r.note("a string holds the character U+0000, which PostgreSQL cannot store")
	}
	if !utf16.IsSurrogate(high) {
		return high, nil
	}
	if strings.HasPrefix(string(r.data[r.pos:min(len(r.data), r.pos+2)]), `\u`) {
		mark := r.pos
		r.pos += 2
		if low, ok := r.hex(); ok {
			if pair := utf16.DecodeRune(high, low); pair != utf8.RuneError {
				return pair, nil
			}
		}
		r.pos = mark
	}
	r.note("a string holds half of a surrogate pair")
	return utf8.RuneError, nil
}

// hex reads four hexadecimal digits.
func (r *reader) hex() (rune, bool) {
	if len(r.data)-r.pos < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(r.data[r.pos:r.pos+4]), 16, 32)
	if err != nil {
		return 0, false
	}
	r.pos += 4
	return rune(n), true
}

// fold maps names that encoding/json and its kin would take for the same field to one name.
func fold(name string) string { return strings.Map(foldRune, name) }

func foldRune(r rune) rune {
	if r < utf8.RuneSelf {
		if r >= 'a' && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}
