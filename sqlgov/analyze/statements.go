package analyze

import (
	"strings"

	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// statement analyses a statement by its kind. A kind that is not here is refused, with the reason that the verdict
// table gives.
func (a *analysis) statement(n *pg.Node) {
	switch x := n.GetNode().(type) {
	case *pg.Node_SelectStmt:
		a.out.Kind = Select
		a.output(a.selectStmt(&scope{}, x.SelectStmt).columns)
	case *pg.Node_InsertStmt:
		a.out.Kind = Insert
		a.returning(a.insert(&scope{}, x.InsertStmt), x.InsertStmt.ReturningList)
	case *pg.Node_UpdateStmt:
		a.out.Kind = Update
		a.returning(a.update(&scope{}, x.UpdateStmt), x.UpdateStmt.ReturningList)
	case *pg.Node_DeleteStmt:
		a.out.Kind = Delete
		a.returning(a.delete(&scope{}, x.DeleteStmt), x.DeleteStmt.ReturningList)
	case *pg.Node_MergeStmt:
		a.out.Kind = Merge
		a.merge(&scope{}, x.MergeStmt)
	case *pg.Node_ExplainStmt:
		a.explain(x.ExplainStmt)
	case *pg.Node_CopyStmt:
		a.copy(x.CopyStmt)
	case *pg.Node_TruncateStmt:
		a.truncate(x.TruncateStmt)
	case *pg.Node_LockStmt:
		a.lockTables(x.LockStmt)
	case *pg.Node_TransactionStmt:
		a.transaction(x.TransactionStmt)
	case *pg.Node_VariableSetStmt:
		a.set(x.VariableSetStmt)
	case *pg.Node_VariableShowStmt:
		a.show(x.VariableShowStmt)
	case *pg.Node_DiscardStmt:
		a.out.Kind = Discard
		a.out.Name = strings.ToLower(strings.TrimPrefix(x.DiscardStmt.Target.String(), "DISCARD_"))
	case *pg.Node_PrepareStmt:
		a.prepare(x.PrepareStmt)
	case *pg.Node_ExecuteStmt:
		a.execute(x.ExecuteStmt)
	case *pg.Node_DeclareCursorStmt:
		a.declare(x.DeclareCursorStmt)
	case *pg.Node_FetchStmt:
		a.fetch(x.FetchStmt)
	case *pg.Node_ClosePortalStmt:
		a.out.Kind, a.out.Name = Close, x.ClosePortalStmt.Portalname
	case *pg.Node_ListenStmt:
		a.out.Kind = Listen
		a.channel(x.ListenStmt.Conditionname, Listening)
	case *pg.Node_ConstraintsSetStmt:
		if a.out.Kind = Constrain; len(x.ConstraintsSetStmt.Constraints) > 0 { // it would tell which there are
			unsupported(-1, "SET CONSTRAINTS of other than ALL is")
		}
	case *pg.Node_UnlistenStmt:
		a.out.Kind = Unlisten
	case *pg.Node_NotifyStmt:
		a.out.Kind = Notify
		a.channel(x.NotifyStmt.Conditionname, Notifying)
	case *pg.Node_DeallocateStmt:
		a.out.Kind, a.out.Name = Deallocate, x.DeallocateStmt.Name
	default:
		refuseStatement(n)
	}
}

// output reports the result columns.
func (a *analysis) output(columns []column) {
	a.out.Output = make([]Output, len(columns))
	for i := range columns {
		c := &columns[i]
		if c.typ == typing.Unknown {
			c.typ = a.settled(value{typ: c.typ, param: c.param}).typ
		}
		a.out.Output[i] = Output{Name: c.name, Type: c.typ, Origin: c.origin.column(), Sources: a.sources(a.lineageOf(c))}
		a.out.Output[i].Columns = a.baseColumns(a.out.Output[i].Sources)
	}
}

// returning reports the result columns of RETURNING; without it there is no result.
func (a *analysis) returning(columns []column, list []*pg.Node) {
	if len(list) > 0 {
		a.output(columns)
	}
}

// truncate wants the right to truncate each table, and with CASCADE each table that refers to one.
func (a *analysis) truncate(n *pg.TruncateStmt) {
	a.out.Kind = Truncate
	if n.RestartSeqs {
		unsupported(-1, "TRUNCATE ... RESTART IDENTITY, which only the owner may do, is")
	}
	for _, r := range n.Relations {
		rel := a.relation(r.GetRangeVar())
		switch rel.Kind {
		case catalog.Table, catalog.PartitionedTable, catalog.ForeignTable:
		default:
			failAt(r.GetRangeVar().Location, "42809", "%q is not a table", rel.Name)
		}
		a.write(rel, 0, Truncating)
		if n.Behavior == pg.DropBehavior_DROP_CASCADE {
			a.truncateReferring(rel)
		}
	}
}

func (a *analysis) truncateReferring(rel *catalog.Relation) {
	relations := a.env.Catalog.Snapshot.Relations
	for i := range relations {
		other := &relations[i]
		for _, c := range other.Constraints {
			if c.Kind == "f" && c.RefTable == rel.OID && !a.writes[writeKey{columnKey{other.OID, 0}, Truncating}] {
				a.write(other, 0, Truncating)
				a.truncateReferring(other)
			}
		}
	}
	for _, child := range a.env.Catalog.Children(rel.OID) {
		if c := a.env.Catalog.Relation(child); c != nil {
			a.truncateReferring(c)
		}
	}
}

func (a *analysis) transaction(n *pg.TransactionStmt) {
	switch n.Kind {
	case pg.TransactionStmtKind_TRANS_STMT_BEGIN, pg.TransactionStmtKind_TRANS_STMT_START:
		a.out.Kind = Begin
		a.transactionModes(n.Options)
	case pg.TransactionStmtKind_TRANS_STMT_COMMIT:
		a.out.Kind = Commit
	case pg.TransactionStmtKind_TRANS_STMT_ROLLBACK, pg.TransactionStmtKind_TRANS_STMT_ROLLBACK_TO:
		a.out.Kind, a.out.Name = Rollback, n.SavepointName
	case pg.TransactionStmtKind_TRANS_STMT_SAVEPOINT:
		a.out.Kind, a.out.Name = Savepoint, n.SavepointName
	case pg.TransactionStmtKind_TRANS_STMT_RELEASE:
		a.out.Kind, a.out.Name = Release, n.SavepointName
	default:
		unsupported(-1, "two-phase commit is")
	}
}

// prepare carries the facts of the statement that it prepares. It returns no rows itself.
func (a *analysis) prepare(n *pg.PrepareStmt) {
	a.params = nil
	for _, t := range n.Argtypes {
		a.params = append(a.params, a.typeOf(t.GetTypeName()))
	}
	a.preparable(n.Query)
	a.becomes(Prepare, n.Name)
	a.out.Output = nil
	a.out.Prepared = a.text[a.out.Start:a.out.End]
}

// preparable is what PREPARE takes.
func (a *analysis) preparable(n *pg.Node) {
	switch n.GetNode().(type) {
	case *pg.Node_SelectStmt, *pg.Node_InsertStmt, *pg.Node_UpdateStmt, *pg.Node_DeleteStmt, *pg.Node_MergeStmt:
		a.statement(n)
	default:
		refuseStatement(n)
	}
}

// becomes makes the statement analysed so far the one inside another.
func (a *analysis) becomes(kind Kind, name string) {
	a.out.Carries = a.out.Does()
	a.out.Kind, a.out.Name = kind, name
}

// execute carries the facts of the prepared statement, and of the arguments.
func (a *analysis) execute(n *pg.ExecuteStmt) {
	text, ok := a.preparedText(n.Name)
	if !ok && a.env.Ahead {
		a.exprs(&scope{}, n.Params)
		a.becomes(Execute, n.Name)
		return
	}
	if !ok {
		fail(refuse("26000", "prepared statement %q does not exist", n.Name))
	}
	args := a.exprs(&scope{}, n.Params)
	types := a.executePrepared(text)
	if len(types) != len(args) {
		fail(refuse("42601", "wrong number of parameters for prepared statement %q", n.Name))
	}
	for i, t := range types {
		a.coerce(args[i], t, typing.Assignment, -1)
	}
	a.becomes(Execute, n.Name)
}

// executePrepared analyses the text behind a prepared statement into this statement's report. It returns the types of
// its parameters.
func (a *analysis) executePrepared(text string) []catalog.OID {
	stmts, e := read(text, a.env)
	if e != nil {
		fail(e)
	}
	if len(stmts) != 1 {
		unsupported(-1, "EXECUTE of what is not one statement is")
	}
	outer, outerParams := a.text, a.params
	a.text, a.params, a.foreign = text, nil, true
	inner := stmts[0].Stmt
	if p := inner.GetPrepareStmt(); p != nil {
		for _, t := range p.Argtypes {
			a.params = append(a.params, a.typeOf(t.GetTypeName()))
		}
		inner = p.Query
	}
	a.preparable(inner)
	types := a.params
	a.text, a.params, a.foreign = outer, outerParams, false
	return types
}

// noteSession notes a value that tells about the session.
func (a *analysis) noteSession(name string) {
	for _, have := range a.out.SessionValues {
		if have == name {
			return
		}
	}
	a.out.SessionValues = append(a.out.SessionValues, name)
}
