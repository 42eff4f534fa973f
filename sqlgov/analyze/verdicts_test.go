package analyze

import (
	"strings"
	"testing"

	"interlock/catalog"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// TestVerdictsCoverTheGrammar walks the parser's schema: every kind of node has a verdict, and every verdict a kind.
func TestVerdictsCoverTheGrammar(t *testing.T) {
	all := Verdicts()
	fields := (&pg.Node{}).ProtoReflect().Descriptor().Oneofs().Get(0).Fields()
	seen := map[string]bool{}
	for i := range fields.Len() {
		name := string(fields.Get(i).Name())
		seen[name] = true
		v, ok := all[name]
		switch {
		case !ok:
			t.Errorf("%s has no verdict", name)
		case v.Class == Refused && v.Reason == "":
			t.Errorf("%s is refused without a reason", name)
		}
	}
	for name := range all {
		if !seen[name] {
			t.Errorf("there is no kind of node %s", name)
		}
	}
	total := 0
	for _, group := range verdictGroups() {
		total += len(group)
	}
	if total != len(all) {
		t.Errorf("%d verdicts for %d kinds: some kind has two", total, len(all))
	}
}

// TestRefusedStatements holds a statement of each kind that is refused against the verdict table.
func TestRefusedStatements(t *testing.T) {
	index := catalog.NewIndex(&catalog.Snapshot{})
	for _, sql := range strings.Split(`create table t (a int)
create table t as select 1
select 1 into t
create view v as select 1
drop table t
alter table t add a int
create index on t (a)
grant select on t to r
create role r
alter role r set search_path = x
do 'begin end'
call p()
load 'x'
vacuum
analyze t
reindex table t
cluster
checkpoint
refresh materialized view m
comment on table t is 'x'
security label on table t is 'x'
create extension x
create function f() returns int language sql as 'select 1'
set constraints x deferred
alter system set x = 1
create database d
prepare transaction 'x'
commit prepared 'x'
rollback prepared 'x'
set transaction snapshot 'x'
import foreign schema s from server s into s
create publication p
create subscription s connection '' publication p
drop owned by r
create rule r as on select to t do instead nothing
create trigger t before insert on t execute function f()
set role r
set session authorization r
reset role
set search_path = x
set work_mem = '1GB'
set row_security = off
set standard_conforming_strings = off
set client_encoding = 'SJIS'
set names 'latin1'
show all
show data_directory
select json_array(1)
select '{}' is json`, "\n") {
		_, err := Analyze(sql, Env{Catalog: index})
		e, ok := err.(*Error)
		if !ok || e.SQLState != "0A000" {
			t.Errorf("%s: %v, want 0A000", sql, err)
		}
	}
}
