package policy

import (
	"strings"
	"testing"

	"interlock/sqlgov/analyze"
)

const analystRole = "allow select crm.customers.id crm.customers.name crm.customers.region crm.orders;allow insert crm.notes.body"

func TestTeach(t *testing.T) {
	ix := sampleCatalog()
	const (
		mine      = `Your roles on source "shop" (analyst) `
		customers = mine + `allow select on crm.customers (id, name, region).`
		readable  = mine + `allow select on crm.customers and crm.orders.`
		use       = "Use a table that your roles allow, or ask your administrator for access."
		column    = `permission denied for column "ssn" of table "crm.customers"`
	)
	for _, tc := range []struct {
		sql, facts            string
		message, detail, hint string
	}{
		{"select ssn from crm.customers", "read crm.customers.ssn", column, customers, `Remove "ssn" or ask your administrator for it.`},
		{"select SSN, email from crm.customers", "read crm.customers.ssn;read crm.customers.email", column, customers,
			`Remove "ssn" and "email" or ask your administrator for them.`},
		{"select * from crm.customers", "read crm.customers.id;read crm.customers.ssn;read crm.customers.email",
			`permission denied for table "crm.customers"`, customers,
			"Name the columns of crm.customers that you may read instead of using * or the whole row: id, name, region."},
		{"select c.*, email from customers c", "read crm.customers.ssn;read crm.customers.email",
			`permission denied for column "email" of table "crm.customers"`, customers, `Remove "email" or ask your administrator for it.`},
		{"select 'ssn' /* ssn */ from crm.customers c where c is null -- ssn", "read crm.customers.ssn", `permission denied for table "crm.customers"`, customers,
			"Name the columns of crm.customers that you may read instead of using * or the whole row: id, name, region."},
		{"select c.ssn from crm.customers c join crm.orders o on o.customer_id = c.id", "read crm.customers.ssn;read crm.orders.customer_id;read crm.customers.id",
			column, mine + `allow select on crm.customers (id, name, region) and crm.orders (all columns).`, `Remove "ssn" or ask your administrator for it.`},
		{"select ssn from crm.customers c join crm.orders o on o.customer_id = c.id", "read crm.customers.ssn;read crm.orders.customer_id",
			`permission denied for column "ssn"`, mine + `allow select on crm.customers (id, name, region) and crm.orders (all columns).`, `Remove "ssn" or ask your administrator for it.`},
		{"select salary from hr.salaries", "read hr.salaries.salary", `permission denied for table "hr.salaries"`, readable, use},
		{"select ssn, salary from crm.customers, salaries", "read crm.customers.ssn;read hr.salaries.salary", `permission denied for table "salaries"`, readable, use},
		{"select 1", "read hr.salaries.salary", `permission denied for a table behind this statement`, readable, use},
		{"select id from crm.notes", "read crm.notes.id", `permission denied for table "crm.notes"`, mine + "do not allow select on crm.notes.",
			"Ask your administrator for select on crm.notes."},
		{"delete from crm.orders", "delete crm.orders", `permission denied for table "crm.orders"`,
			mine + `allow select on crm.orders (id, customer_id, amount, "order"), but not delete.`, "Ask your administrator for delete on crm.orders."},
		{"insert into crm.notes values (1, 2, 'x')", "insert crm.notes.id;insert crm.notes.customer_id;insert crm.notes.body", `permission denied for table "crm.notes"`,
			mine + "allow insert on crm.notes (body).", "List the columns of crm.notes that you may insert: body."},
		{"select crm.score(1)", "call crm.score", `permission denied for function "crm.score"`,
			mine + "do not allow this function to be executed.", "Leave it out or ask your administrator for db.function.execute on it."},
		{"select 1 + 1", "call crm.secret_fn", `permission denied for a function behind this statement`,
			mine + "do not allow this function to be executed.", "Leave it out or ask your administrator for db.function.execute on it."},
	} {
		t.Run(tc.sql, func(t *testing.T) {
			r := ruleset(t, split(analystRole)...)
			d := r.Decide(Input{Identity: "ana", Source: "shop", Catalog: ix, Facts: facts(t, ix, split(tc.facts)...), Typed: analyze.Typed(tc.sql)})
			if d.SQLState != "42501" || d.Message != tc.message || d.Detail != tc.detail || d.Hint != tc.hint {
				t.Errorf("got\n%s %s\n%s\n%s\nwant\n42501 %s\n%s\n%s", d.SQLState, d.Message, d.Detail, d.Hint, tc.message, tc.detail, tc.hint)
			}
		})
	}
}

