package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"interlock/sqlgov/policy"
)

// shape is a place in a document: it knows what may stand there, where the value goes and what it is for. The parser
// reads by shapes and the published JSON Schemas are written from them, so the two know the same keys.
type shape interface {
	// read reads a node into the value, or reports why it cannot.
	read(r *reader, n *yaml.Node)
	// absent sets the default, when the key is not there.
	absent()
	// schema describes the place in JSON Schema.
	schema() map[string]any
}

// kindNames say what a node is in an error.
var kindNames = map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list", yaml.ScalarNode: "a single value"}

func describe(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return "empty"
	}
	return kindNames[n.Kind]
}

// object is a mapping with known keys.
type object struct {
	about    string
	fields   []field
	required []string
	oneOf    []string // keys of which exactly one must be there
	// done is called when the fields have been read. node returns the node of a key, or of the object if it is absent.
	done func(r *reader, node func(key string) *yaml.Node)
}

type field struct {
	key   string
	shape shape
}

func (o *object) read(r *reader, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "must be a mapping, but is %s", describe(n))
		return
	}
	nodes := make(map[string]*yaml.Node)
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if !slices.ContainsFunc(o.fields, func(f field) bool { return f.key == key.Value }) {
			r.fail(key, "unknown key %q%s", key.Value, policy.Suggest(key.Value, o.keys()))
		}
		nodes[key.Value] = n.Content[i+1]
	}
	for _, f := range o.fields {
		if nodes[f.key] == nil {
			f.shape.absent()
		} else {
			f.shape.read(r, nodes[f.key])
		}
	}
	o.present(r, n, nodes)
	if o.done != nil {
		o.done(r, func(key string) *yaml.Node {
			if nodes[key] != nil {
				return nodes[key]
			}
			return n
		})
	}
}

// present checks that what must be there is there.
func (o *object) present(r *reader, n *yaml.Node, nodes map[string]*yaml.Node) {
	for _, key := range o.required {
		if nodes[key] == nil {
			r.fail(n, "key %q is missing", key)
		}
	}
	count := 0
	for _, key := range o.oneOf {
		if nodes[key] != nil {
			count++
		}
	}
	if len(o.oneOf) > 0 && count != 1 {
		r.fail(n, "exactly one of the keys %s must be there", strings.Join(o.oneOf, " and "))
	}
}

func (o *object) absent() {
	for _, f := range o.fields {
		f.shape.absent()
	}
}

func (o *object) keys() []string {
	keys := make([]string, len(o.fields))
	for i, f := range o.fields {
		keys[i] = f.key
	}
	return keys
}

// table is a mapping from names that the operator chooses.
type table struct {
	about string
	// item makes the shape of the value behind a name. key is nil when only the schema is asked for.
	item func(key *yaml.Node) shape
}

func (t *table) read(r *reader, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "must be a mapping, but is %s", describe(n))
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		t.item(n.Content[i]).read(r, n.Content[i+1])
	}
}

func (t *table) absent() {}

// list is a sequence.
type list struct {
	about string
	item  func() shape
	some  bool // at least one
}

func (l *list) read(r *reader, n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "must be a list, but is %s", describe(n))
		return
	}
	if l.some && len(n.Content) == 0 {
		r.fail(n, "must not be empty")
	}
	for _, c := range n.Content {
		l.item().read(r, c)
	}
}

func (l *list) absent() {}

// scalar is a single value. Text with a variable in it is accepted for every type.
type scalar struct {
	about    string
	tags     []string       // YAML tags that are accepted
	describe map[string]any // JSON Schema of a value without variables
	set      func(text string) error
	preset   func() // sets the default; may be nil
}

func (s *scalar) read(r *reader, n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.fail(n, "must be %s, but is %s", tagNames(s.tags), describe(n))
		return
	}
	text, ok := r.expand(n)
	if !ok {
		return
	}
	if !slices.Contains(s.tags, n.Tag) && (n.Tag != "!!str" || !variable.MatchString(n.Value)) {
		r.fail(n, "must be %s, but is %s", tagNames(s.tags), tagNames([]string{n.Tag}))
		return
	}
	if n.Tag == "!!int" {
		text = decimal(n, text)
	}
	if err := s.set(text); err != nil {
		r.fail(n, "%s", err)
	}
}

func (s *scalar) absent() {
	if s.preset != nil {
		s.preset()
	}
}

// decimal writes an integer of YAML (0x10, 1_000) in decimal.
func decimal(n *yaml.Node, text string) string {
	var i int64
	if err := n.Decode(&i); err != nil {
		return text
	}
	return strconv.FormatInt(i, 10)
}

func tagNames(tags []string) string {
	names := map[string]string{"!!str": "a string", "!!int": "an integer", "!!bool": "true or false", "!!float": "a number with a fraction", "!!timestamp": "a date"}
	var all []string
	for _, tag := range tags {
		name, ok := names[tag]
		if !ok {
			name = "of type " + tag
		}
		all = append(all, name)
	}
	return strings.Join(all, " or ")
}

