package catalog

import "slices"

// KeywordDrift returns the words that the parser and the server take for different kinds of word, sorted: those whose category differs, and
// those that are keywords for one only. A text that uses one of them as a bare name can mean different things to the two.
func KeywordDrift(parser, server []Keyword) []string {
	theirs := make(map[string]string, len(server))
	for _, k := range server {
		theirs[k.Word] = k.Category
	}
	var drift []string
	for _, k := range parser {
		if theirs[k.Word] != k.Category {
			drift = append(drift, k.Word)
		}
		delete(theirs, k.Word)
	}
	for word := range theirs {
		drift = append(drift, word)
	}
	slices.Sort(drift)
	return slices.Compact(drift)
}
