package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// Brief is what an index needs of an entry. What is the same in many entries stays as it is written, so that it can be
// looked up without being decoded. Its slices are good until the next Read, and no longer than the text of the entry.
type Brief struct {
	// Who is the members that say who asked: identity, key, door, client, application, session and source. Judgement is those
	// of the judgement. Each has a comma before it; DecodeWho and DecodeJudgement read them. They are empty if there are none.
	Who, Judgement []byte
	Trace          []byte // without its quotes
	// Of an outcome:
	Status   Status
	SQLState string
	Refusal  string // kind
	Rows     int64
	Nanos    int64
	// Event is the name of an event.
	Event string
}

var errMember = errors.New("audit: not a member of an entry")

// Read takes an entry apart. After an error b holds nothing of use.
func (b *Brief) Read(e *Entry) error {
	was := *b
	*b = Brief{}
	for rest := e.members; len(rest) > 0; {
		name, value, size, err := nextMember(rest)
		if err != nil {
			return err
		}
		if e.Type == TypeIntent && string(name) == "ruleset" { // the judgement is all that is left of an intent
			b.Judgement = join(b.Judgement, rest)
			return nil
		}
		if err := b.take(&was, name, value, rest[:size]); err != nil {
			return err
		}
		rest = rest[size:]
	}
	return nil
}

func (b *Brief) take(was *Brief, name, value, whole []byte) error {
	switch string(name) {
	case "sealed":
	case "identity", "key", "door", "client", "application", "session", "source":
		b.Who = join(b.Who, whole)
	case "trace":
		b.Trace = bytes.Trim(value, `"`)
	case "outcome":
		return b.takeOutcome(was, value)
	case "event":
		return b.takeEvent(value)
	default:
		b.Judgement = join(b.Judgement, whole)
	}
	return nil
}

// join returns members with another one behind them. It copies only if that does not follow them in the text.
func join(members, next []byte) []byte {
	n := len(members)
	if n == 0 {
		return next
	}
	if n < cap(members) && &members[:n+1][n] == &next[0] {
		return members[:n+len(next)]
	}
	return append(members[:n:n], next...)
}

// unquote reads a JSON string. Where it is equal to the one before, it is that one, which costs no memory.
func unquote[S ~string](to *S, was S, value []byte) error {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return json.Unmarshal(value, to)
	}
	inner := value[1 : len(value)-1]
	if *to = was; string(inner) != string(was) {
		*to = S(inner)
	}
	return nil
}

// takeOutcome reads {"status":...}; every member of it but the refusal is small.
func (b *Brief) takeOutcome(was *Brief, value []byte) error {
	if len(value) < 2 || value[0] != '{' {
		return errMember
	}
	for rest := value[1 : len(value)-1]; len(rest) > 0; {
		name, v, size, err := firstMember(rest)
		if err != nil {
			return err
		}
		switch string(name) {
		case "status":
			err = unquote(&b.Status, was.Status, v)
		case "sqlstate":
			err = unquote(&b.SQLState, was.SQLState, v)
		case "rows":
			b.Rows, err = strconv.ParseInt(string(v), 10, 64)
		case "duration_ns":
			b.Nanos, err = strconv.ParseInt(string(v), 10, 64)
		case "refusal":
			err = b.takeRefusal(was, v)
		}
		if err != nil {
			return err
		}
		if rest = rest[size:]; len(rest) > 0 {
			if rest[0] != ',' {
				return errMember
			}
			rest = rest[1:]
		}
	}
	return nil
}

// takeRefusal reads the kind, which is written first.
func (b *Brief) takeRefusal(was *Brief, value []byte) error {
	if name, v, _, err := firstMember(bytes.TrimPrefix(value, []byte{'{'})); err == nil && string(name) == "kind" {
		return unquote(&b.Refusal, was.Refusal, v)
	}
	var r Refusal
	err := json.Unmarshal(value, &r)
	b.Refusal = r.Kind
	return err
}