// No text names a column or table that the caller did not type and may not use, whatever was denied.
func TestTeachNamesNothingUntyped(t *testing.T) {
	ix := sampleCatalog()
	secrets := []string{"ssn", "email", "salar", "hr.", "secret_fn", "customer_id, body"}
	for _, needs := range []string{"read crm.customers.ssn", "read crm.customers.email;read crm.customers.ssn", "read hr.salaries.salary;read crm.customers.ssn",
		"update crm.customers.ssn", "insert hr.salaries.salary", "delete hr.salaries", "call crm.secret_fn;read crm.customers.ssn", "read hr.salaries", "read hr.gone"} {
		for _, typed := range []func(...string) bool{nil, analyze.Typed("select * from crm.customers"), analyze.Typed("select c from customers c, orders, notes")} {
			d := ruleset(t, split(analystRole)...).Decide(Input{Identity: "ana", Source: "shop", Catalog: ix, Facts: facts(t, ix, split(needs)...), Typed: typed})
			for _, secret := range secrets {
				if text := d.Message + d.Detail + d.Hint; strings.Contains(text, secret) {
					t.Errorf("%s: %q tells of %q", needs, text, secret)
				}
			}
		}
	}
}

// unknown is the analyser's error for a name that does not exist.
func unknown(state, message string, name ...string) *analyze.Error {
	return &analyze.Error{SQLState: state, Message: message, Name: name, Unknown: true, Position: 8}
}

