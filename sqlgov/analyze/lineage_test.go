package analyze_test

import (
	"slices"
	"strings"
	"testing"

	"interlock/sqlgov/analyze"
)

// TestLineage holds the base columns behind each output column. The test writes them by hand: the server does not tell.
func TestLineage(t *testing.T) {
	s := newServer(t)
	const row = "t.a t.b t.c t.d t.p t.arr t.j t.m t.v"
	for _, tc := range []struct {
		sql  string
		want []string // for each output column, "table.column ..." in order
	}{
		{"select id, name as n, 1, now() from customers", []string{"customers.id", "customers.name", "", ""}},
		{"select id + balance, upper(name) || email from customers", []string{"customers.id customers.balance", "customers.name customers.email"}},
		{"select case when region = 'EU' then name else email end from customers", []string{"customers.name customers.email customers.region"}},
		{"select count(*), count(name) filter (where id > 1), sum(balance) over (partition by region order by created_at) from customers group by 1",
			[]string{"", "customers.id customers.name", "customers.region customers.balance customers.created_at"}},
		{"select x from (select y as x from (select ssn as y from customers) a) b", []string{"customers.ssn"}},
		{"with q(z) as (select ssn from customers) select z, (select max(z) from q) from q", []string{"customers.ssn", "customers.ssn"}},
		{"select name from customers union select body from notes", []string{"customers.name notes.body"}},
		{"select name from customers except select 'x' union all values ('y')", []string{"customers.name"}},
		{"select id from customers join orders using (id)", []string{"customers.id orders.id"}},
		{"select id from customers natural full join oracle.fk", []string{"customers.id fk.id"}},
		{"select national_id, email from v_customers", []string{"customers.ssn", "customers.email"}},
		{"select ref from v_nested", []string{"customers.ssn"}},
		{"select avg_balance, n from v_region_stats", []string{"customers.balance", ""}},
		{"select ref from mv_customers", []string{"customers.ssn mv_customers.ref"}},
		{"select ssn_last4 from customers", []string{"customers.ssn customers.ssn_last4"}},
		{"select t from oracle.t", []string{row}},
		{"select row_to_json(t), (t).b, (t.p).x from oracle.t", []string{row, "t.b", "t.p"}},
		{"select (x).b from (select t as x from oracle.t) s", []string{row}}, // a composite value is one value,
		{"select (row(a, b)).f2 from oracle.t", []string{"t.b"}},
		{"select array(select name from customers), exists (select email from customers)", []string{"customers.name", "customers.email"}},
		{"select o.id, x.n from orders o, lateral (select c.name as n from customers c where c.id = o.customer_id) x", []string{"orders.id", "customers.name"}},
		{"select g from customers, generate_series(1, id) g", []string{"customers.id"}},
		{"select v from customers, unnest(array[name, email]) with ordinality u(v, n)", []string{"customers.name customers.email"}},
		{"with recursive r(a, b) as (select id, name from customers union all select id, r.a::text from orders, r) select a, b from r",
			[]string{"customers.id orders.id", "customers.id customers.name orders.id"}},
		{"with recursive r(a, b) as (select a, b from oracle.t union all select a, b from r) search depth first by b set o cycle a set c using p select o, c, p from r",
			[]string{"t.b", "t.a", "t.a"}},
		{"insert into notes(body) values ('x') returning id, upper(body)", []string{"notes.id", "notes.body"}},
		{"update notes n set body = c.ssn from customers c returning c.ssn, n.id", []string{"customers.ssn", "notes.id"}},
		{"with d as (delete from orders returning card_no) select card_no from d", []string{"orders.card_no"}},
		{"select ctid from orders", []string{"orders.ctid"}},
		{"values ((select ssn from customers)), ('x')", []string{"customers.ssn"}},
		{"select coalesce(name, email), greatest(id, balance), nullif(name, region) from customers",
			[]string{"customers.name customers.email", "customers.id customers.balance", "customers.name customers.region"}},
		{"select arr[a], j -> b, arr[1:a] from oracle.t", []string{"t.a t.arr", "t.b t.j", "t.a t.arr"}},
		{"select rank() over w from customers window w as (order by ssn)", []string{"customers.ssn"}},
		{"prepare p as select 1", nil},
		{"show timezone", []string{""}},
		{"delete from notes", nil},
	} {
		facts, err := s.analyze(tc.sql)
		if err != nil {
			t.Errorf("%s: %v", tc.sql, err)
			continue
		}
		var got []string
		for _, o := range facts.Statements[0].Output {
			got = append(got, lineageText(o))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s\n\tgot  %q\n\twant %q", tc.sql, got, tc.want)
		}
	}
}

func lineageText(o analyze.Output) string {
	var parts []string
	for _, c := range o.Columns {
		parts = append(parts, c.Table+"."+c.Name)
	}
	return strings.Join(parts, " ")
}
