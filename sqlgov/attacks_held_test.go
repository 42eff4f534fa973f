package sqlgov_test

import (
	"strings"
	"testing"

	"interlock/internal/config"
	"interlock/internal/gatewaytest"
	"interlock/sqlgov"
)

// heldOtherwise lists the cases that are refused where they should wait, by case or by case and door, with the reason.
var heldOtherwise = map[string]string{
	"PLAN-10":     "what EXECUTE runs belongs to its session, and what runs later has none: it is refused, and the text itself can be held",
	"PLAN-10/mcp": "PREPARE needs a session",
	"VIEW-15":     "changing a table with rules is not supported at all, because nobody sees what the rules do",
}

// holding is the governance document of the cases for an analyst who may attempt what they write, each write being held.
func holding(t *testing.T) string {
	t.Helper()
	text := string(attackFile(t, "governance.yaml"))
	for _, change := range [][2]string{
		{"source_roles:\n  analyst:\n    source: gov\n    permissions:\n", `source_roles:
  analyst:
    source: gov
    permissions:
      - allow: [db.table.insert]
        on: [app.notes.customer_id, app.notes.body, app.orders.customer_id]
      - allow: [db.table.update]
        on: [app.notes.customer_id, app.notes.body, app.orders.status, app.customers.region, app.v_public.name, app.customers.name, app.tickets.body]
      - allow: [db.table.delete_rows]
        on: [app.notes]
      - allow: [db.table.select]
        on: [app.tickets.id]
`},
		{"identities:\n", "groups: {leads: [lead]}\npolicies:\n  writes-wait: {when: statement.write, hold: {groups: [leads]}}\nidentities:\n  lead: {kind: human}\n"},
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("the governance document of the cases has no %q", change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	return text
}

// Every case that should wait for approval does so at every door: it has an id, nothing has run, and an approval is for
// the exact text, never for another one that looks the same with its literals left out.
func TestAttacksThatWait(t *testing.T) {
	d := copyAttacks(t)
	before := fingerprint(t, d)
	g := guardWith(t, d, gatewaytest.Options{Governance: holding(t),
		Configure: func(c *config.Config) { c.Approvals.MaxPendingPerIdentity = 1000 }})
	waiting := 0
	for _, c := range attacks(t) {
		if c.Expected != "approval" {
			continue
		}
		for _, where := range attackDoors {
			at := c
			if where != "simple" { // a message there is one statement
				at = c.calls()
			}
			tr := play(t, at, d, enter(t, g.Gateway, where, at, d))
			last := tr.own()[len(tr.own())-1]
			held := strings.Contains(string(tr.heard), "was not executed") && approvalID.Match(tr.heard)
			_, noted := heldOtherwise[c.ID+"/"+where]
			if !noted {
				_, noted = heldOtherwise[c.ID]
			}
			switch {
			case held:
				waiting++
			case !noted:
				t.Errorf("%s at %s does not wait\n%s", c.ID, where, describe(at, tr))
			case last.state == "":
				t.Errorf("%s at %s runs\n%s", c.ID, where, describe(at, tr))
			}
		}
	}
	if waiting < 60 {
		t.Errorf("only %d cases wait", waiting)
	}
	if after := fingerprint(t, d); after != before {
		t.Errorf("what waits has run:\n%s\nwas\n%s", after, before)
	}
	approvedFirst(t, g.Gateway, d)
	g.account(t)
}

// approvedFirst approves the harmless one of a pair that share a fingerprint, and expects that the other one still waits.
func approvedFirst(t *testing.T, g *gatewaytest.Gateway, d *attackDatabase) {
	t.Helper()
	p := peopleOf(t, g)
	var all []sqlgov.ApprovalView
	if status := p.do("lead", "GET", "?state=pending", "", &all); status != 200 {
		t.Fatal(status)
	}
	byText := map[string]sqlgov.ApprovalView{}
	for _, v := range all {
		byText[v.SQL] = v
	}
	harmless, harmful := byText["DELETE FROM app.notes WHERE false"], byText["DELETE FROM app.notes WHERE true"]
	if harmless.ID == "" || harmful.ID == "" || harmless.ID == harmful.ID {
		t.Fatalf("the two are not apart: %+v, %+v", harmless, harmful)
	}
	notes := d.query(t, "select count(*) from app.notes")[0][0]
	if status, v := p.approve("lead", harmless.ID); status != 200 || v.State != sqlgov.ApprovalDone || v.Rows != 0 {
		t.Errorf("%d %+v", status, v)
	}
	if v := p.show("lead", harmful.ID); v.State != sqlgov.ApprovalPending || d.query(t, "select count(*) from app.notes")[0][0] != notes {
		t.Errorf("the other one has run: %+v", v)
	}
}
