package analyze_test

import (
	"testing"

	"interlock/sqlgov/analyze"

	pg_query "github.com/pganalyze/pg_query_go/v5"
)

// BenchmarkAnalyze measures cold analyses, and beside each the parser alone, which is the floor.
func BenchmarkAnalyze(b *testing.B) {
	s := newServer(b)
	for _, bc := range []struct{ name, sql string }{
		{"point", "select id, name, region from customers where id = $1"},
		{"join", `select c.region, date_trunc('month', o.created_at) as month, count(*), sum(o.amount) as total,
			rank() over (partition by c.region order by sum(o.amount) desc)
			from customers c join orders o on o.customer_id = c.id left join notes n on n.customer_id = c.id and n.author = 'bob'
			where o.status in ('paid', 'done') and o.created_at between '2025-01-01' and '2025-12-31' and exists (select 1 from events e where e.customer_id = c.id)
			group by 1, 2 having sum(o.amount) > 10 order by total desc nulls last limit 20`},
		{"view", "select * from v_customers"},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.analyze(bc.sql); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bc.name+"/parser", func(b *testing.B) {
			for b.Loop() {
				if _, err := pg_query.Parse(bc.sql); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bc.name+"/normalize", func(b *testing.B) {
			for b.Loop() {
				analyze.Normalize(bc.sql)
			}
		})
	}
}
