package labels_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"interlock/catalog"
	"interlock/sqlgov/labels"
)

// types are as PostgreSQL's catalog has them.
var types = []catalog.Type{
	{OID: 16, Schema: "pg_catalog", Name: "bool", Kind: "b", Category: "B"},
	{OID: 20, Schema: "pg_catalog", Name: "int8", Kind: "b", Category: "N"},
	{OID: 25, Schema: "pg_catalog", Name: "text", Kind: "b", Category: "S", Array: 1009},
	{OID: 869, Schema: "pg_catalog", Name: "inet", Kind: "b", Category: "I"},
	{OID: 1009, Schema: "pg_catalog", Name: "_text", Kind: "b", Category: "A", Element: 25},
	{OID: 1082, Schema: "pg_catalog", Name: "date", Kind: "b", Category: "D"},
	{OID: 3802, Schema: "pg_catalog", Name: "jsonb", Kind: "b", Category: "U"},
	{OID: 20001, Schema: "app", Name: "address_line", Kind: "d", Category: "S", Base: 25, BaseMod: -1},
	{OID: 20002, Schema: "app", Name: "sealed", Kind: "b", Category: "U"},
}

// What a person would say of a column, by its name, its type, its comment or its values, and of one that looks like any other.
func TestPropose(t *testing.T) {
	ix := catalog.NewIndex(&catalog.Snapshot{Types: types})
	many := func(form string) (all []string) {
		for i := range 40 {
			all = append(all, fmt.Sprintf(form, i))
		}
		return all
	}
	for _, tc := range []struct {
		table, column string
		oid           catalog.OID
		comment       string
		values        []string
		want          string // label, or content in brackets; "perhaps" before it if it is not likely
	}{
		{"t", "email", 25, "", nil, "email"},
		{"t", "billingEMail", 25, "", nil, "email"},
		{"t", "contact", 25, "", many("a%d@example.com"), "email"},
		{"t", "contacts", 1009, "", many("{a%[1]d@example.com,b%[1]d@example.com}"), "email"},
		{"t", "email", 25, "", many("template-%d"), "perhaps email"},
		{"t", "email", 25, "", []string{"pending"}, "email"}, // too few to tell
		{"t", "email_sent", 16, "", nil, ""},
		{"t", "mail_address", 20001, "", nil, "email"},
		{"t", "address_line_1", 20001, "", nil, "address"},
		{"t", "ip_address", 25, "", nil, "ip"},
		{"t", "seen_from", 869, "", nil, "ip"},
		{"t", "date_of_birth", 1082, "", nil, "birth_date"},
		{"t", "birthDate", 25, "", nil, "birth_date"},
		{"t", "born", 20, "", nil, ""},
		{"t", "x17", 25, "Social security number, of the spouse", nil, "perhaps ssn"},
		{"t", "pan", 20, "", append(many("10000000000%05d"), "4111111111111111"), "card"},
		{"t", "reference", 20, "", []string{"4111111111111111", "5500005555555559"}, "card"},
		{"t", "reference", 25, "", many("10000000000%05d"), ""},
		{"t", "api_token", 25, "", nil, "secret"},
		{"customers", "name", 25, "", nil, "name"},
		{"products", "name", 25, "", nil, ""},
		{"products", "zipper", 25, "", nil, ""},
		{"t", "note", 25, "", many("write to a%d@example.com"), "[email]"},
		{"t", "note", 3802, "", many(`{"to": "a%d@example.com", "n": 1}`), "[email]"},
		{"t", "note", 25, "", append(slices.Repeat(many("nothing to see in %d"), 5), "but a@example.com"), ""}, // one in 201
		{"t", "note", 25, "", append(many("nothing to see in %d"), "but a@example.com"), "[email]"},
	} {
		c := catalog.Column{Num: 1, Name: tc.column, Type: tc.oid, TypeMod: -1, Comment: tc.comment}
		rel := &catalog.Relation{Schema: "app", Name: tc.table, Kind: catalog.Table, Columns: []catalog.Column{c}}
		var s labels.Sample
		for _, v := range tc.values {
			s.Add([]byte(v))
		}
		s.Add(nil)
		got := ""
		if p := labels.Propose(ix, rel, &c, &s); p != nil {
			if got = p.Label; got == "" {
				got = fmt.Sprint(p.Content)
			}
			if !p.Likely {
				got = "perhaps " + got
			}
			if because := strings.Join(p.Because, " "); strings.Contains(because, "example") || strings.Contains(because, "4111") {
				t.Errorf("%s.%s: a value is in the reason: %s", tc.table, tc.column, because)
			}
		}
		if got != tc.want {
			t.Errorf("%s.%s of type %d with %.1q: %q, want %q", tc.table, tc.column, tc.oid, tc.values, got, tc.want)
		}
	}
}

// Values are read where PostgreSQL's own code makes text of them, and nowhere else.
func TestSampled(t *testing.T) {
	ix := catalog.NewIndex(&catalog.Snapshot{Types: types})
	for oid, want := range map[catalog.OID]bool{25: true, 1009: true, 20001: true, 3802: true, 20: true, 16: false, 1082: false, 869: false, 20002: false, 4711: false} {
		if got := labels.Sampled(ix, &catalog.Column{Type: oid, TypeMod: -1}); got != want {
			t.Errorf("type %d: %v, want %v", oid, got, want)
		}
	}
}
