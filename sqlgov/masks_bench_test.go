package sqlgov_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"interlock/internal/gatewaytest"
)

const wideDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
    content: {mode: "off", columns: [{mode: mask, on: [public.scanned.c9, public.scanned.c10]}]}
masks:
  email: {kind: email}
  last4: {kind: partial, last: 4}
source_roles:
  reader:
    source: gov
    permissions:
      - allow: [db.table.select]
        on: ["public.*"]
    masks:
      - {with: email, on: [public.masked.c9]}
      - {with: last4, on: [public.masked.c10]}
identities:
  ana: {kind: human, grants: [{source: gov, roles: [reader]}]}
`

const wideData = `
create table plain as select i as c1, i as c2, i::text as c3, i::text as c4, i as c5, i as c6, i::text as c7, i as c8,
	'somebody' || i || '@example.com' as c9, '4111-1111-' || i as c10 from generate_series(1, 1000000) i;
create view masked as table plain; create view scanned as table plain;`

// BenchmarkMaskedRows reads a million rows of ten columns through the door: as they are, with two columns masked, and with
// content looked for in two.
func BenchmarkMaskedRows(b *testing.B) {
	g := gatewaytest.Start(b, gatewaytest.Options{Governance: wideDocument, Setup: []string{wideData}})
	for _, table := range []string{"plain", "masked", "scanned"} {
		b.Run(table, func(b *testing.B) {
			conn, err := pgconn.Connect(b.Context(), g.DSN("ana", "gov"))
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = conn.Close(b.Context()) }()
			for b.Loop() {
				r := conn.ExecParams(b.Context(), "select * from "+table, nil, nil, nil, nil)
				rows := 0
				for r.NextRow() {
					rows++
				}
				if _, err := r.Close(); err != nil || rows != 1_000_000 {
					b.Fatal(rows, err)
				}
			}
			b.ReportMetric(1_000_000*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
