package sqlgov_test

import (
	"fmt"
	"testing"
)

// The attacks: two statements show nothing of a masked value, but end differently by what it is: by how many rows there are, or by an
// error. The server tells; the gateway refuses both.
func TestMaskedValuesAreNotToldByHowStatementsEnd(t *testing.T) {
	g := startMasked(t)
	oid := func(string) uint32 { return 0 }
	ends := func(d door, sql string) string {
		r := oneStep(t, d, step{Q: sql}).replies[0]
		return fmt.Sprint(r.state, r.tags)
	}
	for _, pair := range [][2]string{
		// which addresses exist, many at once and without an error
		{"insert into people(id, email) values (77, 'ada@raw.test'), (78, 'x@raw.test') on conflict do nothing", "insert into people(id, email) values (87, 'y@raw.test'), (88, 'z@raw.test') on conflict do nothing"},
		// a key of JSON that is NULL, and an odd number of elements, are errors
		{"select json_build_object(phone, 1) from people where id = 1", "select json_build_object(phone, 1) from people where id = 2"},
		{"select jsonb_build_object(variadic nick) from people where id = 1", "select jsonb_build_object(variadic nick || 'x'::text) from people where id = 1"},
		// arrays that do not fit each other are one
		{"select array[nick, array['x']] from people where id = 1", "select array[nick, array['x', 'y']] from people where id = 1"},
	} {
		server := &wire{dsn: g.Upstream, oid: oid}
		if a, b := ends(server, pair[0]), ends(server, pair[1]); a == b {
			t.Errorf("the server tells nothing: %s for both of %q", a, pair)
		}
		for _, d := range maskedDoors(g) {
			for _, sql := range pair {
				tr := oneStep(t, d.door, step{Q: sql})
				if r := tr.replies[0]; r.state != "42501" {
					t.Errorf("%s at %s: %q %s %v", sql, d.name, r.state, r.message, r.rows)
				}
				hearsNothingRaw(t, d.name, sql, tr)
			}
		}
	}
	for _, d := range maskedDoors(g) { // what tells nothing goes on
		for _, sql := range []string{"insert into notes values ('x') on conflict do nothing", "insert into people(id, note) values (1, 'x') on conflict (id) do nothing",
			"select json_build_object('id', id, 'phone', phone) from people"} {
			if r := oneStep(t, d.door, step{Q: sql}).replies[0]; r.state != "" {
				t.Errorf("%s at %s: %s %s", sql, d.name, r.state, r.message)
			}
		}
	}
}
