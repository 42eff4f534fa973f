package sqlgov_test

import (
	"fmt"
	"testing"

	"interlock/catalog"
	"interlock/internal/pgtest"
	"interlock/internal/upstream"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"

	"github.com/jackc/pgx/v5"
)

var decisionSizes = []struct{ name, sql string }{
	{"point", "select id, name, region from app.customers where id = $1"},
	{"analytic", `select c.region, date_trunc('month', o.created_at) as month, count(*) as orders,
		sum(o.amount) as total,
		avg(o.amount) filter (where o.status = 'paid') as paid,
		rank() over (partition by c.region order by sum(o.amount) desc) as place
	from app.customers c
	join app.orders o on o.customer_id = c.id
	left join app.notes n on n.customer_id = c.id and n.author = 'bob'
	where o.status in ('paid', 'done')
		and o.created_at between '2025-01-01' and '2025-12-31'
		and exists (
			select 1 from app.events e
			where e.customer_id = c.id
				and e.region = 'EU')
		and c.created_at < (select max(x.created_at) from app.orders x)
	group by 1, 2
	having sum(o.amount) > 10
	order by total desc nulls last
	limit 20`},
	{"report", `with sold as (
		select c.id as customer, c.name, c.region, extract(year from o.created_at) as year, sum(o.amount) as total, 'order' as kind
		from app.customers c join app.orders o on o.customer_id = c.id
		where o.status in ('paid', 'shipped', 'done')
		group by c.id, c.name, c.region, extract(year from o.created_at)
		union all
		select c.id, c.name, c.region, extract(year from n.created_at), count(n.id)::numeric, 'note'
		from app.customers c join app.notes n on n.customer_id = c.id
		where n.body is not null
		group by c.id, c.name, c.region, extract(year from n.created_at)
		union all
		select c.id, c.name, e.region, 2026, count(e.id)::numeric, 'event'
		from app.customers c, app.events e
		where e.customer_id = c.id
		group by c.id, c.name, e.region
	), ranked as (
		select s.*, rank() over (partition by s.kind, s.year order by s.total desc) as place,
			sum(s.total) over (partition by s.region order by s.year rows between 2 preceding and current row) as running,
			lag(s.total) over (partition by s.customer, s.kind order by s.year) as before
		from sold s
	)
	select first.customer, first.name, first.region,
		case when first.total > 0 then second.total / first.total end as order_growth,
		case when third.total > 0 then fourth.total / third.total end as note_growth,
		grouping(first.region) as by_region, max(second.running) as running
	from ranked first, ranked second, ranked third, ranked fourth
	where second.customer = first.customer and third.customer = first.customer and fourth.customer = first.customer
		and first.kind = 'order' and second.kind = 'order' and third.kind = 'note' and fourth.kind = 'note'
		and first.year = 2025 and second.year = 2026 and third.year = 2025 and fourth.year = 2026
		and first.total > 0 and third.total > 0
		and coalesce(second.total / nullif(first.total, 0), 0) > coalesce(fourth.total / nullif(third.total, 0), 0)
		and first.customer in (select o.customer_id from app.orders o group by o.customer_id having count(*) > 1)
		and not exists (select from app.notes n where n.customer_id = first.customer and n.body like '%closed%')
	group by rollup (first.customer, first.name, first.region, first.total, second.total, third.total, fourth.total)
	order by order_growth desc nulls last, first.customer
	fetch first 100 rows with ties`},
}

// numbered is a text that differs from others in a number.
const numbered = "select q.* from (select id from app.customers where id = %d) n, lateral (%s) q"

// BenchmarkDecision is what a statement costs from its text to the decision: cold, when the text was not seen before, when
// it differs from one that was in a number, and cached. The parser's own time is in BenchmarkAnalyze of package analyze.
func BenchmarkDecision(b *testing.B) {
	j := sqlgov.NewJudging(readAll(b), scanned(b), sqlgov.Caller{Identity: "ana", Door: sqlgov.PGWire}, "gov")
	for _, size := range decisionSizes {
		b.Run(size.name+"/cold", func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if r := j.Judge(b.Context(), fmt.Sprintf("/* %d */ %s", n, size.sql)); r != nil {
					b.Fatal(r)
				}
			}
		})
		b.Run(size.name+"/number", func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if r := j.Judge(b.Context(), fmt.Sprintf(numbered, n, size.sql)); r != nil {
					b.Fatal(r)
				}
			}
		})
		b.Run(size.name+"/cached", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r := j.Judge(b.Context(), size.sql); r != nil {
					b.Fatal(r)
				}
			}
		})
	}
}

func scanned(b *testing.B) *catalog.Index {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), pgtest.Attacks(b))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	snapshot, err := upstream.Scan(b.Context(), conn, "gov")
	if err != nil {
		b.Fatal(err)
	}
	return catalog.NewIndex(snapshot)
}

// readAll lets ana read schema app by a grant of each table, as a governance document would.
func readAll(b *testing.B) *policy.Ruleset {
	b.Helper()
	var tables []policy.Resource
	for _, name := range []string{"app.customers", "app.orders", "app.notes", "app.events"} {
		r, err := policy.ParseResource(name)
		if err != nil {
			b.Fatal(err)
		}
		tables = append(tables, r)
	}
	rules, err := policy.Compile(&policy.Document{
		Sources: []policy.SourceSpec{{ID: "gov", Kind: "postgres"}},
		Roles: []policy.RoleSpec{{Name: "reader", Source: "gov", Permissions: []policy.Permission{
			{Effect: policy.Allow, Actions: []policy.Action{policy.TableSelect}, Resources: tables}}}},
		Identities: []policy.Identity{{Name: "ana", Kind: "human", Grants: []policy.Grant{{Source: "gov", Roles: []string{"reader"}}}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return rules
}
