package audit

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
)

// Hash is the hash that the entry states.
func (e *Entry) Hash() string {
	end := len(e.Text) - len(lineEnd)
	return string(e.Text[end-hexSize : end])
}

// excerpted are the members that an excerpt has. It is a list of what may be there, so that a member that is new stays out
// until somebody has thought of it.
var excerpted = map[string]bool{"identity": true, "key": true, "door": true, "client": true, "application": true, "session": true,
	"source": true, "trace": true, "outcome": true, "event": true}

// Excerpt returns the entry as JSON without its judgement, what is sealed in it and its place in the chain. It is for an
// index that is kept apart from the log, and has judgements by themselves.
func (e *Entry) Excerpt() []byte {
	start := len(e.Text) - endSize - len(e.members)
	text := make([]byte, start, start+len(e.members)+1)
	copy(text, e.Text)
	for rest := e.members; len(rest) > 0; {
		name, _, size, err := nextMember(rest)
		if err != nil {
			break // for Verify to report
		}
		if excerpted[string(name)] {
			text = append(text, rest[:size]...)
		}
		rest = rest[size:]
	}
	return append(text, '}')
}

// DecodeExcerpt returns the view of a request or event by its excerpts; outcome is empty if there is none. Its judgement is
// not in it.
func DecodeExcerpt(record, outcome []byte) (View, error) {
	v, err := decodeView(record)
	if err != nil || v.Type != TypeIntent {
		return v, err
	}
	v.Status = Running
	if len(outcome) == 0 {
		return v, nil
	}
	o, err := decodeView(outcome)
	if err == nil && o.Outcome != nil {
		v.Outcome, v.Status = o.Outcome, o.Status
	}
	return v, err
}

// decodeView reads an entry as a view of itself alone.
func decodeView(text []byte) (View, error) {
	var v View
	if err := json.Unmarshal(text, &v); err != nil {
		return View{}, err
	}
	if v.Outcome != nil {
		v.Outcome.ID = v.ID
		v.Status = v.Outcome.Status
		v.Outcome.Time = v.Time
		if v.Type == TypeRequest {
			v.Outcome.Time = v.Time.Add(v.Outcome.Duration)
		}
	}
	return v, nil
}

// Continues reports if the log in dir goes on from a cursor: the entry before it has this hash. If that was pruned, the first
// entry that is left follows it.
func Continues(dir string, c Cursor, hash string) (bool, error) {
	if c.Seq == 0 {
		return true, nil
	}
	same := false
	err := eachLineBackward(context.Background(), dir, c.Segment, c.Offset, func(text []byte, end int64) bool {
		l, err := parseLine(text)
		same = err == nil && end == c.Offset && l.seq == c.Seq && string(l.hash[:]) == hash
		return false
	})
	if !errors.Is(err, fs.ErrNotExist) {
		return same, err
	}
	_, _, err = ReadAfter(dir, c, 0, 1, func(e *Entry) bool {
		l, err := parseLine(e.Text)
		same = err == nil && l.seq == c.Seq+1 && string(l.prev[:]) == hash
		return false
	})
	return same, err
}

// First returns the number with which the log in dir begins: 1, or that behind what was pruned; 0 if it has no segment.
func First(dir string) (uint64, error) {
	segs, err := segments(dir)
	if err != nil || len(segs) == 0 {
		return 0, err
	}
	return segs[0].first, nil
}
