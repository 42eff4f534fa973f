package typing_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"interlock/catalog"
	"interlock/sqlgov/typing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// star is a call with an asterisk for its arguments.
func star(schema, name string) call {
	c := newCall(schema, name)
	c.Star = true
	return c
}

// TestCallForms compares calls whose form decides: an asterisk, no arguments, missing schemas, too many arguments.
func TestCallForms(t *testing.T) {
	o, x := newOracle(t)
	r := o.resolver(t, x, "pg_catalog", "app", "public")
	num := typed(x, typing.Int4)
	twice := newCall("", "named", num, num)
	twice.Args[0].Name, twice.Args[1].Name = "a", "a"
	misplaced := newCall("", "named", num, num)
	misplaced.Args[0].Name = "a"
	aggregate := newCall("", "named_total", num)
	aggregate.Args[0].Name = "a"
	grouped := newCall("", "total", num)
	grouped.WithinGroup = 1
	plain := newCall("", "upper", num)
	plain.WithinGroup = 1
	cast := newCall("", "numeric", num)
	cast.WithinGroup = 1
	swapped := newCall("", "vnamed", typed(x, x.TypeNamed("pg_catalog", "_text").OID), num)
	swapped.Args[0].Name, swapped.Args[1].Name, swapped.Variadic = "b", "a", true
	proper := newCall("", "vnamed", num, typed(x, x.TypeNamed("pg_catalog", "_text").OID))
	proper.Args[1].Name, proper.Variadic = "b", true
	intRange := typed(x, x.TypeNamed("pg_catalog", "int4range").OID)
	ranked := newCall("", "rank", typed(x, typing.Bpchar), typed(x, typing.Varchar))
	ranked.WithinGroup = 1
	calls := []call{
		swapped, proper, ranked, newCall("", "c3", intRange, typed(x, typing.Numeric)), newCall("", "c3", intRange, num),
		newCall("app", "pair", null), newCall("", "parent", null), newCall("app", "label", null), newCall("app", "label", num),
		star("", "count"), star("pg_catalog", "count"), star("app", "everything"), star("", "sum"), star("", "now"),
		star("", "nowhere"), newCall("", "count"), newCall("", "everything"), newCall("nowhere", "f", num),
		newCall("pg_catalog", "nowhere", num), newCall("", "percentile_cont", num), newCall("", "mode"),
		newCall("", "num_nulls", slices.Repeat([]operand{num}, 100)...),
		newCall("", "num_nulls", slices.Repeat([]operand{num}, 101)...),
		newCall("", "concat", slices.Repeat([]operand{null}, 100)...),
		twice, misplaced, aggregate, grouped, plain, cast,
	}
	var expressions []string
	var got []answer
	for _, c := range calls {
		expressions = append(expressions, c.SQL())
		got = append(got, resolveCall(r, c))
	}
	cases := &operatorCases{r: r, expressions: expressions, got: got}
	cases.binary("nowhere", "+", num, num)
	cases.binary("public", "+", num, num)
	cases.binary("", "@#@#", num, num)
	cases.prefix("", "@#@#", num)
	o.compare(t, cases.expressions, cases.got)
}

// TestProcedures calls procedures that say which one they are.
func TestProcedures(t *testing.T) {
	o, x := newOracle(t)
	var said string
	config := o.conn.Config().Copy()
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { said = n.Message }
	ctx := context.Background()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	num, text := typed(x, typing.Int4), typed(x, typing.Text)
	named := newCall("", "proc3", num, num)
	named.Args[0].Name, named.Args[1].Name = "b", "a"
	other := newCall("", "proc3", text)
	other.Args[0].Name = "a"
	for _, path := range [][]string{{"app", "other", "pg_catalog"}, {"other", "app", "pg_catalog"}} {
		r := o.resolver(t, x, path...)
		if _, err := conn.Exec(ctx, "set search_path = "+path[0]+","+path[1]+","+path[2]); err != nil {
			t.Fatal(err)
		}
		for _, c := range []call{
			newCall("", "proc", num), newCall("", "proc", text), newCall("", "proc", null), newCall("app", "proc", num),
			newCall("", "proc", typed(x, typing.Int2)), newCall("", "proc3", num), newCall("", "proc3", text, text),
			newCall("", "proc2", num, text, num), newCall("", "proc2", text, text, null), newCall("", "proc2", num, null, null),
			named, other,
		} {
			c.Procedure = true
			said = ""
			if _, err := conn.Exec(ctx, c.SQL()); err != nil {
				t.Fatalf("%s: %v", c.SQL(), err)
			}
			m, err := r.Function(c.Call)
			if err != nil {
				t.Errorf("%s: %v", c.SQL(), err)
			} else if got := m.Function.Schema + "." + m.Function.Name + "(" + m.Function.Signature + ")"; got != said {
				t.Errorf("%s picks %s, want %s", c.SQL(), got, said)
			}
		}
	}
}

