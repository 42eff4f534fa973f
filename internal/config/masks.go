package config

import (
	"go.yaml.in/yaml/v3"

	"interlock/redact"
	"interlock/sqlgov/policy"
)

func (g *governance) mask(key *yaml.Node) shape {
	m := policy.MaskSpec{Name: value(key), Line: line(key)}
	var kind string
	kinds := make([]string, len(redact.Kinds))
	for i, k := range redact.Kinds {
		kinds[i] = string(k)
	}
	return &object{
		about:    "A mask keeps the type of the column that it is on. NULL stays NULL.",
		required: []string{"kind"},
		fields: []field{
			{"kind", choice(&kind, "", "What is shown: null, nothing; fixed, one value for all; partial, some characters; email, the first letter; hash, a keyed hash of text, uuid, bytea, "+
				"integer, bigint and numeric; date, a date or time cut to a unit; number, a number cut to a multiple; range, the lower bound of the range that a number is in; digits, other "+
				"digits in the same places; json, some members of a document.", kinds...)},
			{"value", text(&m.Value, "", "For fixed: the value, as PostgreSQL prints it.", "", nil)},
			{"first", integer(&m.First, "For partial: how many characters are shown at the start.", bounds{0, 1000, 0})},
			{"last", integer(&m.Last, "For partial: how many characters are shown at the end. For digits: how many digits at the end are kept.", bounds{0, 1000, 0})},
			{"domain", boolean(&m.Domain, "For email: show the domain.")},
			{"unit", choice(&m.Unit, "", "For date: what the date or time is cut to.", redact.Units...)},
			{"step", number(&m.Step, "For number: the number is cut, towards zero, to a multiple of this.")},
			{"bounds", &list{about: "For range: lower bounds in ascending order. What is below the first is shown as the first.", some: true,
				item: func() shape { return numbersShape(&m.Bounds) }}},
			{"hide", &list{about: "For json: paths of the values that become null: $.customer.name, $.items[*].price.", some: true, item: func() shape { return wordsShape(&m.Hide) }}},
			{"show", &list{about: "For json: paths of what is shown; nothing else is.", some: true, item: func() shape { return wordsShape(&m.Show) }}},
			{"key", text(&m.Key, "", "For hash and digits: reference to the secret, env:NAME or file:PATH. Under another key all masked values are others.", referencePattern, checkReference)},
			{"filterable", boolean(&m.Filterable, "Statements may compare, sort, group, join on and compute with the values behind the mask. Who asks often enough finds them out.")},
			{"countable", boolean(&m.Countable, "Statements may ask which values are NULL, and count the others.")},
		},
		done: func(*reader, func(string) *yaml.Node) {
			m.Kind = redact.Kind(kind)
			g.doc.Masks = append(g.doc.Masks, m)
		},
	}
}

// number is a decimal number, kept as it is written.
func number(to *string, about string) *scalar {
	s := text(to, "", about, "", nil)
	s.tags = []string{"!!int", "!!float", "!!str"}
	s.describe = map[string]any{"type": []string{"number", "string"}}
	return s
}

func numbersShape(to *[]string) shape {
	var one string
	return &then{number(&one, ""), func() { *to = append(*to, one) }}
}

// maskRuleShape is the columns that a mask is put on.
func maskRuleShape(about string, done func(*policy.MaskRule, *yaml.Node)) shape {
	m := &policy.MaskRule{}
	return &object{
		about:    about,
		required: []string{"with"},
		fields: []field{
			{"with", words(&m.With, "", "Name of the mask.")},
			{"on", &list{about: "Columns that are masked: schema.table.column, or schema.table for all columns of a table.", some: true,
				item: func() shape { return resourceShape(&m.On) }}},
			{"labels", &list{about: "Labels of columns that are masked.", some: true, item: func() shape { return wordsShape(&m.Labels) }}},
			{"except", &list{about: "Columns that are shown as they are, though they are among those or derive from them, as the columns of a view do.", some: true,
				item: func() shape { return resourceShape(&m.Except) }}},
		},
		done: func(_ *reader, node func(string) *yaml.Node) { done(m, node("")) },
	}
}
