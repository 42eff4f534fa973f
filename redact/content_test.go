package redact_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"interlock/redact"
)

func detector(t *testing.T, report bool, typ redact.Type, f redact.Format) *redact.Masker {
	t.Helper()
	return redact.Detector(redact.Contents[:], report, typ, f)
}

// pem is made up, in parts so that no scanner of repositories takes this file for one with a key.
const pem = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\n-----END RSA " + "PRIVATE KEY-----"

// What is found, and what only looks like it. Numbers are the examples of their specifications or have check digits by them:
// cards of the test sets of payment networks, IBANs of the registry of ISO 13616, SSNs of the Social Security Administration's
// own publications.
func TestContentIsFound(t *testing.T) {
	m := detector(t, false, text, redact.TextFormat)
	for in, want := range map[string]string{
		"": "", "nothing at all": "nothing at all", "a@b": "a@b", "@home, x @ y.z": "@home, x @ y.z",
		"Write to ada.l+x@mail.example.com, please.": "Write to [email], please.",
		"ada@example.com;bob@example.org":            "[email];[email]",
		"\u00fcn\u00efcode@b\u00fccher.example":      "[email]",
		"call +49 (170) 555-1234 now":                "call [phone] now",
		"(555) 234-5678 or 555-234-5678":             "[phone] or [phone]",
		"order 555-234-56789":                        "order 555-234-56789",
		"078-05-1120":                                "[ssn]", "000-05-1120, 666-05-1120, 078-00-1120": "000-05-1120, 666-05-1120, 078-00-1120",
		"529.982.247-25, 529.982.247-26": "[national], 529.982.247-26",
		"12345678Z 12345678A":            "[national] 12345678A", "X1234567L": "[national]",
		"1 85 05 78 006 084 91, 185057800608492": "[national], 185057800608492",
		"GB82 WEST 1234 5698 7654 32!":           "[iban]!", "DE89370400440532013000": "[iban]", "DE89370400440532013001": "DE89370400440532013001",
		"4111 1111 1111 1111, 4111-1111-1111-1111, 378282246310005": "[card], [card], [card]",
		"4111111111111112":                                             "4111111111111112",
		"from 192.168.0.1 to 256.1.1.1":                                "from [ip] to 256.1.1.1",
		"2001:db8::8a2e:370:7334 at 12:34:56":                          "[ip] at 12:34:56",
		"std::vector and a::b":                                         "std::vector and a::b",
		"Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl": "Bearer [jwt]",
		"eyJhbGciOiJIUzI1NiJ9":                                         "eyJhbGciOiJIUzI1NiJ9",
		"x" + pem + "y":                                                "x[private_key]y",
		pem[:40]:                                                       "[private_key]",
		"gh" + "p_" + strings.Repeat("a1", 18):                         "[api_token]",
		"AK" + "IAIOSFODNN7EXAMPLE":                                    "[api_token]",
		"ask-me-about-the-weather-of-tomorrow":                         "ask-me-about-the-weather-of-tomorrow",
		"2026-11-30 10:15:42.123456+00":                                "2026-11-30 10:15:42.123456+00",
		"version 1.2.3, id 123456789":                                  "version 1.2.3, id 123456789",
	} {
		got, isNull, err := m.Append([]byte("before "), []byte(in))
		if string(got) != "before "+want || isNull || err != nil {
			t.Errorf("%q: %q, %t, %v, want %q", in, got, isNull, err, want)
		}
	}
}

// Types keep their form, in both formats; of what has no text nothing is looked at.
func TestContentInTypes(t *testing.T) {
	array := redact.Type{OID: 1009, Name: "text[]", Element: &text}
	jsonb := redact.Type{OID: 3802, Name: "jsonb"}
	elements := func(values ...string) string {
		b := []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 25, 0, 0, 0, byte(len(values)), 0, 0, 0, 1}
		for _, v := range values {
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...)
		}
		return string(b)
	}
	for _, tc := range []struct {
		typ      redact.Type
		format   redact.Format
		in, want string
	}{
		{redact.Type{OID: 1043, Name: "varchar", Length: 9}, 0, "ab a@b.co", "ab [email"},
		{redact.Type{OID: 1042, Name: "char", Length: 9}, 1, "a@b.co   ", "[email]  "},
		{array, 0, "{a,NULL,a@b.co}", `{a,NULL,[email]}`},
		{array, 0, "{a,NULL}", "{a,NULL}"},
		{array, 1, elements("a", "a@b.co"), elements("a", "[email]")},
		{jsonb, 0, `{"to": "a@b.co", "n": [4111111111111111, -1.5e3, true], "b@c.de": "x\\u0040y"}`, `{"to": "[email]", "n": ["[card]", -1.5e3, true], "[email]": "x\\u0040y"}`},
		{jsonb, 1, "\x01" + `["\u0061\u0040b.co", "\n"]`, "\x01" + `["[email]", "\n"]`},
		{redact.Type{OID: 2249, Name: "record"}, 0, `(1,"a@b.co")`, `(1,"[email]")`},
	} {
		m := detector(t, false, tc.typ, tc.format)
		got, isNull, err := m.Append(nil, []byte(tc.in))
		if string(got) != tc.want || isNull || err != nil {
			t.Errorf("%s %q: %q, %t, %v, want %q", tc.typ.Name, tc.in, got, isNull, err, tc.want)
		}
		reported, _, err := detector(t, true, tc.typ, tc.format).Append(nil, []byte(tc.in))
		if string(reported) != tc.in || err != nil {
			t.Errorf("%s %q is reported as %q, %v", tc.typ.Name, tc.in, reported, err)
		}
	}
	if detector(t, false, redact.Type{OID: 23, Name: "integer"}, 0) != nil || detector(t, false, redact.Type{OID: 99999, Plain: true}, 1) != nil {
		t.Error("numbers are looked at")
	}
	if detector(t, false, redact.Type{OID: 2249, Name: "record"}, 1) != redact.Hidden {
		t.Error("a record in binary format is not hidden")
	}
}