// What is forbidden and what does not exist get the same answer, word for word but for the name.
func TestForbiddenAndMissingAnswerAlike(t *testing.T) {
	ix := sampleCatalog()
	for _, tc := range []struct {
		forbidden, facts string
		missing          string
		err              *analyze.Error
		touched          string
		renamed          [2]string
	}{
		{"select 1 from hr.salaries", "read hr.salaries", "select 1 from hr.nosuch", unknown("42P01", `relation "hr.nosuch" does not exist`, "hr", "nosuch"), "",
			[2]string{"salaries", "nosuch"}},
		{"select 1 from gov.hr.salaries", "read hr.salaries", "select 1 from gov.hr.nosuch", unknown("42P01", `relation "hr.nosuch" does not exist`, "gov", "hr", "nosuch"), "",
			[2]string{"salaries", "nosuch"}},
		{"select ssn from crm.customers, salaries", "read crm.customers.ssn;read hr.salaries", "select ssn from crm.customers, nosuch", unknown("42P01", `relation "nosuch" does not exist`, "nosuch"), "crm.customers",
			[2]string{"salaries", "nosuch"}},
		{"select salary from hr.salaries", "read hr.salaries.salary", "select nosuch from hr.salaries", unknown("42703", `column "nosuch" does not exist`, "nosuch"), "hr.salaries", [2]string{}},
		{"select ssn from crm.customers", "read crm.customers.ssn", "select nosuch from crm.customers", unknown("42703", `column "nosuch" does not exist`, "nosuch"), "crm.customers",
			[2]string{"ssn", "nosuch"}},
		{"select ssn, email from crm.customers", "read crm.customers.ssn;read crm.customers.email", "select ssn, nosuch from crm.customers", unknown("42703", `column "nosuch" does not exist`, "nosuch"), "crm.customers;crm.customers.ssn",
			[2]string{"email", "nosuch"}},
		{"select ssn from crm.customers join crm.orders on true", "read crm.customers.ssn;read crm.orders", "select nosuch from crm.customers join crm.orders on true", unknown("42703", `column "nosuch" does not exist`, "nosuch"), "crm.customers;crm.orders",
			[2]string{"ssn", "nosuch"}},
		{"select ssn from crm.customers a, crm.customers b where a.ssn = b.ssn", "read crm.customers.ssn", "select nosuch from crm.customers a, crm.customers b where a.nosuch = b.nosuch",
			unknown("42703", `column a.nosuch does not exist`, "a", "nosuch"), "crm.customers", [2]string{"ssn", "nosuch"}},
		{"select crm.secret_fn(1)", "call crm.secret_fn", "select crm.nosuch(1)", unknown("42883", `function crm.nosuch(integer) does not exist`, "crm", "nosuch"), "", [2]string{"secret_fn", "nosuch"}},
		{"select secret_fn(1)", "call crm.secret_fn", "select nosuch(1)", unknown("42883", `function nosuch(integer) does not exist`, "nosuch"), "", [2]string{"secret_fn", "nosuch"}},
	} {
		t.Run(tc.missing, func(t *testing.T) {
			r := ruleset(t, split(analystRole)...)
			d := r.Decide(Input{Identity: "ana", Source: "shop", Catalog: ix, Facts: facts(t, ix, split(tc.facts)...), Typed: analyze.Typed(tc.forbidden)})
			for _, name := range split(tc.touched) {
				tc.err.Touched = append(tc.err.Touched, column(t, ix, name))
			}
			e := r.DecideError(Input{Identity: "ana", Source: "shop", Catalog: ix, Typed: analyze.Typed(tc.missing)}, tc.err)
			text := func(d *Decision) string {
				s := strings.Join([]string{d.SQLState, d.Message, d.Detail, d.Hint}, "\n")
				return strings.ReplaceAll(s, `"`+tc.renamed[0]+`"`, `"`+tc.renamed[1]+`"`)
			}
			want := text(d)
			if tc.renamed[0] != "" {
				want = strings.ReplaceAll(want, tc.renamed[0], tc.renamed[1])
			}
			if got := text(e); got != want || e.Position != 0 || e.SQLState != "42501" {
				t.Errorf("missing:\n%s\nforbidden:\n%s", got, want)
			}
			if e.Verdict != Refused || !strings.Contains(e.Reasons[0].Note, tc.err.SQLState) {
				t.Errorf("the audit log loses the error: %+v", e)
			}
		})
	}
}

// An error is passed on, with its position, when it tells of nothing but what the caller may know.
func TestDecideErrorPassesOn(t *testing.T) {
	ix := sampleCatalog()
	for _, tc := range []struct {
		name, permissions, sql string
		err                    *analyze.Error
		touched                string
		pass                   bool
	}{
		{"all columns known", analystRole, "select nosuch from crm.orders", unknown("42703", "", "nosuch"), "crm.orders", true},
		{"qualified, all columns known", analystRole, "select o.nosuch from crm.orders o, crm.customers",
			&analyze.Error{SQLState: "42703", Name: []string{"o", "nosuch"}, Relation: 2}, "crm.orders;crm.customers", true},
		{"ambiguous and known", analystRole, "select id from crm.orders, crm.customers", unknown("42702", "", "id"), "crm.orders;crm.customers", true},
		{"ambiguous secret", analystRole, "select ssn from crm.customers a, crm.customers b", unknown("42702", "", "ssn"), "crm.customers", false},
		{"type error on a known column", analystRole, "select id || 1 from crm.customers", unknown("42883", ""), "crm.customers.id", true},
		{"type error on a secret", analystRole, "select ssn + 1 from crm.customers", unknown("42883", ""), "crm.customers.ssn", false},
		{"type error on a hidden table", analystRole, "select salary || 1 from hr.salaries", unknown("42883", ""), "hr.salaries.salary", false},
		{"syntax", analystRole, "selct", unknown("42601", ""), "", true},
		{"unsupported", analystRole, "select * from crm.customers for share", unknown("0A000", ""), "crm.customers", true},
		{"unsupported over a hidden table", analystRole, "insert into hr.salaries values (1)", unknown("0A000", ""), "hr.salaries", false},
		{"built-in with other arguments", analystRole, "select lower(1)", unknown("42883", "", "lower"), "", true},
		{"granted function with other arguments", "allow function.execute crm.score", "select crm.score()", unknown("42883", "", "crm", "score"), "", true},
		{"alias hides the table", analystRole, "select customers.id from crm.customers c", unknown("42P01", "", "customers"), "crm.customers", true},
		{"everything may be read", "allow select *", "select 1 from hr.nosuch", unknown("42P01", "", "hr", "nosuch"), "", true},
		{"no name", analystRole, "select 1 from x", unknown("42P01", ""), "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, name := range split(tc.touched) {
				tc.err.Touched = append(tc.err.Touched, column(t, ix, name))
			}
			d := ruleset(t, split(tc.permissions)...).DecideError(Input{Identity: "ana", Source: "shop", Catalog: ix, Typed: analyze.Typed(tc.sql)}, tc.err)
			if passed := d.SQLState == tc.err.SQLState && d.Position == tc.err.Position; passed != tc.pass {
				t.Errorf("got %s %s | %s | %s", d.SQLState, d.Message, d.Detail, d.Hint)
			}
		})
	}
}

