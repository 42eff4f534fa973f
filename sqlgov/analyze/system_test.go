package analyze

import "testing"

func TestCallExtent(t *testing.T) {
	for text, want := range map[string][]string{
		"f(a, b)":                           {"a", "b"},
		"pg_catalog.f (a, (select b, c)) x": {"a", "(select b, c)"},
		`"F"('),(', x[1,2]) /* ) */`:        {"'),('", "x[1,2]"},
		"f() + 1":                           {},
		"f(distinct a)":                     nil,
		"f(a order by b)":                   nil,
		"f(a) filter (where b)":             nil,
		"f(a":                               nil,
		"f":                                 nil,
	} {
		_, args, ok := CallExtent(text, 0)
		if ok != (want != nil) || ok && len(args) != len(want) {
			t.Errorf("%s: %v %v", text, args, ok)
			continue
		}
		for i := range args {
			if got := text[args[i].Start:args[i].End]; ok && got != want[i] {
				t.Errorf("%s: argument %d is %q", text, i+1, got)
			}
		}
	}
}
