package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// pollInterval is how often a following Tail looks for new entries.
const pollInterval = 200 * time.Millisecond

// Tail calls yield for the last n requests and events of the log in dir that f selects, oldest first. If follow is set it goes on
// with what is written from then on until ctx ends, which is no error: a request when it has ended, so one that was
// yielded as running comes again. f.Limit and f.OldestFirst have no meaning here.
func Tail(ctx context.Context, dir string, n int, follow bool, f Filter, yield func(View) bool) error {
	c, err := end(dir)
	if err != nil {
		return err
	}
	f.Limit, f.OldestFirst = n, false
	var last []View
	if n > 0 {
		err = Search(ctx, dir, f, func(v View) bool {
			last = append(last, v)
			return true
		})
	}
	if err != nil {
		return err
	}
	slices.Reverse(last)
	shown := map[string]bool{} // complete ones, which the cursor may meet again
	for _, v := range last {
		shown[v.ID] = v.Status != Running
		if !yield(v) {
			return nil
		}
	}
	if !follow {
		return nil
	}
	t := &follower{dir: dir, filter: f.normalized(), shown: shown, yield: yield}
	return t.run(ctx, c)
}

// cursor is a place in a log: behind a whole line.
type cursor struct {
	segment string // "" before the first
	offset  int64
}

// end returns the place behind the last whole entry.
func end(dir string) (cursor, error) {
	segs, err := segments(dir)
	if err != nil || len(segs) == 0 {
		return cursor{}, err
	}
	c := cursor{segment: segs[len(segs)-1].name}
	err = eachLineBackward(context.Background(), dir, c.segment, -1, func(_ []byte, end int64) bool {
		c.offset = end
		return false
	})
	return c, err
}

type follower struct {
	dir    string
	filter Filter
	shown  map[string]bool
	yield  func(View) bool
	stop   bool
}

func (t *follower) run(ctx context.Context, c cursor) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !t.stop {
		var err error
		if c, err = t.read(ctx, c); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

// read yields what was written behind c and returns the new place.
func (t *follower) read(ctx context.Context, c cursor) (cursor, error) {
	segs, err := segments(t.dir)
	if err != nil {
		return c, err
	}
	for _, s := range segs {
		if s.name < c.segment {
			continue
		}
		from := int64(0)
		if s.name == c.segment {
			from = c.offset
		}
		to, err := t.readSegment(ctx, s.name, from)
		if err != nil || t.stop {
			return c, err
		}
		c = cursor{s.name, to}
	}
	return c, nil
}

func (t *follower) readSegment(ctx context.Context, name string, from int64) (to int64, err error) {
	f, err := openSegment(t.dir, name)
	if err != nil {
		return from, err
	}
	defer f.Close()
	for r := newLineReader(f.reader(from)); !t.stop; {
		text, err := r.next()
		if errors.Is(err, io.EOF) {
			return from, nil
		}
		if err != nil {
			return from, fmt.Errorf("reading %s: %w", name, err)
		}
		from += int64(len(text))
		if l, err := parseLine(text[:len(text)-1]); err == nil {
			t.entry(ctx, &l)
		}
	}
	return from, nil
}

// entry yields the request that l completes.
func (t *follower) entry(ctx context.Context, l *line) {
	id := string(l.id)
	if l.typ == TypeIntent || t.shown[id] {
		return
	}
	delete(t.shown, id)
	v, err := l.decode()
	if l.typ == TypeOutcome {
		v, err = Find(ctx, t.dir, id)
	}
	if err == nil && t.filter.matches(&v) {
		t.stop = !t.yield(v)
	}
}
