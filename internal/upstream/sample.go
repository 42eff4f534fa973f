package upstream

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"interlock/catalog"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

// SampleRequest says which values of a table are read.
type SampleRequest struct {
	Relation *catalog.Relation
	Columns  []string      // at least one; of types whose conversion to text runs no code of the database
	Rows     int           // at most
	Timeout  time.Duration // for the whole
}

// sampleWidth is how many characters of a value are read.
const sampleWidth = 4096

// sampleGrace is for the way to the server and back.
const sampleGrace = 10 * time.Second

// Sample reads values of some rows of a table as text, in one read-only query, and hands them over row by row, NULL as nil. A
// row is not to be used after each returns. Of a large table the rows come from pages all over it. An error of the
// server can hold a value.
func (p *Pool) Sample(ctx context.Context, src *policy.SourceSpec, r SampleRequest, each func(values [][]byte)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*r.Timeout+sampleGrace) // the server is the first to give up
	defer cancel()
	rows := 0
	run := func(where string) error {
		req := sqlgov.RunRequest{SQL: r.sql(where), ReadOnly: true, Stateless: true, Timeout: r.Timeout, MaxRows: r.Rows,
			Pinned: map[string]string{"search_path": "pg_catalog", "client_encoding": "UTF8"}}
		_, err := p.Run(ctx, src, req, sqlgov.Sink{Row: func(row [][]byte) error {
			rows++
			each(row)
			return nil
		}})
		return err
	}
	spread := r.spread()
	if err := run(spread); err != nil || rows > 0 || spread == "" {
		return err
	}
	return run("") // the estimate was wrong
}

// spread takes about twice as many rows as are wanted, from pages all over a table that has many more; the same ones each time.
func (r *SampleRequest) spread() string {
	wanted, all := 2*float64(r.Rows), r.Relation.RowEstimate
	if r.Relation.Kind == catalog.ForeignTable || all < 10*wanted {
		return ""
	}
	return fmt.Sprintf(" TABLESAMPLE SYSTEM (%.6f) REPEATABLE (1)", max(100*wanted/all, 0.000001))
}

func (r *SampleRequest) sql(spread string) string {
	values := make([]string, len(r.Columns))
	for i, c := range r.Columns {
		values[i] = fmt.Sprintf("pg_catalog.left(%s::pg_catalog.text, %d)", pgx.Identifier{c}.Sanitize(), sampleWidth)
	}
	return fmt.Sprintf("SELECT %s FROM %s%s LIMIT %d", strings.Join(values, ", "), pgx.Identifier{r.Relation.Schema, r.Relation.Name}.Sanitize(), spread, r.Rows)
}
