package config

import (
	"reflect"
	"strings"
	"testing"

	"interlock/redact"
	"interlock/sqlgov/policy"
)

const someMasks = `version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: 127.0.0.1, database: shop, user: gateway, tls: disable}
labels:
  pii: [crm.customers.ssn, "*.*.email"]
masks:
  email: {kind: email, domain: true, countable: true}
  pseudonym: {kind: hash, key: env:MASK_KEY, filterable: true}
  coarse: {kind: number, step: 0.5}
  ages: {kind: range, bounds: [0, 18, "65"]}
  order: {kind: json, hide: ["$.items[*].price"]}
  card: {kind: partial, last: 4}
  month: {kind: date, unit: month}
  gone: {kind: fixed, value: hidden}
source_roles:
  analyst:
    source: shop
    permissions: []
    masks:
      - with: email
        on: [crm.customers.email]
      - {with: pseudonym, labels: [pii], except: [crm.directory.email]}
policies:
  agents:
    when: door == "mcp"
    mask: {with: card, on: [sales.orders.card_no]}
`

func TestMasksAreRead(t *testing.T) {
	doc, err := parsed(t, someMasks)
	if err != nil {
		t.Fatal(err)
	}
	want := []policy.MaskSpec{
		{Name: "email", Line: 9, Spec: redact.Spec{Kind: redact.Email, Domain: true}, Countable: true},
		{Name: "pseudonym", Line: 10, Spec: redact.Spec{Kind: redact.Hash}, Key: "env:MASK_KEY", Filterable: true},
		{Name: "coarse", Line: 11, Spec: redact.Spec{Kind: redact.Number, Step: "0.5"}},
		{Name: "ages", Line: 12, Spec: redact.Spec{Kind: redact.Range, Bounds: []string{"0", "18", "65"}}},
		{Name: "order", Line: 13, Spec: redact.Spec{Kind: redact.JSON, Hide: []string{"$.items[*].price"}}},
		{Name: "card", Line: 14, Spec: redact.Spec{Kind: redact.Partial, Last: 4}},
		{Name: "month", Line: 15, Spec: redact.Spec{Kind: redact.Date, Unit: "month"}},
		{Name: "gone", Line: 16, Spec: redact.Spec{Kind: redact.Fixed, Value: "hidden"}},
	}
	if !reflect.DeepEqual(doc.Masks, want) {
		t.Errorf("%+v", doc.Masks)
	}
	rules := doc.Roles[0].Masks
	if len(rules) != 2 || rules[0].With != "email" || rules[0].Line != 22 || rules[0].On[0].Text != "crm.customers.email" ||
		rules[1].Line != 24 || rules[1].Labels[0] != "pii" || rules[1].Except[0].Text != "crm.directory.email" {
		t.Errorf("%+v", rules)
	}
	if m := doc.Policies[0].Mask; m == nil || m.With != "card" || m.On[0].Text != "sales.orders.card_no" || doc.Policies[0].Effects()[0] != "mask" {
		t.Errorf("%+v", doc.Policies[0])
	}
}

func TestMasksThatAreWrong(t *testing.T) {
	schema := compileSchema(t, "governance.schema.json")
	for _, tc := range []struct {
		change, want string
		schema       bool // can know
	}{
		{`kind: partial, last: 4 => kind: rot13`, "f.yaml:14:16: must be one of null, fixed, partial", true},
		{`kind: partial, last: 4 => kind: partial`, "f.yaml:14:3: a partial mask shows some", false},
		{`kind: partial, last: 4 => last: 4`, `key "kind" is missing`, true},
		{`, key: env:MASK_KEY => `, "f.yaml:10:3: a mask of kind hash needs a key", false},
		{`key: env:MASK_KEY => key: secret`, "f.yaml:10:32: ", true},
		{`step: 0.5 => step: none`, `f.yaml:11:3: step "none" is no number`, false},
		{`bounds: [0, 18, "65"] => bounds: [18, 0]`, `f.yaml:12:3: bound "0" is not more`, false},
		{`bounds: [0, 18, "65"] => bounds: []`, `must not be empty`, true},
		{`"$.items[*].price" => items`, `f.yaml:13:3: path "items"`, false},
		{`unit: month => unit: moon`, `f.yaml:15:29: must be one of year`, true},
		{`kind: fixed, value: hidden => kind: fixed, key: env:KEY`, `has no key`, false},
		{`- with: email => - with: emial`, `f.yaml:22:15: unknown mask "emial" (did you mean "email"?)`, false},
		{`labels: [pii] => labels: [ppi]`, `unknown label "ppi" (did you mean "pii"?)`, false},
		{`, labels: [pii], except: [crm.directory.email] => `, `f.yaml:24:9: say which columns the mask is on`, false},
		{`mask: {with: card, on: => mask: {on:`, `key "with" is missing`, true},
		{`mask: {with: card, => mask: {with: crad,`, `f.yaml:28:18: unknown mask "crad"`, false},
	} {
		old, replacement, _ := strings.Cut(tc.change, " => ")
		text := strings.Replace(someMasks, old, replacement, 1)
		if text == someMasks {
			t.Fatalf("%q is not in the document", old)
		}
		if _, err := parsed(t, text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.change, err, tc.want)
		}
		if invalid := schema.Validate(decodeJSON(t, text)); tc.schema != (invalid != nil) {
			t.Errorf("%s: the schema says %v", tc.change, invalid)
		}
	}
	if invalid := schema.Validate(decodeJSON(t, someMasks)); invalid != nil {
		t.Error(invalid)
	}
}
