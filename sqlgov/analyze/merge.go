package analyze

import (
	"interlock/catalog"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// merge analyses MERGE. Its source is read like an item of FROM; what a WHEN clause sees depends on whether a row matched.
func (a *analysis) merge(s *scope, n *pg.MergeStmt) {
	a.with(s, n.WithClause)
	rel, target := a.targetTable(n.Relation)
	switch rel.Kind {
	case catalog.Table, catalog.PartitionedTable:
	default:
		failAt(n.Relation.Location, "0A000", "cannot execute MERGE on relation %q", rel.Name)
	}
	a.targetAndFrom(s, target, []*pg.Node{n.SourceRelation})
	a.boolean(a.expr(s, n.JoinCondition), "JOIN/ON", location(n.JoinCondition))
	for _, w := range n.MergeWhenClauses {
		a.mergeWhen(s, rel, w.GetMergeWhenClause())
	}
}

func (a *analysis) mergeWhen(s *scope, rel *catalog.Relation, n *pg.MergeWhenClause) {
	both := s.items
	if !n.Matched {
		s.items = both[1:] // the target comes first: there is no row of it
	}
	defer func() { s.items = both }()
	if n.Condition != nil {
		a.boolean(a.expr(s, n.Condition), "WHEN", location(n.Condition))
	}
	switch n.CommandType {
	case pg.CmdType_CMD_INSERT:
		a.mergeInsert(s, rel, n)
	case pg.CmdType_CMD_UPDATE:
		a.setClause(s, rel, n.TargetList)
	case pg.CmdType_CMD_DELETE:
		a.change(rel, 0, Deleting)
	case pg.CmdType_CMD_NOTHING:
		a.touch(rel) // the server wants the right to read some column for it
	default:
		unsupported(-1, "this action of MERGE is")
	}
}

func (a *analysis) mergeInsert(s *scope, rel *catalog.Relation, n *pg.MergeWhenClause) {
	if len(n.Values) == 0 {
		a.change(rel, 0, Inserting)
		return
	}
	insert := &pg.InsertStmt{Cols: n.TargetList}
	a.insertRow(s, rel, a.insertColumns(rel, insert), n.Values, insert)
}