func TestAccess(t *testing.T) {
	ix := sampleCatalog()
	r := ruleset(t, "allow select crm.customers crm.orders.id", "deny select *.*.ssn *.*.email", "deny describe crm.customers.region", "allow describe crm.notes hr.salaries.salary", "allow insert crm.empty")
	a := r.Access("ana", "shop", ix)
	var got []string
	for _, table := range a.Tables {
		var describe []string
		for _, c := range table.Describe {
			describe = append(describe, c.Name)
		}
		got = append(got, table.Relation.Name+" read "+strings.Join(table.ReadNames(), ",")+" describe "+strings.Join(describe, ","))
	}
	want := []string{"customers read id,name,region describe id,name", "notes read  describe id,customer_id,body", "orders read id describe id", "salaries read  describe salary"}
	if strings.Join(got, ";") != strings.Join(want, ";") {
		t.Errorf("tables\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(a.Allow) != 5 || a.Allow[0] != (Statement{TableSelect, "crm.customers"}) || len(a.Deny) != 3 || a.Deny[2] != (Statement{TableDescribe, "crm.customers.region"}) {
		t.Errorf("allow %v deny %v", a.Allow, a.Deny)
	}
	tables, more := a.Readable(1)
	if len(tables) != 1 || tables[0].Relation.Name != "customers" || tables[0].AllRead() || !more {
		t.Errorf("readable %v %v", tables, more)
	}
	if tables, more = a.Readable(2); len(tables) != 2 || more {
		t.Errorf("readable %v %v", tables, more)
	}
}

// Access lists a column as readable exactly if Decide lets a statement read it.
func TestAccessAgreesWithDecide(t *testing.T) {
	ix := sampleCatalog()
	for _, permissions := range []string{"", analystRole, "allow select *", "allow select *;deny select *.*.id", "allow select pg_catalog.* *.orders", "allow select *.*.id;deny select hr.*"} {
		r := ruleset(t, split(permissions)...)
		readable := make(map[string]bool)
		for _, table := range r.Access("ana", "shop", ix).Tables {
			for _, c := range table.ReadNames() {
				readable[table.Relation.Schema+"."+table.Relation.Name+"."+c] = true
			}
		}
		for _, rel := range sample {
			for _, c := range strings.Fields(rel.columns) {
				name := rel.name + "." + c
				d := r.Decide(Input{Identity: "ana", Source: "shop", Catalog: ix, Facts: facts(t, ix, "read "+name)})
				if (d.Verdict == Allowed) != readable[name] {
					t.Errorf("%q: %s is %s but listed %v", permissions, name, d.Verdict, readable[name])
				}
			}
		}
	}
}
