package audit

import "iter"

// A Searcher calls yield for what it finds, in the order of the filter that it was made for, until yield returns false.
type Searcher func(yield func(View) bool) error

// Merge calls yield for what several searches find, by time: newest first, or oldest first. At the same time the search that
// stands first comes first. It ends after limit views (0: none is too many), or with the first error.
func Merge(searches []Searcher, oldestFirst bool, limit int, yield func(View) bool) error {
	streams := make([]*stream, 0, len(searches))
	for _, search := range searches {
		s := openStream(search)
		defer s.stop()
		s.advance()
		streams = append(streams, s)
	}
	for left := limit; ; left-- {
		s := first(streams, oldestFirst)
		if s == nil || limit > 0 && left == 0 {
			return nil
		}
		if s.err != nil {
			return s.err
		}
		if !yield(s.view) {
			return nil
		}
		s.advance()
	}
}

// stream is what one search yields, one at a time.
type stream struct {
	next func() (View, error, bool)
	stop func()
	view View
	err  error
	done bool
}

func openStream(search Searcher) *stream {
	var s stream
	s.next, s.stop = iter.Pull2(func(yield func(View, error) bool) {
		stopped := false
		err := search(func(v View) bool {
			stopped = !yield(v, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(View{}, err)
		}
	})
	return &s
}

func (s *stream) advance() {
	var more bool
	s.view, s.err, more = s.next()
	s.done = !more
}

// first returns the stream whose turn it is, or one that has failed.
func first(streams []*stream, oldest bool) *stream {
	var best *stream
	for _, s := range streams {
		switch {
		case s.done:
		case s.err != nil:
			return s
		case best == nil, oldest == s.view.Time.Before(best.view.Time) && !s.view.Time.Equal(best.view.Time):
			best = s
		}
	}
	return best
}
