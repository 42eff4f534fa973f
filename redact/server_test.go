package redact_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"interlock/internal/pgtest"
	"interlock/redact"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var key = redact.DeriveKey([]byte("a secret of the tests"), "shop")

// specs are masks of every kind.
var specs = []redact.Spec{
	{Kind: redact.Null}, {Kind: redact.Partial, First: 2, Last: 1}, {Kind: redact.Email}, {Kind: redact.Email, Domain: true},
	{Kind: redact.Hash}, {Kind: redact.Digits, Last: 2},
	{Kind: redact.Date, Unit: "year"}, {Kind: redact.Date, Unit: "quarter"}, {Kind: redact.Date, Unit: "month"}, {Kind: redact.Date, Unit: "week"},
	{Kind: redact.Date, Unit: "day"}, {Kind: redact.Date, Unit: "hour"},
	{Kind: redact.Number, Step: "100"}, {Kind: redact.Number, Step: "0.25"}, {Kind: redact.Range, Bounds: []string{"-5", "0", "18", "65"}},
	{Kind: redact.JSON, Hide: []string{"$.a.b", "$.list[*].x", "$.gone"}}, {Kind: redact.JSON, Show: []string{"$.a.c", "$.list[*].y"}},
	{Kind: redact.Fixed, Value: "hidden"}, {Kind: redact.Fixed, Value: "0"}, {Kind: redact.Fixed, Value: "-1.50"}, {Kind: redact.Fixed, Value: "true"},
	{Kind: redact.Fixed, Value: "1970-01-01"}, {Kind: redact.Fixed, Value: "1970-01-01 00:00:00.5"}, {Kind: redact.Fixed, Value: "1970-01-01 00:00:00+01"},
	{Kind: redact.Fixed, Value: `{"hidden": true}`}, {Kind: redact.Fixed, Value: "00000000-0000-0000-0000-000000000000"}, {Kind: redact.Fixed, Value: `\x00ff`},
}

// samples are values of every built-in type that some mask of another kind than null fits.
var samples = map[string][]string{
	"boolean":                     {"true", "false"},
	"bytea":                       {`\x`, `\x00ff5c`, "abc"},
	"name":                        {"", "grüße", "a name"},
	"bigint":                      {"-9223372036854775808", "9223372036854775807", "0", "-150", "149"},
	"smallint":                    {"-32768", "32767", "-1"},
	"integer":                     {"-2147483648", "2147483647", "17", "18"},
	"text":                        {"", "ada@example.com", `back\slash "quoted" {braces}, NULL`, "NULL", "日本語の文字列", "4111 1111-1111 1111"},
	"character varying":           {"", "ada@example.com", "12"},
	"character":                   {"x", ""},
	"json":                        {`{"a" : {"b":1, "c":[2,{"b":3}]}, "list":[{"x":1,"y":2},{"y":"}\""}, 7], "\u0067one":true}`, `[]`, `"text"`, `{}`, `1e3`},
	"jsonb":                       {`{"a":{"b":1,"c":[2]},"list":[{"x":1,"y":2},{"y":"}\""},7],"gone":null}`, `[1, 2]`, `"text"`, `null`},
	"real":                        {"NaN", "Infinity", "-Infinity", "3.4028235e+38", "-1e-37", "149.5", "0"},
	"double precision":            {"NaN", "Infinity", "-Infinity", "1.7976931348623157e+308", "2.2250738585072014e-308", "-149.25", "0"},
	"numeric":                     {"NaN", "Infinity", "-Infinity", "0", "0.00", "123456789012345678901234567890.123456789", "-0.0001", "10000", "99999999.9999", "1e100", "1e-100"},
	"date":                        {"2026-08-31", "0001-01-01 BC", "4714-11-24 BC", "5874897-12-31", "infinity", "-infinity", "2000-01-01", "1999-12-31", "2024-02-29"},
	"timestamp without time zone": {"2026-08-31 23:59:59.999999", "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999", "infinity", "-infinity", "1999-12-31 12:00:00"},
	"timestamp with time zone":    {"2026-08-31 23:59:59.999999+02", "4714-11-25 00:00:00+00 BC", "294276-12-31 20:00:00+00", "infinity", "-infinity", "1850-01-01 00:00:00+00"},
	"uuid":                        {"123e4567-e89b-12d3-a456-426614174000"},
}

type builtin struct {
	oid, element uint32
	name         string
}

// builtins are the types of pg_catalog that a column can have.
func builtins(t *testing.T, conn *pgconn.PgConn) []builtin {
	t.Helper()
	r := conn.ExecParams(t.Context(), `select oid::int8, coalesce((select e.oid from pg_type e where e.typarray = pg_type.oid), 0)::int8, format_type(oid, null)
		from pg_type where typnamespace = 'pg_catalog'::regnamespace and typtype in ('b', 'r', 'm') and typname not like 'pg\_%' and typrelid = 0
		and (typelem = 0 or typcategory <> 'A' or not exists (select from pg_type e where e.oid = pg_type.typelem and e.typtype in ('p', 'c'))) order by 1`, nil, nil, nil, nil).Read()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	var all []builtin
	for _, row := range r.Rows {
		var b builtin
		if _, err := fmt.Sscan(string(row[0]), &b.oid); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(row[1]), &b.element); err != nil {
			t.Fatal(err)
		}
		b.name = string(row[2])
		all = append(all, b)
	}
	return all
}

