package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"interlock/internal/pgtest"
)

// TestAnalyzeLines talks to interlock analyze line by line, while tables come and go.
func TestAnalyzeLines(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t, `create schema crm; create table crm.customers (id int, name text, ssn text);
		create function crm.mask(text) returns text language sql as 'select $1'`)
	a, err := newAnalyst(context.Background(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer a.conn.Close(context.Background())
	in, input := io.Pipe()
	output, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- a.serve(context.Background(), in, out) }()
	lines := bufio.NewReader(output)
	ask := func(line string) string {
		t.Helper()
		if _, err := io.WriteString(input, line+"\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid([]byte(answer)) {
			t.Errorf("%s: no JSON: %s", line, answer)
		}
		return strings.TrimSpace(answer)
	}
	for _, tc := range []struct{ before, line, want string }{
		{"", `{"id":1,"sql":"select crm.mask(name) from crm.customers"}`,
			`{"id":1,"statements":[{"kind":"select","reads":[{"schema":"crm","table":"customers","column":"name"}],"writes":[],"functions":["crm.mask(text)"],"output":[{"name":"mask","columns":[{"schema":"crm","table":"customers","column":"name"}]}]}],"refused":null}`},
		{"", `{"id":"b","sql":"delete from customers","search_path":"crm, public"}`,
			`{"id":"b","statements":[{"kind":"delete","reads":[],"writes":[{"schema":"crm","table":"customers","column":"","action":"delete"}],"functions":[],"output":[]}],"refused":null}`},
		{"", `{"id":2,"sql":"select count(*) from customers","search_path":["crm"]}`,
			`{"id":2,"statements":[{"kind":"select","reads":[{"schema":"crm","table":"customers","column":""}],"writes":[],"functions":["pg_catalog.count()"],"output":[{"name":"count","columns":[]}]}],"refused":null}`},
		{"", `{"id":3,"sql":"select 1 from crm.later"}`,
			`{"id":3,"statements":[],"refused":{"sqlstate":"42P01","reason":"relation \"crm.later\" does not exist"}}`},
		{"create table crm.later (a int)", `{"id":4,"sql":"select * from crm.later"}`,
			`{"id":4,"statements":[{"kind":"select","reads":[{"schema":"crm","table":"later","column":"a"}],"writes":[],"functions":[],"output":[{"name":"a","columns":[{"schema":"crm","table":"later","column":"a"}]}]}],"refused":null}`},
		{"alter table crm.later rename a to b", `{"id":5,"sql":"select a from crm.later"}`,
			`{"id":5,"statements":[],"refused":{"sqlstate":"42703","reason":"column \"a\" does not exist"}}`},
		{"", `{"id":6}`, `{"id":6,"statements":[],"refused":{"sqlstate":"22023","reason":"the line has no sql"}}`},
		{"", `{"id":7,"sql":"select 1","search_path":1}`,
			`{"id":7,"statements":[],"refused":{"sqlstate":"22023","reason":"search_path is neither a text nor a list of texts"}}`},
		{"", `{"id":8,"sql":""}`, `{"id":8,"statements":[{"kind":"empty","reads":[],"writes":[],"functions":[],"output":[]}],"refused":null}`},
	} {
		if tc.before != "" {
			srv.Exec(t, dsn, tc.before)
		}
		if got := ask(tc.line); got != tc.want {
			t.Errorf("%s\n\tgot  %s\n\twant %s", tc.line, got, tc.want)
		}
	}
	for _, broken := range []string{"no json", `{"id":1,"sql":"` + "\xff" + `"}`, `[]`} {
		if got := ask(broken); !strings.Contains(got, `"sqlstate":"22P02"`) {
			t.Errorf("%q: %s", broken, got)
		}
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
