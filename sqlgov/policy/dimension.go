package policy

import "cel.dev/cel-go/common/ast"

// dimension is a variable by which policies are found: one that has a text or a list of texts.
type dimension int

const (
	byIdentity dimension = iota
	byIdentityKind
	byTeam
	bySource
	byDoor
	byKind
	byCommand
	byRisk
	byTable
	byColumn
	byWritten
	byFunction
	byLabel
	dimensions
)

var dimensionNames = [dimensions]string{
	byIdentity: "identity.name", byIdentityKind: "identity.kind", byTeam: "identity.team", bySource: "source", byDoor: "door",
	byKind: "statement.kind", byCommand: "statement.command", byRisk: "statement.risk", byTable: "statement.tables", byColumn: "statement.columns",
	byWritten: "statement.writes", byFunction: "statement.functions", byLabel: "statement.labels",
}

// firstList is the first dimension that has a list; the ones before have one text.
const firstList = byTable

// dimensionOf returns the dimension that an expression names. list says which sort is wanted.
func dimensionOf(e ast.Expr, list bool) (dimension, bool) {
	name := pathOf(e)
	for d, n := range dimensionNames {
		if n == name {
			return dimension(d), (dimension(d) >= firstList) == list
		}
	}
	return 0, false
}

// pathOf is the dotted name of an identifier or a selection of identifiers, or "".
func pathOf(e ast.Expr) string {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent()
	case ast.SelectKind:
		s := e.AsSelect()
		if operand := pathOf(s.Operand()); operand != "" && !s.IsTestOnly() {
			return operand + "." + s.FieldName()
		}
	}
	return ""
}
