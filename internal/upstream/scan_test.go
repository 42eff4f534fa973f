package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock/catalog"
	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// fixture returns a DSN of the superuser for the database of testdata/scan.sql, made once.
func fixture(t *testing.T) string {
	t.Helper()
	sql, err := os.ReadFile("testdata/scan.sql")
	if err != nil {
		t.Fatal(err)
	}
	return pgtest.Start(t).Shared(t, "scan", string(sql))
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func scan(t *testing.T, conn *pgx.Conn) *catalog.Snapshot {
	t.Helper()
	s, err := Scan(t.Context(), conn, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// scanned returns a superuser's snapshot of the fixture, made once.
func scanned(t *testing.T) *catalog.Snapshot {
	t.Helper()
	once.Do(func() { fixtureSnapshot = scan(t, connect(t, fixture(t))) })
	if fixtureSnapshot == nil {
		t.Fatal("the fixture was not scanned")
	}
	return fixtureSnapshot
}

var (
	once            sync.Once
	fixtureSnapshot *catalog.Snapshot
)

func run(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// list returns the first column of a query's rows.
func list[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) []T {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return got
}

// none fails if a query that looks for contradictions finds any. $1 is the snapshot's part as JSON.
func none(t *testing.T, conn *pgx.Conn, part any, sql string) {
	t.Helper()
	text, err := json.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := list[string](t, conn, sql, string(text)); len(wrong) > 0 {
		t.Errorf("%d contradictions, first %s\nby %s", len(wrong), wrong[0], sql)
	}
}

func TestScanHead(t *testing.T) {
	conn := connect(t, fixture(t))
	before := time.Now()
	s := scan(t, conn)
	if s.Source != "shop" || s.Database != "scan" || s.ScannedAt.Before(before.Add(-time.Second)) || len(s.Version) != 64 {
		t.Errorf("source %q, database %q, at %v, version %q", s.Source, s.Database, s.ScannedAt, s.Version)
	}
	if want := conn.PgConn().ParameterStatus("server_version"); s.ServerVersion != want {
		t.Errorf("server version %q, want %q", s.ServerVersion, want)
	}
	if n := list[string](t, conn, "show server_version_num")[0]; fmt.Sprint(s.ServerNum) != n {
		t.Errorf("server number %d, want %s", s.ServerNum, n)
	}
	for _, k := range []catalog.Keyword{{Word: "select", Category: "R"}, {Word: "abort", Category: "U"}, {Word: "between", Category: "C"}, {Word: "left", Category: "T"}} {
		if !slices.Contains(s.Keywords, k) {
			t.Errorf("keyword %v is missing", k)
		}
	}
	wantExt := list[string](t, conn, "select extname || ' ' || extnamespace::regnamespace || ' ' || extversion from pg_extension order by extname")
	var got []string
	for _, e := range s.Extensions {
		got = append(got, e.Name+" "+e.Schema+" "+e.Version)
	}
	if !slices.Equal(got, wantExt) || !slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, "hstore ext ") }) {
		t.Errorf("extensions %q, want %q", got, wantExt)
	}
}

// TestScanCountsEverything compares how many objects of each kind were read with what the catalog tables hold.
func TestScanCountsEverything(t *testing.T) {
	conn := connect(t, fixture(t))
	s := scanned(t)
	columns, constraints := 0, 0
	for _, r := range s.Relations {
		columns += len(r.Columns)
		constraints += len(r.Constraints)
	}
	for name, c := range map[string]struct {
		got int
		sql string
	}{
		"schemas":     {len(s.Schemas), "select count(*) from pg_namespace where nspname not like 'pg\\_temp%' and nspname not like 'pg\\_toast\\_temp%'"},
		"relations":   {len(s.Relations), "select count(*) from pg_class where relnamespace <> 'pg_toast'::regnamespace"},
		"columns":     {columns, "select count(*) from pg_attribute a join pg_class c on c.oid = attrelid where relnamespace <> 'pg_toast'::regnamespace and relkind not in ('i', 'I') and attnum > 0 and not attisdropped"},
		"constraints": {constraints, "select count(*) from pg_constraint where conrelid <> 0"},
		"types":       {len(s.Types), "select count(*) from pg_type"},
		"functions":   {len(s.Functions), "select count(*) from pg_proc"},
		"operators":   {len(s.Operators), "select count(*) from pg_operator"},
		"casts":       {len(s.Casts), "select count(*) from pg_cast"},
		"keywords":    {len(s.Keywords), "select count(*) from pg_get_keywords()"},
	} {
		if want := list[int](t, conn, c.sql)[0]; c.got != want {
			t.Errorf("%d %s, want %d", c.got, name, want)
		}
	}
}

// TestScanNamesResolve lets PostgreSQL's own parsers of names (regclass and kin) find every object by the name and the argument
// types that the snapshot gives, and compares OIDs.
func TestScanNamesResolve(t *testing.T) {
	conn := connect(t, fixture(t))
	s := scanned(t)
	run(t, conn, "set search_path = pg_catalog")
	none(t, conn, s.Relations, `select format('%I.%I', r.schema, r.name) from json_to_recordset($1) r(oid int8, schema text, name text)
		where to_regclass(format('%I.%I', r.schema, r.name)) is distinct from r.oid::oid`)
	none(t, conn, s.Types, `select format('%I.%I', r.schema, r.name) from json_to_recordset($1) r(oid int8, schema text, name text)
		where to_regtype(format('%I.%I', r.schema, r.name)) is distinct from r.oid::oid`)
	none(t, conn, s.Functions, `select format('%I.%I(%s)', r.schema, r.name, r.signature) from json_to_recordset($1) r(oid int8, schema text, name text, signature text)
		where to_regprocedure(format('%I.%I(%s)', r.schema, r.name, r.signature)) is distinct from r.oid::oid`)
	none(t, conn, s.Functions, `select format('%I.%I(%s)', r.schema, r.name, r.signature) from json_to_recordset($1) r(oid int8, schema text, name text, args int8[], signature text)
		where r.signature <> coalesce((select string_agg(format_type(a::oid, null), ', ' order by n) from unnest(r.args) with ordinality u(a, n)), '')`)
	none(t, conn, s.Operators, `select r.name from json_to_recordset($1) r(oid int8, schema text, name text, "left" int8, "right" int8)
		where to_regoperator(format('%I.%s(%s,%s)', r.schema, r.name, case when r.left is null then 'none' else format_type(r.left::oid, null) end,
			format_type(r.right::oid, null))) is distinct from r.oid::oid`)
	none(t, conn, s.Collations, `select r.name from json_to_recordset($1) r(oid int8, schema text, name text)
		where to_regcollation(format('%I.%I', r.schema, r.name)) is distinct from r.oid::oid`)
	none(t, conn, s.Schemas, `select r.name from json_to_recordset($1) r(oid int8, name text)
		where to_regnamespace(format('%I', r.name)) is distinct from r.oid::oid`)
}

// TestScanFunctionsAgree compares functions with information_schema and with what pg_get_function_arguments prints.
func TestScanFunctionsAgree(t *testing.T) {
	conn := connect(t, fixture(t))
	s := scanned(t)
	none(t, conn, s.Functions, `select r.name from json_to_recordset($1) r(oid int8, schema text, name text, result int8, returns_set bool, volatility text,
			language text, security_definer bool, strict bool, owner text, kind text)
		left join pg_proc p on p.oid = r.oid::oid and p.proname = r.name
		where p.oid is null or p.prorettype <> r.result::oid or p.proretset <> coalesce(r.returns_set, false) or p.provolatile::text <> r.volatility
			or p.proisstrict <> coalesce(r.strict, false) or p.prosecdef <> coalesce(r.security_definer, false) or p.prokind::text <> r.kind
			or (select lanname from pg_language where oid = p.prolang) <> r.language or p.proowner::regrole::text <> quote_ident(r.owner)`)
	none(t, conn, s.Functions, `select p.specific_name from json_to_recordset($1) r(oid int8, schema text, name text, all_args int8[], arg_modes text, args int8[], arg_names text[])
		join information_schema.parameters p on p.specific_schema = r.schema and p.specific_name = r.name || '_' || r.oid
		where case coalesce(substr(r.arg_modes, p.ordinal_position::int, 1), 'i') when 'o' then 'OUT' when 'b' then 'INOUT' when 't' then 'OUT' when '' then 'IN' else 'IN' end <> p.parameter_mode
			or (coalesce(r.all_args, r.args))[p.ordinal_position]::oid <> to_regtype(format('%I.%I', p.udt_schema, p.udt_name))
			or coalesce(r.arg_names[p.ordinal_position], '') <> coalesce(p.parameter_name, '')`)
	none(t, conn, s.Functions, `select r.name from json_to_recordset($1) r(oid int8, name text, extension text, comment text)
		where coalesce(r.comment, '') <> coalesce(obj_description(r.oid::oid, 'pg_proc'), '')
			or coalesce(r.extension, '') <> coalesce((select e.extname from pg_extension e join pg_depend d on d.refobjid = e.oid
				where d.objid = r.oid::oid and d.classid = 'pg_proc'::regclass and d.deptype = 'e'), '')`)
}

func TestScanFunctionsByHand(t *testing.T) {
	s := scanned(t)
	x := catalog.NewIndex(s)
	oid := func(name string) catalog.OID { return x.TypeNamed("pg_catalog", name).OID }
	one := func(name string) catalog.Function {
		t.Helper()
		f := x.FunctionsNamed("crm", name)
		if len(f) != 1 {
			t.Fatalf("%d functions crm.%s", len(f), name)
		}
		got := *f[0]
		got.OID = 0
		return got
	}
	customers := x.RelationNamed("crm", "customers").RowType
	for name, want := range map[string]catalog.Function{
		"add": {Kind: "f", Args: []catalog.OID{oid("int4"), oid("int4")}, ArgNames: []string{"a", "b"}, Defaults: 1, Result: oid("int4"),
			Signature: "integer, integer", Volatility: "i", Language: "sql", Strict: true, Comment: "adds"},
		"pick": {Kind: "f", Args: []catalog.OID{oid("text"), oid("_int4")}, AllArgs: []catalog.OID{oid("text"), oid("_int4")}, ArgModes: "iv",
			ArgNames: []string{"sep", "n"}, Variadic: oid("int4"), Result: oid("text"), Signature: "text, integer[]", Volatility: "s", Language: "sql"},
		"pair": {Kind: "f", Args: []catalog.OID{oid("int4"), oid("int4")}, AllArgs: []catalog.OID{oid("int4"), oid("int4"), oid("text")}, ArgModes: "ibo",
			ArgNames: []string{"i", "j", "o"}, Result: oid("record"), Signature: "integer, integer", Volatility: "v", Language: "plpgsql"},
		"listing": {Kind: "f", Args: []catalog.OID{}, AllArgs: []catalog.OID{oid("int4"), oid("text")}, ArgModes: "tt", ArgNames: []string{"k", "v"},
			Result: oid("record"), ReturnsSet: true, Volatility: "s", Language: "sql", SecurityDefiner: true, Config: []string{"search_path=crm"}},
		"label": {Kind: "f", Args: []catalog.OID{customers}, Result: oid("text"), Signature: "crm.customers", Volatility: "s", Language: "sql"},
		"tidy": {Kind: "p", Args: []catalog.OID{oid("text")}, AllArgs: []catalog.OID{oid("text")}, ArgModes: "b", ArgNames: []string{"o"},
			Result: oid("record"), Signature: "text", Volatility: "v", Language: "plpgsql"},
		"glue":   {Kind: "a", Args: []catalog.OID{oid("text")}, Result: oid("text"), Signature: "text", Volatility: "i", Language: "internal", AggKind: "n"},
		"middle": {Kind: "a", Args: []catalog.OID{oid("float8"), oid("text")}, Result: oid("text"), Signature: "double precision, text", Volatility: "i", Language: "internal", AggKind: "o", AggDirectArgs: 1},
	} {
		want.Schema, want.Name, want.Owner = "crm", name, "postgres"
		got := one(name)
		if name == "middle" {
			got.AllArgs, got.ArgModes = nil, "" // how an ordered-set aggregate spells them is PostgreSQL's affair
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("crm.%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
	if f := x.FunctionsNamed("ext", "hstore"); len(f) == 0 || f[0].Extension != "hstore" {
		t.Errorf("functions of hstore: %v", f)
	}
	if f := x.FunctionsNamed("pg_catalog", "percentile_cont"); len(f) == 0 || f[0].AggKind != "o" || f[0].AggDirectArgs != 1 {
		t.Errorf("percentile_cont: %v", f)
	}
	if f := x.FunctionsNamed("pg_catalog", "row_number"); len(f) != 1 || f[0].Kind != "w" {
		t.Errorf("row_number: %v", f)
	}
}

// TestScanRefusesOpenTransaction: what an open transaction sees is not what is committed.
func TestScanRefusesOpenTransaction(t *testing.T) {
	conn := connect(t, fixture(t))
	run(t, conn, "begin")
	if _, err := Scan(t.Context(), conn, "x"); err == nil || !strings.Contains(err.Error(), "transaction") {
		t.Errorf("error %v", err)
	}
	run(t, conn, "rollback")
	scan(t, conn)
	if status := conn.PgConn().TxStatus(); status != 'I' {
		t.Errorf("after a scan the status is %q", status)
	}
	if path := list[string](t, conn, "show search_path")[0]; path != `"$user", public` {
		t.Errorf("after a scan search_path is %s", path)
	}
}

func TestScanStopsWithItsContext(t *testing.T) {
	dsn := fixture(t)
	holder := connect(t, dsn)
	run(t, holder, "begin; lock table crm.customers in access exclusive mode")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := Scan(ctx, connect(t, dsn), "x")
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 3*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
	run(t, holder, "rollback")
}
