package analyze

import (
	"strconv"
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// explain carries the facts of the statement inside: the server checks the same privileges, and with ANALYZE it runs it.
// The plan shows estimates and measures, which derive from all that is read; without them it shows the text's own
// conditions and no data.
func (a *analysis) explain(n *pg.ExplainStmt) {
	options := explainOptions(n.Options)
	switch n.Query.GetNode().(type) {
	case *pg.Node_SelectStmt, *pg.Node_InsertStmt, *pg.Node_UpdateStmt, *pg.Node_DeleteStmt, *pg.Node_MergeStmt, *pg.Node_ExecuteStmt:
		a.statement(n.Query)
	default:
		refuseStatement(n.Query)
	}
	var from []*lineage
	if options.analyze || options.costs {
		for _, c := range a.out.Reads {
			from = append(from, a.relationLineage(a.env.Catalog.Relation(c.Relation), c.Num))
		}
	}
	a.becomes(Explain, "")
	if options.analyze {
		a.out.Name = "analyze"
	}
	a.output([]column{{name: "QUERY PLAN", typ: options.format, from: changed(from...)}})
}

// explaining is what EXPLAIN is asked for.
type explaining struct {
	analyze, costs bool
	format         catalog.OID
}

// explainOptions reads the options that matter. The last of a kind wins, as in the server.
func explainOptions(list []*pg.Node) explaining {
	o := explaining{costs: true, format: typing.Text}
	for _, n := range list {
		d := n.GetDefElem()
		switch d.GetDefname() {
		case "analyze":
			o.analyze = optionOn(d)
		case "costs":
			o.costs = optionOn(d)
		case "format":
			switch strings.ToLower(optionText(d)) {
			case "json":
				o.format = typing.JSON
			case "xml":
				o.format = typing.XML
			}
		case "verbose", "settings", "buffers", "wal", "timing", "summary":
		default:
			failAt(d.GetLocation(), "42601", "unrecognized EXPLAIN option %q", d.GetDefname())
		}
	}
	return o
}

// optionText is an option's value as a word; "" when it has none.
func optionText(d *pg.DefElem) string {
	switch v := d.GetArg().GetNode().(type) {
	case *pg.Node_String_:
		return v.String_.Sval
	case *pg.Node_Integer:
		return strconv.Itoa(int(v.Integer.Ival))
	case *pg.Node_Boolean:
		if !v.Boolean.Boolval {
			return "false"
		}
		return "true"
	case *pg.Node_TypeName:
		return lastOf(words(v.TypeName.Names))
	}
	return ""
}

// optionOn reports if an option is on; what is not plainly off counts as on.
func optionOn(d *pg.DefElem) bool {
	switch strings.ToLower(optionText(d)) {
	case "false", "off", "0", "no", "f", "n":
		return false
	}
	return true
}
