package analyze

import (
	"strings"
	"sync"
	"unicode/utf8"

	pg_query "github.com/pganalyze/pg_query_go/v5"
)

// Typed returns a func that reports if a name stands in the text as the caller typed it: the given identifiers,
// folded as PostgreSQL folds them, one behind the other and joined by dots. An empty first identifier stands for any
// qualifier: typed("", "ssn") asks for ssn behind a dot. Words in literals and comments do not count. A refusal may
// name what this func confirms and nothing else that the caller cannot see.
//
// The text must have passed the gate of Analyze. It is scanned at the first call, so Typed itself costs nothing.
func Typed(sql string) func(name ...string) bool {
	text := sync.OnceValue(func() *typedText { return scanNames(sql) })
	return func(name ...string) bool { return text().has(name) }
}

// typedText is a text as its identifiers in order, with the places of each.
type typedText struct {
	words  []string
	places map[string][]int
}

func scanNames(sql string) *typedText {
	t := &typedText{words: lexWords(sql), places: make(map[string][]int)}
	for i, w := range t.words {
		t.places[w] = append(t.places[w], i)
	}
	return t
}

func (t *typedText) has(name []string) bool {
	if len(name) == 0 {
		return false
	}
	for _, last := range t.places[name[len(name)-1]] {
		if t.endsAt(last, name) {
			return true
		}
	}
	return false
}

// endsAt reports if the last part of the name, at a place in the text, stands behind its other parts.
func (t *typedText) endsAt(place int, name []string) bool {
	for i := len(name) - 2; i >= 0; i-- {
		if place < 1 || t.words[place-1] != dot {
			return false
		}
		place -= 2
		if i == 0 && name[0] == "" {
			return true
		}
		if place < 0 || t.words[place] != name[i] {
			return false
		}
	}
	return true
}

// Stand-ins for tokens that are no identifiers. No identifier holds a NUL, so none equals them.
const (
	dot   = "\x00."
	other = "\x00"
)

// lexWords returns the identifiers of a text in order, with stand-ins for what is between them.
func lexWords(sql string) []string {
	scan, err := pg_query.Scan(sql)
	if err != nil {
		return nil
	}
	all := make([]string, 0, len(scan.Tokens))
	for _, t := range scan.Tokens {
		switch {
		case t.Token == pg_query.Token_ASCII_46:
			all = append(all, dot)
		case t.Token == pg_query.Token_IDENT, t.KeywordKind != pg_query.KeywordKind_NO_KEYWORD:
			all = append(all, identifier(sql[t.Start:t.End]))
		case t.Token == pg_query.Token_SQL_COMMENT, t.Token == pg_query.Token_C_COMMENT:
		default:
			all = append(all, other)
		}
	}
	return all
}

// maxIdentifier is NAMEDATALEN - 1.
const maxIdentifier = 63

// identifier reads an identifier as the server's lexer does: unquoted or folded, and cut at 63 bytes.
func identifier(word string) string {
	if q, ok := strings.CutPrefix(word, `"`); ok {
		word = strings.ReplaceAll(strings.TrimSuffix(q, `"`), `""`, `"`)
	} else {
		word = lowerASCII(word)
	}
	if len(word) <= maxIdentifier {
		return word
	}
	cut := maxIdentifier
	for cut > 0 && !utf8.RuneStart(word[cut]) {
		cut--
	}
	return word[:cut]
}

func lowerASCII(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
