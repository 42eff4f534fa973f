package typing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"interlock/catalog"
	"interlock/internal/pgtest"
	"interlock/sqlgov/typing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestCasts casts every type to every other, explicitly and by assignment to a column.
func TestCasts(t *testing.T) {
	o, x := newOracle(t)
	r := o.resolver(t, x, "pg_catalog", "public", "app")
	pool := probeOperands(x)
	for _, name := range []string{"citext", "hstore", "_citext"} {
		pool = append(pool, typed(x, x.TypeNamed("public", name).OID))
	}
	assignable := makeColumns(t, o, x, pool)
	var explicit, assigned []string
	var got, gotAssigned []answer
	for _, from := range append(pool, null) {
		for i, to := range pool {
			typ := x.Type(to.typ)
			explicit = append(explicit, fmt.Sprintf("CAST(%s AS %q.%q)", from.sql, typ.Schema, typ.Name))
			got = append(got, resolveCast(r, from, to.typ, typing.Explicit))
			if assignable[i] != "" {
				assigned = append(assigned, fmt.Sprintf("INSERT INTO app.columns(%s) VALUES (%s)", assignable[i], from.sql))
				gotAssigned = append(gotAssigned, resolveCast(r, from, to.typ, typing.Assignment))
			}
		}
	}
	t.Run("explicit", func(t *testing.T) { o.compareOnly(t, explicit, got, conversion) })
	t.Run("assignment", func(t *testing.T) { o.compareOnly(t, assigned, gotAssigned, conversion) })
}

// makeColumns makes a table with a column of each type that can be one, and returns their names.
func makeColumns(t *testing.T, o *oracle, x *catalog.Index, pool []operand) []string {
	t.Helper()
	names := make([]string, len(pool))
	var defs []string
	for i, p := range pool {
		typ := x.Type(p.typ)
		if typ.Kind == "p" {
			continue
		}
		names[i] = fmt.Sprintf("c%d", i)
		defs = append(defs, fmt.Sprintf("%s %q.%q", names[i], typ.Schema, typ.Name))
	}
	if _, err := o.conn.Exec(context.Background(), "create table app.columns ("+strings.Join(defs, ",")+")"); err != nil {
		t.Fatal(err)
	}
	return names
}

// resolveCast is the resolver's answer to a cast, in which no function is the outermost.
func resolveCast(r *typing.Resolver, from operand, to catalog.OID, ctx typing.Context) answer {
	a := addCoercion(r, answer{result: to, calls: slices.Clone(from.calls)}, from.typ, to, ctx)
	if a.state == "" {
		if d := r.Catalog.Type(to); d.Kind == "d" && d.BaseMod >= 0 {
			a.calls = distinct(append(a.calls, r.CoerceTypmod(to).OID))
		}
	}
	return a
}

// TestLengths casts to types with a length or precision, which a length function enforces.
func TestLengths(t *testing.T) {
	o, x := newOracle(t)
	r := o.resolver(t, x, "pg_catalog")
	var expressions []string
	var got []answer
	for name, sql := range map[string]string{
		"varchar": "varchar(3)", "bpchar": "char(3)", "numeric": "numeric(8,2)", "bit": "bit(3)", "varbit": "varbit(3)",
		"timestamp": "timestamp(1)", "timestamptz": "timestamptz(1)", "time": "time(1)", "timetz": "timetz(1)",
		"interval": "interval hour", "_varchar": "varchar(3)[]", "_numeric": "numeric(8,2)[]",
	} {
		typ := x.TypeNamed("pg_catalog", name)
		expressions = append(expressions, "CAST(CAST(NULL AS "+name+") AS "+sql+")")
		got = append(got, answer{result: typ.OID, calls: []catalog.OID{r.CoerceTypmod(typ.OID).OID}})
	}
	o.compareOnly(t, expressions, got, conversion)
	for _, name := range []string{"int4", "text", "jsonb", "_int4"} {
		if f := r.CoerceTypmod(x.TypeNamed("pg_catalog", name).OID); f != nil {
			t.Errorf("%s has length function %s", name, f.Name)
		}
	}
}

