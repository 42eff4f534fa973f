package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// path is a node of the tree of paths. A node without ways on is the end of a path.
type path struct {
	members map[string]*path
	each    *path // elements of an array
}

func (p *path) end() bool { return p.members == nil && p.each == nil }

func (s *Spec) paths() (*path, error) {
	if (len(s.Hide) == 0) == (len(s.Show) == 0) {
		return nil, fmt.Errorf("a json mask needs either the paths to hide or those to show")
	}
	root := &path{}
	for _, text := range append(s.Hide[:len(s.Hide):len(s.Hide)], s.Show...) {
		if err := root.add(text); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// add puts a path into the tree: "$", and for each step ".name" or "[*]".
func (p *path) add(text string) error {
	rest, ok := strings.CutPrefix(text, "$")
	if !ok || rest == "" {
		return fmt.Errorf("path %q is not of the form $.name[*].name", text)
	}
	for rest != "" {
		if tail, each := strings.CutPrefix(rest, "[*]"); each {
			if p.each == nil {
				p.each = &path{}
			}
			p, rest = p.each, tail
			continue
		}
		name := rest[1:]
		if i := strings.IndexAny(name, ".["); i >= 0 {
			name = name[:i]
		}
		if rest[0] != '.' || name == "" {
			return fmt.Errorf("path %q is not of the form $.name[*].name", text)
		}
		if p.members == nil {
			p.members = make(map[string]*path)
		}
		if p.members[name] == nil {
			p.members[name] = &path{}
		}
		p, rest = p.members[name], rest[1+len(name):]
	}
	return nil
}

// jsonbVersion is the first byte of jsonb in binary format; JSON text follows.
const jsonbVersion = 1

func (c *compiler) putJSON(value string) ([]byte, bool) {
	if !json.Valid([]byte(value)) || strings.Contains(value, `\u0000`) {
		return nil, false
	}
	if c.typ.OID == oidJSONB && c.format == BinaryFormat {
		return append([]byte{jsonbVersion}, value...), true
	}
	return []byte(value), true
}

// json copies a document without what is hidden.
func (c *compiler) json() (masking, error) {
	if c.typ.OID != oidJSON && c.typ.OID != oidJSONB {
		return nil, c.misfit()
	}
	root, err := c.paths()
	if err != nil {
		return nil, err
	}
	binary := c.typ.OID == oidJSONB && c.format == BinaryFormat
	show := len(c.Show) > 0
	return func(dst, value []byte) ([]byte, error) {
		if binary {
			if len(value) < 1 || value[0] != jsonbVersion {
				return dst, errUnreadable
			}
			dst, value = append(dst, jsonbVersion), value[1:]
		}
		if !json.Valid(value) {
			return dst, errUnreadable
		}
		w := documentWalk{src: value, dst: dst, show: show}
		w.value(root)
		return w.dst, nil
	}, nil
}

// documentWalk copies a valid document.
type documentWalk struct {
	src  []byte
	at   int
	dst  []byte
	show bool
}

// value copies the value that comes next, by the paths that lead into it. Nil is off all paths.
func (w *documentWalk) value(p *path) {
	w.space()
	whole := p != nil && p.end()
	switch {
	case p == nil && !w.show, whole && w.show:
		start := w.at
		w.skip()
		w.dst = append(w.dst, w.src[start:w.at]...)
	case p == nil, whole:
		w.skip()
		w.dst = append(w.dst, "null"...)
	case w.src[w.at] == '{':
		w.object(p)
	case w.src[w.at] == '[':
		w.array(p)
	default:
		w.value(nil)
	}
}

func (w *documentWalk) object(p *path) {
	w.at++
	w.dst = append(w.dst, '{')
	first := true
	for w.space(); w.src[w.at] != '}'; w.space() {
		if w.src[w.at] == ',' {
			w.at++
			w.space()
		}
		start := w.at
		w.skip()
		key := w.src[start:w.at]
		w.space()
		w.at++ // the colon
		next := p.members[keyName(key)]
		if w.show && next == nil { // its name may be data as well
			w.space()
			w.skip()
			continue
		}
		if !first {
			w.dst = append(w.dst, ',')
		}
		first = false
		w.dst = append(append(w.dst, key...), ':')
		w.value(next)
	}
	w.at++
	w.dst = append(w.dst, '}')
}

func keyName(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var name string
	if json.Unmarshal(quoted, &name) != nil {
		return ""
	}
	return name
}

func (w *documentWalk) array(p *path) {
	w.at++
	w.dst = append(w.dst, '[')
	for w.space(); w.src[w.at] != ']'; w.space() {
		if w.src[w.at] == ',' {
			w.at++
			w.dst = append(w.dst, ',')
		}
		w.value(p.each)
	}
	w.at++
	w.dst = append(w.dst, ']')
}

func (w *documentWalk) space() {
	for w.at < len(w.src) && strings.IndexByte(" \t\r\n", w.src[w.at]) >= 0 {
		w.at++
	}
}

// skip goes behind the value that comes next.
func (w *documentWalk) skip() {
	depth := 0
	for {
		switch c := w.src[w.at]; c {
		case '"':
			w.skipString()
		case '{', '[':
			depth++
			w.at++
		case '}', ']':
			depth--
			w.at++
		case ' ', '\t', '\r', '\n', ',', ':':
			w.at++
			continue
		default:
			w.skipWord()
		}
		if depth == 0 {
			return
		}
	}
}

func (w *documentWalk) skipString() {
	for w.at++; w.src[w.at] != '"'; w.at++ {
		if w.src[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
}

// skipWord goes behind a number, true, false or null.
func (w *documentWalk) skipWord() {
	for w.at < len(w.src) && strings.IndexByte(" \t\r\n,:{}[]\"", w.src[w.at]) < 0 {
		w.at++
	}
}
