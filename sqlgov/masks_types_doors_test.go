package sqlgov_test

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
	"interlock/redact"
)

// typedMask is a mask with what PostgreSQL makes of a value X in its place, after the table in docs/masking.md; "" for keyed masks,
// whose values only PostgreSQL's reader can tell from others.
type typedMask struct {
	name, document string
	spec           redact.Spec
	promise        string
}

var typedMasks = []typedMask{
	{"gone", `kind: "null"`, redact.Spec{Kind: redact.Null}, "null"},
	{"hidden", "kind: fixed, value: hidden", redact.Spec{Kind: redact.Fixed, Value: "hidden"}, "'hidden'"},
	{"zero", `kind: fixed, value: "0"`, redact.Spec{Kind: redact.Fixed, Value: "0"}, "'0'"},
	{"yes", `kind: fixed, value: "true"`, redact.Spec{Kind: redact.Fixed, Value: "true"}, "'true'"},
	{"epoch", "kind: fixed, value: '1970-01-01'", redact.Spec{Kind: redact.Fixed, Value: "1970-01-01"}, "'1970-01-01'"},
	{"noon", "kind: fixed, value: '1970-01-01 12:00:00'", redact.Spec{Kind: redact.Fixed, Value: "1970-01-01 12:00:00"}, "'1970-01-01 12:00:00'"},
	{"noonish", "kind: fixed, value: '1970-01-01 12:00:00+00'", redact.Spec{Kind: redact.Fixed, Value: "1970-01-01 12:00:00+00"}, "'1970-01-01 12:00:00+00'"},
	{"nil", "kind: fixed, value: 00000000-0000-0000-0000-000000000000", redact.Spec{Kind: redact.Fixed, Value: "00000000-0000-0000-0000-000000000000"}, "'00000000-0000-0000-0000-000000000000'"},
	{"ends", "kind: partial, first: 2, last: 1", redact.Spec{Kind: redact.Partial, First: 2, Last: 1},
		"case when 2 * (char_length(X) - 3) >= char_length(X) then left(X::text, 2) || '***' || right(X::text, 1) else '***' end"},
	{"mail", "kind: email", redact.Spec{Kind: redact.Email}, "case when position('@' in X::text) > 1 then left(X::text, 1) || '***@***' else '***' end"},
	{"month", "kind: date, unit: month", redact.Spec{Kind: redact.Date, Unit: "month"}, "date_trunc('month', X ZONE) BACK"},
	{"hour", "kind: date, unit: hour", redact.Spec{Kind: redact.Date, Unit: "hour"}, "date_trunc('hour', X ZONE) BACK"},
	{"hundreds", "kind: number, step: 100", redact.Spec{Kind: redact.Number, Step: "100"}, "trunc(X::numeric / 100) * 100 + 0 * X::numeric"}, // with the digits behind the point that X has,
	{"ages", "kind: range, bounds: [0, 18, 65]", redact.Spec{Kind: redact.Range, Bounds: []string{"0", "18", "65"}}, "case when X < 18 then 0 when X < 65 then 18 else 65 end"},
	{"tokenless", "kind: json, hide: [$.token]", redact.Spec{Kind: redact.JSON, Hide: []string{"$.token"}},
		"case when X::jsonb ? 'token' then jsonb_set(X::jsonb, '{token}', 'null') else X::jsonb end"},
	{"alias", "kind: hash, key: env:MASK_TEST_KEY", redact.Spec{Kind: redact.Hash}, ""},
	{"digits", "kind: digits, last: 2, key: env:MASK_TEST_KEY", redact.Spec{Kind: redact.Digits, Last: 2}, ""},
}

