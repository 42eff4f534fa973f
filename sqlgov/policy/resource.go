package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"interlock/catalog"
)

// maxIdentifier is how many bytes of an identifier PostgreSQL keeps (NAMEDATALEN - 1).
const maxIdentifier = 63

// ChannelPrefix begins the pattern of a channel.
const ChannelPrefix = "channel:"

// ParseResource reads a resource pattern: "*", "schema.object", "schema.table.column" or "channel:name". A part is "*", or an
// identifier as PostgreSQL reads it: folded to lower case and cut at 63 bytes unless it is in double quotes.
func ParseResource(text string) (Resource, error) {
	r := Resource{Text: text}
	rest, channel := strings.CutPrefix(text, ChannelPrefix)
	r.Channel = channel
	for {
		part, tail, err := cutPart(rest)
		if err != nil {
			return Resource{}, fmt.Errorf("resource %q: %w", text, err)
		}
		r.Parts = append(r.Parts, part)
		if tail == "" {
			break
		}
		rest = tail[1:]
	}
	switch {
	case channel && len(r.Parts) > 1:
		return Resource{}, fmt.Errorf("resource %q: a channel has no schema; put a name with a dot in double quotes", text)
	case channel:
	case len(r.Parts) == 1 && !r.Parts[0].Any:
		return Resource{}, fmt.Errorf(`resource %q: write the schema too, as in "public.%s"`, text, text)
	case len(r.Parts) > 3:
		return Resource{}, fmt.Errorf("resource %q has %d parts; schema.table.column has three", text, len(r.Parts))
	}
	return r, nil
}

// cutPart reads one part; tail is what follows it, from the dot on.
func cutPart(s string) (part Part, tail string, err error) {
	if strings.HasPrefix(s, `"`) {
		return cutQuoted(s)
	}
	word := s
	if i := strings.IndexByte(s, '.'); i >= 0 {
		word, tail = s[:i], s[i:]
	}
	switch {
	case word == "*":
		return Part{Any: true}, tail, nil
	case word == "":
		return Part{}, "", errors.New("a part is empty")
	case strings.Contains(word, "*"):
		return Part{}, "", errors.New(`"*" stands for a whole part, not for a piece of a name`)
	case !plainIdentifier(word):
		return Part{}, "", fmt.Errorf("%q is no plain identifier; put it in double quotes", word)
	}
	return Part{Name: truncate(lowerASCII(word))}, tail, nil
}

func cutQuoted(s string) (part Part, tail string, err error) {
	var name strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != '"':
			name.WriteByte(s[i])
			continue
		case i+1 < len(s) && s[i+1] == '"':
			name.WriteByte('"')
			i++
			continue
		case name.Len() == 0:
			return Part{}, "", errors.New("a quoted part is empty")
		case i+1 < len(s) && s[i+1] != '.':
			return Part{}, "", errors.New("a quoted part must be followed by a dot")
		}
		return Part{Name: truncate(name.String())}, s[i+1:], nil
	}
	return Part{}, "", errors.New("a double quote is not closed")
}

// plainIdentifier reports if PostgreSQL's lexer takes the whole word as an unquoted identifier.
func plainIdentifier(word string) bool {
	for i := 0; i < len(word); i++ {
		c := word[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', c >= utf8.RuneSelf:
		case i > 0 && ('0' <= c && c <= '9' || c == '$'):
		default:
			return false
		}
	}
	return word != "" && utf8.ValidString(word)
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

func truncate(name string) string {
	if len(name) <= maxIdentifier {
		return name
	}
	cut := maxIdentifier
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut]
}

// reaches reports if the pattern is about the object schema.object or about a column of it.
func (r *Resource) reaches(schema, object string) bool {
	if r.Channel {
		return false
	}
	if p := &r.Parts[0]; p.Any {
		if catalog.IsSystemSchema(schema) {
			return false
		}
	} else if p.Name != schema {
		return false
	}
	return len(r.Parts) == 1 || r.Parts[1].Any || r.Parts[1].Name == object
}

// wholeObject reports if the pattern covers all of an object that it reaches, not just one column.
func (r *Resource) wholeObject() bool { return len(r.Parts) < 3 || r.Parts[2].Any }

// column reports if the pattern covers a column of a table that it reaches.
func (r *Resource) column(name string) bool { return r.wholeObject() || r.Parts[2].Name == name }

// channel reports if the pattern covers a channel.
func (r *Resource) channel(name string) bool {
	return r.everyChannel() || r.Channel && r.Parts[0].Name == name
}

// everyChannel reports if the pattern covers all channels.
func (r *Resource) everyChannel() bool { return len(r.Parts) == 1 && r.Parts[0].Any }

// everything reports if the pattern covers all that lies outside the system schemas.
func (r *Resource) everything() bool {
	if r.Channel {
		return false
	}
	for _, p := range r.Parts {
		if !p.Any {
			return false
		}
	}
	return true
}
