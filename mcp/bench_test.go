package mcp

import (
	"fmt"
	"testing"

	"interlock/sqlgov"
)

// BenchmarkPresent makes the reply of a result of 1,000 rows.
func BenchmarkPresent(b *testing.B) {
	res := &sqlgov.Result{Tag: "SELECT 1000", Limit: 1000, DecisionID: "01JDQ8Z4W5V3N2M1K0H9G8F7E6", Columns: []sqlgov.ResultColumn{
		{Name: "id", Type: oidInt4, TypeName: "integer"}, {Name: "name", Type: 25, TypeName: "text"}, {Name: "amount", Type: oidNumeric, TypeName: "numeric"},
		{Name: "seen", Type: 1184, TypeName: "timestamp with time zone"}, {Name: "note", Type: 25, TypeName: "text"}}}
	for n := range 1000 {
		res.Rows = append(res.Rows, [][]byte{fmt.Append(nil, n), fmt.Append(nil, "name ", n), fmt.Append(nil, n, ".25"),
			[]byte("2026-01-01 00:00:01+00"), fmt.Appendf(nil, "%064x", n)})
	}
	x := exchange{server: &Server{}}
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(x.complete(x.server.present(res)))))
	}
}
