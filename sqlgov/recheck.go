package sqlgov

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// A statement is judged by a catalog that was scanned some time ago. Before it runs, but when the server has resolved
// its names and locked its tables, a Recheck in the same transaction asks the server if the names still mean what they
// meant: each table is found by its name and is of its kind, its columns are those that were scanned, and no function or
// operator has come up that could be meant instead. If not, the Recheck fails, and with it the transaction.

// RecheckName is the name of the prepared statement that asks, and of its portal. It is kept from clients.
const RecheckName = "interlock recheck"

// Recheck is a question to a server.
type Recheck struct {
	// Values are those of RecheckSQL's parameters, in text format.
	Values []string
	// Lock is a text that locks the tables when it is prepared, "" if the statement itself has locked them by then. One
	// that the server looks into only when it runs has not, nor has the next one of several.
	Lock string
}

// RecheckSQL returns no row if the answer is yes, else it divides by zero.
//
// Parameters: $1 the tables' OIDs, $2 a line on each, $3 a line on each of their columns, $4 names of functions, $5 a line on each
// function that has one of them, $6 and $7 the same for operators. The sub-selects around parameters keep the planner from
// planning anew for every value.
//
// A query sees the catalog by the snapshot of its transaction, the parser sees the present. Where the snapshot is older
// than the statement (REPEATABLE READ, SERIALIZABLE), columns are looked up by functions, which see the present too. They are slower, and
// cannot list what was made since, so that the next number is looked at as well.
const RecheckSQL = `select where 1 operator(pg_catalog./) (
array(select pg_catalog.concat_ws(' ', r.oid, pg_catalog.pg_table_is_visible(r.oid), o.type, pg_catalog.length(o.object_names[1]),
    o.object_names[1], o.object_names[2])
  from pg_catalog.unnest((select $1::pg_catalog.oid[])) r(oid),
    pg_catalog.pg_identify_object_as_address('pg_catalog.pg_class'::pg_catalog.regclass, r.oid, 0) o)
  operator(pg_catalog.=) $2::pg_catalog.text[]
and case when pg_catalog.starts_with(pg_catalog.current_setting('transaction_isolation'), 'read') then
  array(select pg_catalog.concat_ws(' ', r.oid, c.attnum, c.atttypid, c.attname)
    from pg_catalog.unnest((select $1::pg_catalog.oid[])) r(oid),
      lateral (select a.attnum, a.atttypid, a.attname from pg_catalog.pg_attribute a
        where a.attrelid operator(pg_catalog.=) r.oid and a.attnum operator(pg_catalog.>) 0 and not a.attisdropped order by a.attnum) c)
    operator(pg_catalog.=) $3::pg_catalog.text[]
else
  array(select pg_catalog.concat_ws(' ', r.oid, n, o.object_names[3])
    from pg_catalog.unnest((select $1::pg_catalog.oid[])) with ordinality r(oid, place),
      lateral (select pg_catalog.max(a.attnum) as last from pg_catalog.pg_attribute a where a.attrelid operator(pg_catalog.=) r.oid) a,
      pg_catalog.generate_series(1, greatest(a.last, 0) operator(pg_catalog.+) 1) n,
      pg_catalog.pg_identify_object_as_address('pg_catalog.pg_class'::pg_catalog.regclass, r.oid, n) o
    where o.object_names is not null and (n operator(pg_catalog.>) a.last
      or o.object_names[3] operator(pg_catalog.<>) pg_catalog.concat('........pg.dropped.', n, '........'))
    order by r.place, n)
    operator(pg_catalog.=) array(select pg_catalog.regexp_replace(line, '^([0-9]+ [0-9]+) [0-9]+', '\1')
      from pg_catalog.unnest($3::pg_catalog.text[]) line)
end
and array(select pg_catalog.concat_ws(' ', f.oid, s.nspname)
  from pg_catalog.unnest((select $4::pg_catalog.name[])) l(name), pg_catalog.pg_proc f, pg_catalog.pg_namespace s
  where f.proname operator(pg_catalog.=) l.name and f.pronamespace operator(pg_catalog.<>) 11 and s.oid operator(pg_catalog.=) f.pronamespace
    and not pg_catalog.starts_with(s.nspname, 'pg_temp_') order by f.oid) operator(pg_catalog.=) $5::pg_catalog.text[]
and array(select pg_catalog.concat_ws(' ', f.oid, s.nspname)
  from pg_catalog.unnest((select $6::pg_catalog.name[])) l(name), pg_catalog.pg_operator f, pg_catalog.pg_namespace s
  where f.oprname operator(pg_catalog.=) l.name and f.oprnamespace operator(pg_catalog.<>) 11 and s.oid operator(pg_catalog.=) f.oprnamespace
    and not pg_catalog.starts_with(s.nspname, 'pg_temp_') order by f.oid) operator(pg_catalog.=) $7::pg_catalog.text[]
)::pg_catalog.int4 operator(pg_catalog.<>) 1`

