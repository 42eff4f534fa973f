package analyze

import (
	"slices"
	"strings"
)

// Template returns what a text has in common with others of the same meaning: the text with the numbers that are operands
// of arithmetic or comparisons left out, so that "... where id = 7" and "... where id = 12" share one template. Facts of
// a text for which Shared holds are those of every text with its template. ok is false for a text that has no such numbers,
// or where a number could mean more than its value.
//
// What is left out is a whole number of up to nine digits, so its type stays the same, directly behind an operator. Numbers
// that are equal stay equal: GROUP BY a + 1 needs the same number in the list of results. One that also stands elsewhere,
// as in ORDER BY 1, is not left out.
func Template(text string) (template string, ok bool) {
	if len(text) > maxTemplate || strings.IndexByte(text, leftOut) >= 0 {
		return "", false
	}
	var t templater
	if !t.scan(text) {
		return "", false
	}
	return t.template(text)
}

const (
	maxTemplate = 64 << 10 // bytes of a text that is looked at
	maxOperands = 64       // numbers that are left out at most
	maxDigits   = 9        // fewer than any number that is no int4 has
	leftOut     = 0        // stands before the place of a number: no text that is analysed has this byte
)

type templater struct {
	operands []token
	kept     []string // other numbers
}

// scan finds the numbers and reports if the text is one whose numbers can be left out.
func (t *templater) scan(text string) bool {
	lex := lexer{text: text, maxComments: maxComments}
	before := lex.next()
	if before.class != word || !isAny(text[before.start:before.end], "select", "update", "delete", "with") {
		return false
	}
	for now := lex.next(); now.class != endOfText; now = lex.next() {
		switch said := text[now.start:now.end]; {
		case now.class == word && isAny(said, "insert", "merge", "into"):
			return false
		case now.class != constant:
		case isOperand(said) && before.class == operator && isArithmetic(text[before.start:before.end]):
			t.operands = append(t.operands, now)
		default:
			t.kept = append(t.kept, said)
		}
		before = now
	}
	return len(t.operands) > 0 && len(t.operands) <= maxOperands
}

// template writes the text with the place of each number instead of it: that of the first one that is equal.
func (t *templater) template(text string) (string, bool) {
	var b strings.Builder
	var seen []string
	from := 0
	for _, o := range t.operands {
		number := text[o.start:o.end]
		if slices.Contains(t.kept, number) {
			continue
		}
		place := slices.Index(seen, number)
		if place < 0 {
			place, seen = len(seen), append(seen, number)
		}
		b.WriteString(text[from:o.start])
		b.WriteByte(leftOut)
		b.WriteByte(byte(place))
		from = o.end
	}
	b.WriteString(text[from:])
	return b.String(), len(seen) > 0
}

func isOperand(text string) bool {
	if len(text) > maxDigits {
		return false
	}
	for i := range len(text) {
		if !isDigit(text[i]) {
			return false
		}
	}
	return true
}

func isArithmetic(operator string) bool {
	switch operator {
	case "=", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "%":
		return true
	}
	return false
}

func isAny(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(text, w) })
}

// Shared reports if the facts of a text are those of every text with the same template: none of them holds a number of
// the text, or a place in it but the end of its only statement.
func (f *Facts) Shared(text string) bool {
	if f.SessionBound || len(f.Statements) != 1 {
		return false
	}
	s := &f.Statements[0]
	return s.Start == 0 && s.End == endOf(text) && len(s.Assigned) == 0 &&
		len(s.System.References) == 0 && len(s.System.Calls) == 0 && len(s.System.Conversions) == 0
}

// Of returns shared facts as those of another text with the same template.
func (f *Facts) Of(text string) *Facts {
	of, statement := *f, f.Statements[0]
	statement.End = endOf(text)
	of.Statements = []Statement{statement}
	return &of
}

// endOf is where the statement ends in a text that has only one.
func endOf(text string) int { return len(strings.TrimRight(text, "; \t\r\n\f")) }
