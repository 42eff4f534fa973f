package analyze

import (
	"math"
	"strconv"

	"interlock/catalog"
)

// built is how long a value is at least, in bytes, that a call makes as long as constants in the text say: repeat('x', 1000000).
// 0 means that the text does not say. The largest is noted for the statement.
func (a *analysis) built(f *catalog.Function, args []value) int64 {
	if f.Schema != "pg_catalog" || len(args) < 2 {
		return 0
	}
	n, err := strconv.ParseInt(args[1].text(), 10, 32)
	if err != nil || n <= 0 {
		return 0
	}
	switch f.Name {
	case "lpad", "rpad":
	case "repeat":
		if unit := max(args[0].built, int64(len(args[0].text()))); unit > 0 && n > math.MaxInt64/unit {
			n = math.MaxInt64
		} else {
			n *= max(unit, 1)
		}
	default:
		return 0
	}
	a.out.Built = max(a.out.Built, n)
	return n
}

// text is the text of a literal, "" of anything else.
func (v *value) text() string {
	if v.literal == nil {
		return ""
	}
	return v.literal.Text
}
