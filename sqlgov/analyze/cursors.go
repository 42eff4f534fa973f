package analyze

import (
	"slices"
	"strings"

	"interlock/catalog"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// cursorHold is CURSOR_OPT_HOLD of PostgreSQL's parsenodes.h: the cursor outlives its transaction.
const cursorHold = 0x0020

// declare carries the facts of the cursor's query. The rows come with FETCH.
func (a *analysis) declare(n *pg.DeclareCursorStmt) {
	a.cursorQuery(n)
	a.out.Held = n.Options&cursorHold != 0
	a.out.ParamTypes = slices.Clone(a.params)
	a.becomes(Declare, n.Portalname)
	a.out.Output = nil
	a.out.Prepared = a.text[a.out.Start:a.out.End]
}

func (a *analysis) cursorQuery(n *pg.DeclareCursorStmt) {
	if n.Query.GetSelectStmt() == nil {
		refuseStatement(n.Query)
	}
	a.statement(n.Query)
}

// fetch carries the facts of the cursor's query: FETCH and MOVE run more of it.
func (a *analysis) fetch(n *pg.FetchStmt) {
	text, params, ok := a.cursorText(n.Portalname)
	if !ok && a.env.Ahead {
		a.becomes(Fetch, n.Portalname)
		return
	}
	if !ok {
		fail(refuse("34000", "cursor %q does not exist", n.Portalname))
	}
	stmts, e := read(text, a.env)
	if e != nil {
		fail(e)
	}
	if len(stmts) != 1 || stmts[0].Stmt.GetDeclareCursorStmt() == nil {
		unsupported(-1, "FETCH from what is not a cursor is")
	}
	outer, outerParams := a.text, a.params
	a.text, a.params, a.foreign = text, slices.Clone(params), true
	a.cursorQuery(stmts[0].Stmt.GetDeclareCursorStmt())
	a.text, a.params, a.foreign = outer, outerParams, false
	if n.Ismove {
		a.becomes(Move, n.Portalname)
		a.out.Output = nil
		return
	}
	a.becomes(Fetch, n.Portalname)
}

// cursorText is the text of the DECLARE behind a cursor, with the types of its parameters: of those that this text itself has
// declared, else of the session's, in which case the facts hold for this session only.
func (a *analysis) cursorText(name string) (text string, params []catalog.OID, ok bool) {
	if text, ok := a.env.cursors[name]; ok {
		return text, nil, text != gone // a text with several statements has no parameters
	}
	a.sessionBound = true
	if _, ok := a.env.cursors[allGone]; ok || a.env.Cursor == nil {
		return "", nil, false
	}
	return a.env.Cursor(name)
}

// rememberCursor notes what a statement means for the cursors. After a transaction has ended, or part of it was undone, none
// is taken to be there.
func rememberCursor(cursors map[string]string, st *Statement) {
	switch {
	case st.Kind == Declare:
		cursors[st.Name] = st.Prepared
	case st.Kind == Close && st.Name != "":
		cursors[st.Name] = gone
	case st.Kind == Close, st.Kind == Commit, st.Kind == Rollback, st.Kind == Discard && strings.EqualFold(st.Name, "all"):
		clear(cursors)
		cursors[allGone] = gone
	}
}
