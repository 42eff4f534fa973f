package analyze

import (
	"strings"
	"testing"
)

// The operand of a cast is what PostgreSQL's grammar binds to it: "::" binds tighter than every operator but ".".
func TestCastExtent(t *testing.T) {
	for text, want := range map[string]string{
		"select a.oid::regtype":                   "a.oid|oid",
		`select x."O id" :: regtype`:              `x."O id"|"O id"`,
		"select $1::regclass":                     "$1|",
		"where 1 = oid::regtype and x":            "oid|oid",
		"select (a.b)::regtype":                   "(a.b)|b",
		"select (a || b)::regclass":               "(a || b)|",
		"select quote_ident(a.b)::regclass":       "quote_ident(a.b)|quote_ident",
		"select f(pg_catalog.g(x), y)::regclass":  "f(pg_catalog.g(x), y)|f",
		"select a.b[1]::regtype":                  "a.b[1]|b",
		"select max(x) + min(y)::regclass":        "min(y)|min",
		"select x::oid::regclass":                 "x::oid|x",
		"select x::varchar(10)::regclass":         "x::varchar(10)|x",
		"select cast(a.b as regclass)":            "a.b|b",
		"select cast(cast(x as oid) as regclass)": "cast(x as oid)|cast",
		"select cast(min(b) as regclass)":         "min(b)|min",
		"select cast(a + b as regclass)":          "a + b|",
		"select /* ::regtype */ ')' , b::regtype": "b|b",
		"select x::character varying::regclass":   "",
		"select case when a then b end::regclass": "",
		"select sum(x) filter (where y)::regtype": "",
		"select x collate \"C\"::regclass":        "",
		"select interval '1'::regclass":           "",
	} {
		lower := strings.ToLower(text)
		at := strings.LastIndex(lower, "::")
		if strings.Contains(lower, "cast(") && !strings.Contains(lower, "::regclass") {
			at = strings.Index(lower, "cast(")
		}
		operand, name, ok := CastExtent(text, at)
		got := ""
		if ok {
			got = text[operand.Start:operand.End] + "|" + name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
