package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock/catalog"
)

const maskedDocument = `version: 1
sources:
  shop: {kind: postgres, upstream: {host: localhost, database: d, user: u, tls: disable}}
masks:
  email: {kind: email}
  thousands: {kind: number, step: 1000}
source_roles:
  analyst:
    source: shop
    permissions: [{allow: [db.table.select], on: [crm.c.id, crm.c.email, crm.v]}]
    masks:
      - {with: email, on: [crm.c.email]}
identities:
  ana: {kind: human, grants: [{source: shop, roles: [analyst]}]}
`

func maskedCatalog(t *testing.T) []byte {
	t.Helper()
	column := func(num int16, name string) catalog.Column {
		return catalog.Column{Num: num, Name: name, Type: 25, TypeName: "text", TypeMod: -1}
	}
	snap := &catalog.Snapshot{Source: "shop", SearchPath: []string{"crm"}, Schemas: []catalog.Schema{{Name: "crm"}},
		Types: []catalog.Type{{OID: 25, Schema: "pg_catalog", Name: "text", Display: "text", Kind: "b", Category: "S"}},
		Relations: []catalog.Relation{
			{OID: 20000, Schema: "crm", Name: "c", Kind: catalog.Table, Columns: []catalog.Column{column(1, "id"), column(2, "email"), column(3, "ssn")}},
			{OID: 20001, Schema: "crm", Name: "v", Kind: catalog.View, Columns: []catalog.Column{column(1, "address"), column(2, "either")},
				Definition: "SELECT c.email AS address, CASE WHEN (c.email IS NULL) THEN c.id ELSE c.email END AS either FROM crm.c"}}}
	var err error
	if snap.Version, err = snap.ContentVersion(); err != nil {
		t.Fatal(err)
	}
	content, err := snap.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestMasksOffline(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	known, document := write("catalog", maskedCatalog(t)), write("g.yaml", []byte(maskedDocument))
	preview := func(table string) string {
		var out strings.Builder
		cmd := maskCommand()
		cmd.SetOut(&out)
		cmd.SetArgs([]string{"preview", "--as=ana", "--source=shop", "--governance=" + document, "--catalog=" + known, table})
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(out.String()), " ")
	}
	for table, want := range map[string][]string{
		"crm.c": {"id text clear", "email text masked email", "mask email of role analyst, line 12", "ssn text refused"},
		"crm.v": {"address text masked email", "either text hidden", "db.table.select on crm.c.email: mask email"},
	} {
		got := preview(table)
		for _, says := range want {
			if !strings.Contains(got, says) {
				t.Errorf("%s: %s, want %s", table, got, says)
			}
		}
	}

	conf := write("interlock.yaml", []byte("governance: g.yaml\n"))
	if out, errOut, err := runCheck(t, "--config", conf, "--catalog", known); err != nil {
		t.Errorf("a mask that fits: %s %s %v", out, errOut, err)
	}
	write("g.yaml", []byte(strings.Replace(maskedDocument, "with: email, on", "with: thousands, on", 1)))
	_, errOut, err := runCheck(t, "--config", conf, "--catalog", known)
	if err == nil || !strings.Contains(errOut, document+`:12:1: mask "thousands" cannot be put on crm.c.email: a mask of kind number does not fit values of type text`) {
		t.Errorf("a mask that does not fit: %s %v", errOut, err)
	}
}
