package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
	"interlock/sqlgov/policy"
)

// channelRules compiles one role whose permissions are written "allow listen orders".
func channelRules(t *testing.T, permissions ...string) *policy.Ruleset {
	t.Helper()
	role := policy.RoleSpec{Name: "r", Source: "s"}
	for i, text := range permissions {
		effect, rest, _ := strings.Cut(text, " ")
		action, resource, _ := strings.Cut(rest, " ")
		r, err := policy.ParseResource(resource)
		if err != nil {
			t.Fatal(err)
		}
		role.Permissions = append(role.Permissions, policy.Permission{Effect: policy.Effect(effect), Actions: []policy.Action{policy.Action("db.channel." + action)},
			Resources: []policy.Resource{r}, Line: i + 1})
	}
	rules, err := policy.Compile(&policy.Document{Sources: []policy.SourceSpec{{ID: "s", Kind: "postgres"}}, Roles: []policy.RoleSpec{role},
		Identities: []policy.Identity{{Name: "ana", Kind: "human", Grants: []policy.Grant{{Source: "s", Roles: []string{"r"}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestChannelRules(t *testing.T) {
	index := catalog.NewIndex(&catalog.Snapshot{})
	listen, notify := policy.ChannelListen, policy.ChannelNotify
	for _, tc := range []struct {
		permissions []string
		action      policy.Action
		name        string // "" is one that is known only when the statement runs
		allowed     bool
		remedies    string
	}{
		{nil, listen, "orders", false, "[allow channel:orders]"},
		{nil, notify, "", false, "[allow *]"},
		{nil, listen, "Or.ders", false, `[allow channel:"Or.ders"]`},
		{[]string{"allow listen channel:orders"}, listen, "orders", true, "[]"},
		{[]string{"allow listen channel:orders"}, notify, "orders", false, "[allow channel:orders]"},
		{[]string{"allow listen channel:ORDERS"}, listen, "orders", true, "[]"},
		{[]string{`allow listen channel:"ORDERS"`}, listen, "orders", false, "[allow channel:orders]"},
		{[]string{"allow notify channel:orders"}, notify, "", false, "[allow *]"},
		{[]string{"allow notify *"}, notify, "", true, "[]"},
		{[]string{"allow notify channel:*"}, notify, "", true, "[]"},
		{[]string{"allow notify *", "deny notify channel:secret"}, notify, "orders", true, "[]"},
		{[]string{"allow notify *", "deny notify channel:secret"}, notify, "secret", false, "[remove channel:secret]"},
		{[]string{"allow notify *", "deny notify channel:secret"}, notify, "", false, "[remove channel:secret]"},
		{[]string{"deny notify *", "allow notify channel:orders"}, notify, "orders", false, "[remove *]"},
		{[]string{`allow notify channel:"*"`}, notify, "", false, "[allow *]"}, // the channel whose name is a star
		{[]string{`allow notify channel:"*"`}, notify, "*", true, "[]"},
	} {
		kind := analyze.ChannelAction(strings.TrimPrefix(string(tc.action), "db.channel."))
		facts := &analyze.Facts{Statements: []analyze.Statement{{Kind: analyze.Kind(kind), Channels: []analyze.Channel{{Name: tc.name, Action: kind}}}}}
		d := channelRules(t, tc.permissions...).Decide(policy.Input{Identity: "ana", Source: "s", Facts: facts, Catalog: index})
		remedies := []string{}
		for _, r := range d.Remedies {
			remedies = append(remedies, r.Change+" "+r.Resource)
		}
		if (d.Verdict == policy.Allowed) != tc.allowed || fmt.Sprint(remedies) != tc.remedies {
			t.Errorf("%v, %s %q: %s %v", tc.permissions, tc.action, tc.name, d.Verdict, remedies)
		}
	}
}

// pg_notify among the functions of a statement of which no channel is known is a channel that is not known.
func TestNotifyWithoutChannel(t *testing.T) {
	f := &catalog.Function{OID: 3036, Schema: "pg_catalog", Name: "pg_notify", Signature: "text, text"}
	if policy.Builtin(f) != policy.BuiltinNotify {
		t.Fatal("pg_notify is not what it was reviewed as")
	}
	facts := &analyze.Facts{Statements: []analyze.Statement{{Kind: analyze.Select, Functions: []*catalog.Function{f}}}}
	in := policy.Input{Identity: "ana", Source: "s", Facts: facts}
	if d := channelRules(t, "allow notify channel:orders").Decide(in); d.Verdict == policy.Allowed {
		t.Error("a channel by name allows any")
	}
	if d := channelRules(t, "allow notify *").Decide(in); d.Verdict != policy.Allowed {
		t.Errorf("%+v", d)
	}
}

func TestCompareChannels(t *testing.T) {
	index := catalog.NewIndex(&catalog.Snapshot{})
	before := channelRules(t, "allow listen channel:orders", "allow notify *")
	after := channelRules(t, "allow listen channel:news", "allow notify *", "deny notify channel:secret")
	var got []string
	for _, c := range policy.CompareAccess(before, after, "s", index) {
		got = append(got, fmt.Sprint(c.Action, " +", c.Gained, " -", c.Lost))
	}
	want := "[db.channel.listen +[] -[channel:orders] db.channel.listen +[channel:news] -[] db.channel.notify +[] -[channel:secret]]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v", got)
	}
}

func TestChannelResources(t *testing.T) {
	for text, says := range map[string]string{
		"channel:":        "a part is empty",
		"channel:a.b":     "a channel has no schema",
		"channel:or ders": "no plain identifier",
		`channel:"a.b"`:   "",
		"channel:*":       "",
	} {
		if _, err := policy.ParseResource(text); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, tc := range []struct {
		action policy.Action
		on     string
		says   string
	}{
		{policy.ChannelListen, "public.t", `db.channel.listen acts on channels: write "channel:name" or "*", not "public.t"`},
		{policy.TableSelect, "channel:t", `db.table.select does not act on channels, as "channel:t" is`},
		{policy.ExecuteRaw, "channel:*", `db.execute_raw does not act on channels, as "channel:*" is`},
		{policy.ChannelNotify, "*", ""},
	} {
		r, err := policy.ParseResource(tc.on)
		if err != nil {
			t.Fatal(err)
		}
		role := policy.RoleSpec{Name: "r", Source: "s", Permissions: []policy.Permission{{Effect: policy.Allow, Actions: []policy.Action{tc.action}, Resources: []policy.Resource{r}}}}
		problems := policy.Check(&policy.Document{Sources: []policy.SourceSpec{{ID: "s", Kind: "postgres"}}, Roles: []policy.RoleSpec{role}})
		if len(problems) > 1 || (len(problems) == 0) != (tc.says == "") || len(problems) == 1 && problems[0].Message != tc.says {
			t.Errorf("%s on %s: %v", tc.action, tc.on, problems)
		}
	}
}
