package analyze

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Normalize returns the text with every literal replaced by $n, comments dropped and white space folded: a form that
// is safe to keep and to show. It works for texts that cannot be parsed, and never fails. Quoted identifiers stay.
func Normalize(text string) string {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	var b strings.Builder
	b.Grow(len(text))
	number := highestParameter(text)
	lex := lexer{text: text}
	for end := -1; ; {
		t := lex.next()
		if t.class == endOfText {
			return b.String()
		}
		if end >= 0 && t.start > end {
			b.WriteByte(' ')
		}
		if t.class == constant {
			number++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(number))
		} else {
			b.WriteString(text[t.start:t.end])
		}
		end = t.end
	}
}

// highestParameter is the largest n of any $n in the text, so that new numbers do not collide.
func highestParameter(text string) int {
	if strings.IndexByte(text, '$') < 0 {
		return 0
	}
	highest := 0
	lex := lexer{text: text}
	for t := lex.next(); t.class != endOfText; t = lex.next() {
		if t.class != parameter {
			continue
		}
		if n, err := strconv.Atoi(text[t.start+1 : t.end]); err == nil && n < 1<<16 {
			highest = max(highest, n)
		}
	}
	return highest
}
