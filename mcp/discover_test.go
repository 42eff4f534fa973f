package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"interlock/audit"
	"interlock/internal/gatewaytest"
	"interlock/mcp"
	"interlock/sqlgov"
)

// library: ana sees books and loans, but not what readers are; bob sees everything.
const library = `
version: 1
sources:
  shop:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  desk:
    source: shop
    permissions:
      - allow: [db.table.describe]
        on: [lib.books, lib.loans, lib.overdue]
      - deny: [db.table.describe]
        on: [lib.loans.reader]
      - allow: [db.function.execute]
        on: [lib.fine]
  floor:
    source: shop
    permissions:
      - allow: [db.table.select]
        on: [lib.shelves, lib.vault]
      - deny: [discovery.search]
        on: [lib.vault]
  everything:
    source: shop
    permissions:
      - allow: [db.table.describe, db.table.select, db.function.execute]
        on: ["*"]
identities:
  ana: {kind: agent, grants: [{source: shop, roles: [desk, floor]}]}
  bob: {kind: human, grants: [{source: shop, roles: [everything]}]}
`

var seenTables = `
create schema lib;
create table lib.books (isbn text primary key, title text);
comment on table lib.books is 'Every book that we own';
comment on column lib.books.title is 'As printed on the cover';
create table lib.shelves (id int primary key, "floorNumber" int);
create table lib.loans (id int primary key, isbn text references lib.books, shelf int references lib.shelves, reader int, due date);
comment on table lib.loans is 'Books that readers have at home';
create view lib.overdue as select id, isbn from lib.loans where due < current_date;
create function lib.fine(days int) returns numeric language sql as 'select days * 0.2';
comment on function lib.fine is 'What a late book costs';`

// hiddenTables are full of the words that ana looks for.
const hiddenTables = `
create schema hr;
create table lib.readers (id int primary key, favourite_book text, book_count int);
comment on table lib.readers is 'book book book title cover secret';
alter table lib.loans add foreign key (reader) references lib.readers;
create table hr.books (book_id int primary key, isbn text references lib.books, title text, secret text);
create table lib.secret_loans (loan int references lib.loans, book text references lib.books, title text);
create function hr.book(int) returns int language sql as 'select 1';
comment on column lib.loans.reader is 'secret book';
create table lib.vault (book text references lib.books, secret text);
create function lib.vault(int) returns int language sql as 'select 1';`

func discovered(t *testing.T, c caller, args string) sqlgov.Discovery {
	t.Helper()
	var d sqlgov.Discovery
	got := c.call("interlock_discover", args)
	if err := json.Unmarshal([]byte(got.text), &d); err != nil {
		t.Fatalf("%s: %v in %s", args, err, got.body)
	}
	return d
}

func names(d sqlgov.Discovery) string {
	var all []string
	for i := range d.Results {
		all = append(all, d.Results[i].Name)
	}
	return strings.Join(all, " ")
}

// TestDiscoverHidesWhatIsNotVisible: the attack is to learn of tables from what a search says of others: its order, its
// counts, its relations. The answers to ana must be, to the byte, those of a database without what ana may not describe.
// That bob's answers differ shows that these searches would tell.
func TestDiscoverHidesWhatIsNotVisible(t *testing.T) {
	full := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{seenTables, hiddenTables}, Governance: library})
	bare := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{seenTables}, Governance: library})
	for _, call := range []struct{ tool, args string }{
		{"interlock_discover", `{"source_id":"shop","query":"book title"}`},
		{"interlock_discover", `{"source_id":"shop","query":"book","include_related":true}`},
		{"interlock_discover", `{"source_id":"shop","query":"secret"}`},
		{"interlock_discover", `{"source_id":"shop","query":"book","limit":1}`},
		{"interlock_discover", `{"source_id":"shop","limit":50,"include_related":true}`},
		{"interlock_discover", `{"source_id":"shop","entities":["books"]}`},
		{"interlock_discover", `{"source_id":"shop","category_path":"hr"}`},
		{"interlock_discover", `{"source_id":"shop","audience":["everything"]}`},
		{"interlock_related_documents", `{"asset_id":"shop/lib.books"}`},
		{"interlock_related_documents", `{"asset_id":"shop/lib.loans","limit":3}`},
		{"interlock_related_documents", `{"asset_id":"shop/lib.loans.isbn"}`},
		{"interlock_related_documents", `{"asset_id":"shop/lib.loans.reader"}`},
		{"interlock_related_documents", `{"asset_id":"shop/lib.vault.secret"}`},
		{"interlock_related_documents", `{"asset_id":"shop/hr.books"}`},
	} {
		for _, version := range mcp.Versions {
			with := as(t, full, "ana", version).call(call.tool, call.args)
			without := as(t, bare, "ana", version).call(call.tool, call.args)
			if a, b := stable([]byte(with.body)), stable([]byte(without.body)); string(a) != string(b) {
				t.Errorf("%s %s in %s:\n%s\nwithout the hidden tables\n%s", call.tool, call.args, version, a, b)
			}
		}
	}
	for _, args := range []string{`{"source_id":"shop","query":"secret"}`, `{"source_id":"shop","entities":["books"]}`, `{"source_id":"shop","category_path":"hr"}`} {
		if with, without := discovered(t, as(t, full, "bob", modernVersion), args), discovered(t, as(t, bare, "bob", modernVersion), args); with.Total <= without.Total {
			t.Errorf("%s finds %d for bob, and %d without the hidden tables", args, with.Total, without.Total)
		}
	}
}

