package sqlgov_test

import (
	"testing"

	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
)

// The identity may read everything, but not without the mask. The login may not call what the stamp of the catalog is made
// with, so that no change is found between two scans but by rechecks.
const maskedDriftDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: mask_drift_login, tls: disable}
    scan_interval: 1h
masks:
  email: {kind: email}
source_roles:
  everything:
    source: gov
    permissions:
      - allow: [db.table.select, db.function.execute]
        on: ["*"]
    masks:
      - {with: email, on: [public.people.email]}
identities:
  ana: {kind: human, grants: [{source: gov, roles: [everything]}]}
`

// The attack: between judgement and execution another session gives the masked column the name of one that is not masked.
func TestMasksStandOnTheCatalog(t *testing.T) {
	srv := pgtest.Start(t)
	dsn := srv.Database(t)
	srv.Exec(t, dsn, `do $$ begin create role mask_drift_login login; exception when duplicate_object then null; end $$;
		create table people (id int, name text, email text); insert into people values (1, 'Ada', 'ada@raw.test');
		grant select on people to mask_drift_login;
		revoke execute on function hashtextextended(text, bigint) from public;`)
	g := gatewaytest.Start(t, gatewaytest.Options{Database: dsn, Governance: maskedDriftDocument})
	const sql = "select id, lower(name) from people"
	for _, d := range maskedDoors(g) {
		if got := oneStep(t, d.door, step{Q: sql}).replies[0]; got.state != "" {
			t.Fatalf("%s: %s %s", d.name, got.state, got.message)
		}
	}
	srv.Exec(t, dsn, `alter table people rename email to x; alter table people rename name to email; alter table people rename x to name`)
	unguarded := oneStep(t, &wire{dsn: dsn}, step{Q: sql}).replies[0]
	if unguarded.rows[0][1] != "ada@raw.test" {
		t.Fatalf("the server shows %v", unguarded.rows)
	}
	for _, d := range maskedDoors(g)[:1] { // the source is scanned again after the first
		tr := oneStep(t, d.door, step{Q: sql})
		if got := tr.replies[0]; got.state != "40001" {
			t.Errorf("%s: %s %s %v", d.name, got.state, got.message, got.rows)
		}
		hearsNothingRaw(t, d.name, sql, tr)
	}
}