// typedValues are two different values of every built-in type that a column can have; where masks of a kind beside null fit, what they do
// differs between the two.
var typedValues = map[string][2]string{
	"boolean": {"t", "f"}, "bytea": {`\x00ff`, `\x`}, `"char"`: {"a", "b"}, "name": {"ada@example.com", "x"}, "bigint": {"-9223372036854775808", "64"},
	"smallint": {"-32768", "99"}, "int2vector": {"1 2", "3"}, "integer": {"-150", "2147483647"}, "text": {"ada@example.com", "4111-1111"}, "oid": {"1", "2"}, "tid": {"(0,1)", "(0,2)"},
	"xid": {"1", "2"}, "cid": {"1", "2"}, "oidvector": {"1 2", "3"}, "json": {`{"token": "t", "n": [1]}`, "[]"}, "xml": {"<a>b</a>", "c"}, "xid8": {"1", "2"}, "point": {"(1,2)", "(3,4)"},
	"lseg": {"[(1,2),(3,4)]", "[(5,6),(7,8)]"}, "path": {"((1,2))", "((3,4))"}, "box": {"(3,4),(1,2)", "(7,8),(5,6)"}, "polygon": {"((1,2))", "((3,4))"}, "line": {"{1,2,3}", "{4,5,6}"},
	"real": {"-149.5", "64"}, "double precision": {"1e300", "17.5"}, "circle": {"<(1,2),3>", "<(4,5),6>"}, "money": {"1", "2"}, "macaddr": {"08:00:2b:01:02:03", "08:00:2b:01:02:04"},
	"inet": {"10.0.0.1", "::1"}, "cidr": {"10.0.0.0/8", "::/0"}, "macaddr8": {"08:00:2b:01:02:03:04:05", "08:00:2b:01:02:03:04:06"}, "character(20)": {"ada@example.com", "x"},
	"character varying(20)": {"ada@example.com", "12"}, "date": {"2026-08-31", "1999-12-31"}, "time": {"01:02:03", "04:05:06"}, "timestamp": {"2026-08-31 23:59:59.999999", "1999-12-31 12:00:00"},
	"timestamptz": {"2026-08-31 23:59:59.999999+05:30", "1850-01-01 00:00:00+00"}, "interval": {"1 day", "2 months"}, "timetz": {"01:02:03+00", "04:05:06+01"}, "bit(3)": {"101", "111"},
	"bit varying": {"1", "01"}, "numeric": {"-123456789012345678901234567890.5", "20"}, "uuid": {"123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174001"},
	"tsvector": {"'a'", "'b'"}, "tsquery": {"'a'", "'b'"}, "jsonb": {`{"token": "t", "n": [1]}`, "[]"}, "jsonpath": {"$.\"a\"", "$.\"b\""}, "int4range": {"[1,2)", "[3,4)"}, "int8range": {"[1,2)", "[3,4)"},
	"numrange": {"[1,2)", "[3,4)"}, "tsrange": {"[2026-01-01,)", "(,)"}, "tstzrange": {"[2026-01-01 00:00:00+00,)", "(,)"}, "daterange": {"[2026-01-01,)", "(,)"}, "int4multirange": {"{[1,2)}", "{}"},
	"int8multirange": {"{[1,2)}", "{}"}, "nummultirange": {"{[1,2)}", "{}"}, "tsmultirange": {"{(,)}", "{}"}, "tstzmultirange": {"{(,)}", "{}"}, "datemultirange": {"{(,)}", "{}"},
	"regclass": {"pg_class", "pg_type"}, "regtype": {"text", "integer"}, "regproc": {"now", "pi"}, "regprocedure": {"now()", "pi()"}, "regoper": {"||/", "|/"}, "regoperator": {"+(integer,integer)", "-(integer,integer)"},
	"regconfig": {"simple", "english"}, "regdictionary": {"simple", "english_stem"}, "regcollation": {`"C"`, `"POSIX"`}, "regnamespace": {"public", "pg_catalog"}, "regrole": {"pg_monitor", "pg_signal_backend"},
	"pg_lsn": {"0/1", "0/2"}, "pg_snapshot": {"1:2:", "3:4:"}, "txid_snapshot": {"1:2:", "3:4:"},
}

// maskColumn is a column of a type with a mask.
type maskColumn struct {
	name, typ string
	mask      *typedMask
	array     bool
}

