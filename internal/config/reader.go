package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile is how many bytes a configuration file may have.
const maxFile = 16 << 20

// reader reads one YAML document into shapes and collects what is wrong with it.
type reader struct {
	file     string
	lookup   func(name string) (string, bool) // of variables
	problems Problems
}

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.failAt(n.Line, n.Column, format, args...)
}

func (r *reader) failAt(line, column int, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.file, max(line, 1), max(column, 1), fmt.Sprintf(format, args...)})
}

// err returns the problems as an error, or nil if there are none.
func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return r.problems.sorted()
}

// document reads the only document of a file into a shape and returns its root, or nil if there is no usable YAML. A
// file without content is an empty mapping.
func (r *reader) document(data []byte, into shape) *yaml.Node {
	root := r.parse(data)
	if root == nil {
		return nil
	}
	if r.plain(root); len(r.problems) > 0 {
		return nil
	}
	into.read(r, root)
	return root
}

func (r *reader) parse(data []byte) *yaml.Node {
	if len(data) > maxFile {
		r.failAt(1, 1, "the file is larger than %d MiB", maxFile>>20)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}
	case err != nil:
		r.syntax(data, err)
		return nil
	}
	if err := dec.Decode(&more); err == nil {
		r.fail(&more, "there is a second document in the file; only one is read")
		return nil
	} else if !errors.Is(err, io.EOF) {
		r.syntax(data, err)
		return nil
	}
	return doc.Content[0]
}

var yamlError = regexp.MustCompile(`^yaml: (?:line \d+: )?`)

// syntax reports an error of the YAML library. The line that the library gives is that of the block around the error,
// so it is not used.
func (r *reader) syntax(data []byte, err error) {
	r.failAt(badLine(data), 1, "%s", yamlError.ReplaceAllString(err.Error(), ""))
}

// lookahead is how many lines badLine looks beyond a line to see if the document is whole again. It does not search
// files of more than searchable bytes, which would take long.
const (
	lookahead  = 50
	searchable = 1 << 20
)

// badLine finds the first line with which the document stops being YAML: the text before it is, the text with it is not
// and does not become so again soon, as it does at the end of a list that is written over several lines.
func badLine(data []byte) int {
	if len(data) > searchable {
		return 1
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	good := func(n int) bool {
		var doc yaml.Node
		err := yaml.Unmarshal(bytes.Join(lines[:n], nil), &doc)
		return err == nil
	}
	for from := 0; ; {
		n := from + sort.Search(len(lines)-from, func(i int) bool { return !good(from + i + 1) })
		again := n
		for again < len(lines) && again < n+lookahead && !good(again+1) {
			again++
		}
		if again >= len(lines) || again == n+lookahead {
			return min(n+1, len(lines))
		}
		from = again + 1
	}
}

// plain refuses what makes a document mean something else than it seems to say: aliases, and keys that are no strings
// or stand twice in a mapping.
func (r *reader) plain(n *yaml.Node) {
	switch n.Kind {
	case yaml.AliasNode:
		r.fail(n, "aliases are not supported; write the value out")
		return
	case yaml.MappingNode:
		r.keys(n)
	}
	if n.Anchor != "" {
		r.fail(n, "anchors are not supported; write the value out")
	}
	for _, c := range n.Content {
		r.plain(c)
	}
}

func (r *reader) keys(n *yaml.Node) {
	first := make(map[string]int)
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag != "!!str" {
			r.fail(key, "a key must be a string; put it in quotes")
			continue
		}
		if line, twice := first[key.Value]; twice {
			r.fail(key, "key %q stands twice; the first is on line %d", key.Value, line)
		}
		first[key.Value] = key.Line
	}
}

var variable = regexp.MustCompile(`\$?\$\{([^}]*)\}?`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME} by the value of the variable; $${ stands for ${ itself. It reports if all were set.
func (r *reader) expand(n *yaml.Node) (text string, ok bool) {
	ok = true
	text = variable.ReplaceAllStringFunc(n.Value, func(found string) string {
		if strings.HasPrefix(found, "$$") {
			return found[1:]
		}
		name := strings.TrimSuffix(found[2:], "}")
		if !strings.HasSuffix(found, "}") || !variableName.MatchString(name) {
			ok = false
			r.fail(n, "%q is no variable; write ${NAME}, or $${ for the characters themselves", found)
			return ""
		}
		value, set := r.lookup(name)
		if !set {
			ok = false
			r.fail(n, "variable %s is not set", name)
		}
		return value
	})
	return text, ok
}

// locate finds the node that a path leads to (see policy.Problem); for a mapping behind a key that is the key.
// If the end of the path is missing, it is the last node on the way.
func locate(root *yaml.Node, path []string) *yaml.Node {
	at, place := root, root
	for _, step := range path {
		next, key := child(at, step)
		if next == nil {
			return at
		}
		at, place = next, next
		if key != nil && next.Kind == yaml.MappingNode {
			place = key
		}
	}
	return place
}

func child(n *yaml.Node, step string) (value, key *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1], n.Content[i]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], nil
		}
	}
	return nil, nil
}
