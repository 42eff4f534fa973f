package analyze

import "strings"

// lexeme is the class of a token. The lexer is PostgreSQL's own, as far as the gate and the normaliser need it: it
// finds where every token ends, and does not look inside.
type lexeme uint8

const (
	endOfText   lexeme = iota
	word               // unquoted identifier or keyword
	quotedWord         // "identifier" or U&"identifier"
	constant           // string, bit string, dollar-quoted string or number
	parameter          // $1
	operator           // a run of operator characters
	punctuation        // one other byte, or :: := ..
)

// lexer splits a text as PostgreSQL's scan.l does with standard_conforming_strings on. It never fails: what is not
// terminated runs to the end of the text, and the parser will say so.
type lexer struct {
	text     string
	pos      int
	comments int // deepest comment nesting seen so far
	// maxComments stops a comment at this nesting: the server's work is quadratic in it.
	maxComments int
}

type token struct {
	class      lexeme
	start, end int
}

// next skips white space and comments and returns the token behind them.
func (l *lexer) next() token {
	l.skipBlank()
	start := l.pos
	if start >= len(l.text) {
		return token{endOfText, start, start}
	}
	class := l.lex()
	return token{class, start, l.pos}
}

func (l *lexer) lex() lexeme {
	c := l.text[l.pos]
	switch {
	case c == '\'':
		l.quoted(1, '\'', false)
		return constant
	case c == '"':
		l.quoted(1, '"', false)
		return quotedWord
	case c == '$':
		return l.dollar()
	case isDigit(c) || c == '.' && isDigit(l.at(1)):
		l.number()
		return constant
	case isWordStart(c):
		return l.word()
	case isOperator(c):
		l.operator()
		return operator
	}
	return l.punctuation()
}

// at returns the byte n behind the current one, or 0.
func (l *lexer) at(n int) byte {
	if l.pos+n < len(l.text) {
		return l.text[l.pos+n]
	}
	return 0
}

func (l *lexer) skipBlank() {
	for l.pos < len(l.text) {
		switch {
		case isSpace(l.text[l.pos]):
			l.pos++
		case l.at(0) == '-' && l.at(1) == '-':
			l.lineComment()
		case l.at(0) == '/' && l.at(1) == '*':
			l.blockComment()
		default:
			return
		}
	}
}

func (l *lexer) lineComment() {
	n := strings.IndexAny(l.text[l.pos:], "\r\n")
	if n < 0 {
		n = len(l.text) - l.pos
	}
	l.pos += n
}

func (l *lexer) blockComment() {
	depth := 0
	for l.pos < len(l.text) {
		switch {
		case l.at(0) == '/' && l.at(1) == '*':
			depth++
			l.comments = max(l.comments, depth)
			l.pos += 2
			if l.maxComments > 0 && depth > l.maxComments {
				l.pos = len(l.text)
			}
		case l.at(0) == '*' && l.at(1) == '/':
			depth--
			l.pos += 2
			if depth == 0 {
				return
			}
		default:
			l.pos++
		}
	}
}

// quoted passes a quoted token whose opening quote ends n bytes from here. A constant goes on after white space that
// holds a newline, in the same mode.
func (l *lexer) quoted(n int, quote byte, escapes bool) {
	l.pos += n
	for l.pos < len(l.text) {
		c := l.text[l.pos]
		l.pos++
		switch {
		case c == '\\' && escapes:
			l.pos = min(l.pos+1, len(l.text))
		case c == quote && l.at(0) == quote:
			l.pos++
		case c == quote:
			if quote != '\'' || !l.continued() {
				return
			}
		}
	}
}

// continued moves behind the opening quote of a continuation segment, if there is one.
func (l *lexer) continued() bool {
	c := lexer{text: l.text, pos: l.pos}
	newline := false
	for c.pos < len(c.text) {
		b := c.text[c.pos]
		switch {
		case b == '\n' || b == '\r':
			newline = true
			c.pos++
		case isSpace(b):
			c.pos++
		case b == '-' && c.at(1) == '-':
			c.lineComment()
		case b == '\'' && newline:
			l.pos = c.pos + 1
			return true
		default:
			return false
		}
	}
	return false
}

func (l *lexer) dollar() lexeme {
	if isDigit(l.at(1)) {
		l.pos++
		l.while(isDigit)
		return parameter
	}
	end := l.pos + 1
	for end < len(l.text) && l.text[end] != '$' && isWordPart(l.text[end]) {
		end++
	}
	if end == len(l.text) || l.text[end] != '$' || isDigit(l.at(1)) {
		l.pos++
		return punctuation
	}
	delimiter := l.text[l.pos : end+1]
	l.pos = end + 1
	n := strings.Index(l.text[l.pos:], delimiter)
	if n < 0 {
		l.pos = len(l.text)
	} else {
		l.pos += n + len(delimiter)
	}
	return constant
}

// number passes a number and whatever letters stick to it: the parser refuses those.
func (l *lexer) number() {
	digits := func(c byte) bool { return isDigit(c) || c == '_' }
	l.while(digits)
	if l.at(0) == '.' && l.at(1) != '.' {
		l.pos++
		l.while(digits)
	}
	if (l.at(0) == 'e' || l.at(0) == 'E') && (l.at(1) == '+' || l.at(1) == '-') && isDigit(l.at(2)) {
		l.pos += 2
	}
	if l.pos < len(l.text) && isWordStart(l.text[l.pos]) {
		l.while(isWordPart)
	}
}

func (l *lexer) word() lexeme {
	switch c, next := l.text[l.pos]|0x20, l.at(1); {
	case next == '\'' && (c == 'e' || c == 'b' || c == 'x' || c == 'n'):
		l.quoted(2, '\'', c == 'e')
		return constant
	case c == 'u' && next == '&' && l.at(2) == '\'':
		l.quoted(3, '\'', false)
		return constant
	case c == 'u' && next == '&' && l.at(2) == '"':
		l.quoted(3, '"', false)
		return quotedWord
	}
	l.while(isWordPart)
	return word
}

func (l *lexer) operator() {
	for l.pos < len(l.text) && isOperator(l.text[l.pos]) {
		if pair := l.text[l.pos:min(l.pos+2, len(l.text))]; pair == "--" || pair == "/*" {
			return
		}
		l.pos++
	}
}

func (l *lexer) punctuation() lexeme {
	switch l.text[l.pos:min(l.pos+2, len(l.text))] {
	case "::", ":=", "..":
		l.pos++
	}
	l.pos++
	return punctuation
}

func (l *lexer) while(keep func(byte) bool) {
	for l.pos < len(l.text) && keep(l.text[l.pos]) {
		l.pos++
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }

func isWordStart(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= 0x80 }

func isWordPart(c byte) bool { return isWordStart(c) || isDigit(c) || c == '$' }

func isOperator(c byte) bool { return c < 0x80 && strings.IndexByte("~!@#^&|`?+-*/%<>=", c) >= 0 }
