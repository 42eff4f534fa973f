package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"interlock/catalog"
)

// Generator invents statements over a catalog. Most of them are valid; the server says which.
type Generator struct {
	rng       *rand.Rand
	index     *catalog.Index
	tables    []*catalog.Relation
	types     []catalog.OID                       // that expressions have
	functions map[catalog.OID][]*catalog.Function // plain functions by result type
	operators map[catalog.OID][]*catalog.Operator
	sets      []*catalog.Function
	serial    int
}

// Types that generated expressions have, with literals of each. User types of the catalog come on top.
var literals = map[catalog.OID][]string{
	16:   {"true", "false"},
	20:   {"5000000000", "7::bigint"},
	21:   {"3::smallint"},
	23:   {"0", "1", "42"},
	25:   {"'a'::text", "'Ana'::text"},
	701:  {"1.5::float8"},
	1043: {"'v'::varchar", "'w'::varchar(3)"},
	1082: {"date '2026-01-01'", "current_date"},
	1184: {"now()", "timestamptz '2026-01-01'"},
	1186: {"interval '1 day'"},
	1700: {"1.5", "0.0"},
	1009: {"'{a,b}'::text[]", "array['x']"},
	1007: {"'{1,2}'::int[]", "array[1, 2]"},
	3802: {"'{\"k\": 1}'::jsonb"},
	114:  {"'[1]'::json"},
}

// literalTypes are the keys of literals in a fixed order.
var literalTypes = []catalog.OID{16, 20, 21, 23, 25, 701, 1043, 1082, 1184, 1186, 1700, 1009, 1007, 3802, 114}

// NewGenerator makes a generator. Equal seeds over equal catalogs give equal statements.
func NewGenerator(index *catalog.Index, schemas []string, seed uint64) *Generator {
	g := &Generator{
		rng: rand.New(rand.NewPCG(seed, 15)), index: index, types: literalTypes,
		functions: map[catalog.OID][]*catalog.Function{}, operators: map[catalog.OID][]*catalog.Operator{},
	}
	for i := range index.Snapshot.Relations {
		r := &index.Snapshot.Relations[i]
		if slices.Contains(schemas, r.Schema) && readable(r) && len(r.Columns) > 0 {
			g.tables = append(g.tables, r)
		}
	}
	for i := range index.Snapshot.Functions {
		g.learnFunction(&index.Snapshot.Functions[i], schemas)
	}
	for i := range index.Snapshot.Operators {
		o := &index.Snapshot.Operators[i]
		if g.known(o.Right) && (o.Left == 0 || g.known(o.Left)) && g.known(o.Result) && (o.Schema == "pg_catalog" || slices.Contains(schemas, o.Schema)) {
			g.operators[o.Result] = append(g.operators[o.Result], o)
		}
	}
	return g
}

func readable(r *catalog.Relation) bool {
	switch r.Kind {
	case catalog.Table, catalog.PartitionedTable, catalog.View, catalog.MaterializedView, catalog.ForeignTable:
		return true
	}
	return false
}

func (g *Generator) known(t catalog.OID) bool { return slices.Contains(literalTypes, t) }

func (g *Generator) learnFunction(f *catalog.Function, schemas []string) {
	system := f.Schema == "pg_catalog"
	if !system && !slices.Contains(schemas, f.Schema) || f.Kind != "f" || f.Variadic != 0 {
		return
	}
	for _, a := range f.Args {
		if !g.known(a) {
			return
		}
	}
	switch {
	case system && strings.HasPrefix(f.Name, "pg_"): // says or does things about the server
	case f.ReturnsSet && len(f.Args) <= 2 && f.Language != "c" && (g.known(f.Result) || !system && f.Result != 2249):
		g.sets = append(g.sets, f)
	case !f.ReturnsSet && g.known(f.Result) && (f.Volatility != "v" || !system):
		g.functions[f.Result] = append(g.functions[f.Result], f)
	}
}

// Statement invents the next statement.
func (g *Generator) Statement() *Statement {
	g.serial = 0
	s := &scope{}
	switch g.rng.IntN(10) {
	case 0:
		return &Statement{text(g.with(s, true), g.insert(s))}
	case 1:
		return &Statement{text(g.with(s, true), g.update(s))}
	case 2:
		return &Statement{text(g.with(s, true), g.delete(s))}
	case 3:
		if g.chance(50) {
			return &Statement{text(g.with(s, false), g.merge(s))}
		}
	}
	return &Statement{g.query(s, g.shape(), 3)}
}

// scope is what an expression can name.
type scope struct {
	outer   *scope
	entries []*entry
	ctes    []*entry
	grouped bool // only groups and aggregates are allowed: no plain columns
	groups  []member
}

type entry struct {
	name    string
	columns []member
	whole   bool        // the name stands for the row
	rowType catalog.OID // of a table's row
}

// member is a column with the text that names it in its entry.
type member struct {
	name string // quoted
	typ  catalog.OID
}

// comparable picks a type that has an order.
func (g *Generator) comparable() catalog.OID {
	const json = 114
	t := pick(g, g.types)
	if t == json {
		return 25
	}
	return t
}

func (g *Generator) chance(percent int) bool { return g.rng.IntN(100) < percent }

func pick[T any](g *Generator, all []T) T { return all[g.rng.IntN(len(all))] }

// name makes a new alias; sometimes one that hides a table.
func (g *Generator) name() string {
	g.serial++
	if g.chance(10) {
		return quote(pick(g, g.tables).Name)
	}
	return fmt.Sprintf("t%d", g.serial)
}

// shape is a list of result types.
func (g *Generator) shape() []catalog.OID {
	shape := make([]catalog.OID, 1+g.rng.IntN(3))
	for i := range shape {
		shape[i] = pick(g, g.types)
		if g.chance(8) {
			shape[i] = pick(g, g.tables).RowType
		}
	}
	return shape
}

func (g *Generator) typeText(t catalog.OID) string {
	typ := g.index.Type(t)
	return quote(typ.Schema, typ.Name)
}

func members(r *catalog.Relation) []member {
	all := make([]member, len(r.Columns))
	for i := range r.Columns {
		all[i] = member{quote(r.Columns[i].Name), r.Columns[i].Type}
	}
	return all
}
