package analyze

import (
	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// sessionWord is a value that SQL spells as a word and that no function call stands for.
type sessionWord struct {
	name string
	typ  catalog.OID
}

var sessionWords = map[pg.SQLValueFunctionOp]sessionWord{
	pg.SQLValueFunctionOp_SVFOP_CURRENT_DATE:        {"current_date", typing.Date},
	pg.SQLValueFunctionOp_SVFOP_CURRENT_TIME:        {"current_time", typing.TimeTZ},
	pg.SQLValueFunctionOp_SVFOP_CURRENT_TIME_N:      {"current_time", typing.TimeTZ},
	pg.SQLValueFunctionOp_SVFOP_CURRENT_TIMESTAMP:   {"current_timestamp", typing.TimestampTZ},
	pg.SQLValueFunctionOp_SVFOP_CURRENT_TIMESTAMP_N: {"current_timestamp", typing.TimestampTZ},
	pg.SQLValueFunctionOp_SVFOP_LOCALTIME:           {"localtime", typing.Time},
	pg.SQLValueFunctionOp_SVFOP_LOCALTIME_N:         {"localtime", typing.Time},
	pg.SQLValueFunctionOp_SVFOP_LOCALTIMESTAMP:      {"localtimestamp", typing.Timestamp},
	pg.SQLValueFunctionOp_SVFOP_LOCALTIMESTAMP_N:    {"localtimestamp", typing.Timestamp},
	pg.SQLValueFunctionOp_SVFOP_CURRENT_ROLE:        {"current_role", typing.Name},
	pg.SQLValueFunctionOp_SVFOP_CURRENT_USER:        {"current_user", typing.Name},
	pg.SQLValueFunctionOp_SVFOP_USER:                {"user", typing.Name},
	pg.SQLValueFunctionOp_SVFOP_SESSION_USER:        {"session_user", typing.Name},
	pg.SQLValueFunctionOp_SVFOP_CURRENT_CATALOG:     {"current_catalog", typing.Name},
	pg.SQLValueFunctionOp_SVFOP_CURRENT_SCHEMA:      {"current_schema", typing.Name},
}

func sessionName(op pg.SQLValueFunctionOp) string { return sessionWords[op].name }

// sessionValue is CURRENT_USER, CURRENT_DATE and kin. Those that tell who and where the session is are reported.
func (a *analysis) sessionValue(n *pg.SQLValueFunction) value {
	w, ok := sessionWords[n.Op]
	if !ok {
		unsupported(n.Location, "this session value is")
	}
	if w.typ == typing.Name {
		a.noteSession(w.name)
	}
	return value{typ: w.typ}
}

// xmlExpr is XMLELEMENT and kin. PostgreSQL runs them itself: no function is called.
func (a *analysis) xmlExpr(s *scope, n *pg.XmlExpr) value {
	a.out.System.Raises = true
	var from []*lineage
	for _, arg := range n.NamedArgs {
		from = append(from, a.settled(a.expr(s, arg.GetResTarget().GetVal())).from)
	}
	args := a.exprs(s, n.Args)
	for i, v := range args {
		switch n.Op {
		case pg.XmlExprOp_IS_XMLCONCAT, pg.XmlExprOp_IS_XMLELEMENT, pg.XmlExprOp_IS_DOCUMENT:
			if n.Op != pg.XmlExprOp_IS_XMLELEMENT {
				a.coerce(v, typing.XML, typing.Assignment, n.Location)
			}
		case pg.XmlExprOp_IS_XMLPARSE, pg.XmlExprOp_IS_XMLPI:
			if i == 0 {
				a.coerce(v, typing.Text, typing.Assignment, n.Location)
			}
		case pg.XmlExprOp_IS_XMLROOT:
			a.coerce(v, []catalog.OID{typing.XML, typing.Text, typing.Int4}[min(i, 2)], typing.Assignment, n.Location)
		}
		from = append(from, v.from)
	}
	if n.Op == pg.XmlExprOp_IS_DOCUMENT {
		return derived(typing.Bool, from...)
	}
	return derived(typing.XML, from...)
}

func (a *analysis) xmlSerialize(s *scope, n *pg.XmlSerialize) value {
	v := a.coerce(a.expr(s, n.Expr), typing.XML, typing.Assignment, n.Location)
	v = a.cast(value{typ: typing.Text, from: v.from}, n.TypeName, n.Location)
	return derived(v.typ, v.from)
}
