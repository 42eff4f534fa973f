package sqlgov_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"interlock/audit"
	"interlock/internal/gatewaytest"
)

const contentDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
    content:
      mode: mask
      kinds: [email, card]
      columns:
        - {mode: "off", on: [public.tickets.sender]}
        - {mode: report, on: [public.tickets.title]}
masks:
  inner: {kind: json, hide: [$.token]}
source_roles:
  reader:
    source: gov
    permissions:
      - allow: [db.table.select]
        on: ["public.*"]
    masks:
      - {with: inner, on: [public.tickets.extra]}
identities:
  ana: {kind: human, grants: [{source: gov, roles: [reader]}]}
`

const contentData = `
create table tickets (id int primary key, sender text, title text, body text, doc jsonb, extra json, tags varchar(20)[]);
insert into tickets values (1, 'ada@raw.test', 'bob@raw.test asks', 'write to cleo@raw.test, card 4111 1111 1111 1111, or 192.168.0.1',
	'{"to": "dora@raw.test", "n": 4111111111111111, "m": [1]}', '{"token": "x", "cc": "eve@raw.test"}', '{plain,finn@raw.test}');
create view letters as select id, upper(body) as loud, sender from tickets;`

// At each door and in COPY the kinds that the document names are replaced where it says so, and everything else is as it was.
func TestContentIsMaskedAtEachDoor(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: contentDocument, Setup: []string{contentData}})
	cases := []struct{ sql, want string }{
		{"select sender, title from tickets", "[[ada@raw.test bob@raw.test asks]]"},
		{"select body from tickets", "[[write to [email], card [card], or 192.168.0.1]]"},
		{"select doc, extra from tickets", `[[{"m": [1], "n": "[card]", "to": "[email]"} {"token":null,"cc":"[email]"}]]`},
		{"select loud, sender from letters", "[[WRITE TO [email], CARD [card], OR 192.168.0.1 ada@raw.test]]"},
		{"select sender || ' ' || body from tickets", "[[[email] write to [email], card [card], or 192.168.0.1]]"},
		{"select 'x@y.zz', id from tickets", "[[[email] 1]]"},
	}
	doors := append(maskedDoors(g), namedDoor{"binary", &wire{dsn: g.DSN("ana", "gov"), extended: true, binary: true, oid: func(string) uint32 { return 0 }}})
	for _, d := range doors {
		for _, tc := range cases {
			if w, ok := d.door.(*wire); ok && w.binary && strings.Contains(tc.sql, "id") {
				continue // a number is no text there
			}
			tr := oneStep(t, d.door, step{Q: tc.sql})
			got := strings.ReplaceAll(fmt.Sprint(tr.replies[0].rows), "\x01", "")
			if d.name == "mcp" {
				got = strings.NewReplacer(`{"m":[1],"n":"[card]","to":"[email]"}`, `{"m": [1], "n": "[card]", "to": "[email]"}`).Replace(got)
			}
			if got != tc.want {
				t.Errorf("%s at %s: %s %s, want %s", tc.sql, d.name, got, tr.replies[0].message, tc.want)
			}
		}
		oneStep(t, d.door, step{Q: "select title, body, tags from tickets"})
		found := fmt.Sprint(lastStatement(g).Outcome.Found)
		if want := "[{email 3} {card 1}]"; found != want {
			t.Errorf("%s: %s on record, want %s", d.name, found, want)
		}
	}
	conn, server := connectTo(t, g.DSN("ana", "gov")), connectTo(t, g.Upstream)
	const sql = "copy tickets (body, tags) to stdout (format csv)"
	var out, raw bytes.Buffer
	if _, err := conn.CopyTo(t.Context(), &out, sql); err != nil || out.String() != `"write to [email], card [card], or 192.168.0.1","{plain,[email]}"`+"\n" {
		t.Errorf("COPY gives %q, %v", out.String(), err)
	}
	if _, err := server.CopyTo(t.Context(), &raw, sql); err != nil || !strings.Contains(raw.String(), "cleo@raw.test") {
		t.Errorf("the server gives %q, %v", raw.String(), err)
	}
	for _, r := range g.Records(audit.Filter{}) {
		if strings.Contains(fmt.Sprintf("%+v %+v", r, r.Record.Judgement), "raw.test") {
			t.Errorf("a value is on record: %+v", r)
		}
	}
}
