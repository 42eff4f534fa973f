package analyze_test

import (
	"strings"
	"testing"

	"interlock/sqlgov/analyze"
)

// TestUses holds what a statement does with columns besides showing them, as a person reads it: "=" is the column's own
// value, "?" only if it is NULL, "~" something computed. A name alone is not followed further.
func TestUses(t *testing.T) {
	s := newServer(t)
	for _, tc := range []struct{ sql, uses, output, stored string }{
		{"select id, email as e from customers", "", "id= | email=", ""},
		{"select e from (select email as e from customers) q", "", "email=", ""},
		{"with x as (select id, email from customers) select email from x", "", "email=", ""},
		{"select email from customers union all select card_no from orders", "", "email=,card_no=", ""},
		{"select email from customers union select name from customers", "name= email=", "name=,email=", ""},
		{"select email from customers where region = 'EU'", "region=", "email=", ""},
		{"select name from customers where email like 'a%'", "email=", "name=", ""},
		{"select name from customers where lower(email) = 'a'", "email~", "name=", ""},
		{"select name from customers where (select c.email from customers c limit 1) = 'a'", "email=", "name=", ""},
		{"select name from customers where exists (select email from customers)", "", "name=", ""},
		{"select name from customers c where exists (select 1 from customers d where d.email = c.name)", "name= email=", "name=", ""},
		{"select name from customers where id in (select id from customers where email = 'x')", "id= email=", "name=", ""},
		{"select length(email), lower(email) || 'x', email::varchar(5), email collate \"C\" from customers", "", "email~ | email~ | email~ | email=", ""},
		{"select upper(email) like 'A%', ascii(email), email::int from customers", "email~", "email~ | email~ | email~", ""},
		{"select array[email, name], row(email), o from customers, (select id from orders) o", "", "name~,email~ | email~ | id~", ""},
		{"select coalesce(email, 'none'), case when id = 1 then email end, nullif(email, 'x') from customers", "id= email=", "email= | id~,email= | email~", ""},
		{"select case when email = 'a' then 1 end from customers", "email=", "email~", ""},
		{"select count(email), email is null, count(*), count(distinct name) from customers", "name~ email?", "email? | email? |  | name?", ""},
		{"select name from customers where email is null", "email?", "name=", ""},
		{"select name from customers where email is not distinct from null", "email~", "name=", ""},
		{"select name from customers where lower(email) is null", "email~", "name=", ""},
		{"select max(email), string_agg(email, ','), sum(balance) filter (where id > 1) from customers", "id= email= balance=", "email~ | email~ | id~,balance~", ""},
		// A value of more than a gigabyte is an error, so that the length of a part shows.
		{"select email || repeat('x', 1073741800) from customers", "email=", "email~", ""},
		{"select (email || '@') || q.x from customers, (select repeat('x', 1073741800) as x) q", "email~", "email~", ""},
		{"select string_agg(email, '') from customers, generate_series(1, 50000000) where id = 1", "id= email=", "email~", ""},
		{"select array(select email from customers, generate_series(1, 50000000))", "email=", "email~", ""},
		{"select array[email, repeat('x', 1073741800)], concat(email, $1) from customers", "email=", "email~ | email~", ""},
		{"select to_jsonb(q) from (select email, repeat('x', 1073741800) as x from customers) q", "email~", "email~", ""},
		{"select name || ' <' || lower(email) || '>', array[email, id::text] from customers c", "", "name~,email~ | id~,email~", ""},
		{"select coalesce(email, (1 / (id - id))::text) from customers", "id~ email?", "id~,email=", ""},
		{"select name from customers order by email", "email=", "name=", ""},
		{"select email as e from customers order by e", "email=", "email=", ""},
		{"select email from customers order by 1", "email=", "email=", ""},
		{"select distinct email from customers", "email=", "email=", ""},
		{"select distinct on (email) name from customers", "email=", "name=", ""},
		{"select email, count(*) from customers group by email having min(balance) > 0", "email= balance~", "email= | ", ""},
		{"select lag(email) over (order by id), rank() over (order by email) from customers", "id= email=", "id~,email~ | email~", ""},
		{"select string_agg(name, ',' order by email), count(*) filter (where email = 'x') from customers", "name= email=", "name~,email~ | email~", ""},
		{"select 1 from customers limit (select length(email) from customers limit 1)", "email~", "", ""},
		{"select c.name from customers c join customers d on c.email = d.email", "email=", "name=", ""},
		{"select name from customers natural join v_public", "id= name= id=(id=) name=(name=)", "name=,name=(name=)", ""},
		{"select g from customers, generate_series(1, length(email)) g", "email~", "email~", ""},
		{"select generate_series(1, length(email)) from customers", "email~", "email~", ""},
		{"select (array[1,2])[length(email)] from customers", "email=", "email~", ""},
		{"select email, national_id from v_customers", "", "email=(email=) | national_id=(ssn=)", ""},
		{"select name from v_customers where email = 'x'", "email=(email=)", "name=(name=)", ""},
		{"select avg_balance from v_region_stats", "", "avg_balance=(balance~)", ""},
		{"select ssn_last4 from customers", "", "ssn_last4=(ssn~)", ""},
		{"select payload ->> 'token', payload #> '{a,b}' from events", "", "payload~ | payload~", ""},
		{"select jsonb_path_query(payload, '$.token') from events", "payload=", "payload~", ""},
		{"insert into notes(body) select email from customers", "", "", "email="},
		{"update notes set body = lower(email) from customers returning email", "email=", "email=", "email~"},
		{"insert into customers(email, name) values ('a', 'b') on conflict (email) do update set name = excluded.name", "name= email=", "", "name="},
		{"insert into customers(email) values ('a') on conflict on constraint customers_email_key do nothing", "email=", "", ""},
		{"insert into customers(email) values ('a') on conflict do nothing", "id= email= ssn=", "", ""}, // any unique index counts
		{"insert into customers(id) values (1) on conflict (id) do nothing", "id=", "", ""},
		{"select json_build_object(email, name), jsonb_build_object('a', email) from customers", "email=", "name~,email~ | email~", ""}, // no key may be NULL
		{"delete from customers where email = 'a' returning email", "email=", "email=", ""},
		{"explain select email from customers", "", "email~", ""},
	} {
		facts, err := s.analyze(tc.sql)
		if err != nil {
			t.Errorf("%s: %v", tc.sql, err)
			continue
		}
		st := facts.Statements[0]
		var outputs []string
		for _, o := range st.Output {
			outputs = append(outputs, strings.ReplaceAll(printSources(o.Sources), " ", ","))
		}
		if got := printSources(st.Uses); got != tc.uses {
			t.Errorf("%s\nuses   %s\nwant   %s", tc.sql, got, tc.uses)
		}
		if got := strings.Join(outputs, " | "); got != tc.output {
			t.Errorf("%s\noutput %s\nwant   %s", tc.sql, got, tc.output)
		}
		if got := printSources(st.Stored); got != tc.stored {
			t.Errorf("%s\nstored %s\nwant   %s", tc.sql, got, tc.stored)
		}
	}
}

func printSources(list []analyze.Source) string {
	var all []string
	for _, s := range list {
		word := s.Name + map[analyze.How]string{analyze.Kept: "=", analyze.Counted: "?", analyze.Changed: "~"}[s.How]
		if s.Behind != nil {
			word += "(" + printSources(s.Behind) + ")"
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}

// TestAssigned holds which constants and parameters a statement writes as they are.
func TestAssigned(t *testing.T) {
	s := newServer(t)
	for sql, want := range map[string]string{
		"update customers set email = 'a***@***', name = upper('x'), balance = 1.5 where id = 7": "email a***@***;balance 1.5",
		"update customers set (name, email) = ('n', $1::text)":                                   "name n;email $1",
		"insert into customers(name, email) values ('n', '***'), (default, 'm'::varchar)":        "name n;email ***;email m",
	} {
		facts, err := s.analyze(sql)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		var all []string
		for _, a := range facts.Statements[0].Assigned {
			value := a.Text
			if a.Param > 0 {
				value = "$" + string(rune('0'+a.Param))
			}
			all = append(all, a.Column.Name+" "+value)
		}
		if got := strings.Join(all, ";"); got != want {
			t.Errorf("%s\nassigned %s\nwant     %s", sql, got, want)
		}
	}
}
