package analyze

import (
	pg "github.com/pganalyze/pg_query_go/v5"
)

// Analyze says what a text touches. The error is always an *Error: the text is refused, as a whole.
//
// The text passes the gate, is parsed, and each of its statements is resolved against env. An empty text has one
// statement of kind Empty.
func Analyze(text string, env Env) (*Facts, error) {
	stmts, err := read(text, &env)
	if err != nil {
		return nil, err
	}
	facts := &Facts{Normalized: Normalize(text), Fingerprint: fingerprint(text)}
	if len(stmts) == 0 {
		facts.Statements = []Statement{{Kind: Empty}}
	}
	env.here, env.cursors = map[string]string{}, map[string]string{}
	for _, raw := range stmts {
		st, bound, err := analyseOne(text, raw, &env)
		if err != nil {
			return nil, err
		}
		remember(env.here, st)
		rememberCursor(env.cursors, st)
		facts.Statements = append(facts.Statements, *st)
		facts.SessionBound = facts.SessionBound || bound
	}
	return facts, nil
}

// Marks among what a text itself has prepared.
const (
	gone    = "" // deallocated
	allGone = "" // as a name: everything from before is deallocated
)

// preparedText is the text behind a prepared statement: of those that this text itself has prepared, else of the session's,
// in which case the facts hold for this session only.
func (a *analysis) preparedText(name string) (string, bool) {
	if text, ok := a.env.here[name]; ok {
		return text, text != gone
	}
	a.sessionBound = true
	if _, ok := a.env.here[allGone]; ok || a.env.Prepared == nil {
		return "", false
	}
	return a.env.Prepared(name)
}

func remember(here map[string]string, st *Statement) {
	switch {
	case st.Kind == Prepare:
		here[st.Name] = st.Prepared
	case st.Kind == Deallocate && st.Name != "":
		here[st.Name] = gone
	case st.Kind == Deallocate, st.Kind == Discard && st.Name == "all":
		clear(here)
		here[allGone] = gone
	}
}

// read passes a text through the gate and the parser.
func read(text string, env *Env) ([]*pg.RawStmt, *Error) {
	if env.Catalog == nil {
		return nil, refuse("58000", "there is no catalog to analyse the statement against")
	}
	if e := admit(text, env.Limits); e != nil {
		return nil, e
	}
	if e := knowledgeOf(env.Catalog).checkKeywords(text); e != nil {
		return nil, e
	}
	stmts, e := parse(text)
	if e != nil {
		return nil, e
	}
	if most := env.Limits.withDefaults().Statements; len(stmts) > most {
		return nil, refuse("54000", "the text has more than %d statements", most)
	}
	return stmts, nil
}

// analyseOne analyses one statement. Whatever goes wrong on the way is a refusal.
func analyseOne(text string, raw *pg.RawStmt, env *Env) (st *Statement, bound bool, err *Error) {
	st = &Statement{}
	st.Start, st.End = extent(text, raw)
	a := newAnalysis(text, env, knowledgeOf(env.Catalog), st)
	defer func() {
		if e := refusal(recover()); e != nil {
			e.Touched = a.resolved()
			st, err = nil, e
		}
	}()
	if !a.dumps(raw.Stmt) {
		a.statement(raw.Stmt)
	}
	a.finish()
	st.Params = len(a.params)
	return st, a.sessionBound, nil
}

// extent is where a statement stands in the text, without blanks and comments around it.
func extent(text string, raw *pg.RawStmt) (start, end int) {
	start = int(raw.StmtLocation)
	end = len(text)
	if raw.StmtLen > 0 {
		end = min(end, start+int(raw.StmtLen))
	}
	lex := lexer{text: text[:end], pos: start}
	first := lex.next()
	start, end = first.start, first.end
	for t := first; t.class != endOfText; t = lex.next() {
		if t.class == punctuation && text[t.start:t.end] == ";" {
			break
		}
		end = t.end
	}
	return start, end
}