// RecheckFailed is the SQLSTATE with which RecheckSQL fails.
const RecheckFailed = "22012"

// recheck is the question whether the names in the text still mean what they mean in the catalog.
func (j *judged) recheck() *Recheck {
	j.askOnce.Do(func() { j.ask = newRecheck(j.facts, j.index) })
	return j.ask
}

func newRecheck(facts *analyze.Facts, x *catalog.Index) *Recheck {
	var tables []catalog.OID
	var names []analyze.Name
	for i := range facts.Statements {
		tables = append(tables, facts.Statements[i].Tables...)
		names = append(names, facts.Statements[i].Loose...)
	}
	q := question{index: x}
	for i, oid := range tables {
		if !slices.Contains(tables[:i], oid) {
			q.table(oid)
		}
	}
	for i, n := range names {
		if !slices.Contains(names[:i], n) {
			q.name(n)
		}
	}
	r := &Recheck{Values: []string{array(q.oids), array(q.tables), array(q.columns),
		array(q.functions), lines(q.functionsMeant), array(q.operators), lines(q.operatorsMeant)}}
	if (len(facts.Statements) > 1 || resolvedLate(&facts.Statements[0])) && len(q.names) > 0 {
		r.Lock = "select from " + strings.Join(q.names, ", ")
	}
	return r
}

// text is the question as statements in front of another one in a Query, and what answers them.
func (q *Recheck) text() (sql, replies string) {
	if q.Lock != "" {
		name := quoteName(RecheckName + " lock")
		sql, replies = "prepare "+name+" as "+q.Lock+"; deallocate "+name+"; ", repliesToLockText
	}
	literals := make([]string, 0, 2*len(q.Values))
	for i, v := range q.Values {
		literals = append(literals, "$"+strconv.Itoa(i+1), "'"+strings.ReplaceAll(v, "'", "''")+"'")
	}
	return sql + strings.NewReplacer(literals...).Replace(RecheckSQL) + ";\n", replies + repliesToRecheckText
}

// resolvedLate reports if the server resolves the names in a statement when it runs, not when it is prepared.
func resolvedLate(s *analyze.Statement) bool {
	switch s.Kind {
	case analyze.Truncate, analyze.Execute, analyze.Explain, analyze.CopyIn, analyze.CopyOut, analyze.Lock:
		return true
	}
	return false
}

// question collects the parameters of a Recheck.
type question struct {
	index                          *catalog.Index
	oids, tables, columns, names   []string
	functions, operators           []string
	functionsMeant, operatorsMeant []callable
}

// callable is a function or operator outside pg_catalog.
type callable struct {
	oid    catalog.OID
	schema string
}

// relationTypes are the words of pg_identify_object_as_address.
var relationTypes = map[catalog.RelationKind]string{catalog.Table: "table", catalog.PartitionedTable: "table", catalog.View: "view",
	catalog.MaterializedView: "materialized view", catalog.ForeignTable: "foreign table", catalog.Sequence: "sequence"}

