package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A reviewer sees first which columns show what they did not show before, through views too, at either door, and by content detection
// that looks for less.
func TestDiffShowsMasks(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	base := strings.Replace(maskedDocument, "thousands: {kind: number, step: 1000}", "last4: {kind: partial, last: 4}", 1)
	known, old := "--catalog="+write("catalog", string(maskedCatalog(t))), write("old.yaml", base)
	with := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(base) }
	const upstream = "tls: disable}}"
	content := func(spec string) string { return with(upstream, "tls: disable}, content: "+spec+"}") }
	onPolicy := func(when string) string {
		return base + "policies:\n  hide: {when: '" + when + "', mask: {with: last4, on: [crm.c.id]}}\n"
	}
	const id, email, address = "ana@shop crm.c (id)", "ana@shop crm.c (email)", "ana@shop crm.v (address)"
	for _, tc := range []struct {
		name, before, after string
		says                []string
		not                 string
	}{
		{"unmasked", base, with("masks:\n      - {with: email, on: [crm.c.email]}", "masks: []"),
			[]string{"! " + email + ": shown as it is, was masked by email\n", "! " + address + ": shown as it is, was masked by email\n", "! ana@shop crm.v (either): shown as it is, was masked by null\n"}, "* ana"},
		{"an exception", base, with("on: [crm.c.email]}", "on: [crm.c.email], except: [crm.v.address]}"),
			[]string{"! " + address + ": shown as it is"}, email},
		{"masked", with("masks:\n      - {with: email, on: [crm.c.email]}", "masks: []"), base, []string{"* " + email + ": masked by email, was shown as it is\n"}, "!"},
		{"another mask", base, with("with: email", "with: last4"), []string{"* " + email + ": masked by last4, was by email\n"}, "!"},
		{"a mask that changes", base, with("email: {kind: email}", "email: {kind: email, filterable: true}"), []string{"* " + email + ": masked by email, which has changed\n"}, "!"},
		{"lines", base, with("masks:\n  email", "masks:\n\n\n  email"), nil, ""},
		{"a policy for agents", onPolicy(`identity.kind == "human"`), onPolicy(`identity.kind == "agent"`), []string{"! " + id + ": shown as it is, was masked by last4\n", "policy hide: changed"}, ""},
		{"a policy for one door", onPolicy("true"), onPolicy(`door == "mcp"`), []string{"! " + id + ": shown as it is, was masked by last4, at door pgwire\n"}, "at door mcp"},
		{"a policy at night", onPolicy("true"), onPolicy("now.getHours() < 6"), []string{"! " + id + ": shown as it is, was masked by last4; policies on time or client decide as well\n"}, ""},
		{"less content", content("{mode: mask}"), content("{mode: report, columns: [{mode: mask, on: [crm.c.email]}]}"), []string{"! content on shop in crm.c (id, ssn): report, was mask\n"}, "email"},
		{"fewer kinds", content("{mode: mask}"), content("{mode: mask, kinds: [iban, email]}"), []string{"! content on shop in crm.c (id, email, ssn): mask of email, iban, was mask\n"}, ""},
		{"more kinds", content("{mode: mask, kinds: [iban]}"), content("{mode: mask, kinds: [iban, card]}"), []string{"* content on shop in crm.c (id, email, ssn): mask of card, iban, was mask of iban\n"}, "!"},
		{"content of a view", base, content(`{mode: "off", columns: [{mode: report, on: [crm.v.either]}]}`), []string{"* content on shop in crm.v (either): report, was off\n"}, "crm.c"},
		{"labels", base + "labels: {pii: [crm.c.id], old: [crm.c.ssn]}\n", base + "labels: {pii: [crm.c.id, crm.c.email]}\n", []string{"+ label pii on crm.c.email\n", "- label old on crm.c.ssn\n"}, "crm.c.id"},
	} {
		before, after := write("before.yaml", tc.before), write("after.yaml", tc.after)
		out, status := verb(t, "diff", before, after, known)
		if want := min(len(tc.says), 1); status != want {
			t.Errorf("%s: exit status %d, want %d\n%s", tc.name, status, want, out)
		}
		for _, want := range tc.says {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is not in\n%s", tc.name, want, out)
			}
		}
		if tc.not != "" && strings.Contains(out, tc.not) {
			t.Errorf("%s: %q is in\n%s", tc.name, tc.not, out)
		}
		if at := strings.LastIndex(out, "! "); at > 0 && strings.Contains("\n"+out[:at], "\n*") {
			t.Errorf("%s: what shows more does not come first\n%s", tc.name, out)
		}
	}

	after := write("after.yaml", with("masks:\n      - {with: email, on: [crm.c.email]}", "masks: []"))
	if out, _ := verb(t, "diff", old, after, known, "--json"); !strings.Contains(out, `"masks":[{"identity":"ana","source":"shop","object":"crm.c","columns":["email"],"change":"unmasked","before":"email"}`) {
		t.Errorf("as JSON: %s", out)
	}
	out, _ := verb(t, "access", "who", "crm.c.email", "--governance="+old, known)
	for _, want := range []string{"db.table.select on crm.c.email: role analyst allows crm.c.email, line 10, masked by email\n", "crm.v.address (a view): role analyst allows crm.v, line 10, masked by email\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("access who: %q is not in\n%s", want, out)
		}
	}
}
