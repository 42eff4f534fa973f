package sqlgov

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"interlock/sqlgov/analyze"
)

// bound checks the settings that a statement makes against the limits of the source: a session may shorten the
// statement timeout that it was opened with, and not lengthen it. 0, which is no timeout to PostgreSQL, returns to that
// timeout; see lifted.
func (c *Core) bound(_ context.Context, a *admission) *Refusal {
	statements := a.judged.facts.Statements
	for i := range statements {
		for _, s := range statements[i].Settings {
			if r := boundTimeout(s, statementTimeout(a.src)); r != nil {
				return r
			}
		}
	}
	return nil
}

func boundTimeout(s analyze.Setting, limit time.Duration) *Refusal {
	if s.Name != "statement_timeout" || s.Default {
		return nil
	}
	value, err := parseTimeout(s.Value)
	if err != nil {
		return &Refusal{Kind: InvalidInput, SQLState: "22023", Message: `invalid value for parameter "statement_timeout"`,
			Hint: "Write a number of milliseconds, or one with a unit: ms, s, min, h."}
	}
	if value > limit {
		return &Refusal{Kind: Denied, SQLState: "42501",
			Message: fmt.Sprintf("statement_timeout may be at most %s on this source", limit),
			Hint:    "A shorter timeout can be set; ask your administrator for a longer limit."}
	}
	return nil
}

// timeUnits are those of PostgreSQL's time parameters (manual, "Parameter Names and Values").
var timeUnits = map[string]time.Duration{"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
	"min": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "": time.Millisecond}

// parseTimeout reads the value of a time parameter whose unit is the millisecond.
func parseTimeout(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	digits := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyz ")
	unit, known := timeUnits[strings.TrimSpace(text[len(digits):])]
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || !(n >= 0 && n <= 1e12) {
		return 0, fmt.Errorf("%q is no time", text)
	}
	return time.Duration(n * float64(unit)), nil
}