// TestPolymorphicDefaults: what the catalog does not tell is not guessed.
func TestPolymorphicDefaults(t *testing.T) {
	_, x := newOracle(t)
	r := &typing.Resolver{Catalog: x, Path: []string{"pg_catalog", "app"}}
	m, err := r.Function(newCall("", "pd", typed(x, typing.Int4)).Call)
	if err != nil || m.Result != typing.Int4 {
		t.Errorf("pd(integer) = %v, %v; want integer", m.Result, err)
	}
	for _, c := range []call{newCall("", "pd", null), newCall("", "cd", typed(x, typing.Int4)), newCall("", "cd", null)} {
		var e *typing.Error
		if _, err := r.Function(c.Call); !errors.As(err, &e) || e.SQLState != "0A000" {
			t.Errorf("%s: %v, want 0A000", c.SQL(), err)
		}
	}
}

// TestMissing tells a name that does not exist from one that does not fit.
func TestMissing(t *testing.T) {
	_, x := newOracle(t)
	r := &typing.Resolver{Catalog: x, Path: []string{"pg_catalog", "app"}}
	num, mood := typed(x, typing.Int4), typed(x, x.TypeNamed("app", "mood").OID)
	function := func(c call) error { _, err := r.Function(c.Call); return err }
	operator := func(schema, name string, left, right catalog.OID) error {
		_, err := r.Operator(schema, name, left, right)
		return err
	}
	typeName := func(schema, name string) error { _, err := r.TypeName(schema, name); return err }
	for _, c := range []struct {
		what    string
		err     error
		state   string
		missing bool
	}{
		{"unknown function", function(newCall("", "nowhere", num)), "42883", true},
		{"unfit function", function(newCall("", "upper", num, num)), "42883", false},
		{"function elsewhere", function(newCall("app", "now")), "42883", true},
		{"function in no schema", function(newCall("nowhere", "now")), "3F000", true},
		{"unknown operator", operator("", "@#@#", num.typ, num.typ), "42883", true},
		{"unfit operator", operator("", "*", num.typ, mood.typ), "42883", false},
		{"operator in no schema", operator("nowhere", "+", num.typ, num.typ), "3F000", true},
		{"unknown type", typeName("", "nowhere"), "42704", true},
		{"type elsewhere", typeName("pg_catalog", "mood"), "42704", true},
		{"type off the path", typeName("", "txt"), "42704", true},
		{"type in no schema", typeName("nowhere", "int4"), "3F000", true},
	} {
		var e *typing.Error
		if !errors.As(c.err, &e) || e.SQLState != c.state || e.Missing != c.missing {
			t.Errorf("%s: %#v, want SQLSTATE %s, missing %v", c.what, c.err, c.state, c.missing)
		}
	}
}

// TestTypeName compares the type that a name finds along several paths.
func TestTypeName(t *testing.T) {
	o, x := newOracle(t)
	for _, path := range paths {
		r := o.resolver(t, x, path...)
		for _, name := range []string{"mood", "pair", "txt", "int4", "_mood", "parent", "citext", "floatmultirange", "nowhere", "app.mood", "other.mood"} {
			var want *catalog.OID
			if err := o.conn.QueryRow(context.Background(), "select to_regtype($1)::oid", name).Scan(&want); err != nil {
				t.Fatal(err)
			}
			schema, base := "", name
			if name == "app.mood" || name == "other.mood" {
				schema, base = name[:len(name)-len(".mood")], "mood"
			}
			got, err := r.TypeName(schema, base)
			switch {
			case want == nil && err == nil:
				t.Errorf("%v: %s is %d, want none", path, name, got.OID)
			case want != nil && (err != nil || got.OID != *want):
				t.Errorf("%v: %s: %v, want type %d", path, name, err, *want)
			}
		}
	}
}

