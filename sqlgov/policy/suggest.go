package policy

import (
	"fmt"
	"strings"
)

// Suggest returns ` (did you mean "x"?)` for the candidate that is closest to a mistyped word, or "" when none is close.
func Suggest(word string, candidates []string) string {
	best, limit := "", max(1, len(word)/3)+1
	for _, c := range candidates {
		d := distance(word, c)
		if len(word) > 2 && (strings.HasPrefix(c, word) || strings.HasSuffix(c, "."+word)) {
			d = 1 // a piece of the right word
		}
		if d < limit {
			best, limit = c, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// distance is the number of bytes to insert, delete, replace or swap with the next to get from one word to the other
// (optimal string alignment).
func distance(a, b string) int {
	var before, row []int
	next := make([]int, len(b)+1)
	for j := range next {
		next[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, row, next = row, next, make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
	}
	return next[len(b)]
}
