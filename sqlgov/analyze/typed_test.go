package analyze

import (
	"strings"
	"testing"
)

func TestTyped(t *testing.T) {
	const sql = `SELECT c."Weird ""Name", SSN, c . name, 'email' AS "select" -- phone
		FROM Crm.Customers /* fax */ c WHERE ` + "longer_than_the_sixty_three_bytes_that_postgresql_keeps_of_a_name_x = 1"
	typed := Typed(sql)
	for _, tc := range []struct {
		name string
		want bool
	}{
		{"ssn", true}, {"SSN", false}, {`Weird "Name`, true}, {"name", true}, {"c.name", true},
		{"crm.customers", true}, {"customers", true}, {"customers.c", false}, {"customers.name", false},
		{"email", false}, {"phone", false}, {"fax", false}, {"select", true}, {"", false}, {" ", false}, {".ssn", false}, {".name", true},
		{"longer_than_the_sixty_three_bytes_that_postgresql_keeps_of_a_na", true},
	} {
		if got := typed(strings.Split(tc.name, ".")...); got != tc.want {
			t.Errorf("typed(%q) = %v, want %v", tc.name, got, tc.want)
		}
	}
	if typed() {
		t.Error("no name at all counts as typed")
	}
}
