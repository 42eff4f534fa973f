package analyze

import (
	"slices"
	"strconv"

	"interlock/catalog"
	"interlock/sqlgov/typing"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// targetTable finds the table that a statement changes. A WITH query is never meant.
func (a *analysis) targetTable(n *pg.RangeVar) (*catalog.Relation, *entry) {
	rel := a.relation(n)
	switch rel.Kind {
	case catalog.Sequence:
		failAt(n.Location, "42809", "cannot change sequence %q", rel.Name)
	case catalog.ToastTable:
		failAt(n.Location, "42809", "cannot change TOAST relation %q", rel.Name)
	case catalog.MaterializedView:
		failAt(n.Location, "42809", "cannot change materialized view %q", rel.Name)
	}
	if rel.HasRules {
		unsupported(n.Location, "changing relation \""+rel.Name+"\", which has rules, is")
	}
	e := a.relationEntry(rel, n.Relname)
	a.alias(e, n.Alias, n.Location)
	return rel, e
}

// change notes a write to a column. Number 0 is the row as a whole.
func (a *analysis) change(rel *catalog.Relation, num int16, action WriteAction) {
	a.write(rel, num, action)
	a.changeBehind(rel, num, action)
}

// changeBehind notes the writes behind a view that are checked against whoever uses the view: those of a security_invoker
// view, also through a view of another kind.
func (a *analysis) changeBehind(rel *catalog.Relation, num int16, action WriteAction) {
	if rel.Kind != catalog.View || rel.HasTriggers {
		return
	}
	v := a.viewOf(rel)
	base := v.source
	if num > 0 && int(num) <= len(v.columns) {
		base = v.columns[num-1].base
	}
	if base.rel == nil {
		return
	}
	if rel.SecurityInvoker {
		a.write(base.rel, base.num, action)
	}
	a.changeBehind(base.rel, base.num, action)
}

// changed completes what is noted of a target that is a view. What it reads is only checked if a column of it is read.
func (a *analysis) changed(rel *catalog.Relation, action WriteAction) {
	if rel.Kind != catalog.View {
		return
	}
	if action != Inserting {
		a.callView(rel)
	}
	read := slices.ContainsFunc(a.out.Reads, func(c Column) bool { return c.Relation == rel.OID })
	if read || rel.HasTriggers && action != Inserting {
		a.readView(rel)
	}
}

// insert analyses INSERT and returns the columns of RETURNING.
func (a *analysis) insert(s *scope, n *pg.InsertStmt) []column {
	a.with(s, n.WithClause)
	rel, e := a.targetTable(n.Relation)
	columns := a.insertColumns(rel, n)
	a.insertSource(s, rel, columns, n)
	s.items = append(s.items, &item{entry: e, named: true, columns: true})
	if n.OnConflictClause != nil {
		a.onConflict(s, rel, e, n.OnConflictClause)
	}
	targets := a.targets(s, n.ReturningList)
	a.changed(rel, Inserting)
	return a.outputColumns(targets)
}

// slot is a column, or a part of one, that a statement assigns.
type slot struct {
	column *catalog.Column
	typ    catalog.OID
	whole  bool
}

// insertColumns are the columns that INSERT names, or all.
func (a *analysis) insertColumns(rel *catalog.Relation, n *pg.InsertStmt) []slot {
	var slots []slot
	if len(n.Cols) == 0 {
		for i := range rel.Columns {
			slots = append(slots, slot{&rel.Columns[i], rel.Columns[i].Type, true})
		}
		return slots
	}
	whole := map[int16]bool{}
	for _, c := range n.Cols {
		t := c.GetResTarget()
		sl := a.slot(&scope{}, rel, t, Inserting)
		if old, ok := whole[sl.column.Num]; ok && (old || sl.whole) {
			failAt(t.Location, "42701", "column %q specified more than once", t.Name)
		}
		whole[sl.column.Num] = sl.whole
		slots = append(slots, sl)
	}
	return slots
}

// slot resolves the left side of an assignment: column, column.field, column[i].
func (a *analysis) slot(s *scope, rel *catalog.Relation, n *pg.ResTarget, action WriteAction) slot {
	c := columnNamed(rel, n.Name)
	if c == nil {
		if len(s.items) > 0 && systemColumnNamed(rel, n.Name) != nil { // INSERT has nothing in view and says otherwise
			failAt(n.Location, "0A000", "cannot assign to system column %q", n.Name)
		}
		e := unknown(n.Location, "42703", "column %q of relation %q does not exist", n.Name, rel.Name).named(rel, n.Name)
		e.Action = action
		fail(e)
	}
	sl := slot{column: c, typ: c.Type, whole: len(n.Indirection) == 0}
	for _, step := range n.Indirection {
		sl.typ = a.slotPart(s, sl.typ, step, n.Location)
	}
	return sl
}

func (a *analysis) slotPart(s *scope, t catalog.OID, step *pg.Node, location int32) catalog.OID {
	switch x := step.Node.(type) {
	case *pg.Node_String_:
		rel := a.types.Composite(t)
		if rel == nil {
			failAt(location, "42804", "cannot assign to field %q because its type %s is not a composite type", x.String_.Sval, a.typeName(t))
		}
		c := columnNamed(rel, x.String_.Sval)
		if c == nil {
			fail(unknown(location, "42703", "column %q not found in data type %s", x.String_.Sval, rel.Name))
		}
		return c.Type
	case *pg.Node_AIndices:
		return a.subscript(s, value{typ: t}, []*pg.Node{step}, location).typ
	}
	failAt(location, "0A000", "row expansion via \"*\" is not supported here")
	return 0
}

// insertSource is DEFAULT VALUES, VALUES, or a query, whose columns go to the target columns in order.
func (a *analysis) insertSource(s *scope, rel *catalog.Relation, slots []slot, n *pg.InsertStmt) {
	sel := n.SelectStmt.GetSelectStmt()
	switch {
	case n.SelectStmt == nil:
		a.change(rel, 0, Inserting)
	case sel == nil:
		unsupported(-1, "this source of INSERT is")
	case len(sel.ValuesLists) > 0 && !hasClauses(sel):
		for _, row := range sel.ValuesLists {
			a.insertRow(s, rel, slots, row.GetList().GetItems(), n)
		}
	default:
		q := a.openSelect(s.child(), sel)
		a.checkCount(len(q.columns), slots, n)
		for i := range q.columns {
			a.assign(q.columns[i].operand(), rel, slots[i], Inserting)
		}
	}
}

func (a *analysis) insertRow(s *scope, rel *catalog.Relation, slots []slot, row []*pg.Node, n *pg.InsertStmt) {
	i := 0
	for _, e := range row {
		values, ok := a.star(s, e)
		if !ok {
			values = []value{{typ: typing.Unknown, null: true}}
			if e.GetSetToDefault() == nil {
				values[0] = a.expr(s, e)
			}
		}
		for _, v := range values {
			if i < len(slots) {
				if e.GetSetToDefault() != nil {
					a.change(rel, slots[i].column.Num, Inserting)
				} else {
					a.noteAssigned(rel, slots[i], e)
					a.assign(v, rel, slots[i], Inserting)
				}
			}
			i++
		}
	}
	a.checkCount(i, slots, n)
}

func (a *analysis) checkCount(have int, slots []slot, n *pg.InsertStmt) {
	if have > len(slots) {
		failAt(-1, "42601", "INSERT has more expressions than target columns")
	}
	if len(n.Cols) > 0 && have < len(slots) {
		failAt(-1, "42601", "INSERT has more target columns than expressions")
	}
}

// assign notes a write and what the conversion to the column's type calls.
func (a *analysis) assign(v value, rel *catalog.Relation, to slot, action WriteAction) {
	if v.typ != typing.Unknown && !a.types.CanCoerce(v.typ, to.typ, typing.Assignment) {
		failAt(-1, "42804", "column %q is of type %s but expression is of type %s", to.column.Name, a.typeName(to.typ), a.typeName(v.typ))
	}
	a.coerce(v, to.typ, typing.Assignment, -1)
	a.flowsIntoWrite(v)
	if to.whole && to.column.TypeMod >= 0 {
		a.use(a.types.CoerceTypmod(to.typ))
	}
	a.change(rel, to.column.Num, action)
}

// onConflict is ON CONFLICT: its arbiter and what it takes from excluded are read.
func (a *analysis) onConflict(s *scope, rel *catalog.Relation, target *entry, n *pg.OnConflictClause) {
	if n.Infer != nil {
		outside := s.items
		s.items = []*item{{entry: target, named: true, columns: true}}
		a.arbiter(s, rel, n.Infer)
		s.items = outside
	} else {
		a.anyArbiter(rel, rel, 0)
	}
	if n.Action != pg.OnConflictAction_ONCONFLICT_UPDATE {
		return
	}
	excluded := a.relationEntry(rel, "excluded")
	excluded.system, excluded.aliased = false, true
	outside := s.items
	s.items = append(s.items[:len(s.items):len(s.items)], &item{entry: excluded, named: true, columns: true})
	a.setClause(s, rel, n.TargetList)
	if n.WhereClause != nil {
		a.boolean(a.expr(s, n.WhereClause), "WHERE", location(n.WhereClause))
	}
	s.items = outside
}

// arbiter notes the columns of the index or constraint that ON CONFLICT names.
func (a *analysis) arbiter(s *scope, rel *catalog.Relation, n *pg.InferClause) {
	if n.Conname != "" {
		a.arbiterConstraint(rel, n)
		return
	}
	for _, e := range n.IndexElems {
		switch elem := e.GetIndexElem(); {
		case elem.Expr != nil:
			a.expr(s, elem.Expr)
		default:
			a.bareName(s, elem.Name, n.Location)
		}
	}
	if n.WhereClause != nil {
		a.boolean(a.expr(s, n.WhereClause), "WHERE", location(n.WhereClause))
	}
}

// anyArbiter notes that rows which conflict in any unique index of a table, or of a table whose rows are its own, are left out:
// how many there are tells which values exist. of is the table itself or one below it. PostgreSQL asks for no privilege on them.
func (a *analysis) anyArbiter(rel, of *catalog.Relation, depth int) {
	if rel.Kind == catalog.View || depth > maxInheritance {
		a.consume(a.rowLineage(rel))
		return
	}
	for i := range of.UniqueIndexes {
		index := &of.UniqueIndexes[i]
		for _, num := range append(slices.Clone(index.Columns), index.ExprReads...) {
			switch c := columnNamed(rel, nameColumn(of, num).Name); {
			case num == 0:
				a.consume(a.rowLineage(rel))
			case c != nil:
				a.consume(a.relationLineage(rel, c.Num))
			}
		}
	}
	for _, oid := range a.env.Catalog.Children(of.OID) {
		if child := a.env.Catalog.Relation(oid); child != nil && child.Partition {
			a.anyArbiter(rel, child, depth+1)
		}
	}
}

// maxInheritance bounds how deep partitions are looked at.
const maxInheritance = 32

func (a *analysis) arbiterConstraint(rel *catalog.Relation, n *pg.InferClause) {
	for i := range rel.Constraints {
		c := &rel.Constraints[i]
		if c.Name != n.Conname {
			continue
		}
		if len(c.Columns) == 0 {
			a.touch(rel)
		}
		for _, num := range c.Columns {
			if num == 0 {
				a.readRow(rel)
				a.consume(a.rowLineage(rel))
			} else {
				a.read(rel, num)
				a.consume(a.relationLineage(rel, num))
			}
		}
		return
	}
	fail(unknown(n.Location, "42704", "constraint %q for table %q does not exist", n.Conname, rel.Name))
}

// update analyses UPDATE and returns the columns of RETURNING.
func (a *analysis) update(s *scope, n *pg.UpdateStmt) []column {
	a.with(s, n.WithClause)
	rel, e := a.targetTable(n.Relation)
	a.targetAndFrom(s, e, n.FromClause)
	a.setClause(s, rel, n.TargetList)
	a.where(s, n.WhereClause)
	targets := a.targets(s, n.ReturningList)
	a.changed(rel, Updating)
	return a.outputColumns(targets)
}

// delete analyses DELETE and returns the columns of RETURNING.
func (a *analysis) delete(s *scope, n *pg.DeleteStmt) []column {
	a.with(s, n.WithClause)
	rel, e := a.targetTable(n.Relation)
	a.change(rel, 0, Deleting)
	a.targetAndFrom(s, e, n.UsingClause)
	a.where(s, n.WhereClause)
	targets := a.targets(s, n.ReturningList)
	a.changed(rel, Deleting)
	return a.outputColumns(targets)
}

// targetAndFrom brings the target and the tables of FROM or USING into view. Subqueries there must not see the target.
func (a *analysis) targetAndFrom(s *scope, target *entry, clause []*pg.Node) {
	s.items = append(s.items, &item{entry: target, named: true, columns: true, sideways: true, refused: true})
	a.from(s, clause)
}

func (a *analysis) where(s *scope, n *pg.Node) {
	if n == nil {
		a.out.NoWhere = true
		return
	}
	a.boolean(a.expr(s, n), "WHERE", location(n))
}

// setClause is SET of UPDATE and of ON CONFLICT.
func (a *analysis) setClause(s *scope, rel *catalog.Relation, list []*pg.Node) {
	var many []value
	for _, n := range list {
		t := n.GetResTarget()
		sl := a.slot(s, rel, t, Updating)
		if multi := t.Val.GetMultiAssignRef(); multi != nil {
			if multi.Colno == 1 {
				many = a.multiSource(s, multi)
			}
			a.assignMulti(s, rel, sl, multi, many)
			continue
		}
		if t.Val.GetSetToDefault() != nil {
			a.change(rel, sl.column.Num, Updating)
			continue
		}
		a.noteAssigned(rel, sl, t.Val)
		a.assign(a.expr(s, t.Val), rel, sl, Updating)
	}
}

// multiSource is the right side of SET (a, b) = (SELECT ...) or = ROW(excluded.*): all values at once. The fields of any
// other row are taken one by one, for there may be a DEFAULT among them; then there are none.
func (a *analysis) multiSource(s *scope, n *pg.MultiAssignRef) []value {
	var values []value
	switch link := n.Source.GetSubLink(); {
	case link.GetSubLinkType() == pg.SubLinkType_EXPR_SUBLINK:
		values = a.subquery(s, link.Subselect).values()
	case hasStar(n.Source.GetRowExpr().GetArgs()):
		values = a.exprList(s, n.Source.GetRowExpr().Args)
	default:
		return nil
	}
	if len(values) != int(n.Ncolumns) {
		failAt(location(n.Source), "42601", "number of columns does not match number of values")
	}
	return values
}

// hasStar reports if one of a list stands for several values.
func hasStar(list []*pg.Node) bool {
	return slices.ContainsFunc(list, func(n *pg.Node) bool {
		fields := n.GetColumnRef().GetFields()
		return len(fields) > 0 && fields[len(fields)-1].GetAStar() != nil
	})
}

func (a *analysis) assignMulti(s *scope, rel *catalog.Relation, sl slot, n *pg.MultiAssignRef, many []value) {
	if many != nil {
		a.assign(many[n.Colno-1], rel, sl, Updating)
		return
	}
	row := n.Source.GetRowExpr()
	if row == nil {
		failAt(location(n.Source), "0A000", "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression")
	}
	if len(row.Args) != int(n.Ncolumns) {
		failAt(row.Location, "42601", "number of columns does not match number of values")
	}
	arg := row.Args[n.Colno-1]
	if arg.GetSetToDefault() != nil {
		a.change(rel, sl.column.Num, Updating)
		return
	}
	a.noteAssigned(rel, sl, arg)
	a.assign(a.expr(s, arg), rel, sl, Updating)
}

// noteAssigned notes a constant or a parameter that goes into a column.
func (a *analysis) noteAssigned(rel *catalog.Relation, to slot, n *pg.Node) {
	for n.GetTypeCast() != nil {
		n = n.GetTypeCast().Arg
	}
	assigned := Assignment{Column: nameColumn(rel, to.column.Num), Param: int(n.GetParamRef().GetNumber())}
	switch c := n.GetAConst().GetVal().(type) {
	case *pg.A_Const_Sval:
		assigned.Text = c.Sval.Sval
	case *pg.A_Const_Ival:
		assigned.Text = strconv.Itoa(int(c.Ival.Ival))
	case *pg.A_Const_Fval:
		assigned.Text = c.Fval.Fval
	default:
		if assigned.Param == 0 {
			return
		}
	}
	a.out.Assigned = append(a.out.Assigned, assigned)
}
