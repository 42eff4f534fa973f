package analyze

import (
	"fmt"
	"strings"
)

// fingerprint groups texts that differ in literals, parameters, the length of lists of those, comments, white space and
// the case of words. It is made of the tokens alone, so that it costs no second parse.
func fingerprint(text string) string {
	var shape shape
	lex := lexer{text: text}
	for t := lex.next(); t.class != endOfText; t = lex.next() {
		shape.add(text[t.start:t.end], t.class)
	}
	return fmt.Sprintf("%016x", shape.hash())
}

// shape is a text as the hashes of its tokens, lists of literals folded to one.
type shape []uint64

const (
	anyLiteral uint64 = 1 // what every literal and parameter counts as
	hashSeed   uint64 = 14695981039346656037
	hashStep   uint64 = 1099511628211
)

// Hashes of the tokens around a list.
var (
	comma   = tokenHash(",")
	opening = tokenHash("(")
	closing = tokenHash(")")
)

func (s *shape) add(text string, class lexeme) {
	switch {
	case class == constant, class == parameter, class == word && isTruth(text):
		s.addLiteral()
	case class == punctuation && text == ";":
	default:
		*s = append(*s, tokenHash(text))
		s.foldRow()
	}
}

func isTruth(text string) bool {
	return strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
}

// addLiteral makes one of "1, 2, 3".
func (s *shape) addLiteral() {
	if n := len(*s); n >= 2 && (*s)[n-1] == comma && (*s)[n-2] == anyLiteral {
		*s = (*s)[:n-1]
		return
	}
	*s = append(*s, anyLiteral)
}

// foldRow makes one of "(1, 2), (3, 4)".
func (s *shape) foldRow() {
	row := [...]uint64{opening, anyLiteral, closing, comma, opening, anyLiteral, closing}
	n := len(*s)
	if n < len(row) || (*s)[n-1] != closing || [len(row)]uint64((*s)[n-len(row):]) != row {
		return
	}
	*s = (*s)[:n-4]
}

func (s *shape) hash() uint64 {
	h := hashSeed
	for _, token := range *s {
		for ; token != 0; token >>= 8 {
			h = (h ^ token&0xff) * hashStep
		}
	}
	return h
}

// tokenHash is FNV-1a of a token, its letters in lower case unless it is quoted. It is never that of a literal.
func tokenHash(text string) uint64 {
	h, quoted := hashSeed, text[0] == '"'
	for i := range len(text) {
		c := text[i]
		if !quoted && 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		h = (h ^ uint64(c)) * hashStep
	}
	return max(h, anyLiteral+1)
}
