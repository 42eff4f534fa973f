package analyze

import (
	"cmp"
	"strconv"
	"strings"

	"interlock/catalog"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// copy analyses COPY from and to the client. Files and programs of the server are out of reach.
func (a *analysis) copy(n *pg.CopyStmt) {
	if n.IsProgram || n.Filename != "" {
		unsupported(-1, "COPY from or to a file or program of the server is")
	}
	a.copyOptions(n.Options)
	if n.Relation != nil {
		n.Relation.Location = -1 // PostgreSQL's errors about it have no position
	}
	switch {
	case n.IsFrom:
		a.copyIn(n)
	case n.Relation != nil:
		a.copyTable(n)
	default:
		a.preparable(n.Query)
		a.becomes(CopyOut, "")
		a.out.Copied = len(a.out.Output)
	}
}

// copyTable is COPY table TO: it reads the columns that it names, or all.
func (a *analysis) copyTable(n *pg.CopyStmt) {
	a.out.Kind, a.out.Carries = CopyOut, Select
	rel := a.relation(n.Relation)
	if rel.Kind != catalog.Table {
		failAt(n.Relation.Location, "42809", "cannot copy from relation %q", rel.Name)
	}
	e := a.relationEntry(rel, rel.Name)
	e.mention(a.touch(rel))
	var columns []column
	for _, sl := range a.copyColumns(rel, n) {
		c, _ := e.find(sl.column.Name)
		a.projected(func() value { return a.columnValue(c) })
		columns = append(columns, *c)
	}
	a.output(columns)
	a.out.Copied = len(columns)
}

// copyIn is COPY table FROM STDIN: it inserts into the columns that it names, or all, and WHERE reads what it names.
func (a *analysis) copyIn(n *pg.CopyStmt) {
	a.out.Kind, a.out.Carries = CopyIn, Insert
	rel, e := a.targetTable(n.Relation)
	slots := a.copyColumns(rel, n)
	a.out.Copied = len(slots)
	for _, sl := range slots {
		a.change(rel, sl.column.Num, Inserting)
	}
	if n.WhereClause != nil {
		s := &scope{items: []*item{{entry: e, named: true, columns: true}}}
		a.boolean(a.expr(s, n.WhereClause), "WHERE", location(n.WhereClause))
	}
}

// copyColumns are the columns named, or all but the generated ones.
func (a *analysis) copyColumns(rel *catalog.Relation, n *pg.CopyStmt) []slot {
	names := words(n.Attlist)
	var slots []slot
	for _, name := range names {
		slots = append(slots, a.slot(&scope{}, rel, &pg.ResTarget{Name: name, Location: -1}, ""))
	}
	for i := range rel.Columns {
		if len(names) == 0 && !rel.Columns[i].Generated {
			slots = append(slots, slot{&rel.Columns[i], rel.Columns[i].Type, true})
		}
	}
	return slots
}

// copyOptions admits options that shape the data on its way, and UTF-8. What is wrong with their values the server says.
func (a *analysis) copyOptions(list []*pg.Node) {
	f := CopyForm{Format: "text"}
	for _, n := range list {
		switch d := n.GetDefElem(); d.GetDefname() {
		case "format":
			f.Format = copyText(d)
		case "header":
			f.Header = optionOn(d)
		case "delimiter":
			f.Delimiter = copyText(d)
		case "null":
			null := copyText(d)
			f.Null = &null
		case "quote":
			f.Quote = copyText(d)
		case "escape":
			f.Escape = copyText(d)
		case "force_quote":
			f.ForceQuote = copyNames(d)
		case "force_not_null", "force_null":
		case "encoding":
			if !strings.EqualFold(optionText(d), "utf8") && !strings.EqualFold(optionText(d), "utf-8") {
				unsupported(-1, "COPY in another encoding than UTF8 is")
			}
		default:
			unsupported(-1, "option \""+d.GetDefname()+"\" of COPY is")
		}
	}
	a.out.Form = f.complete()
}

// copyText is the value of an option as the server reads it.
func copyText(d *pg.DefElem) string {
	switch v := d.GetArg().GetNode().(type) {
	case *pg.Node_String_:
		return v.String_.Sval
	case *pg.Node_Integer:
		return strconv.Itoa(int(v.Integer.Ival))
	case *pg.Node_Float:
		return v.Float.Fval
	}
	unsupported(-1, "such a value of option \""+d.GetDefname()+"\" of COPY is")
	return ""
}

func copyNames(d *pg.DefElem) []string {
	if d.GetArg().GetAStar() != nil {
		return []string{EveryColumn}
	}
	return words(d.GetArg().GetList().GetItems())
}

// complete sets what is not given as the server does.
func (f *CopyForm) complete() *CopyForm {
	delimiter, null := "\t", `\N`
	if f.Format == "csv" {
		delimiter, null = ",", ""
		f.Quote = cmp.Or(f.Quote, `"`)
		f.Escape = cmp.Or(f.Escape, f.Quote)
	}
	f.Delimiter = cmp.Or(f.Delimiter, delimiter)
	if f.Null == nil {
		f.Null = &null
	}
	return f
}
