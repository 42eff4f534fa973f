package oracle_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"interlock/catalog"
	"interlock/internal/oracle"
	"interlock/sqlgov/analyze"
)

// question is a statement to judge.
type question struct {
	line     int
	group    string
	sql      string
	path     string
	before   string
	needless map[string]bool
	also     map[string]bool
}

func (q *question) String() string { return fmt.Sprintf("line %d (%s): %s", q.line, q.group, q.sql) }

// readQuestions reads the format that testdata/oracle/statements.sql describes.
func readQuestions(text string) []question {
	var all []question
	next := question{}
	group := ""
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "-- # "):
			group = line[len("-- # "):]
		case strings.HasPrefix(line, "--@ "):
			next.directive(strings.TrimPrefix(line, "--@ "))
		case next.sql == "" && (line == "" || strings.HasPrefix(line, "--")):
		default:
			if next.sql == "" {
				next.line = i + 1
			}
			next.sql += line + "\n"
			if strings.HasSuffix(line, ";") {
				next.sql = strings.TrimSuffix(strings.TrimSpace(next.sql), ";")
				next.group = group
				if next.path == "" {
					next.path = "shop"
				}
				all = append(all, next)
				next = question{}
			}
		}
	}
	return all
}

func (q *question) directive(line string) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "path":
		q.path = rest
	case "before":
		q.before = rest
	case "needless":
		q.needless = with(q.needless, rest)
	case "also":
		q.also = with(q.also, rest)
	default:
		panic("unknown directive " + line)
	}
}

func with(set map[string]bool, line string) map[string]bool {
	if set == nil {
		set = map[string]bool{}
	}
	name, _, _ := strings.Cut(line, " ")
	set[name] = true
	return set
}

func (q *question) env(index *catalog.Index) analyze.Env {
	env := analyze.Env{Catalog: index}
	for _, schema := range strings.Split(q.path, ",") {
		env.SearchPath = append(env.SearchPath, strings.Trim(strings.TrimSpace(schema), `"`))
	}
	env.Prepared = func(string) (string, bool) { return q.before, q.before != "" }
	return env
}

// sealed reports if Parse says nothing of what a statement does: COPY of a table.
func (q *question) sealed() bool {
	return strings.HasPrefix(strings.ToLower(q.sql), "copy ") && q.inside() == ""
}

var prepareTypes = regexp.MustCompile(`(?i)^prepare \w+ \(([^)]*)\)`)

// arguments are NULLs for the parameters of a PREPARE.
func (q *question) arguments() string {
	m := prepareTypes.FindStringSubmatch(q.sql)
	if m == nil {
		return ""
	}
	return "(null" + strings.Repeat(", null", strings.Count(m[1], ",")) + ")"
}

// demands are what a report says of relations, in the oracle's words.
func demands(st *analyze.Statement) []oracle.Demand {
	var all []oracle.Demand
	for _, c := range st.Reads {
		all = append(all, oracle.Demand{Action: oracle.Select, Relation: c.Relation, Num: c.Num})
	}
	actions := map[analyze.WriteAction]oracle.Action{
		analyze.Inserting: oracle.Insert, analyze.Updating: oracle.Update,
		analyze.Deleting: oracle.Delete, analyze.Truncating: oracle.Truncate,
	}
	for _, w := range st.Writes {
		all = append(all, oracle.Demand{Action: actions[w.Action], Relation: w.Column.Relation, Num: w.Column.Num})
	}
	return oracle.Normal(all)
}

// disagreement is a difference between our report and PostgreSQL's analysis.
type disagreement struct {
	under bool // PostgreSQL demands it and we do not report it
	what  string
}

func (d disagreement) String() string {
	if d.under {
		return "not reported: " + d.what
	}
	return "reported in vain: " + d.what
}

