package sqlgov_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"interlock/audit"
)

// COPY gives what SELECT does, in every form. The server itself gives the values.
func TestMasksInCopy(t *testing.T) {
	g := startMasked(t)
	conn, server := connectTo(t, g.DSN("ana", "gov")), connectTo(t, g.Upstream)
	for _, tc := range []struct{ sql, want string }{
		{"copy (select id, email, phone, salary, born from people where id < 3 order by id) to stdout",
			"1\ta***@***\t***1234\t12000.00\t1985-01-01\n2\tb***@***\t\\N\t0\t1990-01-01\n"},
		{"copy (select id, email as e, length(email) as n from people where id = 1) to stdout (format csv, header, force_quote *)",
			"id,e,n\n\"1\",\"a***@***\",\n"},
		{"copy people (email, id) to stdout (format csv, null 'x')", "a***@***,1\nb***@***,2\n"},
		{"copy (insert into people(id, email) values (9, 'new@raw.test') returning email) to stdout", "n***@***\n"},
		{"copy (delete from people where id = 9 returning id, email) to stdout with csv", "9,n***@***\n"},
		{"copy (select born, email from people where id = 1) to stdout (format binary)",
			"PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x04\xff\xff\xea\x9a\x00\x00\x00\x08a***@***\xff\xff"},
		{"copy (select address from contacts where id = 1) to stdout", "a***@***\n"},
		{"copy (select domain from endorsed where id = 1) to stdout", "raw.test\n"},
	} {
		var out bytes.Buffer
		if _, err := conn.CopyTo(t.Context(), &out, tc.sql); err != nil || out.String() != tc.want {
			t.Errorf("%s: %q, %v", tc.sql, out.String(), err)
		}
		if strings.Contains(tc.sql, "people") && !strings.Contains(tc.sql, "9") {
			out.Reset()
			if _, err := server.CopyTo(t.Context(), &out, tc.sql); err != nil || !strings.Contains(out.String(), "ada@raw.test") {
				t.Errorf("the server gives %q, %v", out.String(), err)
			}
		}
	}
	masks := fmt.Sprintf("%+v", lastStatement(g).Outcome.Masks)
	var out bytes.Buffer
	if _, err := conn.CopyTo(t.Context(), &out, "copy people (name, email) to stdout (format csv)"); err != nil {
		t.Error(err)
	}
	if masks != "[]" || !strings.Contains(fmt.Sprintf("%+v", lastStatement(g).Outcome.Masks), "{Mask:email Columns:[public.people.email] Values:2}") {
		t.Errorf("on record: %s, then %+v", masks, lastStatement(g).Outcome.Masks)
	}
}

// The attacks: a value is found out by a NULL string that looks like it; the data of a COPY is passed on although its mask
// has failed, or has no key.
func TestCopyThatCannotBeMasked(t *testing.T) {
	g := startMasked(t)
	conn := connectTo(t, g.DSN("ana", "gov"))
	for _, tc := range []struct{ before, sql, state string }{
		{"", "copy (select id, email from people) to stdout (null 'ada@raw.test')", "42501"},
		{"", "copy (select id, salary from people) to stdout (null 12345.67)", "42501"},
		{"", "copy (select id, salary from people) to stdout (null '12345.67', delimiter '|')", "42501"},
		{"", "copy (select id from people where email = 'ada@raw.test') to stdout", "42501"},
		{"", "copy people to stdout (null 'x', null 'y')", "42501"},
		{"", "copy people to stdout (format 'xml')", "42501"},
		{"", "copy (select id, email from people) to stdout (null true)", "42501"},
		{"", "copy (select nokey from people) to stdout", "XX000"},
		{"set datestyle = 'German'", "copy (select id, born from people where id = 1) to stdout", "XX000"},
		{"set datestyle = 'German'", "copy people to stdout (format csv)", "XX000"},
	} {
		if _, err := conn.Exec(t.Context(), tc.before).ReadAll(); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		_, err := conn.CopyTo(t.Context(), &out, tc.sql)
		if stateOf(err) != tc.state || out.Len() > 0 {
			t.Errorf("%s: %q, %v", tc.sql, out.String(), err)
		}
		if last := lastStatement(g); last.Status != audit.Refused {
			t.Errorf("%s: %s on record", tc.sql, last.Status)
		}
	}
	if _, err := conn.Exec(t.Context(), "select 1").ReadAll(); err != nil {
		t.Error(err)
	}
}

// A cursor shows what its query would, in each of its pieces and in the format that it is declared with.
func TestMasksInCursors(t *testing.T) {
	g := startMasked(t)
	for _, extended := range []bool{false, true} {
		w := &wire{dsn: g.DSN("ana", "gov"), extended: extended, oid: func(string) uint32 { return 0 }}
		for _, tc := range []struct{ sql, state, want string }{
			{"begin", "", "[]"},
			{"declare c scroll cursor for select id, email, born from people where id < 3 order by id", "", "[]"},
			{"fetch c", "", "[[1 a***@*** 1985-01-01]]"},
			{"fetch all from c", "", "[[2 b***@*** 1990-01-01]]"},
			{"fetch first from c", "", "[[1 a***@*** 1985-01-01]]"},
			{"move absolute 1 in c", "", "[]"},
			{"fetch c", "", "[[2 b***@*** 1990-01-01]]"},
			{"explain (costs off) select email from people where id = 1", "", "[[Append] [  ->  Seq Scan on people people_1]"},
			{"declare d cursor for select id from people order by email", "42501", "[]"},
			{"rollback", "", "[]"},
		} {
			got := w.run(t.Context(), step{Q: tc.sql})
			if got.state != tc.state || !strings.Contains(fmt.Sprint(got.rows), strings.TrimSuffix(tc.want, "]")) {
				t.Errorf("extended %t: %s: %q %s %v", extended, tc.sql, got.state, got.message, got.rows)
			}
		}
		hearsNothingRaw(t, "cursors", "", w.close())
	}
	conn := connectTo(t, g.DSN("ana", "gov"))
	results, err := conn.Exec(t.Context(), "begin; declare b binary cursor for select born, email from people where id = 1; fetch b; commit").ReadAll()
	if err != nil || len(results) < 3 || !slices.EqualFunc(results[2].Rows[0], [][]byte{{0xff, 0xff, 0xea, 0x9a}, []byte("a***@***")}, bytes.Equal) {
		t.Errorf("a binary cursor gives %q, %v", results[2].Rows, err)
	}
}
