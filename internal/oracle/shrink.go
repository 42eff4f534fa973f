package oracle

import "strings"

// part is a piece of a statement that can be left out or made simpler while the rest stays a statement.
type part struct {
	pieces   []any // strings and *parts, in order
	sep      string
	optional bool   // nothing can stand in its place
	plain    string // what else can stand in its place; "" nothing
	reduced  bool
}

// text makes a part of pieces.
func text(pieces ...any) *part { return &part{pieces: pieces} }

// maybe makes a part that can be left out.
func maybe(pieces ...any) *part { return &part{pieces: pieces, optional: true} }

// orPlain makes a part for which something simple can stand.
func orPlain(plain string, pieces ...any) *part { return &part{pieces: pieces, plain: plain} }

// series makes a part of parts with something between them.
func series(sep string, parts []*part) *part {
	s := &part{sep: sep}
	for _, p := range parts {
		s.pieces = append(s.pieces, p)
	}
	return s
}

func (p *part) String() string {
	var b strings.Builder
	p.write(&b)
	return b.String()
}

func (p *part) write(b *strings.Builder) {
	if p.reduced {
		b.WriteString(p.plain)
		return
	}
	for i, x := range p.pieces {
		if i > 0 {
			b.WriteString(p.sep)
		}
		switch x := x.(type) {
		case string:
			b.WriteString(x)
		case *part:
			x.write(b)
		}
	}
}

// Statement is an invented statement.
type Statement struct{ root *part }

func (s *Statement) String() string { return s.root.String() }

// Shrink makes the statement as small as it gets while still holds of it.
func (s *Statement) Shrink(still func(sql string) bool) {
	for shrunk := true; shrunk; {
		shrunk = s.shrink(s.root, still)
	}
}

func (s *Statement) shrink(p *part, still func(string) bool) bool {
	if p.reduced {
		return false
	}
	if p.optional || p.plain != "" {
		p.reduced = true
		if still(s.String()) {
			return true
		}
		p.reduced = false
	}
	shrunk := p.sep != "" && s.shorten(p, still)
	for _, x := range p.pieces {
		if child, ok := x.(*part); ok && s.shrink(child, still) {
			shrunk = true
		}
	}
	return shrunk
}

// shorten drops members of a series, but for the last one.
func (s *Statement) shorten(p *part, still func(string) bool) bool {
	shrunk := false
	for i := 0; i < len(p.pieces) && len(p.pieces) > 1; {
		all := p.pieces
		p.pieces = append(append([]any{}, all[:i]...), all[i+1:]...)
		if still(s.String()) {
			shrunk = true
			continue
		}
		p.pieces = all
		i++
	}
	return shrunk
}
