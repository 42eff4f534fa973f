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
	end, stuck := 0, byte(0)
	for t := lex.next(); t.class != endOfText; t = lex.next() {
		out := text[t.start:t.end]
		if t.class == constant {
			number++
			out = "$" + strconv.Itoa(number)
		}
		// What a literal kept apart would be read as one word without it.
		if t.start > end || isWordPart(stuck) && isWordPart(out[0]) {
			if b.Len() > 0 {
				b.WriteByte(' ')
			}
		}
		b.WriteString(out)
		end, stuck = t.end, out[len(out)-1]
	}
	return b.String()
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
