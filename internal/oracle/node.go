package oracle

import (
	"fmt"
	"strconv"
	"strings"
)

// node is a node of a tree as PostgreSQL's outfuncs.c prints it: {KIND :field value ...}. A value is a list of tokens,
// nodes and lists, for some fields print more than one.
type node struct {
	kind   string
	fields []field
}

type field struct {
	name   string
	values []any // string, *node or list
}

// list is what stands between parentheses.
type list []any

// get returns the values of a field.
func (n *node) get(name string) []any {
	for i := range n.fields {
		if n.fields[i].name == name {
			return n.fields[i].values
		}
	}
	return nil
}

// word is a field of one token; "" when it is something else.
func (n *node) word(name string) string {
	if v := n.get(name); len(v) == 1 {
		if s, ok := v[0].(string); ok {
			return s
		}
	}
	return ""
}

func (n *node) number(name string) int {
	i, err := strconv.Atoi(n.word(name))
	if err != nil {
		return 0
	}
	return i
}

// child is a field of one node.
func (n *node) child(name string) *node {
	if v := n.get(name); len(v) == 1 {
		if c, ok := v[0].(*node); ok {
			return c
		}
	}
	return nil
}

// numbers are the numbers of a list with a letter in front: (b 8 9), (o 96 97).
func (n *node) numbers(name string) []int {
	v := n.get(name)
	if len(v) != 1 {
		return nil
	}
	l, ok := v[0].(list)
	if !ok {
		return nil
	}
	var all []int
	for _, x := range l {
		if s, ok := x.(string); ok {
			if i, err := strconv.Atoi(s); err == nil {
				all = append(all, i)
			}
		}
	}
	return all
}

// parseTree reads a printed tree: one node, or a list of nodes.
func parseTree(text string) ([]*node, error) {
	r := &reader{text: text}
	v, err := r.value()
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case *node:
		return []*node{v}, nil
	case list:
		var all []*node
		for _, x := range v {
			n, ok := x.(*node)
			if !ok {
				return nil, fmt.Errorf("a list of nodes holds %v", x)
			}
			all = append(all, n)
		}
		return all, nil
	}
	return nil, fmt.Errorf("not a tree: %.40q", text)
}

// reader splits as pg_strtok of PostgreSQL's read.c does.
type reader struct {
	text string
	at   int
}

// token returns the next token; "" at the end. A backslash keeps what follows it in the token.
func (r *reader) token() string {
	for r.at < len(r.text) && strings.IndexByte(" \n\t", r.text[r.at]) >= 0 {
		r.at++
	}
	start := r.at
	for r.at < len(r.text) {
		c := r.text[r.at]
		if strings.IndexByte("(){}", c) >= 0 {
			if r.at == start {
				r.at++
			}
			break
		}
		if strings.IndexByte(" \n\t", c) >= 0 {
			break
		}
		r.at++
		if c == '\\' && r.at < len(r.text) {
			r.at++
		}
	}
	return r.text[start:r.at]
}

func (r *reader) peek() string {
	was := r.at
	t := r.token()
	r.at = was
	return t
}

func (r *reader) value() (any, error) {
	switch t := r.token(); t {
	case "":
		return nil, fmt.Errorf("the tree ends early")
	case "{":
		return r.node()
	case "(":
		return r.list()
	case ")", "}":
		return nil, fmt.Errorf("%q at %d closes nothing", t, r.at)
	default:
		return t, nil
	}
}

func (r *reader) list() (list, error) {
	var l list
	for r.peek() != ")" {
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		l = append(l, v)
	}
	r.token()
	return l, nil
}

func (r *reader) node() (*node, error) {
	n := &node{kind: r.token()}
	for {
		switch t := r.peek(); {
		case t == "}":
			r.token()
			return n, nil
		case strings.HasPrefix(t, ":"):
			r.token()
			n.fields = append(n.fields, field{name: t[1:]})
			continue
		}
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		if len(n.fields) == 0 {
			return nil, fmt.Errorf("node %s holds %v outside its fields", n.kind, v)
		}
		f := &n.fields[len(n.fields)-1]
		f.values = append(f.values, v)
	}
}
