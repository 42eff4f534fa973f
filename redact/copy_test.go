package redact_test

import (
	"bytes"
	"strings"
	"testing"

	"interlock/redact"
)

const awkward = `a,b"c` + "\n" + `d` + "\t" + `e\f|;'` + "\r\v\b\x01~ü"

// PostgreSQL itself writes what has been masked by SQL; the same comes out of the data of what has not been, whatever the
// form, and wherever the data is cut.
func TestCopyIsMaskedInEveryForm(t *testing.T) {
	conn := connect(t)
	run := func(sql string) []byte {
		var out bytes.Buffer
		if _, err := conn.CopyTo(t.Context(), &out, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return out.Bytes()
	}
	if _, err := conn.Exec(t.Context(), `create temp table c (id int, "odd
""name" text, secret text, amount int);
		insert into c values (1, 'plain', 'secret', 1234), (2, null, null, null), (3, '', '', -5), (4, E'\\.', E'\\.', 0), (5, E'\\N', E'\\N', 999),
		(6, `+literal(awkward)+`, `+literal(awkward)+`, 1000), (7, '"', '"', 1), (8, 'NULL', 'NULL', 1), (9, E'a\nb', E'line 1\nline 2\n', 7)`).ReadAll(); err != nil {
		t.Fatal(err)
	}
	maskers := func(f redact.Format, fixed string) *redact.Row {
		number, err := redact.Compile(&redact.Spec{Kind: redact.Number, Step: "100"}, redact.Type{OID: 23, Name: "integer"}, f, nil)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := redact.Compile(&redact.Spec{Kind: redact.Fixed, Value: fixed}, text, f, nil)
		if err != nil {
			t.Fatal(err)
		}
		return redact.NewRow([]*redact.Masker{nil, nil, whole, number, redact.Hidden})
	}
	plain := redact.CopyForm{Delimiter: '\t', Null: `\N`}
	csv := redact.CopyForm{CSV: true, Delimiter: ',', Quote: '"', Escape: '"'}
	for options, form := range map[string]redact.CopyForm{
		"":                               plain,
		"(delimiter '|', header)":        {Delimiter: '|', Null: `\N`, Header: true},
		"(delimiter E'\\x01')":           {Delimiter: 1, Null: `\N`},
		"(null '\\~')":                   {Delimiter: '\t', Null: `\~`},
		"(format csv)":                   csv,
		"(format csv, header, null 'a')": {CSV: true, Delimiter: ',', Quote: '"', Escape: '"', Header: true, Null: "a"},
		"(format csv, escape '\\')":      {CSV: true, Delimiter: ',', Quote: '"', Escape: '\\'},
		"(format csv, quote '''', delimiter E'\\t', escape '~')":             {CSV: true, Delimiter: '\t', Quote: '\'', Escape: '~'},
		"(format csv, quote '|', null 'NULL', force_quote (secret, amount))": {CSV: true, Delimiter: ',', Quote: '|', Escape: '|', Null: "NULL", Quoted: []bool{false, false, true, true, false}},
		"(format csv, force_quote *)":                                        {CSV: true, Delimiter: ',', Quote: '"', Escape: '"', Quoted: []bool{true, true, true, true, true}},
		"(format binary)":                                                    {Binary: true},
	} {
		for _, fixed := range []string{"***", "", `\.`, `\N`, "NULL", "a", awkward} {
			f := redact.TextFormat
			if form.Binary {
				f = redact.BinaryFormat
			}
			want := run(`copy (select id, "odd
""name", case when secret is null then null else ` + literal(fixed) + ` end as secret, amount / 100 * 100 as amount, null::int as last from c order by id) to stdout ` + options)
			raw := run(`copy (select *, id as last from c order by id) to stdout ` + options)
			c, err := maskers(f, fixed).Copy(form)
			if err != nil {
				t.Fatalf("%s: %v", options, err)
			}
			for _, size := range []int{1, 7, 100, len(raw)} {
				if got := masked(t, c, raw, size); !bytes.Equal(got, want) {
					t.Errorf("%s with %q, %d bytes at a time:\n%q, PostgreSQL has\n%q", options, fixed, size, got, want)
					break
				}
			}
		}
	}
}

func literal(s string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

func masked(t *testing.T, c *redact.Copy, raw []byte, size int) []byte {
	t.Helper()
	s := c.Stream(&redact.Found{})
	var out []byte
	rows := int64(0)
	for len(raw) > 0 {
		piece := raw[:min(size, len(raw))]
		var n int64
		var err error
		if out, n, err = s.Append(out, piece); err != nil {
			t.Fatal(err)
		}
		rows += n
		raw = raw[len(piece):]
	}
	if err := s.End(); err != nil || rows != 9 {
		t.Errorf("%d rows, %v", rows, err)
	}
	return out
}

// The attack: data that is not what was announced is passed on for want of understanding.
func TestCopyThatMakesNoSenseIsWithheld(t *testing.T) {
	row := redact.NewRow([]*redact.Masker{nil, redact.Hidden})
	binary := redact.CopyForm{Binary: true}
	head := "PGCOPY\n\xff\r\n\x00" + strings.Repeat("\x00", 8)
	for _, tc := range []struct {
		form redact.CopyForm
		data string
	}{
		{redact.CopyForm{Delimiter: '\t', Null: `\N`}, "raw\n"},
		{redact.CopyForm{Delimiter: '\t', Null: `\N`}, "1\traw\traw\n"},
		{redact.CopyForm{Delimiter: '\t', Null: `\N`}, "1\traw\\\n"},
		{redact.CopyForm{Delimiter: '\t', Null: `\N`}, "1\traw"},
		{redact.CopyForm{CSV: true, Delimiter: ',', Quote: '"', Escape: '"'}, "1,\"raw\n"},
		{redact.CopyForm{CSV: true, Delimiter: ',', Quote: '"', Escape: '"'}, "1,\"raw\"x\n"},
		{binary, "raw"},
		{binary, strings.Repeat("raw", 20)},
		{binary, head},
		{binary, head + "\x00\x01\x00\x00\x00\x03raw"},
		{binary, head + "\x00\x02\x00\x00\x00\x03raw\xff\xff\xff\xfe"},
		{binary, head + "\x00\x02\x00\x00\x00\x03raw"},
		{binary, head + "\xff\xffraw"},
		{binary, head[:15] + "\x01" + head[16:] + "\xff\xff"},
	} {
		c, err := row.Copy(tc.form)
		if err != nil {
			t.Fatal(err)
		}
		s := c.Stream(&redact.Found{})
		out, _, err := s.Append(nil, []byte(tc.data))
		if err == nil {
			err = s.End()
		}
		if err == nil || bytes.Contains(out, []byte("raw")) {
			t.Errorf("%q: %q, %v", tc.data, out, err)
		}
	}
}

// The attack: COPY ... (NULL 'ada@example.com') shows the mask in every row but in the one with that value.
func TestFormsThatDoNotTellNull(t *testing.T) {
	for null, tells := range map[string]bool{`\N`: true, `\x`: true, `a\`: true, "": false, "ada@example.com": false, `\\`: false, `\n`: false, `a\|b`: false} {
		form := redact.CopyForm{Delimiter: '|', Null: null}
		if form.TellsNull() != tells {
			t.Errorf("%q: %t", null, !tells)
		}
		if _, err := redact.NewRow(nil).Copy(form); (err == nil) != tells {
			t.Errorf("%q: %v", null, err)
		}
		form.CSV = true
		if !form.TellsNull() {
			t.Errorf("%q in CSV", null)
		}
	}
}
