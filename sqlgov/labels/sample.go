package labels

import (
	"bytes"
	"regexp"

	"interlock/catalog"
	"interlock/redact"
	"interlock/sqlgov/policy"
)

// Sample counts what was found in values of a column. It holds no value.
type Sample struct {
	Values int64
	// Whole counts the values that are nothing but content, by its kind, and Within those that hold some among other text.
	Whole, Within redact.Found
	text          *redact.Masker
}

// Sampled reports if values of a column are worth a look: they can hold text, or numbers as long as those of cards, and are of
// types that PostgreSQL itself brings, so that no code of the database runs when they are read as text.
func Sampled(ix *catalog.Index, c *catalog.Column) bool {
	const bigint, numeric, citext = 20, 1700, "citext"
	t := policy.MaskType(ix, c.Type, c.TypeMod)
	for t.Element != nil {
		t = *t.Element
	}
	typ := ix.Type(catalog.OID(t.OID))
	if typ == nil || typ.Schema != "pg_catalog" && typ.Extension != citext {
		return false
	}
	return t.OID == bigint || t.OID == numeric || redact.Detector(redact.Contents[:], true, t, redact.TextFormat) != nil
}

// brackets are the marks of what was found, and the punctuation of arrays and lists.
var brackets = regexp.MustCompile(`\[[a-z_]+\]|[\s{}",;<>]+`)

// Add counts a value, which is text; nil is NULL. Nothing of it is kept.
func (s *Sample) Add(value []byte) {
	if len(value) == 0 {
		return
	}
	s.Values++
	if s.text == nil {
		s.text = redact.Detector(redact.Contents[:], false, redact.Type{OID: textOID}, redact.TextFormat)
	}
	var found redact.Found
	values := [][]byte{value}
	if redact.NewRow([]*redact.Masker{s.text}).Values(values, &found) != nil {
		return
	}
	whole := len(bytes.TrimSpace(brackets.ReplaceAll(values[0], nil))) == 0
	for i := range found {
		switch {
		case found[i] == 0:
		case whole:
			s.Whole[i]++
		default:
			s.Within[i]++
		}
	}
}

const textOID = 25
