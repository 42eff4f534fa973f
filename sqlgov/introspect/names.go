package introspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// objectKinds says what the values of a type stand for.
var objectKinds = map[catalog.OID]kind{
	24: function, 2202: function, 2203: operator, 2204: operator, regclassType: relation, 2206: typ, 4089: schema, 4096: "owner",
	3734: "tsconfig", 3769: "tsdict", 4191: "collation",
}

// seesKind is sees for all kinds: of those that no set is kept of, only PostgreSQL's own is visible.
func (s *Sight) seesKind(k kind, oid catalog.OID) bool {
	return oid != 0 && (oid < firstUserOID || s.objects[k][oid])
}

// number reads a literal that is an OID.
func number(text string) (catalog.OID, bool) {
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
	return catalog.OID(n), err == nil
}

// missing words the error for a name that stands for nothing, with its SQLSTATE.
var missing = map[kind][2]string{
	relation: {"42P01", "relation %q does not exist"}, function: {"42883", "function %q does not exist"},
	typ: {"42704", "type %q does not exist"}, schema: {"3F000", "schema %q does not exist"},
}

// named judges a literal that names an object. What is not visible is answered as what does not exist.
func (s *Sight) named(k kind, l *analyze.Literal) *Problem {
	text := strings.TrimSpace(l.Text)
	say, ok := missing[k]
	if !ok {
		return unsupported(l.Start, "naming %q is not supported by this gateway", text)
	}
	if _, isNumber := number(text); isNumber || text == "-" {
		if text == "-" || text == "0" {
			return nil
		}
		return unsupported(l.Start, "looking up an object by the number %s is not supported by this gateway", text)
	}
	if s.finds(k, text) {
		return nil
	}
	name := text
	if parts, ok := split(text); ok {
		name = strings.Join(parts, ".")
	}
	return &Problem{SQLState: say[0], Message: fmt.Sprintf(say[1], name), Position: l.Start + 1}
}

// finds reports if a name stands for a visible object.
func (s *Sight) finds(k kind, text string) bool {
	switch k {
	case typ:
		return s.findsType(text)
	case function:
		text, _, _ = strings.Cut(text, "(")
	}
	parts, ok := split(strings.TrimSpace(text))
	if !ok || len(parts) > 2 {
		return false
	}
	if k == schema {
		return len(parts) == 1 && s.findsSchema(parts[0])
	}
	if len(parts) == 2 {
		found, visible := s.look(k, parts[0], parts[1])
		return found && visible
	}
	for _, in := range append([]string{"pg_catalog"}, s.index.Snapshot.SearchPath...) {
		if found, visible := s.look(k, in, parts[0]); found {
			return visible
		}
	}
	return false
}

// look finds an object in a schema. Functions of one name are visible together or not at all.
func (s *Sight) look(k kind, in, name string) (found, visible bool) {
	if k == relation {
		rel := s.index.RelationNamed(in, name)
		return rel != nil, rel != nil && s.sees(relation, rel.OID)
	}
	visible = true
	for _, f := range s.index.FunctionsNamed(in, name) {
		found, visible = true, visible && s.sees(function, f.OID)
	}
	return found, visible
}

func (s *Sight) findsSchema(name string) bool {
	for i := range s.index.Snapshot.Schemas {
		if n := &s.index.Snapshot.Schemas[i]; n.Name == name {
			return s.sees(schema, n.OID)
		}
	}
	return false
}

// sqlTypes are names of PostgreSQL's own types that only its grammar knows.
var sqlTypes = []string{"int", "dec", "decimal", "float", "char", "nchar", "national char", "national character"}

// findsType finds a type by the name under which it is printed, or by its own.
func (s *Sight) findsType(text string) bool {
	text = strings.TrimSpace(strings.TrimSuffix(text, "[]"))
	if base, _, ok := strings.Cut(text, "("); ok {
		text = strings.TrimSpace(base)
	}
	if slices.ContainsFunc(sqlTypes, func(t string) bool { return strings.EqualFold(t, text) }) {
		return true
	}
	parts, ok := split(text)
	for i := range s.index.Snapshot.Types {
		t := &s.index.Snapshot.Types[i]
		if !s.sees(typ, t.OID) {
			continue
		}
		switch {
		case strings.EqualFold(t.Display, text) && t.OID < firstUserOID:
			return true
		case ok && len(parts) == 2 && parts[0] == t.Schema && parts[1] == t.Name:
			return true
		case ok && len(parts) == 1 && parts[0] == t.Name && s.reaches(t):
			return true
		}
	}
	return false
}

// reaches reports if the search path finds a type by its bare name.
func (s *Sight) reaches(t *catalog.Type) bool {
	for _, in := range append([]string{"pg_catalog"}, s.index.Snapshot.SearchPath...) {
		if found := s.index.TypeNamed(in, t.Name); found != nil {
			return found == t
		}
	}
	return false
}

// split reads a qualified name as the server does: parts without quotes are folded to lower case.
func split(text string) (parts []string, ok bool) {
	for {
		text = strings.TrimLeft(text, " \t\n")
		part, rest := "", ""
		if strings.HasPrefix(text, `"`) {
			end := 1
			for ; end < len(text); end++ {
				if text[end] != '"' {
					continue
				}
				if end+1 >= len(text) || text[end+1] != '"' {
					break
				}
				end++
			}
			if end >= len(text) {
				return nil, false
			}
			part, rest = strings.ReplaceAll(text[1:end], `""`, `"`), text[end+1:]
		} else {
			end := strings.IndexByte(text, '.')
			if end < 0 {
				end = len(text)
			}
			part, rest = strings.ToLower(strings.TrimRight(text[:end], " \t\n")), text[end:]
			if strings.ContainsAny(part, " \t\n\"") {
				return nil, false
			}
		}
		if part == "" {
			return nil, false
		}
		parts = append(parts, part)
		rest = strings.TrimLeft(rest, " \t\n")
		if rest == "" {
			return parts, true
		}
		if rest[0] != '.' {
			return nil, false
		}
		text = rest[1:]
	}
}