func (b *Brief) takeEvent(value []byte) error {
	var e Event
	err := json.Unmarshal(value, &e)
	b.Event = e.Name
	return err
}

// nextMember takes ,"name":value from the beginning of text, and returns the length of all of it.
func nextMember(text []byte) (name, value []byte, size int, err error) {
	if len(text) == 0 || text[0] != ',' {
		return nil, nil, 0, errMember
	}
	name, value, size, err = firstMember(text[1:])
	return name, value, size + 1, err
}

// firstMember takes "name":value from the beginning of text, and returns the length of all of it.
func firstMember(text []byte) (name, value []byte, size int, err error) {
	if len(text) < 4 || text[0] != '"' {
		return nil, nil, 0, errMember
	}
	end := bytes.IndexByte(text[1:], '"') + 1
	if end < 1 || len(text) < end+3 || text[end+1] != ':' {
		return nil, nil, 0, errMember
	}
	from := end + 2
	n := valueSize(text[from:])
	if n <= 0 {
		return nil, nil, 0, errMember
	}
	return text[1:end], text[from : from+n], from + n, nil
}

// valueSize returns the length of the JSON value at the beginning of text; 0 if it is cut off.
func valueSize(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			n := stringSize(text[i:])
			if n == 0 || depth == 0 {
				return n
			}
			i += n - 1
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if depth <= 0 {
				return i + depth + 1
			}
		case c == ',' && depth == 0:
			return i
		}
	}
	if depth > 0 {
		return 0
	}
	return len(text)
}

// stringSize returns the length of the JSON string at the beginning of text; 0 if it is cut off.
func stringSize(text []byte) int {
	for i := 1; i < len(text); {
		n := bytes.IndexByte(text[i:], '"')
		if n < 0 {
			return 0
		}
		i += n + 1
		slashes := 0
		for text[i-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return 0
}

// DecodeWho reads the members that say who asked.
func DecodeWho(members []byte) (*Record, error) {
	var r Record
	for len(members) > 0 {
		name, value, size, err := nextMember(members)
		if err != nil {
			return nil, err
		}
		field := r.whoField(string(name))
		if field == nil {
			return nil, errMember
		}
		if err := unquote(field, "", value); err != nil {
			return nil, err
		}
		members = members[size:]
	}
	return &r, nil
}

func (r *Record) whoField(name string) *string {
	switch name {
	case "identity":
		return &r.Identity
	case "key":
		return &r.KeyID
	case "door":
		return &r.Door
	case "client":
		return &r.ClientAddr
	case "application":
		return &r.Application
	case "session":
		return &r.Session
	case "source":
		return &r.Source
	}
	return nil
}

// DecodeJudgement reads the members of a judgement.
func DecodeJudgement(members []byte) (*Judgement, error) {
	if len(members) == 0 {
		return &Judgement{}, nil
	}
	text := append(append([]byte{'{'}, members[1:]...), '}')
	var j Judgement
	if err := json.Unmarshal(text, &j); err != nil {
		return nil, err
	}
	return &j, nil
}

// Names returns what a judgement touches, as Filter has it: tables by "schema.table" and "table", columns by
// "schema.table.column" and every end of that from a dot on.
func (j *Judgement) Names() (tables, columns []string) {
	seen := map[string]bool{}
	add := func(to *[]string, kind, name string) {
		if !seen[kind+name] {
			seen[kind+name] = true
			*to = append(*to, name)
		}
	}
	take := func(name string) {
		parts := splitName(name)
		for i := range min(len(parts), 2) {
			add(&tables, "t", strings.Join(parts[i:min(len(parts), 2)], "."))
		}
		for i := range parts {
			if len(parts) > 2 {
				add(&columns, "c", strings.Join(parts[i:], "."))
			}
		}
	}
	for _, r := range j.Reads {
		take(r)
	}
	for _, w := range j.Writes {
		if _, name, ok := strings.Cut(w, " "); ok {
			take(name)
		}
	}
	return tables, columns
}
