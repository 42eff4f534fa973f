package analyze_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

func parseOnly(sql string) (*analyze.Facts, error) {
	return analyze.Analyze(sql, analyze.Env{Catalog: catalog.NewIndex(&catalog.Snapshot{})})
}

// TestSessionStatements holds what is reported of statements that touch no relation.
func TestSessionStatements(t *testing.T) {
	for _, tc := range []struct{ sql, want string }{
		{"", "empty"},
		{" -- ping\n;", "empty"},
		{"begin", "begin"},
		{"start transaction isolation level serializable, read only, deferrable", "begin transaction_isolation=serializable transaction_read_only=1 transaction_deferrable=1"},
		{"begin read write", "begin transaction_read_only=0"},
		{"commit and chain", "commit"},
		{"end", "commit"},
		{"abort", "rollback"},
		{"rollback to savepoint a", "rollback a"},
		{"savepoint a", "savepoint a"},
		{"release a", "release a"},
		{"set timezone to 'UTC'", "set TimeZone TimeZone=UTC"},
		{"set time zone local", "set TimeZone TimeZone=default"},
		{"set time zone -5", "set TimeZone TimeZone=-5"},
		{"set time zone interval '1' hour", "set TimeZone TimeZone=1"},
		{"set local STATEMENT_TIMEOUT = 500", "set statement_timeout statement_timeout=500 local"},
		{"set statement_timeout to default", "set statement_timeout statement_timeout=default"},
		{"reset statement_timeout", "set statement_timeout statement_timeout=default"},
		{"reset all", "set all"},
		{"set search_path = ''", "set search_path search_path="},
		{"SELECT pg_catalog.set_config('search_path', '', false);", "set search_path search_path="},
		{"reset search_path", "set search_path search_path=default"},
		{"SELECT set_config(name, 'view, foreign-table', false) FROM pg_settings WHERE name = 'restrict_nonsystem_relation_kind'",
			"set restrict_nonsystem_relation_kind restrict_nonsystem_relation_kind=view, foreign-table"},
		{"set datestyle to iso, mdy", "set DateStyle DateStyle=iso, mdy"},
		{"set names 'UTF8'", "set client_encoding client_encoding=UTF8"},
		{"set standard_conforming_strings to on", "set standard_conforming_strings standard_conforming_strings=on"},
		{"set session characteristics as transaction read only", "set session characteristics transaction_read_only=1"},
		{"set transaction isolation level read committed", "set transaction transaction_isolation=read committed"},
		{"show server_version", "show server_version"},
		{"show transaction isolation level", "show transaction_isolation"},
		{"show time zone", "show TimeZone"},
		{"discard all", "discard all"},
		{"discard plans", "discard plans"},
		{"deallocate all", "deallocate"},
		{"deallocate prepare p", "deallocate p"},
		{"prepare p (text, int) as select $1, $2", "prepare p"},
		{"select 1; select 2", "select"},
	} {
		facts, err := parseOnlyWithTypes(tc.sql)
		if err != nil {
			t.Errorf("%s: %v", tc.sql, err)
			continue
		}
		if got := sessionText(&facts.Statements[0]); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.sql, got, tc.want)
		}
	}
}

// parseOnlyWithTypes knows the two types that the statements name, and no more.
func parseOnlyWithTypes(sql string) (*analyze.Facts, error) {
	return analyze.Analyze(sql, analyze.Env{Catalog: catalog.NewIndex(&catalog.Snapshot{Schemas: []catalog.Schema{{Name: "pg_catalog"}}, Types: []catalog.Type{
		{OID: 25, Schema: "pg_catalog", Name: "text", Kind: "b", Category: "S"}, {OID: 23, Schema: "pg_catalog", Name: "int4", Kind: "b", Category: "N"},
	}})})
}