// promised is what the column shows of itself, as PostgreSQL works it out, in the column's own type.
func (c *maskColumn) promised() string {
	zone, back := "", ""
	switch c.typ {
	case "timestamptz":
		zone = "at time zone 'UTC'"
		back = "at time zone 'UTC'"
	case "date":
		zone = "::timestamp"
	}
	of := func(x string) string {
		if c.typ == "character(20)" {
			x += "::text" // a mask sees it without its padding
		}
		return strings.NewReplacer("X", x, "ZONE", zone, "BACK", back).Replace(c.mask.promise)
	}
	if !c.array {
		return fmt.Sprintf("(case when %[1]s is not null then (%[2]s)::text end)::%[3]s", c.name, of(c.name), c.typ)
	}
	if c.mask.spec.Kind == redact.Null {
		return "null::" + c.typ + "[]"
	}
	return fmt.Sprintf("(select array_agg((case when e is not null then (%s)::text end)::%s order by n) from unnest(%s) with ordinality u(e, n))", of("e"), c.typ, c.name)
}

// typedColumns are columns of every type, alone, as a domain and as an array, with every mask that fits.
func typedColumns(t *testing.T, conn *pgx.Conn) []maskColumn {
	t.Helper()
	names := make([]string, 0, len(typedValues))
	for name := range typedValues {
		names = append(names, name)
	}
	slices.Sort(names)
	var all []maskColumn
	for _, name := range names {
		typ := redact.Type{Name: name}
		if err := conn.QueryRow(t.Context(), "select $1::regtype::oid", name).Scan(&typ.OID); err != nil {
			t.Fatal(name, err)
		}
		if strings.HasSuffix(name, "(20)") {
			typ.Length = 20
		}
		for i := range typedMasks {
			if typedMasks[i].spec.Fits(typ) == nil {
				all = append(all, maskColumn{"", name, &typedMasks[i], false}, maskColumn{"", name, &typedMasks[i], true})
			}
		}
	}
	for i := range all {
		all[i].name = fmt.Sprintf("c%d", i)
	}
	return all
}

