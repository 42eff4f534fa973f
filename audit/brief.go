package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// Brief is what an index needs of an entry: all of it but the judgement, which is the same for many. One that reads entry
// after entry keeps what they have in common.
type Brief struct {
	Identity, KeyID, Door, Client, Application, Session, Source, Trace string
	// Judgement is the members of the judgement as they are written, each with a comma before it; empty if there is none.
	// DecodeJudgement reads them. It is good until the next Read.
	Judgement []byte
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

// Read takes an entry apart without decoding the judgement. After an error b holds nothing of use.
func (b *Brief) Read(e *Entry) error {
	was := *b
	*b = Brief{Judgement: was.Judgement[:0]}
	from := bytes.Index(e.Text, []byte(`,"id":"`))
	if from < 0 || len(e.Text) < endSize {
		return errMember
	}
	for rest := e.Text[from : len(e.Text)-endSize]; len(rest) > 0; {
		name, value, size, err := nextMember(rest)
		if err != nil {
			return err
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
	case "id", "sealed":
		return nil
	case "identity":
		return unquote(&b.Identity, was.Identity, value)
	case "key":
		return unquote(&b.KeyID, was.KeyID, value)
	case "door":
		return unquote(&b.Door, was.Door, value)
	case "client":
		return unquote(&b.Client, was.Client, value)
	case "application":
		return unquote(&b.Application, was.Application, value)
	case "session":
		return unquote(&b.Session, was.Session, value)
	case "source":
		return unquote(&b.Source, was.Source, value)
	case "trace":
		return unquote(&b.Trace, was.Trace, value)
	case "outcome":
		return b.takeOutcome(was, value)
	case "event":
		return b.takeEvent(value)
	}
	b.Judgement = append(b.Judgement, whole...)
	return nil
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
			var r Refusal
			err = json.Unmarshal(v, &r)
			b.Refusal = r.Kind
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
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if i >= len(text) {
				return 0
			}
			if depth == 0 {
				return i + 1
			}
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth <= 0 {
				if depth < 0 {
					return i
				}
				return i + 1
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
