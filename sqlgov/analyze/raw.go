package analyze

import (
	"fmt"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// RawFacts are the facts of a text that is run without being understood, by db.execute_raw: statements of kind Raw, of
// which it is only known if they take data from the client. It never fails: a text that the gate or the parser turns
// down is one statement.
func RawFacts(text string, limits Limits) *Facts {
	facts := &Facts{Normalized: rawText(text), Fingerprint: fingerprint(text)}
	stmts, err := readRaw(text, limits)
	if err != nil || len(stmts) == 0 {
		facts.Statements = []Statement{{Kind: Raw, End: len(text), TakesData: beginsWithCopy(text)}}
		return facts
	}
	for _, raw := range stmts {
		st := Statement{Kind: Raw, TakesData: takesData(raw.Stmt)}
		st.Start, st.End = extent(text, raw)
		facts.Statements = append(facts.Statements, st)
	}
	return facts
}

func readRaw(text string, limits Limits) ([]*pg.RawStmt, *Error) {
	if e := admit(text, limits); e != nil {
		return nil, e
	}
	return parse(text)
}

func takesData(n *pg.Node) bool {
	c := n.GetCopyStmt()
	return c != nil && c.IsFrom && !c.IsProgram && c.Filename == ""
}

// beginsWithCopy is the guess for a statement that only the server can parse.
func beginsWithCopy(text string) bool {
	lex := lexer{text: text}
	first := lex.next()
	return strings.EqualFold(text[first.start:first.end], "copy")
}

// rawText is the normal form of a text. The settings of its session are its own business, and with
// standard_conforming_strings off a backslash keeps a quote from ending a literal: where that could shift what is a
// literal, nothing is shown.
func rawText(text string) string {
	if strings.Contains(text, `\'`) {
		return fmt.Sprintf("-- %d bytes, not shown: a backslash stands before a quote", len(text))
	}
	return Normalize(text)
}
