package analyze

import (
	"maps"
	"strings"
	"sync"

	"interlock/catalog"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// parserKeywords are the parser's own keywords with their category, as pg_get_keywords() names it. The parser gives no
// list; its scanner classifies the words that its token names are made of.
var parserKeywords = sync.OnceValue(func() map[string]string {
	found := map[string]string{}
	category := map[pg.KeywordKind]string{
		pg.KeywordKind_UNRESERVED_KEYWORD: "U", pg.KeywordKind_COL_NAME_KEYWORD: "C",
		pg.KeywordKind_TYPE_FUNC_NAME_KEYWORD: "T", pg.KeywordKind_RESERVED_KEYWORD: "R",
	}
	for _, name := range pg.Token_name {
		word := strings.TrimSuffix(strings.ToLower(name), "_p")
		result, err := pg.Scan(word)
		if err != nil || len(result.Tokens) != 1 {
			continue
		}
		if c := category[result.Tokens[0].KeywordKind]; c != "" {
			found[word] = c
		}
	}
	return found
})

// keywordDrift lists the words that mean something else to the server than to the parser. Between no keyword and an
// unreserved one there is no difference for a text that both accept.
func keywordDrift(server []catalog.Keyword) map[string]bool {
	theirs := make(map[string]string, len(server))
	for _, k := range server {
		theirs[k.Word] = k.Category
	}
	drift := map[string]bool{}
	if len(server) == 0 {
		return drift
	}
	ours := parserKeywords()
	for word := range maps.Keys(ours) {
		drift[word] = plainWord(ours[word]) != plainWord(theirs[word])
	}
	for word := range maps.Keys(theirs) {
		drift[word] = plainWord(ours[word]) != plainWord(theirs[word])
	}
	maps.DeleteFunc(drift, func(_ string, differs bool) bool { return !differs })
	return drift
}

func plainWord(category string) string {
	if category == "U" {
		return ""
	}
	return category
}

// legacyCalls are keywords for the parser that it still reads as a function call where that is what they are; checkDrift
// looks after the function.
var legacyCalls = map[string]bool{"json_object": true}

// checkKeywords refuses a text that uses such a word bare. Behind a dot it is a name for both.
func (k *knowledge) checkKeywords(text string) *Error {
	if len(k.drift) == 0 {
		return nil
	}
	lex := lexer{text: text}
	dot := false
	for t := lex.next(); t.class != endOfText; t = lex.next() {
		if t.class == word && !dot {
			w := strings.ToLower(text[t.start:t.end])
			if k.drift[w] && !legacyCalls[w] {
				e := refuse("0A000", "the word %q does not mean the same to this server and to the gateway", w).at(t.start)
				e.Hint = "Put it in double quotes if it is a name."
				return e
			}
		}
		dot = t.class == punctuation && text[t.start:t.end] == "."
	}
	return nil
}
