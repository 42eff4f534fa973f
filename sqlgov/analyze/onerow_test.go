package analyze

import "testing"

// The attack: a subquery in a condition fails when it has more than one row, and so counts rows that are hidden.
func TestOneRow(t *testing.T) {
	for sql, want := range map[string]bool{
		"select c.relkind = 'c' from pg_catalog.pg_class c where c.oid = t.typrelid":                                                        true,
		"select relname from pg_catalog.pg_class c where t.typrelid = c.oid and c.relkind = 'r'":                                            true,
		"select relname from pg_catalog.pg_class where pg_class.oid operator(pg_catalog.=) 5":                                               true,
		"select relname from pg_catalog.pg_class c where c.relname = t.name":                                                                false,
		"select relname from pg_catalog.pg_class c where c.oid = c.oid":                                                                     false,
		"select relname from pg_catalog.pg_class c where c.oid = oid":                                                                       false,
		"select relname from pg_catalog.pg_class c where c.oid = t.a or c.relname = 'x'":                                                    false,
		"select relname from pg_catalog.pg_class c where not c.oid = t.a":                                                                   false,
		"select relname from pg_catalog.pg_class c where c.oid <> t.a":                                                                      false,
		"select relname from pg_catalog.pg_class c, pg_catalog.pg_type u where c.oid = t.a":                                                 false,
		"select generate_series(1, c.relnatts) from pg_catalog.pg_class c where c.oid = t.a":                                                false,
		"select relname from crm.pg_class c where c.oid = t.a":                                                                              false,
		"select relname from pg_class c where c.oid = t.a":                                                                                  false,
		"select c.b from pg_catalog.pg_class c(oid, b) where c.oid = t.a":                                                                   false,
		"select relname from pg_catalog.pg_class c where c.oid = t.a union all select relname from pg_catalog.pg_class c where c.oid = t.a": false,
	} {
		stmts, e := parse("select (" + sql + ")")
		if e != nil {
			t.Fatal(e)
		}
		link := stmts[0].Stmt.GetSelectStmt().TargetList[0].GetResTarget().Val.GetSubLink()
		if got := oneRow(link.Subselect); got != want {
			t.Errorf("%s: %v", sql, got)
		}
	}
}
