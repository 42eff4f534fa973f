package analyze

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	pg_query "github.com/pganalyze/pg_query_go/v5"
)

// Typed returns a func that reports if a name stands in the text as the caller typed it: the given identifiers,
// folded as PostgreSQL folds them, one behind the other and joined by dots. Words in literals and comments do not
// count. A refusal may name what this func confirms and nothing else that the caller cannot see.
//
// The text must have passed the gate of Analyze. It is scanned at the first call, so Typed itself costs nothing.
func Typed(sql string) func(name ...string) bool {
	words := sync.OnceValue(func() []string { return words(sql) })
	return func(name ...string) bool {
		want := make([]string, 0, 2*len(name))
		for i, n := range name {
			if i > 0 {
				want = append(want, dot)
			}
			want = append(want, n)
		}
		all := words()
		for i := range all {
			if len(want) > 0 && len(all)-i >= len(want) && slices.Equal(all[i:i+len(want)], want) {
				return true
			}
		}
		return false
	}
}

// Stand-ins for tokens that are no identifiers. No identifier holds a NUL, so none equals them.
const (
	dot   = "\x00."
	other = "\x00"
)

// words returns the identifiers of a text in order, with stand-ins for what is between them.
func words(sql string) []string {
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
