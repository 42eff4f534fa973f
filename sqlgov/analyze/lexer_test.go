package analyze

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// disagreement compares the lexer with the parser's own scanner, token by token, and returns the first difference. What
// the scanner refuses it does not judge.
func disagreement(text string) string {
	scan, err := pg.Scan(text)
	if err != nil {
		return ""
	}
	lex := lexer{text: text}
	t := lex.next()
	for _, theirs := range scan.Tokens {
		if theirs.Token == pg.Token_SQL_COMMENT || theirs.Token == pg.Token_C_COMMENT {
			continue
		}
		start, end := int(theirs.Start), int(theirs.End)
		for t.end <= start && t.class != endOfText {
			t = lex.next()
		}
		inside := t.start <= start && end <= t.end
		// Of a continued constant the scanner gives the last piece, of U&'...' the end.
		exact := t.start == start && t.end == end || t.class == constant || t.class == quotedWord
		if !inside || isConstant(theirs.Token) != (t.class == constant) && !isPrefix(text[start:end], theirs.Token) {
			return fmt.Sprintf("token %q of the scanner is %q for the lexer, of class %d", text[start:end], text[t.start:t.end], t.class)
		}
		if !exact && t.class != operator && !isPrefix(text[t.start:t.start+1], theirs.Token) {
			return fmt.Sprintf("token %q of the scanner is part of %q", text[start:end], text[t.start:t.end])
		}
	}
	return ""
}

func isConstant(t pg.Token) bool {
	switch t {
	case pg.Token_SCONST, pg.Token_USCONST, pg.Token_BCONST, pg.Token_XCONST, pg.Token_ICONST, pg.Token_FCONST:
		return true
	}
	return false
}

// isPrefix allows for N'...', which the scanner gives as a keyword and a constant.
func isPrefix(word string, t pg.Token) bool {
	return t == pg.Token_NCHAR || strings.EqualFold(word, "n") && t == pg.Token_SCONST
}

func attackTexts(t testing.TB) []string {
	t.Helper()
	f, err := os.Open("../../testdata/attacks/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var texts []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var c struct {
			SQL json.RawMessage `json:"sql"`
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		var one string
		var many []string
		if json.Unmarshal(c.SQL, &one) == nil {
			texts = append(texts, one)
		} else if json.Unmarshal(c.SQL, &many) == nil {
			texts = append(texts, many...)
		}
	}
	return texts
}

var tricky = []string{
	"select 'a''b', E'a\\'b', E'a'\n'\\'', 'a' -- c\n 'b', 'a' 'b'",
	"select $$a$$, $x$ $$ $x$, a$b$c$, $1, $1$, $a, $é$x$é$",
	"select U&'\\0041' uescape '!', u&\"x\" , n'x', b'01', X'1f', Eé'x'",
	"select 1.5e10, 1e, 1.5.6, .5, 5., 1..2, 0x1F, 1_000, 1e+5, 1e-5",
	"select a+-b, a*-b, a<-b, a@-b, a--b\n, a/*c*/+/*d*/b, a ->> b, a::text, a:=b",
	"select 1$$'$$, .0$'', 1$x$'$x$, 1.$$'$$, a1$$",
	"select \"a\"\"b\", \"a--b\", \"a/*b\" /* /* nested */ */ \r -- x\r, 1",
	"select '\u00a0', a\u00a0b, caf\u00e9, '\\', 1\v+\f2",
	"select a -- x\n\n 'b'\n-- y\n 'c' 'd'\n, 'e'\n\n--z\n'f'",
}

func TestLexerAgreesWithScanner(t *testing.T) {
	for _, text := range append(attackTexts(t), tricky...) {
		if d := disagreement(text); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

func FuzzLexer(f *testing.F) {
	for _, text := range append(attackTexts(f), tricky...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 10_000 || strings.Contains(text, "\x00") || admit(text, Limits{}) != nil {
			return
		}
		if d := disagreement(text); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	})
}

func FuzzNormalize(f *testing.F) {
	for _, text := range append(attackTexts(f), tricky...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		once := Normalize(text)
		if twice := Normalize(once); twice != once {
			t.Errorf("%q becomes %q, then %q", text, once, twice)
		}
	})
}

func TestNormalize(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"select 'secret', 42, 1.5e3, $$secret$$, E'secret', X'ff', b'1' from t", "select $1, $2, $3, $4, $5, $6, $7 from t"},
		{"select  a -- secret\n /* secret */ from\n t where x = $2 and y = 'secret'", "select a from t where x = $2 and y = $3"},
		{"select 'secret", "select $1"},
		{"select $x$secret", "select $1"},
		{"select /* secret", "select"},
		{"selec 'secret' frm", "selec $1 frm"},
		{"create role x password 'secret'", "create role x password $1"},
		{"do $do$ begin secret; end $do$", "do $1"},
		{"select a.b, \"c d\", x[1], 'se' \n 'cret', 'it''s secret'", "select a.b, \"c d\", x[$1], $2, $3"},
		{"", ""},
		{" -- secret", ""},
		{"select '\xff secret'", "select $1"},
		{"select U&'secret' uescape '!', n'secret'", "select $1 uescape $2, $3"},
		{"select 1::int4, interval '1 day', -5", "select $1::int4, interval $2, -$3"},
	} {
		if got := Normalize(tc.text); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.text, got, tc.want)
		}
	}
}
