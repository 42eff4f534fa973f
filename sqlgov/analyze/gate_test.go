package analyze

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"interlock/catalog"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// towers are texts that nest n deep, each in a way of its own.
var towers = map[string]func(n int) string{
	"sum":            func(n int) string { return "SELECT 1" + strings.Repeat("+1", n) },
	"minus signs":    func(n int) string { return "SELECT " + strings.Repeat("- ", n) + "1" },
	"plus and minus": func(n int) string { return "SELECT " + strings.Repeat("+-", n/2) + "1" },
	"concatenation":  func(n int) string { return "SELECT 'a'" + strings.Repeat("||'a'", n) },
	"json arrows":    func(n int) string { return "SELECT j" + strings.Repeat("->'a'", n) },
	"custom":         func(n int) string { return "SELECT 1" + strings.Repeat(" @#@ 1", n) },
	"operator()":     func(n int) string { return "SELECT 1" + strings.Repeat(" OPERATOR(pg_catalog.+) 1", n) },
	"union":          func(n int) string { return "SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", n) },
	"union columns":  func(n int) string { return "SELECT 1, 2" + strings.Repeat(" UNION SELECT a, b AND c", n) },
	"except":         func(n int) string { return "SELECT 1" + strings.Repeat(" EXCEPT SELECT 1", n) },
	"intersect":      func(n int) string { return "VALUES (1)" + strings.Repeat(" INTERSECT VALUES (1)", n) },
	"parentheses":    func(n int) string { return "SELECT " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n) },
	"left brackets": func(n int) string {
		return "SELECT " + strings.Repeat("(", n/4) + "1" + strings.Repeat("+1+1+1)", n/4)
	},
	"not":  func(n int) string { return "SELECT " + strings.Repeat("NOT ", n) + "true" },
	"cast": func(n int) string { return "SELECT 1" + strings.Repeat("::int", n) },
	"cast()": func(n int) string {
		return "SELECT " + strings.Repeat("CAST(", n) + "1" + strings.Repeat(" AS int)", n)
	},
	"subscripts":  func(n int) string { return "SELECT a" + strings.Repeat("[1]", n) },
	"subscripted": func(n int) string { return "SELECT " + strings.Repeat("a[", n) + "1" + strings.Repeat("]", n) },
	"indirection": func(n int) string { return "SELECT (a)" + strings.Repeat(".b", n) },
	"names":       func(n int) string { return "SELECT a" + strings.Repeat(".b", n) },
	"case": func(n int) string {
		return "SELECT " + strings.Repeat("CASE WHEN true THEN ", n) + "1" + strings.Repeat(" END", n)
	},
	"case else": func(n int) string {
		return "SELECT " + strings.Repeat("CASE WHEN a THEN b ELSE ", n) + "1" + strings.Repeat(" END", n)
	},
	"subselects": func(n int) string { return strings.Repeat("SELECT (", n) + "SELECT 1" + strings.Repeat(")", n) },
	"from": func(n int) string {
		return strings.Repeat("SELECT * FROM (", n) + "SELECT 1" + strings.Repeat(") x", n)
	},
	"exists": func(n int) string {
		return "SELECT 1" + strings.Repeat(" WHERE EXISTS (SELECT 1", n) + strings.Repeat(")", n)
	},
	"joins":       func(n int) string { return "SELECT 1 FROM a" + strings.Repeat(" JOIN a ON x AND y", n) },
	"cross joins": func(n int) string { return "SELECT 1 FROM a" + strings.Repeat(" CROSS JOIN a", n) },
	"right joins": func(n int) string {
		return "SELECT 1 FROM a" + strings.Repeat(" JOIN a", n) + strings.Repeat(" ON true", n)
	},
	"nested joins": func(n int) string {
		return "SELECT 1 FROM " + strings.Repeat("(", n) + "a" + strings.Repeat(" JOIN b ON x)", n)
	},
	"with": func(n int) string {
		return strings.Repeat("WITH x AS (", n) + "SELECT 1" + strings.Repeat(") SELECT 1", n)
	},
	"between": func(n int) string { return "SELECT " + strings.Repeat("1 BETWEEN 2 AND NOT ", n) + "3" },
	"between minus": func(n int) string {
		return "SELECT " + strings.Repeat("- - - NOT 1 BETWEEN 2 AND ", n/5) + "3"
	},
	"is null":     func(n int) string { return "SELECT 1" + strings.Repeat(" IS NULL", n) },
	"isnull":      func(n int) string { return "SELECT 1" + strings.Repeat(" ISNULL", n) },
	"in":          func(n int) string { return "SELECT 1" + strings.Repeat(" IN (1)", n) },
	"collate":     func(n int) string { return "SELECT a" + strings.Repeat(` COLLATE "C"`, n) },
	"time zone":   func(n int) string { return "SELECT a" + strings.Repeat(" AT TIME ZONE 'UTC'", n) },
	"functions":   func(n int) string { return "SELECT " + strings.Repeat("f(", n) + "1" + strings.Repeat(")", n) },
	"rows":        func(n int) string { return "SELECT " + strings.Repeat("ROW(", n) + "1" + strings.Repeat(")", n) },
	"arrays":      func(n int) string { return "SELECT ARRAY" + strings.Repeat("[", n) + "1" + strings.Repeat("]", n) },
	"array calls": func(n int) string { return "SELECT " + strings.Repeat("ARRAY[", n) + "1" + strings.Repeat("]", n) },
	"grouping": func(n int) string {
		return "SELECT 1 GROUP BY " + strings.Repeat("GROUPING SETS (", n) + "a" + strings.Repeat(")", n)
	},
	"atomic": func(n int) string {
		return strings.Repeat("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC ", n) + "SELECT 1;" + strings.Repeat(" END;", n)
	},
	"mixed": func(n int) string {
		return "SELECT " + strings.Repeat("(SELECT CASE WHEN NOT a + f(", n/5) + "1" + strings.Repeat(") THEN 1 END)", n/5)
	},
}

