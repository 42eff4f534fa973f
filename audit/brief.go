package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// Brief is what an index needs of an entry: all of it but the judgement, which is the same for many.
type Brief struct {
	Identity, KeyID, Door, Client, Application, Session, Source, Trace string
	// Judgement is the members of the judgement as they are written, each with a comma before it; empty if there is none.
	// DecodeJudgement reads them.
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

// Brief takes an entry apart without decoding the judgement.
func (e *Entry) Brief() (Brief, error) {
	var b Brief
	from := bytes.Index(e.Text, []byte(`,"id":"`))
	if from < 0 || len(e.Text) < endSize {
		return b, errMember
	}
	for rest := e.Text[from : len(e.Text)-endSize]; len(rest) > 0; {
		name, value, size, err := nextMember(rest)
		if err != nil {
			return b, err
		}
		if err := b.take(name, value, rest[:size]); err != nil {
			return b, err
		}
		rest = rest[size:]
	}
	return b, nil
}

func (b *Brief) take(name string, value, whole []byte) error {
	var to *string
	switch name {
	case "id":
		return nil
	case "identity":
		to = &b.Identity
	case "key":
		to = &b.KeyID
	case "door":
		to = &b.Door
	case "client":
		to = &b.Client
	case "application":
		to = &b.Application
	case "session":
		to = &b.Session
	case "source":
		to = &b.Source
	case "trace":
		to = &b.Trace
	case "sealed":
		return nil
	case "outcome":
		return b.takeOutcome(value)
	case "event":
		return b.takeEvent(value)
	default:
		b.Judgement = append(b.Judgement, whole...)
		return nil
	}
	return unquote(to, value)
}

func unquote(to *string, value []byte) error {
	if len(value) >= 2 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 {
		*to = string(value[1 : len(value)-1])
		return nil
	}
	return json.Unmarshal(value, to)
}

// takeOutcome reads {"status":...}; every member of it but the refusal is small.
func (b *Brief) takeOutcome(value []byte) error {
	if len(value) < 2 || value[0] != '{' {
		return errMember
	}
	rest := append([]byte{','}, value[1:len(value)-1]...)
	for len(rest) > 0 {
		name, v, size, err := nextMember(rest)
		if err != nil {
			return err
		}
		switch name {
		case "status":
			err = unquote((*string)(&b.Status), v)
		case "sqlstate":
			err = unquote(&b.SQLState, v)
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
		rest = rest[size:]
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
func nextMember(text []byte) (name string, value []byte, size int, err error) {
	if len(text) < 5 || text[0] != ',' || text[1] != '"' {
		return "", nil, 0, errMember
	}
	end := bytes.IndexByte(text[2:], '"')
	if end < 0 || len(text) < end+5 || text[end+3] != ':' {
		return "", nil, 0, errMember
	}
	name = string(text[2 : end+2])
	from := end + 4
	n := valueSize(text[from:])
	if n <= 0 {
		return "", nil, 0, errMember
	}
	return name, text[from : from+n], from + n, nil
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
