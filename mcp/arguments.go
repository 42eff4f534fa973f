package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"interlock/sqlgov"
)

// schema is the part of JSON Schema that the tools' arguments use. A keyword that is not here cannot be published by
// mistake, because decoding refuses it; so what clients are told is what is checked.
type schema struct {
	Type        string            `json:"type"`
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Additional  *bool             `json:"additionalProperties"`
	Items       *schema           `json:"items"`
	MaxItems    int               `json:"maxItems"`
	MinLength   int               `json:"minLength"`
	MaxLength   int               `json:"maxLength"` // in characters; the schema of items has it too
	Enum        []string          `json:"enum"`
	Format      string            `json:"format"` // date-time (RFC 3339), or none
	Minimum     *int64            `json:"minimum"`
	Maximum     *int64            `json:"maximum"`
}

// UnmarshalJSON refuses keywords that check does not know.
func (s *schema) UnmarshalJSON(b []byte) error {
	type plain schema
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	return decoder.Decode((*plain)(s))
}

// check compares the arguments of a call with the schema. The refusal names the argument and says what it must be.
func (s schema) check(tool string, args value) *sqlgov.Refusal {
	if args.shape != absent && args.shape != object {
		return badArgument("the arguments of %s must be a JSON object", tool)
	}
	for _, m := range args.members {
		property, known := s.Properties[m.name]
		if !known {
			return badArgument("%s has no argument %q; it takes %s", tool, m.name, s.names())
		}
		if complaint := property.checkValue(m.value); complaint != "" {
			return badArgument("argument %q of %s %s", m.name, tool, complaint)
		}
	}
	for _, name := range s.Required {
		if args.get(name).shape == absent {
			return badArgument("%s needs the argument %q", tool, name)
		}
	}
	return nil
}

func badArgument(format string, args ...any) *sqlgov.Refusal {
	return &sqlgov.Refusal{Kind: sqlgov.InvalidInput, Message: fmt.Sprintf(format, args...)}
}

// names lists the arguments that there are, for a message.
func (s schema) names() string {
	names := make([]string, 0, len(s.Properties))
	for name := range s.Properties {
		names = append(names, name)
	}
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// checkValue says what is wrong with a value; "" if nothing is.
func (s schema) checkValue(v value) string {
	switch s.Type {
	case "string":
		return s.checkString(v)
	case "boolean":
		if v.shape != boolean {
			return "must be true or false"
		}
		return ""
	case "array":
		return s.checkArray(v)
	case "object":
		return s.checkObject(v)
	}
	return s.checkInteger(v)
}

func (s schema) checkString(v value) string {
	switch {
	case v.shape != text:
		return "must be a string"
	case len(v.str) < s.MinLength || strings.TrimSpace(v.str) == "" && s.MinLength > 0:
		return "must not be empty"
	case s.MaxLength > 0 && utf8.RuneCountInString(v.str) > s.MaxLength:
		return fmt.Sprintf("must have at most %d characters", s.MaxLength)
	case len(s.Enum) > 0 && !slices.Contains(s.Enum, v.str):
		return "must be one of " + strings.Join(s.Enum, ", ")
	}
	if s.Format == formatTime {
		if _, err := time.Parse(time.RFC3339, v.str); err != nil {
			return "must be a time like 2026-07-28T09:30:00Z"
		}
	}
	return ""
}

// formatTime is JSON Schema's name for the times of RFC 3339.
const formatTime = "date-time"

func (s schema) checkArray(v value) string {
	if v.shape != array {
		return "must be an array"
	}
	if len(v.items) > s.MaxItems {
		return fmt.Sprintf("must have at most %d items", s.MaxItems)
	}
	for _, item := range v.items {
		if complaint := s.Items.checkValue(item); complaint != "" {
			return "has an item that " + complaint
		}
	}
	return ""
}

func (s schema) checkObject(v value) string {
	if v.shape != object {
		return "must be an object"
	}
	for _, m := range v.members {
		property, known := s.Properties[m.name]
		if !known {
			return fmt.Sprintf("has no member %q; it takes %s", m.name, s.names())
		}
		if complaint := property.checkValue(m.value); complaint != "" {
			return fmt.Sprintf("has a member %q that %s", m.name, complaint)
		}
	}
	return ""
}

func (s schema) checkInteger(v value) string {
	n, ok := integer(v)
	switch {
	case !ok:
		return "must be an integer"
	case s.Minimum != nil && n < *s.Minimum:
		return fmt.Sprintf("must be at least %d", *s.Minimum)
	case s.Maximum != nil && n > *s.Maximum:
		return fmt.Sprintf("must be at most %d", *s.Maximum)
	}
	return ""
}

// integer reads a JSON number as JSON Schema does: 10, 10.0 and 1e1 are the same integer. One beyond int64 counts
// as the nearest end.
func integer(v value) (int64, bool) {
	if v.shape != number {
		return 0, false
	}
	raw := string(v.raw)
	if !strings.ContainsAny(raw, ".eE") {
		n, err := strconv.ParseInt(raw, 10, 64)
		return n, err == nil || n != 0
	}
	f, err := strconv.ParseFloat(raw, 64)
	const exact = 1 << 53
	return int64(f), err == nil && f == float64(int64(f)) && f > -exact && f < exact
}
