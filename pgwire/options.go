package pgwire

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"interlock/sqlgov"
)

// sessionParameters collects the settings that a StartupMessage asks for, those in "options" first, as PostgreSQL
// applies them. Whether each may be set is for the core to say.
func sessionParameters(h *hello) (map[string]string, error) {
	settings := map[string]string{}
	if err := commandLine(h.param("options"), settings); err != nil {
		return nil, err
	}
	for _, p := range h.params {
		switch p.name {
		case "user", "database", "options":
		case "replication":
			if err := noReplication(h.param(p.name)); err != nil {
				return nil, err
			}
		default:
			settings[canonical(p.name)] = p.value
		}
	}
	return settings, checkEncoding(settings)
}

// noReplication refuses the walsender protocol, whose statements have a grammar of their own.
func noReplication(value string) error {
	switch strings.ToLower(value) {
	case "false", "off", "no", "0":
		return nil
	}
	return unsupported("replication connections are not supported")
}

// checkEncoding holds a client to UTF-8. SQL_ASCII is what libpq asks for in the C locale; to a server whose encoding
// is UTF-8 it means the same bytes, checked the same way.
func checkEncoding(settings map[string]string) error {
	value, ok := settings["client_encoding"]
	if !ok {
		return nil
	}
	plain := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return unicode.ToLower(r)
		}
		return -1
	}, value)
	switch plain {
	case "utf8", "unicode", "sqlascii":
		settings["client_encoding"] = "UTF8"
		return nil
	}
	r := unsupported(fmt.Sprintf("client_encoding %q is not supported", value))
	r.Hint = "Set client_encoding to UTF8, for example with PGCLIENTENCODING=UTF8."
	return r
}

// canonical is the name of a setting as PostgreSQL compares it.
func canonical(name string) string { return strings.ToLower(name) }

// commandLine reads the settings in "options": -c name=value, -cname=value and --name=value. The other switches of a
// server process are not for clients here.
func commandLine(options string, settings map[string]string) error {
	words := splitOptions(options)
	if n := len(words); n > 0 && words[n-1] == "--" {
		words = words[:n-1] // the end of the switches
	}
	for i := 0; i < len(words); i++ {
		setting, long := strings.CutPrefix(words[i], "--")
		if !long {
			short, ok := strings.CutPrefix(words[i], "-c")
			if !ok {
				return commandLineError("invalid command-line argument for server process: " + words[i])
			}
			if setting = short; setting == "" && i+1 < len(words) {
				i++
				setting = words[i]
			}
		}
		name, value, ok := strings.Cut(setting, "=")
		if !ok || name == "" {
			return commandLineError(fmt.Sprintf("%s requires a value", words[i]))
		}
		settings[canonical(strings.ReplaceAll(name, "-", "_"))] = value
	}
	return nil
}

func commandLineError(message string) error {
	return &sqlgov.Refusal{Kind: sqlgov.InvalidInput, SQLState: "42601", Message: message}
}

// splitOptions cuts at white space; a backslash takes away the meaning of the character behind it.
func splitOptions(s string) []string {
	var words []string
	var word strings.Builder
	open, escaped := false, false
	for i := range len(s) {
		ch := s[i]
		switch {
		case !escaped && ch == '\\':
			escaped, open = true, true
		case !escaped && strings.IndexByte(" \t\n\v\f\r", ch) >= 0:
			if open {
				words = append(words, word.String())
				word.Reset()
			}
			open = false
		default:
			word.WriteByte(ch)
			escaped, open = false, true
		}
	}
	if open {
		words = append(words, word.String())
	}
	return words
}

// validText refuses a parameter that is not UTF-8.
func validText(p startupParam) error {
	for _, s := range []string{p.name, p.value} {
		if !utf8.ValidString(s) {
			return badEncoding(s)
		}
	}
	return nil
}