// TestDiscover: what is found is what may be described, each filter selects by what the contract says, and the index
// follows the database.
func TestDiscover(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Setup: []string{seenTables, hiddenTables}, Governance: library})
	for _, version := range mcp.Versions {
		c := as(t, g, "ana", version)
		for args, want := range map[string]string{
			`"query":"book"`:                                                         "lib.books lib.books.isbn lib.books.title lib.fine(integer) lib.loans",
			`"query":"cover"`:                                                        "lib.books.title",
			`"query":"floor"`:                                                        `lib.shelves."floorNumber"`,
			`"query":"books title"`:                                                  "lib.books.title lib.books lib.books.isbn lib.fine(integer) lib.loans",
			`"query":"late OR \"x"`:                                                  "lib.fine(integer)",
			`"query":"reader","document_types":["table"]`:                            "lib.loans",
			`"query":"zebra"`:                                                        "",
			`"document_types":["view","function"]`:                                   "lib.fine(integer) lib.overdue",
			`"category_path":"lib/shelves"`:                                          `lib.shelves."floorNumber" lib.shelves.id`,
			`"category_path":"li"`:                                                   "",
			`"entities":["lib.shelves"],"limit":3`:                                   "lib.loans lib.loans.shelf lib.shelves",
			`"entities":["shelves"],"document_types":["table"]`:                      "lib.loans lib.shelves",
			`"audience":["floor"],"document_types":["table"]`:                        "lib.shelves",
			`"audience":["everything"]`:                                              "",
			`"source_types":["postgres"],"document_types":["table"]`:                 "lib.books lib.loans lib.shelves",
			`"time_range":{"to":"2020-01-01T00:00:00Z"}`:                             "",
			`"time_range":{"from":"2020-01-01T00:00:00Z"},"document_types":["view"]`: "lib.overdue",
		} {
			if got := names(discovered(t, c, `{"source_id":"shop",`+args+`}`)); got != want {
				t.Errorf("%s in %s: got %s, want %s", args, version, got, want)
			}
		}
	}
	sameAsDescribed(t, g)
	for _, refused := range []string{`{"source_id":"other","query":"book"}`, `{"query":"book"}`, `{"source_id":"shop","limit":51}`,
		`{"source_id":"shop","source_types":["documents"]}`, `{"source_id":"shop","time_range":{"from":"today"}}`, `{"source_id":"shop","audience":"desk"}`} {
		if got := as(t, g, "ana", "2025-11-25").call("interlock_discover", refused); got.rpc == 0 && !got.isError {
			t.Errorf("%s: %s", refused, got.body)
		}
	}
	followsTheDatabase(t, g)
	as(t, g, "ana", modernVersion).call("interlock_related_documents", `{"asset_id":"shop/lib.books"}`)
	found := g.Records(audit.Filter{Identity: "ana", Source: "shop"})
	for _, kind := range []string{"discover", "related"} {
		if !slices.ContainsFunc(found, func(v audit.View) bool { return slices.Contains(v.Judgement.Kinds, kind) }) {
			t.Errorf("no record of kind %s", kind)
		}
	}
}