// disagreements compares a report with PostgreSQL's analysis of the same statement. The question may be nil.
func (j *judge) disagreements(st *analyze.Statement, needs *oracle.Needs, q *question) []disagreement {
	var all []disagreement
	ours := demands(st)
	if q != nil && q.sealed() {
		return nil
	}
	for _, d := range needs.Demands {
		if !oracle.Covers(ours, d) {
			all = append(all, disagreement{true, oracle.Text(j.index, d)})
		}
	}
	for _, d := range ours {
		if !slices.Contains(needs.Demands, d) && !slices.Contains(needs.Unchecked, d) && d.Action != oracle.Truncate {
			all = append(all, disagreement{false, oracle.Text(j.index, d)})
		}
	}
	var functions []catalog.OID
	for _, f := range st.Functions {
		functions = append(functions, f.OID)
		// Conversions that the planner adds are in no printed tree; calling pg_catalog's is everyone's right anyway.
		if !catalog.IsSystemSchema(f.Schema) && !slices.Contains(needs.Functions, f.OID) && !slices.Contains(needs.Behind, f.OID) &&
			st.Kind != analyze.Execute && !q.isNeedless(f) {
			all = append(all, disagreement{false, oracle.FunctionText(j.index, f.OID)})
		}
	}
	for _, f := range needs.Functions {
		if !slices.Contains(functions, f) {
			all = append(all, disagreement{true, oracle.FunctionText(j.index, f)})
		}
	}
	return append(append(all, j.outputs(st, needs)...), j.sources(st, needs)...)
}

// outputs compares the result columns with RowDescription.
func (j *judge) outputs(st *analyze.Statement, needs *oracle.Needs) []disagreement {
	if st.Kind == analyze.Prepare || st.Kind == analyze.Execute || st.Kind == analyze.Explain {
		return nil // the fields are of another statement
	}
	if len(st.Output) != len(needs.Fields) {
		return []disagreement{{true, fmt.Sprintf("%d output columns; we say %d", len(needs.Fields), len(st.Output))}}
	}
	var all []disagreement
	for i, f := range needs.Fields {
		o := &st.Output[i]
		if o.Name != f.Name || o.Origin.Relation != f.Relation || o.Origin.Num != f.Num {
			all = append(all, disagreement{true, fmt.Sprintf("output %d is %q from %d.%d; we say %q from %d.%d",
				i+1, f.Name, f.Relation, f.Num, o.Name, o.Origin.Relation, o.Origin.Num)})
		}
		if o.Type != 0 && j.base(o.Type) != f.Type {
			all = append(all, disagreement{true, fmt.Sprintf("output %d is of type %d; we say %d", i+1, f.Type, o.Type)})
		}
	}
	return all
}

// sources compares where the values of the result columns come from. We may name more: what shapes a value.
func (j *judge) sources(st *analyze.Statement, needs *oracle.Needs) []disagreement {
	if st.Kind == analyze.Explain {
		return nil
	}
	var all []disagreement
	for i := range min(len(st.Output), len(needs.Sources)) {
		for _, s := range needs.Sources[i] {
			if !slices.ContainsFunc(st.Output[i].Columns, func(c analyze.Column) bool { return c.Relation == s.Relation && c.Num == s.Num }) {
				name := oracle.Text(j.index, oracle.Demand{Relation: s.Relation, Num: s.Num})
				all = append(all, disagreement{true, fmt.Sprintf("output %d comes from%s", i+1, name)})
			}
		}
	}
	return all
}

// base is the type that a domain is over, which RowDescription names instead.
func (j *judge) base(oid catalog.OID) catalog.OID {
	for typ := j.index.Type(oid); typ != nil && typ.Kind == "d"; typ = j.index.Type(oid) {
		oid = typ.Base
	}
	return oid
}

func (q *question) isNeedless(f *catalog.Function) bool {
	return q != nil && q.needless[f.Schema+"."+f.Name]
}

func describeError(err error) string {
	var e *analyze.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	return e.SQLState + " " + e.Message
}