// Whatever the mask, PostgreSQL takes the masked value for a value of the column's type, in both formats, and the two are
// the same value.
func TestMaskedValuesKeepTheirType(t *testing.T) {
	conn := connect(t)
	all := builtins(t, conn)
	names := map[uint32]string{}
	for _, b := range all {
		names[b.oid] = b.name
	}
	checked := 0
	for _, b := range all {
		typ, name := redact.Type{OID: b.oid, Name: b.name}, b.name
		if b.element != 0 {
			name = names[b.element]
			typ.Element = &redact.Type{OID: b.element, Name: name}
		}
		for _, spec := range specs {
			if spec.Kind == redact.Null {
				continue // NULL is a value of every type
			}
			if spec.Fits(typ) != nil {
				continue
			}
			if samples[name] == nil {
				t.Errorf("%v fits type %s, of which there is no sample", spec, name)
			}
			for _, sample := range samples[name] {
				checked++
				if b.element != 0 {
					sample = arrayOf(t, conn, sample, names[b.element])
				}
				keepsType(t, conn, &spec, typ, sample)
			}
		}
	}
	t.Logf("%d types, %d masked values", len(all), checked)
}

func connect(t *testing.T) *pgconn.PgConn {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), pgtest.Start(t).DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func arrayOf(t *testing.T, conn *pgconn.PgConn, value, element string) string {
	t.Helper()
	return string(ask(t, conn, fmt.Sprintf("select array[array[$1::%[1]s, null], array[$1::%[1]s, $1::%[1]s]]", element), []byte(value), 0, 0))
}

// ask runs a query with one parameter and returns the one value, in the given formats.
func ask(t *testing.T, conn *pgconn.PgConn, sql string, param []byte, in, out int16) []byte {
	t.Helper()
	r := conn.ExecParams(t.Context(), sql, [][]byte{param}, nil, []int16{in}, []int16{out}).Read()
	if r.Err != nil {
		t.Fatalf("%s with %q: %v", sql, param, r.Err)
	}
	return r.Rows[0][0]
}

func keepsType(t *testing.T, conn *pgconn.PgConn, spec *redact.Spec, typ redact.Type, sample string) {
	t.Helper()
	var read [2]string
	for _, f := range []int16{0, 1} {
		sent := ask(t, conn, "select $1::"+typ.Name, []byte(sample), 0, f)
		m, err := redact.Compile(spec, typ, redact.Format(f), key)
		if err != nil {
			t.Fatal(err)
		}
		masked, isNull, err := m.Append(nil, sent)
		if err != nil || isNull {
			t.Errorf("%v of %s %q in format %d: null %t, %v", spec, typ.Name, sample, f, isNull, err)
			return
		}
		r := conn.ExecParams(t.Context(), "select $1::"+typ.Name+"::text", [][]byte{masked}, nil, []int16{f}, nil).Read()
		if r.Err != nil {
			t.Errorf("%v of %s %q in format %d: PostgreSQL does not take %q: %v", spec, typ.Name, sample, f, masked, r.Err)
			return
		}
		read[f] = string(r.Rows[0][0])
	}
	if read[0] != read[1] {
		t.Errorf("%v of %s %q: %q in text format, %q in binary", spec, typ.Name, sample, read[0], read[1])
	}
}

// PostgreSQL itself says what the nearest date, multiple and range are.
func TestMasksAgreeWithPostgreSQL(t *testing.T) {
	conn := connect(t)
	for _, unit := range redact.Units {
		spec := redact.Spec{Kind: redact.Date, Unit: unit}
		for name, oid := range map[string]uint32{"date": 1082, "timestamp without time zone": 1114, "timestamp with time zone": 1184} {
			if spec.Fits(redact.Type{OID: oid}) != nil {
				continue
			}
			for _, sample := range samples[name] {
				if slices.Contains([]string{"4714-11-24 BC", "4714-11-24 00:00:00 BC", "4714-11-25 00:00:00+00 BC", "5874897-12-31"}, sample) {
					continue // PostgreSQL has no earlier year, and cuts dates as timestamps, which end sooner
				}
				ask(t, conn, "select set_config('TimeZone', $1, false)", []byte("UTC"), 0, 0)
				want := string(ask(t, conn, fmt.Sprintf("select date_trunc('%s', $1::%s)::%s", unit, name, name), []byte(sample), 0, 0))
				agrees(t, conn, &spec, redact.Type{OID: oid, Name: name}, sample, want)
			}
		}
	}
	for _, sample := range samples["numeric"] {
		want := string(ask(t, conn, "select case when $1::numeric in ('NaN', 'Infinity', '-Infinity') then $1::numeric else trunc($1::numeric / 0.25) * 0.25 end", []byte(sample), 0, 0))
		agrees(t, conn, &redact.Spec{Kind: redact.Number, Step: "0.25"}, redact.Type{OID: 1700, Name: "numeric"}, sample, want)
	}
}

func agrees(t *testing.T, conn *pgconn.PgConn, spec *redact.Spec, typ redact.Type, sample, want string) {
	t.Helper()
	m, err := redact.Compile(spec, typ, redact.TextFormat, key)
	if err != nil {
		t.Fatal(err)
	}
	masked, _, err := m.Append(nil, ask(t, conn, "select $1::"+typ.Name, []byte(sample), 0, 0))
	if err != nil {
		t.Fatalf("%v of %q: %v", spec, sample, err)
	}
	equal := ask(t, conn, fmt.Sprintf("select $1::%[1]s = '%[2]s'::%[1]s", typ.Name, want), masked, 0, 0)
	if string(equal) != "t" {
		t.Errorf("%v of %s %q is %q, PostgreSQL has %q", spec, typ.Name, sample, masked, want)
	}
}
