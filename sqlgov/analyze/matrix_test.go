package analyze

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"interlock/internal/pgtest"
)

var update = flag.Bool("update", false, "write the table of docs/sql.md anew")

const (
	matrixBegin = "<!-- The table is made from the verdicts in sqlgov/analyze. -->\n"
	matrixEnd   = "<!-- End of the table. -->\n"
)

// TestSupportMatrix holds the table in docs/sql.md against the verdicts that statements meet.
func TestSupportMatrix(t *testing.T) {
	path, err := pgtest.File("docs/sql.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), matrixBegin)
	if !found {
		t.Fatal("docs/sql.md has no table")
	}
	have, after, _ := strings.Cut(rest, matrixEnd)
	want := supportMatrix()
	switch {
	case have == want:
	case *update:
		if err := os.WriteFile(path, []byte(before+matrixBegin+want+matrixEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the table in docs/sql.md is not that of the verdicts; go test ./sqlgov/analyze -run SupportMatrix -update writes it anew")
	}
}

// supportMatrix is a table of everything that a text can hold: a row a group of verdicts.
func supportMatrix() string {
	var b strings.Builder
	b.WriteString("\n| SQL | becomes | how, or why not |\n|---|---|---|\n")
	for _, class := range []Class{Governed, Session, Refused} {
		for _, group := range verdictGroups() {
			var names []string
			var v Verdict
			for name := range group {
				if v = group[name]; v.Class == class {
					names = append(names, matrixName(name))
				}
			}
			if len(names) > 0 {
				slices.Sort(names)
				fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(names, ", "), class, v.Reason)
			}
		}
	}
	b.WriteString("\n")
	return b.String()
}

// matrixName is a statement in capitals, and any other node in small letters.
func matrixName(node string) string {
	if strings.HasSuffix(node, "_stmt") {
		return statementName(node)
	}
	return strings.ReplaceAll(node, "_", " ")
}
