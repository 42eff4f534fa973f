package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrNotFound means that the log has no entry with a decision id.
var ErrNotFound = errors.New("audit: no such decision")

// Find returns what the log in dir says about one decision.
func Find(ctx context.Context, dir, id string) (View, error) {
	var found *View
	err := Search(ctx, dir, Filter{ID: id, Limit: 1}, func(v View) bool {
		found = &v
		return false
	})
	if err != nil {
		return View{}, err
	}
	if found == nil {
		return View{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	return *found, nil
}

// Search calls yield for every request in the log in dir that f selects, until yield returns false. It works while a
// writer runs, and does not check the chain. Lines that are not entries are left out.
func Search(ctx context.Context, dir string, f Filter, yield func(View) bool) error {
	segs, err := segments(dir)
	if err != nil {
		return err
	}
	s := &search{filter: f.normalized(), yield: yield, halves: map[string][]byte{}, left: f.Limit}
	if f.Limit <= 0 {
		s.left = -1
	}
	s.prefilter = s.filter.literals()
	if f.OldestFirst {
		return s.forward(ctx, dir, segs)
	}
	return s.backward(ctx, dir, segs)
}

// search merges the entries of each request. The half that is met first waits for the other in halves.
type search struct {
	filter    Filter
	prefilter [][]byte
	yield     func(View) bool
	halves    map[string][]byte // texts of entries, by decision id
	order     []string          // of halves, when going forward
	left      int               // views still to yield; negative is no limit
	restarted bool              // the log was opened again behind what is read now
	stop      bool
}

// emit yields a view if it is wanted.
func (s *search) emit(v *View) {
	if s.stop || !s.filter.matches(v) {
		return
	}
	if s.left > 0 {
		s.left--
	}
	s.stop = !s.yield(*v) || s.left == 0
}

// merge makes one view of an intent and its outcome; outcome may be nil.
func merge(intent, outcome []byte, restarted bool) (View, error) {
	l, err := parseLine(intent)
	if err != nil {
		return View{}, err
	}
	v, err := l.decode()
	if err != nil {
		return View{}, err
	}
	v.Status = Running
	if restarted {
		v.Status = Unfinished
	}
	if outcome == nil {
		return v, nil
	}
	if l, err = parseLine(outcome); err != nil {
		return View{}, err
	}
	o, err := l.decode()
	if err == nil && o.Outcome != nil {
		v.Outcome, v.Status = o.Outcome, o.Status
	}
	return v, nil
}

// backward reads from the newest entry: an outcome comes before its intent, which completes it.
func (s *search) backward(ctx context.Context, dir string, segs []segmentFile) error {
	for i := len(segs) - 1; i >= 0 && !s.stop; i-- {
		err := eachLineBackward(ctx, dir, segs[i].name, -1, func(text []byte, _ int64) bool {
			if l, err := parseLine(text); err == nil {
				s.older(&l)
			}
			return !s.stop
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// older takes the entry that comes before.
func (s *search) older(l *line) {
	id := string(l.id)
	switch l.typ {
	case TypeOutcome:
		if s.filter.ID == "" || s.filter.ID == id {
			s.halves[id] = bytes.Clone(l.text)
		}
		return
	case TypeEvent:
		s.restarted = s.restarted || isOpened(l)
		s.event(l)
	case TypeIntent:
		outcome := s.halves[id]
		delete(s.halves, id)
		if s.mayMatch(l) {
			if v, err := merge(l.text, outcome, s.restarted); err == nil {
				s.emit(&v)
			}
		}
	case TypeRequest:
		s.single(l)
	}
	s.stop = s.stop || s.filter.past(l)
}

func isOpened(l *line) bool { return isEvent(l, opened) }

func isEvent(l *line, name string) bool {
	return bytes.Contains(l.text, []byte(`,"event":{"name":"`+name+`"`))
}

func (s *search) event(l *line) {
	if s.filter.Events || s.filter.ID != "" || s.filter.Event != "" {
		s.single(l)
	}
}

// single yields an entry that is complete in itself.
func (s *search) single(l *line) {
	if !s.mayMatch(l) {
		return
	}
	if v, err := l.decode(); err == nil {
		s.emit(&v)
	}
}

// forward reads from the oldest entry: a request is yielded when its outcome is met, those without one at the end.
func (s *search) forward(ctx context.Context, dir string, segs []segmentFile) error {
	for i, seg := range segs {
		if i+1 < len(segs) && segs[i+1].first <= s.filter.After+1 {
			continue
		}
		err := s.forwardSegment(ctx, dir, seg.name)
		if err != nil || s.stop {
			return err
		}
	}
	for _, id := range s.order {
		if text, ok := s.halves[id]; ok {
			if v, err := merge(text, nil, false); err == nil {
				s.emit(&v)
			}
		}
	}
	return nil
}

func (s *search) forwardSegment(ctx context.Context, dir, name string) error {
	f, err := openSegment(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	r := newLineReader(f.reader(0))
	for n := 0; !s.stop; n++ {
		text, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if l, err := parseLine(text[:len(text)-1]); err == nil {
			s.newer(&l)
		}
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// newer takes the entry that follows.
func (s *search) newer(l *line) {
	id := string(l.id)
	switch l.typ {
	case TypeIntent:
		if s.mayMatch(l) {
			s.halves[id] = bytes.Clone(l.text)
			s.order = append(s.order, id)
		}
	case TypeOutcome:
		if intent, ok := s.halves[id]; ok {
			delete(s.halves, id)
			if v, err := merge(intent, l.text, false); err == nil {
				s.emit(&v)
			}
		}
	case TypeRequest:
		s.single(l)
	case TypeEvent:
		if isOpened(l) {
			s.giveUp()
		}
		s.event(l)
	}
}

// giveUp yields the requests that were running when the gateway died.
func (s *search) giveUp() {
	for _, id := range s.order {
		if text, ok := s.halves[id]; ok {
			delete(s.halves, id)
			if v, err := merge(text, nil, true); err == nil {
				s.emit(&v)
			}
		}
	}
	s.order = s.order[:0]
}

// mayMatch tells quickly if an entry with a record can match; false is certain.
func (s *search) mayMatch(l *line) bool {
	if s.filter.ID != "" && s.filter.ID != string(l.id) {
		return false
	}
	for _, p := range s.prefilter {
		if !bytes.Contains(l.text, p) {
			return false
		}
	}
	return true
}

// literals are texts that every matching entry with a record contains.
func (f *Filter) literals() (all [][]byte) {
	for _, m := range []struct{ name, value string }{
		{"identity", f.Identity}, {"door", f.Door}, {"session", f.Session}, {"source", f.Source},
		{"fingerprint", f.Fingerprint}, {"verdict", f.Verdict},
	} {
		if m.value != "" {
			all = append(all, appendString(nil, m.name, m.value))
		}
	}
	return all
}