// TestCoercionPrivileges checks the functions reported for conversions against the privileges that the server
// demands: a login that may execute just those runs the statement, and with any one of them taken away it fails.
func TestCoercionPrivileges(t *testing.T) {
	const login = "typing_caller"
	_, x := newOracle(t)
	srv := pgtest.Start(t)
	// Other tests count on the default privileges, so this one has a database of its own; OIDs differ, names do not.
	own := srv.Database(t, setup, "create role "+login+" login", `revoke execute on all functions in schema app from public;
		grant usage on schema app, other, public to `+login)
	t.Cleanup(func() { srv.Exec(t, own, "drop owned by "+login+"; drop role "+login) })
	r := &typing.Resolver{Catalog: x, Path: []string{"pg_catalog", "app", "public"}}
	app := func(name string) catalog.OID { return x.TypeNamed("app", name).OID }
	for _, c := range []struct {
		sql      string
		from, to catalog.OID
		ctx      typing.Context
		want     string
	}{
		{"'5'::app.posint", typing.Unknown, app("posint"), typing.Explicit, "ok"},
		{"5::app.posint", typing.Int4, app("posint"), typing.Explicit, "ok"},
		{"5::app.small", typing.Int4, app("small"), typing.Explicit, "ok okay"},
		{"5::text::app.small", typing.Text, app("small"), typing.Explicit, "ok okay"},
		{"'{5}'::app._posint", typing.Unknown, app("_posint"), typing.Explicit, "ok"},
		{"ARRAY[5::int8]::app._posint", x.TypeNamed("pg_catalog", "_int8").OID, app("_posint"), typing.Explicit, "ok"},
		{"'{5}'::text::app._posint", typing.Text, app("_posint"), typing.Explicit, "ok"},
		{"'(5,sad)'::app.holder", typing.Unknown, app("holder"), typing.Explicit, "ok"},
		{"'(5,sad)'::text::app.holder", typing.Text, app("holder"), typing.Explicit, "ok"},
		{"'{\"(5,sad)\"}'::app._holder", typing.Unknown, app("_holder"), typing.Explicit, "ok"},
		{"'(1,x)'::app.pair::int4", app("pair"), typing.Int4, typing.Explicit, "to_int"},
		{"'(1,x)'::app.pair::int4::app.posint", app("pair"), typing.Int4, typing.Explicit, "to_int ok"},
		{"'{\"(1,x)\"}'::app._pair::int4[]", app("_pair"), x.TypeNamed("pg_catalog", "_int4").OID, typing.Explicit, "to_int"},
		{"'sad'::app.mood::int4", app("mood"), typing.Int4, typing.Explicit, "rank"},
		{"5::int8::app.mood", typing.Int8, app("mood"), typing.Explicit, "to_mood"},
		{"5::int8::app.mooddom", typing.Int8, app("mooddom"), typing.Explicit, "to_mood"},
		{"'sad'::app.mood::text", app("mood"), typing.Text, typing.Implicit, ""},
		{"'abc'::app.short", typing.Unknown, app("short"), typing.Explicit, ""},
		{"'(1,x)'::app.mini::app.pair", app("mini"), app("pair"), typing.Explicit, ""},
	} {
		coercion, err := r.Coerce(c.from, c.to, c.ctx)
		if err != nil {
			t.Errorf("%s: %v", c.sql, err)
			continue
		}
		reported := map[string]bool{}
		for _, f := range coercion.Functions {
			reported[f.Schema+"."+f.Name] = true
		}
		want := strings.Fields(c.want)
		if strings.Contains(c.sql, "int4::app.posint") { // the second step of two
			reported["app.ok"] = true
		}
		for _, f := range want {
			if !reported["app."+f] {
				t.Errorf("%s: app.%s is not reported", c.sql, f)
			}
			delete(reported, "app."+f)
		}
		for f := range reported {
			if strings.HasPrefix(f, "app.") {
				t.Errorf("%s: %s is reported, but the server does not demand it", c.sql, f)
			}
		}
		checkPrivileges(t, srv.As(own, login, ""), own, c.sql, want)
	}
}

// checkPrivileges runs an expression with the functions granted, all of them and then all but one.
func checkPrivileges(t *testing.T, caller, owner, sql string, functions []string) {
	t.Helper()
	for missing := -1; missing < len(functions); missing++ {
		for i, f := range functions {
			verb := "grant execute on function app.%s to typing_caller"
			if i == missing {
				verb = "revoke execute on function app.%s from typing_caller"
			}
			run(t, owner, fmt.Sprintf(verb, f))
		}
		err := run(t, caller, "select "+sql)
		var pg *pgconn.PgError
		switch {
		case missing < 0 && err != nil:
			t.Errorf("%s with all functions granted: %v", sql, err)
		case missing >= 0 && (!errors.As(err, &pg) || pg.Code != "42501"):
			t.Errorf("%s without %s: %v, want 42501", sql, functions[missing], err)
		}
	}
	for _, f := range functions {
		run(t, owner, fmt.Sprintf("revoke execute on function app.%s from typing_caller", f))
	}
}

func run(t *testing.T, dsn, sql string) error {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}
