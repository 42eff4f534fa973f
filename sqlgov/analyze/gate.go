package analyze

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits bound what Analyze takes on. The zero value means the defaults.
type Limits struct {
	Bytes      int // length of the text; default 10 MiB
	Tokens     int // default 1,000,000
	Statements int // default 10,000
}

const (
	defaultBytes      = 10 << 20
	defaultTokens     = 1_000_000
	defaultStatements = 10_000

	// maxComments is how deep comments may nest. PostgreSQL's lexer is quadratic in it and cannot be interrupted.
	maxComments = 32
	// maxNesting bounds the depth of the parse tree. pg_query walks the tree by recursion in C without looking at
	// the stack: some 5,000 levels kill the process on a 2 MiB thread stack. PostgreSQL gives up below 5,000 too.
	maxNesting = 2000
	// bracketDepth is what one pair of brackets or one CASE can add to the tree: a sub-select in an expression.
	bracketDepth = 4
	// maxAtomic bounds CREATE FUNCTION inside the body of CREATE FUNCTION, which nests without brackets.
	maxAtomic = 8
)

func (l Limits) withDefaults() Limits {
	set := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	set(&l.Bytes, defaultBytes)
	set(&l.Tokens, defaultTokens)
	set(&l.Statements, defaultStatements)
	return l
}

// admit is what a text must pass before any C code sees it.
func admit(text string, limits Limits) *Error {
	limits = limits.withDefaults()
	if len(text) > limits.Bytes {
		return refuse("54000", "the statement is longer than %d bytes", limits.Bytes)
	}
	if n := strings.IndexByte(text, 0); n >= 0 {
		return refuse("08P01", "the statement contains a NUL byte").at(n)
	}
	if !utf8.ValidString(text) {
		return refuse("22021", "invalid byte sequence for encoding \"UTF8\"")
	}
	return measure(text, limits)
}

// measure bounds the depth of the parse tree without parsing: it counts what can nest, level by level of brackets.
func measure(text string, limits Limits) *Error {
	lex := lexer{text: text, maxComments: maxComments}
	g := gauge{levels: make([]level, 1, 16)}
	for n := 0; ; n++ {
		t := lex.next()
		if lex.comments > maxComments {
			return refuse("54001", "comments are nested deeper than %d", maxComments)
		}
		if t.class == endOfText {
			return g.check()
		}
		if n >= limits.Tokens {
			return refuse("54000", "the statement has more than %d tokens", limits.Tokens)
		}
		g.add(text[t.start:t.end], t.class)
		if g.deep {
			return g.check()
		}
	}
}

// gauge keeps an upper bound of the tree's depth while tokens go by. Brackets open a level. Inside a level operators
// chain, each one level deeper; a comma ends such a chain, for lists do not nest, and so do AND and OR, which the
// grammar flattens. Joins chain across AND; set operations chain across everything but the end of the level.
type gauge struct {
	levels []level
	deep   bool
	label  bool // the next word is a name: it follows a dot or AS
	atomic int
}

type level struct {
	open    byte // '(', '[', or 'c' for CASE; 0 at the bottom
	sets    int  // set operations
	joins   int  // joins since the last comma
	chain   int  // operators since the last AND, OR or comma
	child   int  // deepest bracket closed in the same stretch
	run     int  // deepest stretch between AND and OR since the last comma
	best    int  // deepest comma-separated part
	between int  // BETWEENs that wait for their AND
}

func (v *level) endRun() {
	v.run = max(v.run, v.chain+v.child)
	v.chain, v.child = 0, 0
}

func (v *level) endPart() {
	v.endRun()
	v.best = max(v.best, v.joins+v.run)
	v.joins, v.run, v.between = 0, 0, 0
}

// height is the depth of everything in the level: AND, OR and the list itself add two.
func (v level) height() int {
	v.endPart()
	return v.sets + v.best + 2
}

func (g *gauge) top() *level { return &g.levels[len(g.levels)-1] }

func (g *gauge) check() *Error {
	for len(g.levels) > 1 {
		g.pop()
	}
	if g.deep || g.top().height() > maxNesting {
		return refuse("54001", "the statement nests too deeply")
	}
	return nil
}

func (g *gauge) add(s string, class lexeme) {
	label := g.label
	g.label = false
	switch class {
	case word:
		if !label {
			g.word(s)
		}
	case operator:
		// A run splits into several operators only at + and -.
		g.chain(1 + strings.Count(s, "+") + strings.Count(s, "-"))
	case punctuation:
		g.punctuation(s)
	}
}

