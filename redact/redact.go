// Package redact turns values into masked values of the same type, in PostgreSQL's text and binary formats.
//
// A Spec says what a mask does; Compile makes it a Masker for one type and format; a Row applies the maskers of a
// result to its DataRow messages and copies every other column as the bytes that arrived. The package is pure: it knows
// no SQL, no identity and no catalog. Nothing in it passes a value on because it could not be understood: that is an
// error, and the caller withholds the row.
package redact

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind is what a mask does with a value.
type Kind string

// The kinds of mask.
const (
	Null    Kind = "null"    // NULL
	Fixed   Kind = "fixed"   // the same value for all
	Partial Kind = "partial" // the first or last characters, and a filler for the rest
	Email   Kind = "email"   // the first letter, and the domain if it is kept
	Hash    Kind = "hash"    // a keyed hash: equal values stay equal
	Date    Kind = "date"    // a date or time cut to its hour, day, week, month, quarter or year
	Number  Kind = "number"  // a number cut, towards zero, to a multiple
	Range   Kind = "range"   // the lower bound of the range that a number lies in
	Digits  Kind = "digits"  // other digits in the place of the digits; equal values stay equal
	JSON    Kind = "json"    // some members of a JSON document
)

// Kinds lists every kind, in the order in which documentation shows them.
var Kinds = []Kind{Null, Fixed, Partial, Email, Hash, Date, Number, Range, Digits, JSON}

// Units lists what Date cuts to.
var Units = []string{"year", "quarter", "month", "week", "day", "hour"}

// Filler stands for what Partial and Email hide. It says nothing about how long that was.
const Filler = "***"

// Spec describes a mask. Which fields count depends on Kind; Check says what is wrong with them.
type Spec struct {
	Kind  Kind   `json:"kind"`
	Value string `json:"value,omitempty"` // Fixed: as the type's input function reads it
	// First and Last are how many characters Partial shows, and Last how many digits Digits keeps. A value of which less
	// than half would be hidden is hidden whole.
	First int `json:"first,omitempty"`
	Last  int `json:"last,omitempty"`
	// Domain is set when Email shows the domain.
	Domain bool     `json:"domain,omitempty"`
	Unit   string   `json:"unit,omitempty"`   // Date: one of Units
	Step   string   `json:"step,omitempty"`   // Number: a decimal number more than 0
	Bounds []string `json:"bounds,omitempty"` // Range: decimal numbers in ascending order; what lies below the first gets the first
	// Hide and Show are paths of JSON: $.customer.name, $.items[*].price. The values at Hide become null; of a document
	// with Show nothing else is left. One of the two is set.
	Hide []string `json:"hide,omitempty"`
	Show []string `json:"show,omitempty"`
}

// Keyed reports if the mask needs a key. Under different keys the same value is masked differently.
func (s *Spec) Keyed() bool { return s.Kind == Hash || s.Kind == Digits }

// Check returns what is wrong with the parameters, whatever the type.
func (s *Spec) Check() error {
	switch s.Kind {
	case Null, Fixed, Email, Hash:
	case Partial:
		if s.First < 0 || s.Last < 0 || s.First+s.Last < 1 {
			return errors.New("a partial mask shows some first or last characters; hide all with fixed or null")
		}
	case Date:
		if !slices.Contains(Units, s.Unit) {
			return fmt.Errorf("unknown unit %q; a date is cut to its %s", s.Unit, strings.Join(Units, ", "))
		}
	case Number:
		if n, ok := parseDecimal(s.Step); !ok || n.special != "" || n.digits.Sign() <= 0 {
			return fmt.Errorf("step %q is no number more than 0", s.Step)
		}
	case Range:
		return s.checkBounds()
	case Digits:
		if s.Last < 0 {
			return errors.New("last must not be less than 0")
		}
	case JSON:
		_, err := s.paths()
		return err
	default:
		return fmt.Errorf("unknown kind %q of mask", s.Kind)
	}
	return nil
}

func (s *Spec) checkBounds() error {
	if len(s.Bounds) < 1 {
		return errors.New("a range mask needs bounds")
	}
	var last decimal
	for i, text := range s.Bounds {
		n, ok := parseDecimal(text)
		if !ok || n.special != "" {
			return fmt.Errorf("bound %q is no number", text)
		}
		if i > 0 && n.compare(last) <= 0 {
			return fmt.Errorf("bound %q is not more than the one before", text)
		}
		last = n
	}
	return nil
}