// table asks for a relation. The system's own keep their names and columns.
func (q *question) table(oid catalog.OID) {
	rel := q.index.Relation(oid)
	if rel == nil || catalog.IsSystemSchema(rel.Schema) {
		return
	}
	id := strconv.FormatUint(uint64(oid), 10)
	q.oids = append(q.oids, id)
	q.tables = append(q.tables, fmt.Sprintf("%s %s %s %d %s %s", id, q.visible(rel), relationTypes[rel.Kind],
		utf8.RuneCountInString(rel.Schema), rel.Schema, rel.Name))
	q.names = append(q.names, quoteName(rel.Schema)+"."+quoteName(rel.Name))
	for i := range rel.Columns {
		c := &rel.Columns[i]
		q.columns = append(q.columns, fmt.Sprintf("%s %d %d %s", id, c.Num, c.Type, c.Name))
	}
}

// visible reports if the search path finds the relation by its name, as the server prints it.
func (q *question) visible(rel *catalog.Relation) string {
	for _, schema := range withSystem(q.index.Snapshot.SearchPath) {
		if found := q.index.RelationNamed(schema, rel.Name); found != nil {
			if found == rel {
				return "t"
			}
			break
		}
	}
	return "f"
}

// withSystem is a search path with pg_catalog in front, unless it is listed.
func withSystem(path []string) []string {
	if slices.Contains(path, "pg_catalog") {
		return path
	}
	return append([]string{"pg_catalog"}, path...)
}

// name asks for all functions or operators of a name outside pg_catalog.
func (q *question) name(n analyze.Name) {
	snapshot := q.index.Snapshot
	for i := range snapshot.Schemas {
		schema := snapshot.Schemas[i].Name
		if schema == "pg_catalog" {
			continue
		}
		for _, f := range q.index.FunctionsNamed(schema, n.Name) {
			if !n.Operator {
				q.functionsMeant = append(q.functionsMeant, callable{f.OID, schema})
			}
		}
		for _, o := range q.index.OperatorsNamed(schema, n.Name) {
			if n.Operator {
				q.operatorsMeant = append(q.operatorsMeant, callable{o.OID, schema})
			}
		}
	}
	if !n.Operator {
		q.functions = append(q.functions, n.Name)
	} else {
		q.operators = append(q.operators, n.Name)
	}
}

// lines prints objects as RecheckSQL does.
func lines(objects []callable) string {
	slices.SortFunc(objects, func(a, b callable) int { return cmp.Compare(a.oid, b.oid) })
	all := make([]string, len(objects))
	for i, o := range objects {
		all[i] = fmt.Sprintf("%d %s", o.oid, o.schema)
	}
	return array(all)
}

// array is a text[] in text format (PostgreSQL manual, "Array Input and Output Syntax").
func array(values []string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		b.WriteString(quoteInArray.Replace(v))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

var quoteInArray = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// ErrCatalogChanged is what Run reports when a Recheck failed. The statement did not run.
var ErrCatalogChanged = errors.New("the catalog of the server is not the one that the statement was judged by")

// rescanWithin bounds the scan after a Recheck that failed.
const rescanWithin = 30 * time.Second

// catalogChanged is the refusal of a statement whose Recheck failed. The source has been scanned again when it
// returns, so that the caller's next try is judged by what there is now.
func (c *Core) catalogChanged(ctx context.Context, a *admission) *Refusal {
	c.Log.Warn().Str("source", a.source).Str("decision", a.id).Msg("the catalog changed while a statement was on its way")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rescanWithin)
	defer cancel()
	if src := a.rules.Source(a.source); src != nil {
		c.Catalogs.refreshUnknown(ctx, src, a.index)
	}
	return &Refusal{Kind: SourceUnavailable, SQLState: "40001", DecisionID: a.id,
		Message: "the catalog of the source changed while the statement was on its way, so it was not run",
		Hint:    "Try again: the statement will be judged by the catalog of now."}
}