// startTyped starts a gateway in front of tables that have these columns, and of a table of the same name in the schema promise that
// shows what they promise. Rows 1 and 3 are equal, the last is NULL.
func startTyped(t *testing.T, columns func(*pgx.Conn) []maskColumn) (*gatewaytest.Gateway, []maskColumn) {
	t.Helper()
	t.Setenv("MASK_TEST_KEY", "a secret of the tests")
	dsn := pgtest.Start(t).Database(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	all := columns(conn)
	var define, document, promises strings.Builder
	var rows [2][]string
	for i := range all {
		c := &all[i]
		typ := c.typ
		if c.array {
			typ += "[]"
		}
		if i%4 < 2 { // every other column is of a domain
			fmt.Fprintf(&define, "create domain d%d as %s;\n", i, typ)
			typ = fmt.Sprintf("d%d", i)
		}
		fmt.Fprintf(&promises, ", %s as %s", c.promisedOrItself(), c.name)
		for k, v := range typedValues[c.typ] {
			literal := pgQuote(v) + "::" + c.typ
			if c.array {
				literal = fmt.Sprintf("array[%s, null, %s]", literal, pgQuote(typedValues[c.typ][0])+"::"+c.typ)
			}
			rows[k] = append(rows[k], literal)
		}
		fmt.Fprintf(&document, "      - {with: %s, on: [public.t.%s]}\n", c.mask.name, c.name)
		fmt.Fprintf(&define, "alter table t add %s %s;\n", c.name, typ)
	}
	a, b := strings.Join(rows[0], ", "), strings.Join(rows[1], ", ")
	setup := "create table t (id int);\n" + define.String() + fmt.Sprintf("insert into t values (1, %s), (2, %s), (3, %s);\ninsert into t values (4);\n", a, b, a) +
		"create schema promise; create view promise.t as select id" + promises.String() + " from t;"
	if _, err := conn.Exec(t.Context(), setup); err != nil {
		t.Fatal(err)
	}
	var masks strings.Builder
	for i := range typedMasks {
		fmt.Fprintf(&masks, "  %s: {%s}\n", typedMasks[i].name, typedMasks[i].document)
	}
	governance := strings.NewReplacer("MASKS", masks.String(), "RULES", document.String()).Replace(typedDocument)
	return gatewaytest.Start(t, gatewaytest.Options{Governance: governance, Database: dsn}), all
}

func (c *maskColumn) promisedOrItself() string {
	if c.mask.promise == "" {
		return c.name
	}
	return c.promised()
}

func pgQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

const typedDocument = `
version: 1
sources:
  gov: {kind: postgres, upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}}
masks:
MASKSsource_roles:
  reader:
    source: gov
    permissions: [{allow: [db.table.select], on: [public.t]}]
    masks:
RULESidentities:
  ana: {kind: human, grants: [{source: gov, roles: [reader]}]}
`

// A driver reads the masked values of every built-in type, of arrays and of domains of them, with every mask that fits, in both
// formats, and gets what it would get of PostgreSQL for the value that the mask promises.
func TestDriversReadEveryMaskedType(t *testing.T) {
	g, columns := startTyped(t, func(conn *pgx.Conn) []maskColumn { return typedColumns(t, conn) })
	guarded, server := pgxTo(t, g.DSN("ana", "gov")), pgxTo(t, g.Upstream)
	var names []string
	if err := server.QueryRow(t.Context(), `select array_agg(format_type(oid, null)) from pg_type where typnamespace = 'pg_catalog'::regnamespace and typtype in ('b', 'r', 'm')
		and typcategory <> 'A' and typname not in ('aclitem', 'gtsvector', 'pg_node_tree', 'pg_ndistinct', 'pg_dependencies', 'pg_mcv_list', 'pg_brin_bloom_summary',
		'pg_brin_minmax_multi_summary', 'refcursor')`).Scan(&names); err != nil {
		t.Fatal(err)
	}
	if len(names) > len(typedValues) {
		t.Errorf("PostgreSQL has %d types, there are values of %d", len(names), len(typedValues))
	}
	for _, format := range []int16{pgx.TextFormatCode, pgx.BinaryFormatCode} {
		for part := range slices.Chunk(columns, 100) {
			got, want := decoded(t, guarded, "public.t", part, format), decoded(t, server, "promise.t", part, format)
			for i := range part {
				c := &part[i]
				for row := range 4 {
					if c.mask.promise != "" && !reflect.DeepEqual(got[row][i], want[row][i]) {
						t.Errorf("%s of %s, array %t, in format %d: %#v, promised is %#v", c.mask.name, c.typ, c.array, format, got[row][i], want[row][i])
					}
				}
				if c.mask.promise == "" {
					checkKeyed(t, c, [4]any{got[0][i], got[1][i], got[2][i], got[3][i]}, [4]any{want[0][i], want[1][i], want[2][i], want[3][i]})
				}
			}
		}
	}
	t.Logf("%d columns of %d types", len(columns), len(typedValues))
	if len(columns) < 300 {
		t.Error("these are too few")
	}
}

var tens = regexp.MustCompile(`[0-9]`)

// checkKeyed holds what a keyed mask shows of rows, of which the first and the third are equal and the last is NULL, against what is behind.
func checkKeyed(t *testing.T, c *maskColumn, shown, behind [4]any) {
	t.Helper()
	text := func(v any) string { return fmt.Sprint(v) }
	if !reflect.DeepEqual(shown[0], shown[2]) || shown[3] != nil || reflect.TypeOf(shown[0]) != reflect.TypeOf(behind[0]) {
		t.Errorf("%s of %s: %#v of %#v", c.mask.name, c.typ, shown, behind)
	}
	switch c.mask.spec.Kind {
	case redact.Hash:
		if text(shown[0]) == text(shown[1]) || text(shown[0]) == text(behind[0]) || text(shown[1]) == text(behind[1]) {
			t.Errorf("hash of %s: %#v of %#v", c.typ, shown, behind)
		}
	case redact.Digits:
		for i := range 3 {
			if tens.ReplaceAllString(text(shown[i]), "n") != tens.ReplaceAllString(text(behind[i]), "n") {
				t.Errorf("digits of %s: %#v of %#v", c.typ, shown[i], behind[i])
			}
		}
	}
}

// decoded reads columns of a table, row by row, as a driver makes Go values of them.
func decoded(t *testing.T, conn *pgx.Conn, table string, columns []maskColumn, format int16) [][]any {
	t.Helper()
	var names []string
	for i := range columns {
		names = append(names, columns[i].name)
	}
	rows, err := conn.Query(t.Context(), "select "+strings.Join(names, ", ")+" from "+table+" order by id", pgx.QueryResultFormats{format})
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
	if err != nil || len(all) != 4 {
		t.Fatalf("%s in format %d: %d rows, %v", table, format, len(all), err)
	}
	return all
}
