package sqlgov_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
)

// The attack: two columns swap names behind the gateway's back, so that a granted name stands for the hidden values.
// Without a look at the server's catalog the old facts would hold until the next scan, minutes later.
func TestRenamesBehindTheGatewayAreSeen(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: hiddenColumn, Setup: []string{
		`create table c (id int, name text, ssn text); insert into c values (7, 'Ada', '078-05-1120')`}})
	conn, err := pgx.Connect(t.Context(), g.DSN("ana", "shop"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	const probe = "select count(*) from c where name like '078%'"
	before := g.Catalogs.Index("shop").Snapshot.Version
	pgtest.Start(t).Exec(t, g.Upstream, `alter table c rename ssn to hidden; alter table c rename name to ssn; alter table c rename hidden to name; alter table c add ssn2 text`)
	deadline := time.Now().Add(20 * time.Second)
	for g.Catalogs.Index("shop").Snapshot.Version == before {
		if time.Now().After(deadline) {
			t.Fatal("the change was not seen without a scan")
		}
		time.Sleep(50 * time.Millisecond)
	}
	// The names are what the document grants, so "name" now is what was the ssn: by name it is granted. What must not
	// happen is that the old facts answer for the new columns.
	rel := g.Catalogs.Index("shop").RelationNamed("public", "c")
	if rel.Columns[2].Name != "name" {
		t.Fatalf("third column is %q", rel.Columns[2].Name)
	}
	var n int
	if err := conn.QueryRow(t.Context(), probe).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "select ssn2 from c"); err == nil || !strings.Contains(err.Error(), "42501") {
		t.Errorf("a new column: %v, want 42501", err)
	}
}
