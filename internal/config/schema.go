package config

import (
	"bytes"
	"encoding/json"
	"regexp"
)

var (
	durationSyntax  = regexp.MustCompile(durationPattern)
	referenceSyntax = regexp.MustCompile(referencePattern)
)

// Schema returns the JSON Schema (2020-12) of interlock.yaml, as docs/schema/interlock.schema.json publishes it.
func Schema() []byte {
	return publish("interlock.schema.json", "InterLock: interlock.yaml", shapeOf(&Config{}))
}

// GovernanceSchema returns the JSON Schema of the governance document, as docs/schema/governance.schema.json publishes it.
func GovernanceSchema() []byte {
	return publish("governance.schema.json", "InterLock: governance document", (&governance{}).shape())
}

func publish(id, title string, s shape) []byte {
	root := s.schema()
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = id
	root["title"] = title
	root["$defs"] = map[string]any{"variable": map[string]any{
		"description": "Text with a variable, ${NAME}, which is replaced before the value is read. An unset variable is an error.",
		"type":        "string",
		"pattern":     `\$\{[A-Za-z_][A-Za-z0-9_]*\}`,
	}}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		panic("config: a schema that is no JSON: " + err.Error())
	}
	return out.Bytes()
}

func (o *object) schema() map[string]any {
	properties := make(map[string]any, len(o.fields))
	for _, f := range o.fields {
		properties[f.key] = f.shape.schema()
	}
	s := map[string]any{"description": o.about, "type": "object", "additionalProperties": false, "properties": properties}
	if len(o.required) > 0 {
		s["required"] = o.required
	}
	var one []any
	for _, key := range o.oneOf {
		one = append(one, map[string]any{"required": []string{key}})
	}
	if one != nil {
		s["oneOf"] = one
	}
	return s
}

func (t *table) schema() map[string]any {
	return map[string]any{"description": t.about, "type": "object", "additionalProperties": t.item(nil).schema(),
		"propertyNames": map[string]any{"pattern": namePattern}}
}

func (l *list) schema() map[string]any {
	s := map[string]any{"description": l.about, "type": "array", "items": l.item().schema()}
	if l.some {
		s["minItems"] = 1
	}
	return s
}

func (s *scalar) schema() map[string]any {
	described := map[string]any{"anyOf": []any{s.describe, map[string]any{"$ref": "#/$defs/variable"}}}
	if s.about != "" {
		described["description"] = s.about
	}
	return described
}
