package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"interlock/catalog"
	"interlock/internal/pgtest"
	"interlock/sqlgov"

	"github.com/jackc/pgx/v5"
)

// A sample is bounded in rows, in the width of a value and in time, and changes nothing.
func TestSample(t *testing.T) {
	s := pgtest.Start(t)
	dsn := s.Database(t, `create table wide (a text, "B" text[], c jsonb); insert into wide values (repeat('é', 100000), null, '{"k": 1}'), ('x', '{y}', null);
		create table many (n bigint); insert into many select * from generate_series(1, 20000);
		create function written() returns text volatile language plpgsql as 'begin insert into public.many values (0); return 0; end';
		create view writes as select written() as w`)
	p, src := newPool(t, Config{}), sourceOf(t, dsn)
	sample := func(rel catalog.Relation, rows int, timeout time.Duration, columns ...string) ([]string, error) {
		var all []string
		rel.Schema = "public"
		err := p.Sample(t.Context(), src, SampleRequest{Relation: &rel, Columns: columns, Rows: rows, Timeout: timeout}, func(values [][]byte) {
			for _, v := range values {
				all = append(all, fmt.Sprintf("%q:%v", firstRune(v), v == nil))
				if n := len([]rune(string(v))); n > sampleWidth {
					t.Errorf("a value of %d characters", n)
				}
			}
		})
		return all, err
	}
	const minute = time.Minute
	got, err := sample(catalog.Relation{Name: "wide", Kind: catalog.Table, RowEstimate: -1}, 10, minute, "a", "B", "c")
	if want := `['é':false '\x00':true '{':false 'x':false '{':false '\x00':true]`; err != nil || fmt.Sprint(got) != want {
		t.Errorf("%v, %v; want %s", got, err, want)
	}
	if got, err := sample(catalog.Relation{Name: "many", Kind: catalog.Table}, 7, minute, "n"); err != nil || len(got) != 7 {
		t.Errorf("%d rows, %v", len(got), err)
	}
	for _, estimate := range []float64{20000, 1e12} { // the second is far too much, so that no page is chosen
		if got, err := sample(catalog.Relation{Name: "many", Kind: catalog.Table, RowEstimate: estimate}, 500, minute, "n"); err != nil || len(got) == 0 || len(got) > 500 {
			t.Errorf("%d rows with an estimate of %v, %v", len(got), estimate, err)
		}
	}
	var fromServer *sqlgov.UpstreamError
	if _, err := sample(catalog.Relation{Name: "writes", Kind: catalog.View}, 1, minute, "w"); !errors.As(err, &fromServer) || fromServer.SQLState != "25006" {
		t.Errorf("a write inside: %v", err)
	}

	locker, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close(context.Background())
	if _, err := locker.Exec(t.Context(), "begin; lock table many"); err != nil {
		t.Fatal(err)
	}
	if _, err := sample(catalog.Relation{Name: "many", Kind: catalog.Table}, 1, 50*time.Millisecond, "n"); !errors.As(err, &fromServer) || fromServer.SQLState != "57014" {
		t.Errorf("a table that is locked: %v", err)
	}
}

func firstRune(b []byte) rune {
	for _, r := range string(b) {
		return r
	}
	return 0
}

// The attack: a table or column is named so that reading its values reads something else.
func TestSampleQuotesNames(t *testing.T) {
	r := SampleRequest{Relation: &catalog.Relation{Schema: `a"b`, Name: "c; drop table d"}, Columns: []string{`x"), (select 1`}, Rows: 5}
	if got, want := r.sql(""), `SELECT pg_catalog.left("x""), (select 1"::pg_catalog.text, 4096) FROM "a""b"."c; drop table d" LIMIT 5`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if strings.Contains(r.spread(), "SYSTEM") {
		t.Error("a table of unknown size is spread")
	}
}
