package analyze_test

import "testing"

// TestBuilt holds the size of the values that constants tell a function to make.
func TestBuilt(t *testing.T) {
	s := newServer(t)
	for _, tc := range []struct {
		sql  string
		want int64
	}{
		{"select repeat('ab', 1000)", 2000},
		{"select length(repeat(name, 1000)) from customers", 1000},
		{"select repeat(repeat('x', 10000), 10000)", 100_000_000},
		{"select repeat(repeat('x', 1000)::text || 'y', 50)", 1000},
		{"select 1 where lpad('x', 7000) = rpad('y', 9000, 'z')", 9000},
		{"select repeat(repeat(repeat('xxxxxxxxxx', 2000000000), 2000000000), 2000000000)", 1<<63 - 1},
		{"select repeat('x', -5), repeat('x', id), repeat('x', $1), left('x', 100000) from customers", 0},
		{"insert into notes (body) values (repeat('x', 300))", 300},
	} {
		facts, err := s.analyze(tc.sql)
		if err != nil {
			t.Errorf("%s: %v", tc.sql, err)
		} else if got := facts.Statements[0].Built; got != tc.want {
			t.Errorf("%s: %d, want %d", tc.sql, got, tc.want)
		}
	}
}