// The attack: a value that cannot be looked through is passed on. It ends the row, whether content is masked or only counted.
func TestContentThatCannotBeRead(t *testing.T) {
	json, jsonb := redact.Type{OID: 114, Name: "json"}, redact.Type{OID: 3802, Name: "jsonb"}
	for _, tc := range []struct {
		typ    redact.Type
		format redact.Format
		in     string
	}{
		{json, 0, `{"a": "a@b.co"`}, {json, 1, "a@b.co"}, {jsonb, 0, "a@b.co"}, {jsonb, 0, ""}, {jsonb, 1, `{"a": "a@b.co"}`}, {jsonb, 1, ""}, {jsonb, 1, "\x01a@b.co"},
		{redact.Type{OID: 1009, Name: "text[]", Element: &text}, 0, "{a@b.co"}, {redact.Type{OID: 1009, Name: "text[]", Element: &text}, 1, "a@b.co"},
		{redact.Type{OID: 3807, Name: "jsonb[]", Element: &jsonb}, 0, "{a@b.co}"},
	} {
		for _, report := range []bool{false, true} {
			row := redact.NewRow([]*redact.Masker{detector(t, report, tc.typ, tc.format)})
			if out, err := row.AppendDataRow(nil, dataRow(tc.in), &redact.Found{}); err == nil {
				t.Errorf("%s %q in format %d, reported %t, is passed on: %q", tc.typ.Name, tc.in, tc.format, report, out)
			}
			if err := row.Values([][]byte{[]byte(tc.in)}, &redact.Found{}); err == nil {
				t.Errorf("%s %q in format %d, reported %t, is passed on as a value", tc.typ.Name, tc.in, tc.format, report)
			}
		}
	}
}

const prose = "The quick brown fox jumps over the lazy dog at 12:30 on 2026-11-30; order 1048 of 17 items (ref. A-77) was sent.\n"

// A text without content costs no memory, and a hostile one no more time than it is long.
func TestContentCostsLittle(t *testing.T) {
	var found redact.Found
	row := redact.NewRow([]*redact.Masker{detector(t, false, text, 0)})
	frame := dataRow(strings.Repeat(prose, 10))
	dst := make([]byte, 0, 2*len(frame))
	if n := testing.AllocsPerRun(100, func() {
		if _, err := row.AppendDataRow(dst, frame, &found); err != nil {
			t.Fatal(err)
		}
	}); n != 0 || found != (redact.Found{}) {
		t.Errorf("%f allocations, found %v", n, found)
	}
	const size = 1 << 20
	for _, hostile := range []string{"eyJ-", "eyJaaaaaaaaaaaa.", "-----BEGIN ", "a@", "1-", "1.1.1.", ":", "1:", "sk-", "DE89 ", "+1 ", "(1)", "-----BEGIN X PRIVATE KEY"} {
		value := strings.Repeat(hostile, size/len(hostile))
		if out, _, err := detector(t, false, text, 0).Append(nil, []byte(value)); err != nil || len(out) > 8*size {
			t.Errorf("%q: %d bytes, %v", hostile, len(out), err)
		}
	}
}

func dataRow(value string) []byte {
	b := append([]byte{'D', 0, 0, 0, 0, 0, 1}, binary.BigEndian.AppendUint32(nil, uint32(len(value)))...)
	b = append(b, value...)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-1))
	return b
}

// Whatever is around it, an address does not come through, and what is valid stays so.
func FuzzContent(f *testing.F) {
	f.Add("a", "b", true)
	f.Add(`{"x":`, "}", false)
	f.Fuzz(func(t *testing.T, before, after string, report bool) {
		in := []byte(before + " ada@example.com " + after)
		out, _, err := detector(t, report, text, 0).Append(nil, in)
		if err != nil || !report && bytes.Contains(out, []byte("ada@example.com")) && !strings.Contains(before, "PRIVATE") {
			t.Fatalf("%q, %v", out, err)
		}
		if utf8.Valid(in) && !utf8.Valid(out) {
			t.Fatalf("%q is not UTF-8 any more: %q", in, out)
		}
		quoted, _ := json.Marshal(string(in))
		if out, _, err = detector(t, report, redact.Type{OID: 114, Name: "json"}, 0).Append(nil, quoted); err != nil || !json.Valid(out) {
			t.Fatalf("%q, %v", out, err)
		}
	})
}

func BenchmarkContent(b *testing.B) {
	m := redact.Detector(redact.Contents[:], false, text, 0)
	value := []byte(strings.Repeat(prose, 1<<20/len(prose)))
	dst := make([]byte, 0, 2<<20)
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		if _, _, err := m.Append(dst, value); err != nil {
			b.Fatal(err)
		}
	}
}
