package analyze

import "testing"

func TestFingerprint(t *testing.T) {
	for _, tc := range []struct {
		one, other string
		same       bool
	}{
		{"select a from t where b = 1", "SELECT  a FROM t -- note\n WHERE b = 'x';", true},
		{"select a from t where b = 1", "select a from t where b = $1", true},
		{"select a from t where b in (1)", "select a from t where b in (1, 2, 'x')", true},
		{"insert into t values (1, 2)", "insert into t values (1, 2), (3, 4), (5, 6)", true},
		{"delete from t where false", "delete from t where true", true},
		{"select a from t", "select b from t", false},
		{`select "A" from t`, "select a from t", false},
		{`select "A" from t`, `select "a" from t`, false},
		{"select f(1)", "select f(1, (2))", false},
		{"select a, b", "select a", false},
		{"", "select", false},
	} {
		if same := fingerprint(tc.one) == fingerprint(tc.other); same != tc.same {
			t.Errorf("%s | %s: same %v", tc.one, tc.other, same)
		}
	}
}