// text is a string for which check returns nil; it need not be given. pattern says the same in JSON Schema.
func text(to *string, preset, about, pattern string, check func(string) error) *scalar {
	s := &scalar{about: about, tags: []string{"!!str"}, describe: map[string]any{"type": "string", "pattern": pattern}}
	if preset != "" {
		s.about += fmt.Sprintf(" Default: %s.", preset)
	}
	s.preset = func() { *to = preset }
	s.set = func(text string) error {
		if check != nil {
			if err := check(text); err != nil {
				return err
			}
		}
		*to = text
		return nil
	}
	return s
}

// words is a string that must not be empty.
func words(to *string, preset, about string) *scalar {
	return text(to, preset, about, `\S`, func(s string) error {
		if strings.TrimSpace(s) == "" || strings.ContainsRune(s, 0) {
			return fmt.Errorf("must not be empty")
		}
		return nil
	})
}

// choice is one of a few strings.
func choice(to *string, preset, about string, options ...string) *scalar {
	s := text(to, preset, about, "", func(s string) error {
		if !slices.Contains(options, s) {
			return fmt.Errorf("must be one of %s, but is %q%s", strings.Join(options, ", "), s, policy.Suggest(s, options))
		}
		return nil
	})
	s.describe = map[string]any{"enum": options}
	return s
}

func boolean(to *bool, about string) *scalar {
	return &scalar{about: about + " Default: false.", tags: []string{"!!bool"}, describe: map[string]any{"type": "boolean"}, set: func(text string) error {
		switch strings.ToLower(text) {
		case "true":
			*to = true
		case "false":
			*to = false
		default:
			return fmt.Errorf("must be true or false, but is %q", text)
		}
		return nil
	}}
}

// bounds are the least, the greatest and the preset value of a number. A preset of 0 is left to who uses the value.
type bounds struct{ least, most, preset int64 }

func (b bounds) check(n int64, print func(int64) string) error {
	if n < b.least || n > b.most {
		return fmt.Errorf("must be between %s and %s", print(b.least), print(b.most))
	}
	return nil
}

func (b bounds) about(text string, print func(int64) string) string {
	text += fmt.Sprintf(" Range: %s to %s.", print(b.least), print(b.most))
	if b.preset != 0 {
		text += fmt.Sprintf(" Default: %s.", print(b.preset))
	}
	return text
}

func printInt(n int64) string { return strconv.FormatInt(n, 10) }

func integer(to *int, about string, b bounds) *scalar {
	return &scalar{
		about: b.about(about, printInt), tags: []string{"!!int"},
		describe: map[string]any{"type": "integer", "minimum": b.least, "maximum": b.most},
		preset:   func() { *to = int(b.preset) },
		set: func(text string) error {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("must be an integer, but is %q", text)
			}
			*to = int(n)
			return b.check(n, printInt)
		},
	}
}

// size is a number of bytes: 65536, 64KiB, 16MiB, 1GiB.
func size(to *int64, about string, b bounds) *scalar {
	return &scalar{
		about: b.about("Bytes: an integer, or a string with the unit KiB, MiB or GiB. "+about, printSize), tags: []string{"!!int", "!!str"},
		describe: map[string]any{"anyOf": []any{
			map[string]any{"type": "integer", "minimum": b.least, "maximum": b.most},
			map[string]any{"type": "string", "pattern": `^[0-9]{1,18}(B|KiB|MiB|GiB)$`},
		}},
		preset: func() { *to = b.preset },
		set: func(text string) error {
			n, err := parseSize(text)
			if err != nil {
				return err
			}
			*to = n
			return b.check(n, printSize)
		},
	}
}

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}, {"", 1}}

func parseSize(text string) (int64, error) {
	for _, u := range sizeUnits {
		digits, found := strings.CutSuffix(text, u.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 62)
		if err != nil || int64(n) > (1<<62)/u.bytes {
			break
		}
		return int64(n) * u.bytes, nil
	}
	return 0, fmt.Errorf("%q is no size; write bytes, or a unit as in 64KiB, 16MiB, 1GiB", text)
}

func printSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return "0"
}

const durationPattern = `^([0-9]{1,9}(ms|s|m|h))+$`

// duration is a time span: 500ms, 30s, 5m, 1h30m.
func duration(to *time.Duration, about string, least, most, preset time.Duration) *scalar {
	b := bounds{int64(least), int64(most), int64(preset)}
	return &scalar{
		about: b.about("A time span such as 500ms, 30s, 5m or 1h30m. "+about, printDuration), tags: []string{"!!str"},
		describe: map[string]any{"type": "string", "pattern": durationPattern},
		preset:   func() { *to = preset },
		set: func(text string) error {
			d, err := time.ParseDuration(text)
			if err != nil || !durationSyntax.MatchString(text) {
				return fmt.Errorf("%q is no time span; write it as in 500ms, 30s, 5m, 1h30m", text)
			}
			*to = d
			return b.check(int64(d), printDuration)
		},
	}
}

// printDuration drops the zero units that the standard library prints: 5m0s.
func printDuration(n int64) string {
	s := time.Duration(n).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
