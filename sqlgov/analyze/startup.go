package analyze

import (
	"slices"
	"strings"
)

// CheckSetting reports why a client may not give a parameter a value at the start of its session, or nil. The list is
// that of SET.
func CheckSetting(name, value string) *Error {
	s, ok := settings[strings.ToLower(name)]
	if !ok {
		e := refuse("0A000", "setting parameter %q is not supported by this gateway", name)
		e.Hint = hints[strings.ToLower(name)]
		return e
	}
	if s.values != nil && !slices.Contains(s.values, strings.ToLower(value)) {
		return refuse("0A000", "parameter %q cannot be set to this value through this gateway", s.name)
	}
	return nil
}