// TestCoerceRow converts rows of known fields to composite types.
func TestCoerceRow(t *testing.T) {
	_, x := newOracle(t)
	r := &typing.Resolver{Catalog: x, Path: []string{"pg_catalog"}}
	app := func(name string) catalog.OID { return x.TypeNamed("app", name).OID }
	for _, c := range []struct {
		name   string
		fields []catalog.OID
		to     string
		state  string
		calls  []string
	}{
		{"fits", []catalog.OID{typing.Int4, typing.Text}, "pair", "", nil},
		{"converts", []catalog.OID{typing.Numeric, typing.Unknown}, "pairdom", "", []string{"int4"}},
		{"checks", []catalog.OID{typing.Int4, typing.Int8}, "holder", "", []string{"ok", "to_mood"}},
		{"short", []catalog.OID{typing.Int4}, "pair", "42846", nil},
		{"wrong", []catalog.OID{typing.Date, typing.Text}, "pair", "42846", nil},
		{"no row", []catalog.OID{typing.Int4}, "mood", "42846", nil},
	} {
		got, err := r.CoerceRow(c.fields, app(c.to), typing.Explicit)
		var e *typing.Error
		if errors.As(err, &e) != (c.state != "") || e != nil && e.SQLState != c.state {
			t.Errorf("%s: %v, want SQLSTATE %q", c.name, err, c.state)
		}
		for _, name := range c.calls {
			if !slices.ContainsFunc(got.Functions, func(f *catalog.Function) bool { return f.Name == name }) {
				t.Errorf("%s: %s is not reported", c.name, name)
			}
		}
	}
	if _, err := r.Coerce(typing.Record, app("pair"), typing.Explicit); err == nil {
		t.Error("a record of unknown fields becomes a pair")
	}
}

// TestIO: input and output functions of extensions run although the server checks no privilege on them.
func TestIO(t *testing.T) {
	_, x := newOracle(t)
	r := &typing.Resolver{Catalog: x, Path: []string{"pg_catalog"}}
	hstore, citext := x.TypeNamed("public", "hstore"), x.TypeNamed("public", "citext")
	for _, c := range []struct {
		from, to catalog.OID
		want     []string
	}{
		{typing.Unknown, hstore.OID, []string{"hstore_in"}},
		{typing.Unknown, hstore.Array, []string{"hstore_in"}},
		{typing.Text, hstore.OID, []string{"hstore_in"}},
		{hstore.OID, typing.Text, []string{"hstore_out"}},
		{typing.Unknown, citext.OID, []string{"citextin"}},
		{citext.OID, typing.Text, nil},
		{typing.Text, typing.Int4, nil},
		{typing.Int4, x.TypeNamed("app", "label").OID, []string{"label_in"}},
		{x.TypeNamed("app", "_label").OID, typing.Varchar, []string{"label_out"}},
	} {
		got, err := r.Coerce(c.from, c.to, typing.Explicit)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range got.IO {
			names = append(names, f.Name)
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("from %d to %d: %v, want %v", c.from, c.to, names, c.want)
		}
	}
}

// TestLookups: a conversion to a type whose values are objects finds them, however the value comes.
func TestLookups(t *testing.T) {
	_, x := newOracle(t)
	r := &typing.Resolver{Catalog: x, Path: []string{"pg_catalog"}}
	builtin := func(name string) *catalog.Type { return x.TypeNamed("pg_catalog", name) }
	for _, c := range []struct {
		from, to catalog.OID
		want     string
	}{
		{typing.Unknown, builtin("regclass").OID, "to_regclass"},
		{typing.Int4, builtin("regclass").OID, "to_regclass"},
		{builtin("oid").OID, builtin("regtype").OID, "to_regtype"},
		{typing.Varchar, builtin("regrole").OID, "to_regrole"},
		{typing.Unknown, builtin("regnamespace").Array, "to_regnamespace"},
		{builtin("oid").Array, builtin("regproc").Array, "to_regproc"},
		{builtin("regclass").OID, builtin("oid").OID, ""},
		{typing.Unknown, builtin("regconfig").OID, ""}, // the names of text search configurations tell nothing
	} {
		got, err := r.Coerce(c.from, c.to, typing.Explicit)
		if err != nil {
			t.Fatal(err)
		}
		name := ""
		if len(got.Lookups) > 0 {
			name = got.Lookups[0].Name
		}
		if name != c.want || len(got.Lookups) > 1 {
			t.Errorf("from %d to %d: %v, want %s", c.from, c.to, got.Lookups, c.want)
		}
	}
}
