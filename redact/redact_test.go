package redact_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"interlock/redact"
)

func mask(t *testing.T, spec redact.Spec, typ redact.Type, value string) string {
	t.Helper()
	m, err := redact.Compile(&spec, typ, redact.TextFormat, key)
	if err != nil {
		t.Fatal(err)
	}
	masked, isNull, err := m.Append(nil, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	if isNull {
		return "NULL"
	}
	return string(masked)
}

var text = redact.Type{OID: 25, Name: "text"}

// What a mask shows is written here by hand, from its documentation.
func TestMasks(t *testing.T) {
	varchar := redact.Type{OID: 1043, Name: "character varying", Length: 4}
	char := redact.Type{OID: 1042, Name: "character", Length: 8}
	json := redact.Type{OID: 114, Name: "json"}
	number := redact.Type{OID: 23, Name: "integer"}
	for _, tc := range []struct {
		spec        redact.Spec
		typ         redact.Type
		value, want string
	}{
		{redact.Spec{Kind: redact.Null}, text, "secret", "NULL"},
		{redact.Spec{Kind: redact.Fixed, Value: "hidden"}, text, "secret", "hidden"},
		{redact.Spec{Kind: redact.Partial, Last: 4}, text, "4111111111111111", "***1111"},
		{redact.Spec{Kind: redact.Partial, First: 1, Last: 1}, text, "grüß", "g***ß"},
		{redact.Spec{Kind: redact.Partial, First: 1, Last: 1}, text, "abc", "***"}, // less than half would be hidden
		{redact.Spec{Kind: redact.Partial, First: 1, Last: 1}, varchar, "abcdef", "a***"},
		{redact.Spec{Kind: redact.Partial, Last: 2}, char, "abcdef  ", "***ef   "},
		{redact.Spec{Kind: redact.Email}, text, "ada@example.com", "a***@***"},
		{redact.Spec{Kind: redact.Email, Domain: true}, text, "ada@example.com", "a***@example.com"},
		{redact.Spec{Kind: redact.Email, Domain: true}, text, "no address", "***"},
		{redact.Spec{Kind: redact.Email, Domain: true}, text, "@example.com", "***"},
		{redact.Spec{Kind: redact.Number, Step: "1000"}, number, "-91250", "-91000"},
		{redact.Spec{Kind: redact.Range, Bounds: []string{"0", "18", "65"}}, number, "17", "0"},
		{redact.Spec{Kind: redact.Range, Bounds: []string{"0", "18", "65"}}, number, "18", "18"},
		{redact.Spec{Kind: redact.Range, Bounds: []string{"0", "18", "65"}}, number, "-3", "0"},
		{redact.Spec{Kind: redact.JSON, Hide: []string{"$.a.b", "$.c[*].d"}}, json, `{"a": {"b":[1,{}], "x":2}, "c":[{"d":1,"e":2}, 3]}`, `{"a":{"b":null,"x":2},"c":[{"d":null,"e":2},3]}`},
		{redact.Spec{Kind: redact.JSON, Hide: []string{"$.token"}}, json, `{"\u0074oken":"x","token":"y"}`, `{"\u0074oken":null,"token":null}`},
		{redact.Spec{Kind: redact.JSON, Show: []string{"$.a.b", "$.c[*]"}}, json, `{"a": {"b":[1], "x":2}, "c":[{"d":1}], "z":{}}`, `{"a":{"b":[1]},"c":[{"d":1}]}`},
		{redact.Spec{Kind: redact.JSON, Show: []string{"$.a"}}, json, `"whole"`, `null`},
	} {
		if got := mask(t, tc.spec, tc.typ, tc.value); got != tc.want {
			t.Errorf("%v of %q is %q, want %q", tc.spec, tc.value, got, tc.want)
		}
	}
}

// Equal values stay equal and others become different, under one key; under another key all is different.
func TestKeyedMasks(t *testing.T) {
	for _, spec := range []redact.Spec{{Kind: redact.Hash}, {Kind: redact.Digits, Last: 4}} {
		a, b := mask(t, spec, text, "4111-1111-1111-1111"), mask(t, spec, text, "4111-1111-2111-1111")
		if a == b || a != mask(t, spec, text, "4111-1111-1111-1111") || strings.Contains(a, "4111-1111-") {
			t.Errorf("%v: %q and %q", spec, a, b)
		}
		other, err := redact.Compile(&spec, text, redact.TextFormat, redact.DeriveKey([]byte("a secret of the tests"), "hr"))
		if err != nil {
			t.Fatal(err)
		}
		if there, _, err := other.Append(nil, []byte("4111-1111-1111-1111")); err != nil || string(there) == a {
			t.Errorf("%v: the same value in another source is %q, %v", spec, there, err)
		}
	}
	if got := mask(t, redact.Spec{Kind: redact.Digits, Last: 4}, text, "4111-1111-1111-1234"); len(got) != 19 || got[4] != '-' || got[15:] != "1234" {
		t.Errorf("digits do not keep the form: %q", got)
	}
	whole := mask(t, redact.Spec{Kind: redact.Hash}, redact.Type{OID: 23}, "17")
	if m, err := redact.Compile(&redact.Spec{Kind: redact.Hash}, redact.Type{OID: 23}, redact.BinaryFormat, key); err != nil {
		t.Error(err)
	} else if b, _, err := m.Append(nil, []byte{0, 0, 0, 17}); err != nil || mask(t, redact.Spec{Kind: redact.Number, Step: "1"}, redact.Type{OID: 23}, whole) != whole ||
		int32(binary.BigEndian.Uint32(b)) < 0 {
		t.Errorf("hash of 17 is %s in text and %x in binary", whole, b)
	}
}

// The attack: a value that the mask cannot read is passed on as it is, or quoted in the error.
func TestUnreadableValuesAreErrors(t *testing.T) {
	for _, tc := range []struct {
		spec   redact.Spec
		oid    uint32
		format redact.Format
		value  string
	}{
		{redact.Spec{Kind: redact.Partial, Last: 1}, 25, 0, "secret\xff"},
		{redact.Spec{Kind: redact.Number, Step: "10"}, 23, 0, "secret"},
		{redact.Spec{Kind: redact.Number, Step: "10"}, 23, 1, "sec"},
		{redact.Spec{Kind: redact.Number, Step: "10"}, 1700, 1, "secret"},
		{redact.Spec{Kind: redact.Number, Step: "10"}, 1700, 0, "1e999999999"},
		{redact.Spec{Kind: redact.Number, Step: "10"}, 701, 1, "secret"},
		{redact.Spec{Kind: redact.Date, Unit: "year"}, 1082, 0, "31.08.2026"}, // DateStyle German
		{redact.Spec{Kind: redact.Date, Unit: "year"}, 1184, 0, "2026-08-31 12:00:00"},
		{redact.Spec{Kind: redact.Date, Unit: "year"}, 1114, 1, "secret"},
		{redact.Spec{Kind: redact.Hash}, 2950, 0, "secret"},
		{redact.Spec{Kind: redact.Hash}, 17, 0, `secret\`},
		{redact.Spec{Kind: redact.JSON, Hide: []string{"$.a"}}, 114, 0, `{"secret"`},
		{redact.Spec{Kind: redact.JSON, Hide: []string{"$.a"}}, 3802, 1, `{"secret":1}`},
	} {
		m, err := redact.Compile(&tc.spec, redact.Type{OID: tc.oid, Name: "t"}, tc.format, key)
		if err != nil {
			t.Fatal(err)
		}
		out, isNull, err := m.Append(nil, []byte(tc.value))
		if err == nil || isNull || strings.Contains(err.Error(), "sec") || bytes.Contains(out, []byte("secret")) {
			t.Errorf("%v of %q: %q, %v", tc.spec, tc.value, out, err)
		}
	}
	array := redact.Type{OID: 1009, Name: "text[]", Element: &text}
	for _, f := range []redact.Format{0, 1} {
		for _, value := range []string{"", "secret", "{secret", `{"secret`, `{"secret\`, "}", "\x00\x00\x00\x01secret", "\x00\x00\x00\xffsecretsecret"} {
			m, err := redact.Compile(&redact.Spec{Kind: redact.Partial, Last: 1}, array, f, key)
			if err != nil {
				t.Fatal(err)
			}
			if out, _, err := m.Append(nil, []byte(value)); err == nil {
				t.Errorf("%q in format %d is taken: %q", value, f, out)
			}
		}
	}
}

func TestMisfits(t *testing.T) {
	for _, tc := range []struct {
		spec redact.Spec
		typ  redact.Type
	}{
		{redact.Spec{Kind: redact.Partial, Last: 4}, redact.Type{OID: 23, Name: "integer"}},
		{redact.Spec{Kind: redact.Email}, redact.Type{OID: 3802, Name: "jsonb"}},
		{redact.Spec{Kind: redact.Date, Unit: "day"}, redact.Type{OID: 1082, Name: "date"}}, // it would hide nothing
		{redact.Spec{Kind: redact.Number, Step: "0.5"}, redact.Type{OID: 23, Name: "integer"}},
		{redact.Spec{Kind: redact.Number, Step: "10"}, text},
		{redact.Spec{Kind: redact.Range, Bounds: []string{"40000"}}, redact.Type{OID: 21, Name: "smallint"}},
		{redact.Spec{Kind: redact.Fixed, Value: "hidden"}, redact.Type{OID: 23, Name: "integer"}},
		{redact.Spec{Kind: redact.Fixed, Value: "hidden"}, redact.Type{OID: 1043, Name: "character varying", Length: 3}},
		{redact.Spec{Kind: redact.Fixed, Value: "{"}, redact.Type{OID: 3802, Name: "jsonb"}},
		{redact.Spec{Kind: redact.Fixed, Value: "1.1.1.1"}, redact.Type{OID: 869, Name: "inet"}},
		{redact.Spec{Kind: redact.Hash}, redact.Type{OID: 21, Name: "smallint"}},
		{redact.Spec{Kind: redact.Hash}, redact.Type{OID: 1043, Name: "character varying", Length: 8}},
		{redact.Spec{Kind: redact.JSON, Hide: []string{"$.a"}}, text},
		{redact.Spec{Kind: redact.Email}, redact.Type{OID: 1007, Name: "integer[]", Element: &redact.Type{OID: 23, Name: "integer"}}},
		{redact.Spec{Kind: redact.Partial}, text},
		{redact.Spec{Kind: redact.JSON, Hide: []string{"a"}}, redact.Type{OID: 114}},
		{redact.Spec{Kind: redact.JSON, Hide: []string{"$.a"}, Show: []string{"$.b"}}, redact.Type{OID: 114}},
		{redact.Spec{Kind: redact.Range, Bounds: []string{"2", "1"}}, redact.Type{OID: 23}},
		{redact.Spec{Kind: "rot13"}, text},
	} {
		if err := tc.spec.Fits(tc.typ); err == nil {
			t.Errorf("%v fits %s", tc.spec, tc.typ.Name)
		}
	}
	if err := (&redact.Spec{Kind: redact.Null}).Fits(redact.Type{OID: 600, Name: "point"}); err != nil {
		t.Error(err)
	}
}

// frame is a DataRow; nil is NULL.
func frame(values ...[]byte) []byte {
	body := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for _, v := range values {
		if v == nil {
			body = append(body, 0xFF, 0xFF, 0xFF, 0xFF)
			continue
		}
		body = append(binary.BigEndian.AppendUint32(body, uint32(len(v))), v...)
	}
	return append(binary.BigEndian.AppendUint32([]byte{'D'}, uint32(len(body)+4)), body...)
}

func TestDataRows(t *testing.T) {
	email, err := redact.Compile(&redact.Spec{Kind: redact.Email}, text, redact.BinaryFormat, nil)
	if err != nil {
		t.Fatal(err)
	}
	row := redact.NewRow([]*redact.Masker{nil, email, redact.Hidden})
	for _, tc := range []struct{ in, want []byte }{
		{frame([]byte("1"), []byte("ada@example.com"), []byte("secret")), frame([]byte("1"), []byte("a***@***"), nil)},
		{frame(nil, nil, nil), frame(nil, nil, nil)},
		{frame([]byte{}, []byte{}, []byte{}), frame([]byte{}, []byte("***"), nil)},
	} {
		got, err := row.AppendDataRow([]byte("before"), tc.in, nil)
		if err != nil || !bytes.Equal(got, append([]byte("before"), tc.want...)) {
			t.Errorf("%q is %q, %v; want %q", tc.in, got, err, tc.want)
		}
	}
	whole := frame([]byte("1"), []byte("ada@example.com"), []byte("secret"))
	for end := range whole {
		if _, err := row.AppendDataRow(nil, whole[:end], nil); err == nil {
			t.Errorf("a row of %d bytes of %d is taken", end, len(whole))
		}
	}
	for _, bad := range [][]byte{frame([]byte("1"), []byte("x")), append(whole, 0), frame([]byte("1"), []byte("\xff"), nil)} {
		if _, err := row.AppendDataRow(nil, bad, nil); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestPlaceholders(t *testing.T) {
	for _, tc := range []struct {
		spec redact.Spec
		yes  []string
		no   []string
	}{
		{redact.Spec{Kind: redact.Fixed, Value: "hidden"}, []string{"hidden"}, []string{"", "hidden one"}},
		{redact.Spec{Kind: redact.Partial, First: 1, Last: 1}, []string{"***", "a***z"}, []string{"", "a**z", "ab***yz", "five*"}},
		{redact.Spec{Kind: redact.Email}, []string{"***", "a***@***"}, []string{"ada@example.com", "a***@example.com", "@", ""}},
		{redact.Spec{Kind: redact.Email, Domain: true}, []string{"ö***@example.com"}, []string{"a@example.com"}},
		{redact.Spec{Kind: redact.Null}, nil, []string{"", "NULL"}},
	} {
		for _, s := range tc.yes {
			if !tc.spec.Placeholder(s) {
				t.Errorf("%v does not know its own %q", tc.spec, s)
			}
		}
		for _, s := range tc.no {
			if tc.spec.Placeholder(s) {
				t.Errorf("%v claims %q", tc.spec, s)
			}
		}
	}
}

// The attack: a value that a mask cannot read is passed on. Of every mask, for every type that it fits and in both formats, it
// is an error, or nothing of it is left, and the row has nothing behind it.
func TestNoMaskPassesOnWhatItCannotRead(t *testing.T) {
	oids := map[string]uint32{"boolean": 16, "bytea": 17, "name": 19, "bigint": 20, "smallint": 21, "integer": 23, "text": 25, "json": 114, "real": 700, "double precision": 701,
		"character": 1042, "character varying": 1043, "date": 1082, "timestamp without time zone": 1114, "timestamp with time zone": 1184, "numeric": 1700, "uuid": 2950, "jsonb": 3802}
	checked, failed := 0, 0
	for name := range samples {
		for _, spec := range specs {
			for _, typ := range []redact.Type{{OID: oids[name], Name: name}, {OID: 1, Name: name + "[]", Element: &redact.Type{OID: oids[name], Name: name}}} {
				if spec.Fits(typ) != nil {
					continue
				}
				for _, f := range []redact.Format{0, 1} {
					m, err := redact.Compile(&spec, typ, f, key)
					if err != nil {
						t.Fatal(err)
					}
					checked++
					out, err := redact.NewRow([]*redact.Masker{m}).AppendDataRow(nil, dataRow("\xff\xfe garbage \x00"), nil)
					if err != nil {
						failed++
					} else if bytes.Contains(out, []byte("garbage")) {
						t.Errorf("%v of %s in format %d: %q", spec, typ.Name, f, out)
					}
				}
			}
		}
	}
	if checked < 200 || failed < checked/2 {
		t.Errorf("%d masks, of which %d fail", checked, failed)
	}
}
