package config

import (
	"time"

	"go.yaml.in/yaml/v3"

	"interlock/sqlgov/policy"
)

func (g *governance) label(key *yaml.Node) shape {
	l := policy.LabelSpec{Name: value(key), Line: line(key)}
	return &then{
		shape: &list{about: "Columns that have the label: schema.table.column, or schema.table for all columns of a table.", some: true,
			item: func() shape { return resourceShape(&l.Resources) }},
		done: func() { g.doc.Labels = append(g.doc.Labels, l) },
	}
}

func (g *governance) group(key *yaml.Node) shape {
	members := policy.GroupSpec{Name: value(key), Line: line(key)}
	return &then{
		shape: &list{about: "Names of identities, none of them an agent.", some: true, item: func() shape { return wordsShape(&members.Members) }},
		done:  func() { g.doc.Groups = append(g.doc.Groups, members) },
	}
}

func (g *governance) policy(key *yaml.Node) shape {
	p := policy.PolicySpec{Name: value(key), Line: line(key)}
	var state string
	return &object{
		about: "A policy is judged after source roles and can only take away. Every policy is judged; the strictest effect counts.",
		fields: []field{
			{"state", choice(&state, string(policy.Active), "A draft is checked only. A dry-run is judged and recorded, and not enforced.",
				string(policy.Draft), string(policy.DryRun), string(policy.Active))},
			{"when", words(&p.When, "", "Condition in CEL over identity.name, identity.kind, identity.team, identity.attributes, source, door, client.address, client.application, "+
				"now, ruleset, and statement.kind, .command, .write, .where, .risk, .table_rows, .tables, .columns, .writes, .functions and .labels. Without one the policy is for every statement. "+
				"A condition that cannot be evaluated refuses.")},
			{"message", words(&p.Message, "", "Explanation for the caller.")},
			{"refuse", boolean(&p.Refuse, "Refuse the statement.")},
			{"read_only", boolean(&p.ReadOnly, "Refuse statements that change anything, and run the others read-only.")},
			{"hold", holdShape(&p.Hold)},
			{"limit", rateShape(&p.Limit)},
			{"cap", capShape(&p.Cap)},
			{"budget", budgetShape(&p.Budget)},
			{"mask", maskRuleShape("Masks columns of the result.", func(m *policy.MaskRule, _ *yaml.Node) { p.Mask = m })},
		},
		done: func(*reader, func(string) *yaml.Node) {
			p.State = policy.State(state)
			g.doc.Policies = append(g.doc.Policies, p)
		},
	}
}

func holdShape(to **policy.HoldSpec) shape {
	var h policy.HoldSpec
	return &object{
		about:    "The statement waits until people have approved it.",
		required: []string{"groups"},
		fields: []field{
			{"groups", &list{about: "Groups whose members may approve.", some: true, item: func() shape { return wordsShape(&h.Groups) }}},
			{"approvers", integer(&h.Approvers, "How many different people must approve.", bounds{1, 20, 1})},
			{"expires", duration(&h.Expires, "The approval must come within this time. Default: 15m.", time.Second, 7*day, 0)},
			{"max_rows", integer(&h.MaxRows, "A statement that changes more rows is rolled back. Without it there is no bound.", bounds{1, 1_000_000_000, 0})},
		},
		done: func(*reader, func(string) *yaml.Node) { *to = &h },
	}
}

func rateShape(to **policy.RateSpec) shape {
	var l policy.RateSpec
	var per string
	return &object{
		about:    "At most so many statements in so long a time.",
		required: []string{"requests"},
		fields: []field{
			{"requests", integer(&l.Requests, "Statements in the window.", bounds{1, 10_000_000, 0})},
			{"window", duration(&l.Window, "", time.Second, 7*day, time.Minute)},
			{"burst", integer(&l.Burst, "Statements that may come at once. Default: as many as in the window.", bounds{1, 10_000_000, 0})},
			perField(&per, "Whose statements are counted together."),
		},
		done: func(*reader, func(string) *yaml.Node) {
			l.Per = policy.RatePer(per)
			*to = &l
		},
	}
}

func perField(to *string, about string) field {
	return field{"per", choice(to, string(policy.PerIdentity), about, string(policy.PerIdentity), string(policy.PerIdentitySource), string(policy.PerRule))}
}

func budgetShape(to **policy.BudgetSpec) shape {
	var b policy.BudgetSpec
	var per string
	return &object{
		about:    "At most so much of results is released in any stretch of time as long as the window. A result ends when it is spent.",
		required: []string{"window"},
		fields: []field{
			{"rows", integer(&b.Rows, "Rows in the window.", bounds{1, 1_000_000_000, 0})},
			{"bytes", size(&b.Bytes, "Bytes in the window.", bounds{1, 1 << 40, 0})},
			{"window", duration(&b.Window, "", time.Second, 31*day, 0)},
			perField(&per, "Whose results are counted together."),
		},
		done: func(*reader, func(string) *yaml.Node) {
			b.Per = policy.RatePer(per)
			*to = &b
		},
	}
}

func capShape(to **policy.CapSpec) shape {
	var c policy.CapSpec
	return &object{
		about: "Bounds the result, beside the limits of the source.",
		fields: []field{
			{"rows", integer(&c.Rows, "Rows of a result.", bounds{1, 1_000_000_000, 0})},
			{"bytes", size(&c.Bytes, "Size of a result.", bounds{1, 1 << 40, 0})},
			{"time", duration(&c.Time, "How long a statement may run.", time.Millisecond, day, 0)},
		},
		done: func(*reader, func(string) *yaml.Node) { *to = &c },
	}
}

// attributes reads free attributes of an identity.
func attributesShape(to *map[string]string) shape {
	return &table{"Attributes for the conditions of policies, by name.", func(key *yaml.Node) shape {
		var one string
		return &then{words(&one, "", "A text."), func() {
			if *to == nil {
				*to = make(map[string]string)
			}
			(*to)[value(key)] = one
		}}
	}}
}

// wordsShape appends a word to a list.
func wordsShape(to *[]string) shape {
	var one string
	return &then{words(&one, "", ""), func() { *to = append(*to, one) }}
}

// then is a shape with something to do when it has been read.
type then struct {
	shape
	done func()
}

func (t *then) read(r *reader, n *yaml.Node) {
	t.shape.read(r, n)
	t.done()
}