// flat are the towers whose height makes no depth: lists in the tree, or brackets that leave no node.
var flat = map[string]bool{"subscripts": true, "indirection": true, "names": true}

// TestGateRefuses holds the gate against towers that are far too high.
func TestGateRefuses(t *testing.T) {
	index := catalog.NewIndex(&catalog.Snapshot{})
	for name, tower := range towers {
		if flat[name] {
			continue
		}
		_, err := Analyze(tower(24_000), Env{Catalog: index})
		var e *Error
		if !errors.As(err, &e) || e.SQLState != "54001" {
			t.Errorf("%s: %v, want 54001", name, err)
		}
	}
}

// TestGateAdmits holds the gate against what is long but does not nest.
func TestGateAdmits(t *testing.T) {
	for name, text := range map[string]string{
		"values":      "INSERT INTO t VALUES (1, -1, 'a')" + strings.Repeat(", (1 + 2, -1, f('a'))", 50_000),
		"in list":     "SELECT 1 WHERE x IN (0" + strings.Repeat(", 1", 100_000) + ")",
		"or":          "SELECT 1 WHERE a = 1" + strings.Repeat(" OR a = 1 AND b <> 2 + 3", 20_000),
		"between":     "SELECT 1 WHERE a BETWEEN 1 AND 2" + strings.Repeat(" AND a BETWEEN 1 AND 2", 900),
		"columns":     "SELECT a" + strings.Repeat(", t.a + 1 AS b", 50_000),
		"when":        "SELECT CASE x WHEN 1 THEN 2" + strings.Repeat(" WHEN 1 + 2 THEN 3", 10_000) + " END",
		"statements":  strings.Repeat("SELECT 1 + 1;", 5_000),
		"labels":      "SELECT 1 AS case, a.case, b.end AS end" + strings.Repeat(", 1 AS union, 2 AS join, 3 AS is", 2_000),
		"brackets":    "SELECT " + strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300),
		"in string":   "SELECT '" + strings.Repeat("((((+", 10_000) + "', $$" + strings.Repeat("((((+", 10_000) + "$$",
		"in comment":  "SELECT 1 /* " + strings.Repeat("((((+", 10_000) + " */ -- " + strings.Repeat("((((+", 10_000),
		"in name":     `SELECT "` + strings.Repeat("((((+", 10_000) + `"`,
		"many joins":  "SELECT 1 FROM a" + strings.Repeat(" JOIN a USING (x, y)", 500),
		"many unions": "SELECT 1" + strings.Repeat(" UNION SELECT 1", 1_000),
	} {
		if e := admit(text, Limits{}); e != nil {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// TestGateBounds holds the gate against texts that must not reach the parser at all.
func TestGateBounds(t *testing.T) {
	deep := strings.Repeat("/*", 40) + strings.Repeat("*/", 40)
	for _, tc := range []struct{ text, state string }{
		{"SELECT 1\x00; DROP TABLE t", "08P01"},
		{"SELECT '\xff'", "22021"},
		{"SELECT '" + strings.Repeat("x", 1000) + "'", "54000"},
		{"SELECT 1" + strings.Repeat(",1", 60), "54000"},
		{"SELECT 1 " + deep, "54001"},
		{"SELECT '" + deep + `', "` + deep + `", $$` + deep + "$$, E'" + deep + "' -- " + deep, ""},
		{"SELECT 1 " + strings.Repeat("/* */", 40) + strings.Repeat("/*", 30) + strings.Repeat("*/", 30), ""},
		{"SELECT E'a'\n'\\' /* ", ""},
	} {
		state := ""
		if e := admit(tc.text, Limits{Bytes: 1000, Tokens: 100}); e != nil {
			state = e.SQLState
		}
		if state != tc.state {
			t.Errorf("%.40q: %q, want %q", tc.text, state, tc.state)
		}
	}
}

// TestGateStopsQuadraticComments shows that the gate answers at once where the lexer would take minutes.
func TestGateStopsQuadraticComments(t *testing.T) {
	start := time.Now()
	if e := admit("SELECT 1 "+strings.Repeat("/*", 2_000_000), Limits{}); e == nil || e.SQLState != "54001" {
		t.Errorf("got %v", e)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
}

// highest is the highest tower that the gate lets pass.
func highest(tower func(int) string) int {
	low, high := 1, 10_000
	for low < high {
		if n := (low + high + 1) / 2; admit(tower(n), Limits{}) == nil {
			low = n
		} else {
			high = n - 1
		}
	}
	return low
}

const towerVariable, heightVariable = "INTERLOCK_TEST_TOWER", "INTERLOCK_TEST_HEIGHT"

// TestTowerChild is not a test of its own: TestParserSurvives runs it in a process that may die.
func TestTowerChild(t *testing.T) {
	name := os.Getenv(towerVariable)
	if name == "" {
		return
	}
	for _, one := range strings.Split(name, ",") {
		height := 0
		if _, err := fmt.Sscan(os.Getenv(heightVariable), &height); err != nil || height == 0 {
			height = highest(towers[one])
		}
		text := towers[one](height)
		_, err := pg.Parse(text)
		fmt.Println(one, height, err != nil)
	}
	fmt.Println("survived")
}

// climb parses towers in a child process without the gate, with a stack limit in KiB. It returns if the process survived.
func climb(t *testing.T, names string, height int, stack string) (survived bool, output string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", "ulimit -s "+stack+" && exec \"$0\" -test.run=^TestTowerChild$", os.Args[0])
	cmd.Env = append(os.Environ(), towerVariable+"="+names, fmt.Sprintf("%s=%d", heightVariable, height))
	out, err := cmd.CombinedOutput()
	return err == nil && strings.Contains(string(out), "survived"), string(out)
}

// TestParserSurvives parses the highest towers that pass the gate, on the smallest stack that StackOK accepts.
func TestParserSurvives(t *testing.T) {
	var names []string
	for name := range towers {
		names = append(names, name)
	}
	for _, stack := range []string{"2048", "8192"} {
		if ok, out := climb(t, strings.Join(names, ","), 0, stack); !ok {
			t.Errorf("with a stack of %s KiB the parser died:\n%s", stack, out[:min(len(out), 1500)])
		}
	}
}

// TestParserDiesWithoutGate shows that TestParserSurvives can fail: the same towers, higher, kill the process.
func TestParserDiesWithoutGate(t *testing.T) {
	for _, name := range []string{"sum", "union", "json arrows", "concatenation"} {
		if ok, _ := climb(t, name, 60_000, "8192"); ok {
			t.Errorf("%s: the parser survived", name)
		}
	}
}

func TestStackOK(t *testing.T) {
	if err := StackOK(); err != nil {
		t.Error(err)
	}
}
