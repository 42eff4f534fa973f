package oracle_test

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"interlock/internal/oracle"
	"interlock/sqlgov/analyze"
)

// Texts in which a number means more than its value, or decides if an expression is the same as another.
var numbersThatMatter = []string{
	"select a.id + 1, count(*) from shop.customers a group by a.id + 1",
	"select a.id + 2, count(*) from shop.customers a group by a.id + 1",
	"select a.id + 1, count(*) from shop.customers a group by a.id + 1, 1 order by 1",
	"select a.id + 5, count(*) from shop.customers a group by a.id + (5)",
	"select id from shop.customers where id = 7 order by 1",
	"select id, name from shop.customers where id > 3 and id - 3 < 2 order by id + 1, 2 limit 10 offset 4 + 4",
	"select id from shop.customers where id = 9999999999",
	"select id from shop.customers where id = 12 and name = '12';",
	"select repeat('x', 3 + 4), lpad('x', length => 9) from shop.customers where id = 4 ;  ",
	"select (array[1,2,3])[1 + 1], interval '1' day from shop.customers where id=5",
	"select id from shop.customers where id = 1e3 or id = 0 or id = 00 or id = 0x1f",
	"update shop.customers set id = id + 1 where id = 3",
	"update shop.customers set id = 3 where id = 3",
	"delete from shop.customers where id = 3 returning id * 2",
	"select 1 = 1, 2 - 1 union select 3 = 3, 4 - 3",
	"with c as (select 1) select id from shop.customers where id = 5",
	"select c.relname from pg_class c where c.oid = 1259",
	"select id from shop.customers where id = 5; select id from shop.customers where id = 6",
	"select id from shop.customers where id = -5 and id =-6 -- 7\n and id /* 8 */ > 9",
}

// TestTemplates holds the facts of a text against those of the same text with other numbers, wherever the analyser says that
// they are shared.
func TestTemplates(t *testing.T) {
	j := shopJudge(t)
	texts := numbersThatMatter
	for _, q := range readQuestions(repositoryFile(t, "testdata/oracle/statements.sql")) {
		texts = append(texts, q.sql)
	}
	g := oracle.NewGenerator(j.index, []string{"shop", "hr", "alt"}, uint64(setting(t, "ORACLE_SEED", 1)))
	for range setting(t, "ORACLE_GENERATE", 2000) {
		text := g.Statement().String()
		texts = append(texts, text, strings.ReplaceAll(text, " where ", " where 1700 <> 1800 + 1900 and 1900 = 1900 and "))
	}
	shared := 0
	for _, text := range texts {
		if template, ok := analyze.Template(text); ok && j.sharesFacts(t, text, template) {
			shared++
		}
	}
	t.Logf("%d of %d texts share their facts", shared, len(texts))
	if shared < len(texts)/20 {
		t.Error("too few to tell anything")
	}
}

// sharesFacts compares the facts of a text with those of others that have its template, and reports if they are shared.
func (j *judge) sharesFacts(t *testing.T, text, template string) bool {
	t.Helper()
	facts, err := analyze.Analyze(text, (&question{}).env(j.index))
	for _, first := range []int{0, 2, 30, 1000, 99999900, 999999900} {
		other := filled(template, first)
		if same, ok := analyze.Template(other); !ok || same != template {
			continue // one of the numbers stands elsewhere too
		}
		others, otherErr := analyze.Analyze(other, (&question{}).env(j.index))
		switch {
		case (err == nil) != (otherErr == nil):
			t.Errorf("%s: %v\n%s: %v", text, err, other, otherErr)
		case err != nil || !facts.Shared(text):
		case !others.Shared(other):
			t.Errorf("the facts of %q are shared, those of %q are not", text, other)
		case !reflect.DeepEqual(facts.Of(other), others):
			t.Errorf("%s\n%+v\n%s\n%+v", text, facts, other, others)
		}
	}
	return err == nil && facts.Shared(text)
}

// filled is a template with numbers, from first on, in the places that are left out.
func filled(template string, first int) string {
	var b strings.Builder
	for i := 0; i < len(template); i++ {
		if template[i] == 0 {
			i++
			b.WriteString(strconv.Itoa(first + int(template[i])))
			continue
		}
		b.WriteByte(template[i])
	}
	return b.String()
}