// Type is the type of a value, as far as masks care. Domains have been taken off.
type Type struct {
	OID  uint32
	Name string // for messages
	// Length is the n of varchar(n) and char(n); 0 is no bound.
	Length int
	// Text is set for the types of extensions whose text and binary forms are plain text, as citext's are.
	Text    bool
	Plain   bool  // set for types that hold no free text, as enumerations
	Element *Type // of an array
}

// Format is a format code of the protocol.
type Format int16

// The formats.
const (
	TextFormat   Format = 0
	BinaryFormat Format = 1
)

// Masker masks the values of one column. It is safe for concurrent use.
type Masker struct {
	null  bool
	apply func(dst, value []byte) ([]byte, error)
	find  *finding // in what apply makes, if there is one
}

// Hidden is the Masker of Null, which fits every type and format.
var Hidden = &Masker{null: true}

// Append appends the masked form of a value, which is not NULL, to dst. isNull says that it is NULL; then nothing is
// appended. The error says nothing of the value.
func (m *Masker) Append(dst, value []byte) (out []byte, isNull bool, err error) {
	return m.append(dst, value, &Found{})
}

// append is Append, and counts the content that it finds.
func (m *Masker) append(dst, value []byte, found *Found) (out []byte, isNull bool, err error) {
	switch {
	case m.null:
		return dst, true, nil
	case m.find == nil:
		out, err = m.apply(dst, value)
		return out, false, err
	case m.apply != nil:
		if value, err = m.apply(nil, value); err != nil {
			return dst, false, err
		}
	}
	out, err = m.find.append(dst, value, found)
	return out, false, err
}

// Then returns a masker that finds content in what the mask shows. detector is one of Detector.
func (m *Masker) Then(detector *Masker) *Masker {
	switch {
	case m == nil:
		return detector
	case m.null || detector == nil:
		return m
	case detector.null:
		return detector
	}
	return &Masker{apply: m.apply, find: detector.find}
}

// errUnreadable is why a value cannot be masked.
var errUnreadable = errors.New("the value is not of the form that the mask reads")

// Fits returns nil if the mask keeps the type, else why it does not.
func (s *Spec) Fits(t Type) error {
	_, err := Compile(s, t, TextFormat, make([]byte, KeyBytes))
	return err
}

// Compile makes the masker of a spec for a type and a format. key is for the kinds that are Keyed: KeyBytes bytes, the
// same for all columns in which equal values are to stay equal. An array is masked element by element.
func Compile(s *Spec, t Type, f Format, key []byte) (*Masker, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if f != TextFormat && f != BinaryFormat {
		return nil, fmt.Errorf("unknown format %d", f)
	}
	if s.Keyed() && len(key) != KeyBytes {
		return nil, fmt.Errorf("the key has %d bytes, not %d", len(key), KeyBytes)
	}
	if s.Kind == Null {
		return Hidden, nil
	}
	if t.Element != nil {
		return compileArray(s, t, f, key)
	}
	c := compiler{s, t, f, key}
	apply, err := c.compile()
	if err != nil {
		return nil, err
	}
	return &Masker{apply: apply}, nil
}

// compiler makes the func of one Masker.
type compiler struct {
	*Spec
	typ    Type
	format Format
	key    []byte
}

type masking = func(dst, value []byte) ([]byte, error)

func (c *compiler) compile() (masking, error) {
	switch c.Kind {
	case Fixed:
		return c.fixed()
	case Partial:
		return c.text(c.partial)
	case Email:
		return c.text(c.email)
	case Digits:
		return c.text(c.digits)
	case Hash:
		return c.hash()
	case Date:
		return c.date()
	case Number:
		return c.number()
	case Range:
		return c.ranges()
	case JSON:
		return c.json()
	}
	return nil, c.misfit()
}

func (c *compiler) misfit() error {
	return fmt.Errorf("a mask of kind %s does not fit values of type %s", c.Kind, c.typ.Name)
}

// Placeholder reports if a text is what the mask shows in the place of values, so that writing it into a column would
// most likely put the mask over the data.
func (s *Spec) Placeholder(text string) bool {
	switch s.Kind {
	case Fixed:
		return text == s.Value
	case Partial:
		return text == Filler || utf8.RuneCountInString(text) == s.First+s.Last+len(Filler) && strings.Contains(text, Filler)
	case Email:
		first, domain, found := strings.Cut(text, "@")
		_, size := utf8.DecodeRuneInString(first)
		return text == Filler || found && first[size:] == Filler && (domain == Filler || s.Domain)
	}
	return false
}

// decimal is a number of any size: digits divided by 10^scale, or NaN or an infinity.
type decimal struct {
	special string
	digits  *big.Int
	scale   int
}