func (g *gauge) chain(n int) {
	v := g.top()
	v.chain += n
	g.deep = g.deep || v.sets+v.joins+v.chain+v.child > maxNesting
}

func (g *gauge) punctuation(s string) {
	switch s {
	case "(", "[":
		g.push(s[0])
	case ")":
		g.closing('(')
	case "]":
		g.closing('[')
	case ",":
		g.top().endPart()
	case ";":
		if len(g.levels) == 1 {
			g.endStatement()
		}
	case ".":
		g.label = true
	case "::", ":=", ":":
		g.chain(1)
	}
}

func (g *gauge) endStatement() {
	v := g.top()
	g.deep = g.deep || v.height() > maxNesting
	*v = level{}
}

func (g *gauge) push(open byte) {
	g.levels = append(g.levels, level{open: open})
	g.deep = g.deep || len(g.levels)*bracketDepth > maxNesting
}

func (g *gauge) pop() {
	height := g.top().height() + bracketDepth
	g.levels = g.levels[:len(g.levels)-1]
	v := g.top()
	v.child = max(v.child, height)
	g.chain(0)
}

// closing pops up to the matching bracket. A CASE left open below it was a name; an unmatched bracket is left to the parser.
func (g *gauge) closing(open byte) {
	for n := len(g.levels) - 1; n > 0; n-- {
		if o := g.levels[n].open; o == open {
			for len(g.levels) > n {
				g.pop()
			}
			return
		} else if o != 'c' {
			return
		}
	}
}

func (g *gauge) word(s string) {
	v := g.top()
	switch nests(s) {
	case nestsOperator:
		g.chain(1)
	case nestsBetween:
		v.between++
		g.chain(1)
	case nestsJoin:
		v.joins++
		g.chain(0)
	case nestsSet:
		v.sets++
		v.endPart()
		g.chain(0)
	case nestsAnd:
		g.and(v)
	case nestsCase:
		g.push('c')
	case nestsBranch:
		if v.open == 'c' {
			v.endPart()
		}
	case nestsEnd:
		if v.open == 'c' {
			g.pop()
		}
	case nestsAtomic:
		g.atomic++
		g.deep = g.deep || g.atomic > maxAtomic
	case nestsLabel:
		g.label = true
	}
}

// and ends a stretch, unless the AND belongs to a BETWEEN: then what stands before it is still open.
func (g *gauge) and(v *level) {
	if v.between > 0 {
		v.between--
		g.chain(1)
		return
	}
	v.endRun()
}

type nesting uint8

const (
	nestsNot nesting = iota
	nestsOperator
	nestsBetween
	nestsJoin
	nestsSet
	nestsAnd
	nestsCase
	nestsBranch
	nestsEnd
	nestsAtomic
	nestsLabel
)

var nestingWords = map[string]nesting{
	"not": nestsOperator, "is": nestsOperator, "isnull": nestsOperator, "notnull": nestsOperator, "in": nestsOperator,
	"like": nestsOperator, "ilike": nestsOperator, "similar": nestsOperator, "collate": nestsOperator, "at": nestsOperator,
	"overlaps": nestsOperator, "operator": nestsOperator, "escape": nestsOperator, "explain": nestsOperator,
	"between": nestsBetween, "join": nestsJoin,
	"union": nestsSet, "intersect": nestsSet, "except": nestsSet,
	"and": nestsAnd, "or": nestsAnd,
	"case": nestsCase, "when": nestsBranch, "then": nestsBranch, "else": nestsBranch, "end": nestsEnd,
	"atomic": nestsAtomic, "as": nestsLabel,
}

// nests looks a word up without regard to case and without allocating.
func nests(s string) nesting {
	var low [16]byte
	if len(s) > len(low) {
		return nestsNot
	}
	for i := range len(s) {
		low[i] = s[i]
		if c := s[i]; c >= 'A' && c <= 'Z' {
			low[i] += 'a' - 'A'
		}
	}
	return nestingWords[string(low[:len(s)])]
}

// refuse makes an error of this package.
func refuse(state, format string, args ...any) *Error {
	return &Error{SQLState: state, Message: fmt.Sprintf(format, args...)}
}

// at sets the byte offset that the error is about.
func (e *Error) at(offset int) *Error {
	if offset >= 0 && e.Position == 0 {
		e.Position = offset + 1
	}
	return e
}