// sameAsDescribed: a search without words lists exactly the columns of interlock_describe_source, but for those that a
// deny of discovery.search hides.
func sameAsDescribed(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	c := as(t, g, "ana", modernVersion)
	var columns []sqlgov.ColumnInfo
	if err := json.Unmarshal([]byte(c.call("interlock_describe_source", `{"source_id":"shop"}`).text), &columns); err != nil {
		t.Fatal(err)
	}
	described, found := map[string]bool{}, map[string]bool{"lib/vault book text": true, "lib/vault secret text": true}
	for _, col := range columns {
		described[col.TableSchema+"/"+col.TableName+" "+col.ColumnName+" "+col.DataType] = true
	}
	for _, d := range discovered(t, c, `{"source_id":"shop","document_types":["column"],"limit":50}`).Results {
		name := strings.Trim(d.Name[strings.LastIndex(d.Name, ".")+1:], `"`)
		found[d.CategoryPath+" "+name+" "+d.DataType] = true
	}
	if !maps.Equal(described, found) {
		t.Errorf("described %v\nfound %v", described, found)
	}
}

// followsTheDatabase: what is new is found after the next scan, and what stays keeps the time when it was first seen.
func followsTheDatabase(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), g.Upstream)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	before := map[string]string{}
	c := as(t, g, "ana", modernVersion)
	for _, d := range discovered(t, c, `{"source_id":"shop","limit":50}`).Results {
		before[d.Name] = d.UpdatedAt.String()
	}
	if _, err := conn.Exec(t.Context(), `alter table lib.books add subtitle text; comment on table lib.loans is 'Lent out'`); err != nil {
		t.Fatal(err)
	}
	if err := g.Catalogs.Refresh(t.Context(), g.Rules.Current().Source("shop")); err != nil {
		t.Fatal(err)
	}
	if got := names(discovered(t, c, `{"source_id":"shop","query":"subtitle lent"}`)); !strings.Contains(got, "lib.books.subtitle") || !strings.Contains(got, "lib.loans") {
		t.Errorf("after the change: %s", got)
	}
	for _, d := range discovered(t, c, `{"source_id":"shop","limit":50}`).Results {
		changed := d.Name == "lib.books.subtitle" || d.Name == "lib.loans"
		if changed == (before[d.Name] == d.UpdatedAt.String()) {
			t.Errorf("%s was first seen %s, and before that %s", d.Name, d.UpdatedAt, before[d.Name])
		}
	}
}

// TestRelatedDocuments: relations are those of pg_constraint and pg_inherits.
func TestRelatedDocuments(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: library, Setup: []string{seenTables, hiddenTables,
		`create table lib.log (at date, isbn text) partition by range (at); create table lib.log_2026 partition of lib.log for values from ('2026-01-01') to ('2027-01-01')`}})
	for asset, want := range map[string]string{
		"shop/lib.loans":         "references shop/lib.books references shop/lib.readers references shop/lib.shelves referenced_by shop/lib.secret_loans column shop/lib.loans.id",
		"shop/lib.books":         "referenced_by shop/hr.books referenced_by shop/lib.loans referenced_by shop/lib.secret_loans referenced_by shop/lib.vault column shop/lib.books.isbn",
		"shop/lib.loans.isbn":    "references shop/lib.books.isbn table shop/lib.loans",
		"shop/lib.books.isbn":    "referenced_by shop/hr.books.isbn referenced_by shop/lib.loans.isbn referenced_by shop/lib.secret_loans.book referenced_by shop/lib.vault.book table shop/lib.books",
		"shop/lib.log":           "child shop/lib.log_2026 column shop/lib.log.at column shop/lib.log.isbn",
		"shop/lib.log_2026":      "parent shop/lib.log column shop/lib.log_2026.at column shop/lib.log_2026.isbn",
		"shop/lib.fine(integer)": "",
	} {
		var found sqlgov.RelatedDocuments
		got := as(t, g, "bob", modernVersion).call("interlock_related_documents", fmt.Sprintf(`{"asset_id":%q,"limit":5}`, asset))
		if err := json.Unmarshal([]byte(got.text), &found); err != nil {
			t.Fatalf("%v in %s", err, got.body)
		}
		var all []string
		for i, r := range found.Relations {
			all = append(all, r.Relation, r.AssetID)
			if found.Results[i].AssetID != r.AssetID {
				t.Errorf("%s: result %d is %s", asset, i, found.Results[i].AssetID)
			}
		}
		if strings.Join(all, " ") != want {
			t.Errorf("%s: got %s, want %s", asset, strings.Join(all, " "), want)
		}
	}
	for _, asset := range []string{"", "/", "shop", "shop/", "other/lib.books", "shop/lib.nothing", "shop/lib.readers"} {
		got := as(t, g, "ana", "2025-11-25").call("interlock_related_documents", fmt.Sprintf(`{"asset_id":%q}`, asset))
		if asset != "" && got.reason.Status != "not_found" || asset == "" && got.rpc != -32602 {
			t.Errorf("%q: %s", asset, got.body)
		}
	}
}
