package introspect

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Text is a text as it was rewritten.
type Text struct {
	SQL     string
	Changed bool
	before  string
	edits   []edit // in the order of the text
}

// edit puts a text in the place of some bytes.
type edit struct {
	start, end int
	text       string
	order      int // of those at one place: a call's beginning stands outside those of its arguments
}

func (w *writer) finish() *Text {
	t := &Text{SQL: w.text, before: w.text}
	if len(w.edits) == 0 {
		return t
	}
	slices.SortStableFunc(w.edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end), cmp.Compare(a.order, b.order))
	})
	var b strings.Builder
	at := 0
	for _, e := range w.edits {
		b.WriteString(w.text[at:e.start])
		b.WriteString(e.text)
		at = e.end
	}
	b.WriteString(w.text[at:])
	t.SQL, t.Changed, t.edits = b.String(), true, w.edits
	return t
}

// Position turns a position in the rewritten text into one in the text before, both counted in characters from 1, 0 for
// unknown. What stands in the place of something is at its beginning.
func (t *Text) Position(position int) int {
	if position <= 0 || !t.Changed {
		return position
	}
	offset := 0
	for n := 1; n < position && offset < len(t.SQL); n++ {
		_, size := utf8.DecodeRuneInString(t.SQL[offset:])
		offset += size
	}
	shift := 0 // of the rewritten text against the one before
	for _, e := range t.edits {
		start := e.start + shift
		if offset < start {
			break
		}
		if offset < start+len(e.text) {
			offset = start
			break
		}
		shift += len(e.text) - (e.end - e.start)
	}
	before := min(max(offset-shift, 0), len(t.before))
	return utf8.RuneCountInString(t.before[:before]) + 1
}
