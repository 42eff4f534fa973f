package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"interlock/sqlgov/labels"
)

// print writes a piece of YAML. What is not to be pasted as it is stands in comments. Names are chosen by whoever makes tables, so
// each is quoted unless it is plain.
func (r *proposals) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Proposed for source %s, from %d columns of %d tables. Look at each line before you take it over.\n", r.Source, r.Columns, r.Tables)
	r.printLabels(&b)
	r.printContent(&b)
	for _, u := range r.Unsampled {
		fmt.Fprintf(&b, "# The values of %s were not looked at: %s.\n", yamlString(u.Table), u.Why)
	}
	if r.Labelled > 0 {
		fmt.Fprintf(&b, "# Columns that look sensitive and have labels: %d.\n", r.Labelled)
	}
	fmt.Fprintf(&b, "# Columns that look sensitive and have neither label nor mask: %d.\n", len(r.Unguarded))
	for _, p := range r.Proposals {
		if p.Unguarded() {
			fmt.Fprintf(&b, "#   %s is read by %s\n", yamlString(p.Column), readers(p))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func readers(p *labels.Proposal) string {
	if len(p.Readers) == 0 {
		return "nobody"
	}
	return strings.Join(p.Readers, ", ")
}

func (r *proposals) printLabels(b *strings.Builder) {
	of := make(map[string][]*labels.Proposal)
	var names []string
	for _, p := range r.Proposals {
		if p.Label != "" && of[p.Label] == nil {
			names = append(names, p.Label)
		}
		of[p.Label] = append(of[p.Label], p)
	}
	slices.Sort(names)
	if len(names) > 0 {
		b.WriteString("labels:\n")
	}
	for _, name := range names {
		fmt.Fprintf(b, "  %s:\n", name)
		for _, p := range of[name] {
			fmt.Fprintf(b, "    - %-36s # %s\n", yamlString(p.Column), remark(p))
		}
	}
}

// printContent tells of free text. Its place in the document is inside the source, so that it cannot be pasted at the end.
func (r *proposals) printContent(b *strings.Builder) {
	said := false
	for _, p := range r.Proposals {
		if p.Label != "" {
			continue
		}
		if !said {
			b.WriteString("# Free text that holds some. To have that masked, add to content.columns of the source:\n")
			said = true
		}
		fmt.Fprintf(b, "#   - {mode: mask, on: [%s]}  # %s\n", yamlString(p.Column), remark(p))
	}
}

func remark(p *labels.Proposal) string {
	text := strings.Join(p.Because, "; ")
	if !p.Likely {
		text = "perhaps: " + text
	}
	if len(p.Masks) > 0 {
		text += "; masked: " + strings.Join(p.Masks, ", ")
	}
	return text
}

// yamlString is a string as YAML reads it, on one line.
func yamlString(s string) string {
	plain := func(c rune) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '.' }
	if strings.IndexFunc(s, func(c rune) bool { return !plain(c) }) < 0 {
		return s
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		return "?" // no string is
	}
	return string(quoted)
}
