package config

import (
	"go.yaml.in/yaml/v3"

	"interlock/redact"
	"interlock/sqlgov/policy"
)

// contentShape is what is looked for in free text.
func contentShape(s *policy.SourceSpec) shape {
	c := &policy.ContentSpec{}
	var mode string
	kinds := make([]string, len(redact.Contents))
	for i, k := range redact.Contents {
		kinds[i] = string(k)
	}
	return &object{
		about:    "What is done with personal data and secrets that are found by their form in text and JSON of results.",
		required: []string{"mode"},
		fields: []field{
			{"mode", contentMode(&mode, "For columns that no rule below names.")},
			{"kinds", &list{about: "What is looked for. Default: all kinds.", some: true, item: func() shape {
				var one string
				return &then{choice(&one, "", "", kinds...), func() { c.Kinds = append(c.Kinds, redact.Content(one)) }}
			}}},
			{"columns", &list{about: "Rules for single columns and what derives from them; the last that covers a column counts.", item: func() shape { return contentRuleShape(c) }}},
		},
		done: func(*reader, func(string) *yaml.Node) {
			c.Mode = policy.ContentMode(mode)
			s.Content = c
		},
	}
}

func contentMode(to *string, about string) *scalar {
	modes := make([]string, len(policy.ContentModes))
	for i, m := range policy.ContentModes {
		modes[i] = string(m)
	}
	return choice(to, "", about+" mask shows the kind in the place of what was found, report only counts it in the audit log.", modes...)
}

func contentRuleShape(c *policy.ContentSpec) shape {
	r := policy.ContentRule{}
	var mode string
	return &object{
		about:    "A rule for single columns.",
		required: []string{"mode", "on"},
		fields: []field{
			{"mode", contentMode(&mode, "For these columns.")},
			{"on", &list{about: "Columns: schema.table.column, or schema.table for all columns of a table.", some: true, item: func() shape { return resourceShape(&r.On) }}},
		},
		done: func(*reader, func(string) *yaml.Node) {
			r.Mode = policy.ContentMode(mode)
			c.Columns = append(c.Columns, r)
		},
	}
}
