package sqlgov

import (
	"encoding/binary"

	"interlock/redact"
	"interlock/sqlgov/analyze"
)

// CopyShape is what CopyInResponse and CopyOutResponse say of the data.
type CopyShape struct {
	Columns int
	Binary  bool
}

// copying is where a message stands with the COPY statements in it.
type copying struct {
	// expected counts the COPY FROM STDIN whose data the client has not ended yet, and taking is set while the server takes
	// the data of one. Both under the session's lock.
	expected int
	taking   bool
	taken    int64 // bytes of data that the client has sent. Under the session's lock

	// Of the goroutine that takes the server's messages:
	giving bool // the server gives the data of a COPY TO STDOUT
	binary bool
	header bool               // a line of names comes first
	begun  bool               // the first piece of data has come
	masks  *redact.CopyStream // nil if nothing of it is masked
}

func copiesIn(f *analyze.Facts) int {
	n := 0
	for i := range f.Statements {
		if f.Statements[i].Kind == analyze.CopyIn || f.Statements[i].TakesData {
			n++
		}
	}
	return n
}

// TakesCopy reports if what the client sends now is data of a COPY FROM STDIN that was allowed. While one has been sent to
// the server and it has not answered yet, TakesCopy waits: what a message means depends on that answer. Data that comes
// when the server does not take any, because the COPY has failed meanwhile, is of no use to anybody.
func (s *Session) TakesCopy() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.copies == nil {
		return false, s.broken
	}
	err := s.await(func() bool { return s.copies == nil || s.copies.copy.expected == 0 || s.copies.copy.taking })
	return s.copies != nil && s.copies.copy.taking, err
}

// CopyMessage relays a CopyData, CopyDone or CopyFail of the client, after TakesCopy has said that it is wanted. It does not
// return before there is room for it, so a client that is faster than the server has to wait.
func (s *Session) CopyMessage(frame []byte) error {
	s.mu.Lock()
	if o := s.copies; o != nil {
		if frame[0] == byte(CopyData) {
			o.copy.taken += int64(len(frame))
		} else {
			o.copy.taking = false
			o.copy.expected--
		}
	}
	s.mu.Unlock()
	return s.wire.Send(frame)
}

// FailCopy ends the COPY FROM STDIN that is under way, in the client's place.
func (s *Session) FailCopy(why string) error {
	frame := append([]byte{'f', 0, 0, 0, 0}, why...)
	frame = append(frame, 0)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(frame)-1))
	return s.CopyMessage(frame)
}

// takeCopyIn opens the way for the client's data.
func (s *Session) takeCopyIn(r *Reply) Output {
	o := s.front()
	if o == nil || o.run == nil {
		return s.alarm("the server asked for data that nobody has offered")
	}
	if _, disagrees := o.run.copyWitness(o.statement, analyze.CopyIn, r.Copy); disagrees != nil {
		return s.alarm(disagrees.Detail)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expects(o)
	o.copy.taking = true
	s.progress.Broadcast()
	return Output{Frame: r.Frame}
}

// takeCopyOut begins the data of a COPY TO STDOUT.
func (s *Session) takeCopyOut(r *Reply) Output {
	o := s.front()
	if o == nil || o.run == nil {
		return s.alarm("the server sent data that nobody asked for")
	}
	st, disagrees := o.run.copyWitness(o.statement, analyze.CopyOut, r.Copy)
	if disagrees != nil {
		return s.alarm(disagrees.Detail)
	}
	masks, err := o.run.copyMasks(o.statement)
	if err != nil {
		s.withhold(o, err)
	}
	o.copy.giving, o.copy.binary, o.copy.begun, o.copy.masks = true, r.Copy.Binary, false, masks
	o.copy.header = st.Form != nil && st.Form.Header
	o.returned = true
	return Output{Frame: r.Frame}
}

// takeCopyData counts a piece of data and reports if the client may have it.
func (s *Session) takeCopyData(r *Reply) (Output, bool) {
	o := s.front()
	if o == nil || !o.copy.giving {
		return s.alarm("the server sent data that nobody asked for"), true
	}
	if o.copy.masks != nil {
		return s.maskCopy(o, r.Frame)
	}
	frame, rows := r.Frame, o.copy.rows(r.Frame[messageHeader:])
	if !o.copy.binary && !o.run.bounded() {
		var n int
		frame, n = s.wire.More()
		rows += int64(n - 1)
	}
	if !s.row(o, len(frame), rows) {
		return Output{}, false
	}
	o.bytes += int64(len(frame))
	o.rows += rows
	return Output{Frame: frame}, true
}

// takeCopyDone ends the data of a COPY TO STDOUT.
func (s *Session) takeCopyDone(r *Reply) (Output, bool) {
	o := s.front()
	if o == nil || !o.copy.giving {
		return s.alarm("the server ended data that nobody asked for"), true
	}
	if o.copy.masks != nil {
		if err := o.copy.masks.End(); err != nil {
			s.withhold(o, err)
			return Output{}, false
		}
	}
	return Output{Frame: r.Frame}, true
}

// What begins and ends the data of COPY in binary format (PostgreSQL manual, COPY, "Binary Format"). Four bytes of flags and
// the length of an extension follow the signature.
const (
	binarySignature = "PGCOPY\n\xff\r\n\x00"
	binaryEnd       = "\xff\xff"
)

const copyBinary = "binary" // the format in analyze.CopyForm

// rows is how many rows a piece of data holds: one, for the server sends every row in a message of its own, but none in the
// line of names, and none in what begins and ends the binary format.
func (c *copying) rows(data []byte) int64 {
	first := !c.begun
	c.begun = true
	switch {
	case !c.binary:
		if first && c.header {
			return 0
		}
		return 1
	case first:
		data = data[min(len(data), len(binarySignature)+8):]
	}
	if string(data) == binaryEnd {
		return 0
	}
	return 1
}

// copyWitness holds what the server says of the data of a COPY against what the analyser predicted.
func (a *admission) copyWitness(statement int, kind analyze.Kind, c CopyShape) (*analyze.Statement, *Refusal) {
	if a.raw {
		return &analyze.Statement{Kind: kind}, nil
	}
	statements := a.judged.facts.Statements
	if statement >= len(statements) {
		return nil, disagreement("the data of statement %d of %d", statement+1, len(statements))
	}
	st := &statements[statement]
	switch {
	case st.Kind != kind:
		return nil, disagreement("%s where %s was predicted", kind, st.Kind)
	case c.Columns != st.Copied:
		return nil, disagreement("%d columns to copy where %d were predicted", c.Columns, st.Copied)
	case c.Binary != (st.Form.Format == copyBinary):
		return nil, disagreement("data in another format than %s", st.Form.Format)
	}
	return st, nil
}

// endCopies forgets the message with COPY statements if it is among those that have ended. With the session's lock held.
func (s *Session) endCopies(ended []*op) {
	for _, o := range ended {
		if o == s.copies {
			s.copies = nil
			s.progress.Broadcast()
		}
	}
}

// copied is how many bytes of data a message has taken from the client.
func (s *Session) copied(o *op) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return o.copy.taken
}
