package introspect

import (
	"slices"
	"strings"
	"testing"
)

// A position in the rewritten text is one in the caller's, in characters: before, inside and behind what was replaced.
func TestPosition(t *testing.T) {
	w := &writer{text: "select 'ä', c.nosuch from pg_class c where x"}
	at := strings.Index(w.text, "pg_class")
	w.edits = []edit{{start: at, end: at + len("pg_class"), text: "(select * from pg_catalog.pg_class where hidden)"}}
	text := w.finish()
	for _, word := range []string{"'ä'", "c.nosuch", "c where", "x"} {
		sent := len([]rune(text.SQL[:strings.LastIndex(text.SQL, word)])) + 1
		want := len([]rune(w.text[:strings.LastIndex(w.text, word)])) + 1
		if got := text.Position(sent); got != want {
			t.Errorf("%q stands at %d for the server, at %d for the caller; got %d", word, sent, want, got)
		}
	}
	inside := len([]rune(text.SQL[:strings.Index(text.SQL, "hidden")])) + 1
	if got, want := text.Position(inside), len([]rune(w.text[:at]))+1; got != want {
		t.Errorf("inside the replacement: %d, want %d", got, want)
	}
	if text.Position(0) != 0 {
		t.Error("an unknown position stays unknown")
	}
}

// Edits at one place nest: the outer call's beginning comes first, its end last.
func TestEditsNest(t *testing.T) {
	w := &writer{text: "f(g(x))"}
	w.edits = []edit{
		{start: 2, end: 4, text: "G<", order: 0}, {start: 5, end: 6, text: ">", order: 0},
		{start: 0, end: 2, text: "F<", order: -1}, {start: 6, end: 7, text: ">", order: 1},
	}
	if got := w.finish().SQL; got != "F<G<x>>" {
		t.Errorf("%s", got)
	}
}

// Names are read as PostgreSQL reads them (manual, "Identifiers and Key Words").
func TestSplit(t *testing.T) {
	for text, want := range map[string][]string{
		"crm.customers": {"crm", "customers"}, `CRM . "Customers"`: {"crm", "Customers"}, `"a""b.c"`: {`a"b.c`},
		"": nil, "a b": nil, `"open`: nil, "a..b": nil, "a.": nil,
	} {
		got, ok := split(text)
		if ok != (want != nil) || ok && !slices.Equal(got, want) {
			t.Errorf("%q: %q %v", text, got, ok)
		}
	}
}

// The attack: a text that names a hidden object in another case, in quotes, or as a name of several words.
func TestWordsIn(t *testing.T) {
	w := &words{plain: map[string]bool{"ssn": true}, odd: []string{"my table"}}
	for text, want := range map[string]bool{
		"CHECK (ssn <> '')": true, `"ssn"`: true, "nextval('hr.ssn'::regclass)": true, "SSN": true, `SELECT FROM "my table"`: true,
		"ssn_last4": false, "": false, "CHECK (amount > 0)": false,
	} {
		if got := w.in(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestLeakproofList(t *testing.T) {
	if n := len(leakproofOIDs()); n < 300 {
		t.Errorf("%d functions", n)
	}
}
