package analyze

import (
	"slices"

	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

const searchPath = "search_path"

// MovesPath reports if the statement changes the search path of its session: it becomes empty, or what it was at first.
func (s *Statement) MovesPath() (moves, empty bool) {
	moves = s.Kind == Set && s.Name == searchPath
	return moves, moves && !s.Settings[0].Default
}

func (a *analysis) emptyPath() {
	a.out.Kind, a.out.Name = Set, searchPath
	a.out.Settings = []Setting{{Name: searchPath}}
}

// dumps analyses the two statements by which pg_dump sets parameters in a SELECT. It reports false for every other one. Inside of
// another statement they are calls like any other.
func (a *analysis) dumps(n *pg.Node) bool {
	switch text := a.text[a.out.Start:a.out.End]; {
	case emptiesPath(n.GetSelectStmt()):
		a.emptyPath()
	case text == restrictsViews && len(a.env.SearchPath) == 0: // so that its names are those of pg_catalog
		a.out.Kind, a.out.Name = Set, "restrict_nonsystem_relation_kind"
		a.out.Settings = []Setting{{Name: a.out.Name, Value: "view, foreign-table"}}
	default:
		return false
	}
	a.out.Output = []Output{{Name: "set_config", Type: typing.Text}}
	return true
}

// restrictsViews makes views and foreign tables errors, so that nothing of theirs runs while data is dumped. Servers know the
// parameter since CVE-2024-7348.
const restrictsViews = "SELECT set_config(name, 'view, foreign-table', false) FROM pg_settings WHERE name = 'restrict_nonsystem_relation_kind'"

// emptiesPath recognises what pg_dump, and every script that it writes, begins with:
// SELECT pg_catalog.set_config('search_path', ”, false).
func emptiesPath(n *pg.SelectStmt) bool {
	if len(n.GetTargetList()) != 1 || len(n.FromClause)+len(n.ValuesLists)+len(n.SortClause)+len(n.GroupClause)+len(n.LockingClause)+len(n.WindowClause)+len(n.DistinctClause) > 0 ||
		n.WhereClause != nil || n.HavingClause != nil || n.WithClause != nil || n.IntoClause != nil || n.LimitCount != nil || n.LimitOffset != nil || n.Op != pg.SetOperation_SETOP_NONE {
		return false
	}
	target := n.TargetList[0].GetResTarget()
	call := target.GetVal().GetFuncCall()
	if call == nil || target.Name != "" || !slices.Equal(words(call.Funcname), []string{"pg_catalog", "set_config"}) || len(call.Args) != 3 ||
		call.AggFilter != nil || call.Over != nil || len(call.AggOrder) > 0 || call.AggDistinct || call.AggStar || call.FuncVariadic {
		return false
	}
	name, value, local := call.Args[0].GetAConst(), call.Args[1].GetAConst(), call.Args[2].GetAConst()
	return name.GetSval().GetSval() == searchPath && isEmptyText(value) && isFalse(local)
}

func isEmptyText(c *pg.A_Const) bool {
	v, ok := c.GetVal().(*pg.A_Const_Sval)
	return ok && v.Sval.Sval == ""
}

func isFalse(c *pg.A_Const) bool {
	v, ok := c.GetVal().(*pg.A_Const_Boolval)
	return ok && !v.Boolval.Boolval
}