func sessionText(st *analyze.Statement) string {
	parts := []string{string(st.Kind)}
	if st.Name != "" {
		parts = append(parts, st.Name)
	}
	for _, s := range st.Settings {
		if s.Default {
			s.Value = "default"
		}
		part := s.Name + "=" + s.Value
		if s.Local {
			part += " local"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// TestExtent holds where statements stand in their text.
func TestExtent(t *testing.T) {
	const sql = " /* a */ begin ; -- b\n\n commit /* c */;; rollback -- d"
	facts, err := parseOnly(sql)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range facts.Statements {
		got = append(got, sql[s.Start:s.End])
	}
	if want := []string{"begin", "commit", "rollback"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPrepared follows a prepared statement from PREPARE to EXECUTE.
func TestPrepared(t *testing.T) {
	s := newServer(t)
	facts, err := s.analyze("prepare p (int, text) as select name from customers where id = $1 and oracle.over($2) is null")
	if err != nil {
		t.Fatal(err)
	}
	st := facts.Statements[0]
	text := st.Prepared
	env := analyze.Env{Catalog: s.index, SearchPath: searchPath, Prepared: func(name string) (string, bool) {
		return map[string]string{"p": text, "plain": "select email from customers where id = $1"}[name], name == "p" || name == "plain"
	}}
	for _, tc := range []struct{ sql, want string }{
		{"execute p(1, 'x')", "customers.name customers.id"},
		{"execute p((select max(id) from orders)::int, 'x')", "orders.id customers.name customers.id"},
		{"execute plain(1)", "customers.email customers.id"},
		{"execute nosuch", "26000"},
		{"execute p(1)", "42601"},
		{"prepare q as select id from orders; execute q", ""},
		{"deallocate p; execute p(1, 'x')", "26000"},
		{"discard all; execute p(1, 'x')", "26000"},
	} {
		facts, err := analyze.Analyze(tc.sql, env)
		var refused *analyze.Error
		switch {
		case errors.As(err, &refused):
			if refused.SQLState != tc.want {
				t.Errorf("%s: %s %v, want %q", tc.sql, refused.SQLState, err, tc.want)
			}
			continue
		case tc.want == "":
			if got := fmt.Sprint(facts.Statements[1].Output[0].Name, len(facts.Statements[1].Reads), facts.SessionBound); got != "id1 false" {
				t.Errorf("%s: %s", tc.sql, got)
			}
			continue
		}
		if got := lineageText(analyze.Output{Columns: facts.Statements[0].Reads}); got != tc.want || !facts.SessionBound {
			t.Errorf("%s: %q, want %q", tc.sql, got, tc.want)
		}
		if !slices.ContainsFunc(facts.Statements[0].Output, func(o analyze.Output) bool { return o.Name == "name" || o.Name == "email" }) {
			t.Errorf("%s: no output", tc.sql)
		}
	}
}

// TestParamTypes shows that declared parameter types pick functions, and that uses do where none is declared.
func TestParamTypes(t *testing.T) {
	s := newServer(t)
	for _, tc := range []struct {
		sql   string
		types []catalog.OID
		want  string
	}{
		{"select oracle.over($1)", []catalog.OID{23}, "over(integer)"},
		{"select oracle.over($1)", []catalog.OID{25}, "over(text)"},
		{"select oracle.over($1)", []catalog.OID{0}, "over(text)"},
		{"select oracle.over($1), $1 + 1", nil, "over(text)"},
		{"select $1 + 1, oracle.over($1)", nil, "int4pl(integer, integer) over(integer)"},
	} {
		facts, err := analyze.Analyze(tc.sql, analyze.Env{Catalog: s.index, ParamTypes: tc.types})
		if err != nil {
			if tc.want != "over(text)" || tc.sql != "select oracle.over($1), $1 + 1" {
				t.Errorf("%s: %v", tc.sql, err)
			}
			continue
		}
		var got []string
		for _, f := range facts.Statements[0].Functions {
			got = append(got, f.Name+"("+f.Signature+")")
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s %v: %q, want %q", tc.sql, tc.types, got, tc.want)
		}
	}
}

// TestFlags holds the flags of writes.
func TestFlags(t *testing.T) {
	s := newServer(t)
	for _, tc := range []struct {
		sql             string
		noWhere, locks  bool
		session         string
		readOnly, bound bool
	}{
		{"delete from notes", true, false, "", false, false},
		{"delete from notes where true", false, false, "", false, false},
		{"with x as (update notes set body = 'x' returning 1) select * from x", true, false, "", false, false},
		{"select id from orders for update", false, true, "", false, false},
		{"select current_user, session_user, current_date", false, false, "current_user session_user", true, false},
		{"select 1", false, false, "", true, false},
	} {
		facts, err := s.analyze(tc.sql)
		if err != nil {
			t.Errorf("%s: %v", tc.sql, err)
			continue
		}
		st := &facts.Statements[0]
		if st.NoWhere != tc.noWhere || st.Locks != tc.locks || strings.Join(st.SessionValues, " ") != tc.session || st.ReadOnly() != tc.readOnly {
			t.Errorf("%s: %v %v %q %v", tc.sql, st.NoWhere, st.Locks, st.SessionValues, st.ReadOnly())
		}
	}
}

// TestKeywordDrift shows that words that mean something else to the server are refused where they are bare.
func TestKeywordDrift(t *testing.T) {
	s := newServer(t)
	for _, tc := range []struct{ sql, state string }{
		{"select system_user", "0A000"},
		{"select system_user from flags", "0A000"},
		{`select "system_user" from flags`, ""},
		{"select f.system_user from flags f", ""},
		{"select json_array(1)", "0A000"},
		{"select json_object('{a,1}')", ""},
		{"select pg_catalog.json_object('{a,1}')", ""},
		{"select 1 as format, 2 as keys, 'system_user' -- json_array", ""},
	} {
		state := ""
		var refused *analyze.Error
		if _, err := s.analyze(tc.sql); errors.As(err, &refused) {
			state = refused.SQLState
		}
		if state != tc.state {
			t.Errorf("%s: %q, want %q", tc.sql, state, tc.state)
		}
	}
}
