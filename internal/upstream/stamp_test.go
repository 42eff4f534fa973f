package upstream

import (
	"testing"

	"interlock/internal/pgtest"
)

func TestCatalogStampFollowsDDL(t *testing.T) {
	s := pgtest.Start(t)
	dsn := s.Database(t, `create table c (id int, a text, b text); create view v as select a from c; create function f() returns int language sql return 1`)
	p, src := newPool(t, Config{}), sourceOf(t, dsn)
	last, err := p.CatalogStamp(t.Context(), src, nil)
	if err != nil || last == "" {
		t.Fatalf("stamp %q, %v", last, err)
	}
	for _, step := range []struct {
		sql     string
		changes bool
	}{
		{"insert into c select n from generate_series(1, 1000) n", false},
		{"analyze c", false},
		{"vacuum c", false},
		{"create temp table mine (id int)", false},
		{"alter table c rename a to x", true},
		{"create table d (id bigint)", true},
		{"create or replace view v as select b as a from c", true},
		{"create or replace function f() returns int language sql return 2", true},
		{"alter table c alter id type bigint", true},
		{"alter table c add check (id > 0)", true},
		{"alter table d add b text, add x text", true},
		{"create domain dom as int", true},
		{"create schema other", true},
		{"drop table d", true},
		{"begin; create table rolled_back (id int); rollback", false},
	} {
		s.Exec(t, dsn, step.sql)
		stamp, err := p.CatalogStamp(t.Context(), src, nil)
		if err != nil {
			t.Fatal(err)
		}
		if changed := stamp != last; changed != step.changes {
			t.Errorf("%s: changed %v, want %v", step.sql, changed, step.changes)
		}
		last = stamp
	}
}
