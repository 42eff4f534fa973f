package upstream

import (
	"context"
	"time"

	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

// stampTimeout bounds the query behind CatalogStamp on the server.
const stampTimeout = 5 * time.Second

// stampSQL sums up which version of each catalog row is there. Every DDL statement writes new row versions; ANALYZE and
// VACUUM change statistics in place. What temporary objects write is left out, for nobody can name them.
const stampSQL = `
WITH lasting AS (SELECT oid, xmin FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_(toast|temp_)'),
rel AS (SELECT oid, xmin FROM pg_catalog.pg_class WHERE relnamespace IN (SELECT oid FROM lasting)),
row_versions AS (
  SELECT oid::text AS id, xmin FROM lasting
  UNION ALL SELECT oid::text, xmin FROM rel
  UNION ALL SELECT attrelid || '.' || attnum, a.xmin FROM pg_catalog.pg_attribute a JOIN rel ON rel.oid = attrelid WHERE attnum > 0
  UNION ALL SELECT oid::text, xmin FROM pg_catalog.pg_proc
  UNION ALL SELECT oid::text, xmin FROM pg_catalog.pg_type WHERE typnamespace IN (SELECT oid FROM lasting)
  UNION ALL SELECT oid::text, xmin FROM pg_catalog.pg_operator
  UNION ALL SELECT oid::text, xmin FROM pg_catalog.pg_cast
  UNION ALL SELECT r.oid::text, r.xmin FROM pg_catalog.pg_rewrite r JOIN rel ON rel.oid = ev_class
  UNION ALL SELECT inhrelid || '<' || inhparent, xmin FROM pg_catalog.pg_inherits
  UNION ALL SELECT d.oid::text, d.xmin FROM pg_catalog.pg_attrdef d JOIN rel ON rel.oid = adrelid
  UNION ALL SELECT oid::text, xmin FROM pg_catalog.pg_constraint WHERE connamespace IN (SELECT oid FROM lasting)
)
SELECT count(*) || ':' || sum(hashtextextended(id || ':' || xmin::text, 0)) FROM row_versions`

// CatalogStamp returns a text that changes with every committed change of a source's catalog. It costs the server a few
// milliseconds, a scan costs it a hundred. With the pins of the source's other statements it shares their connections.
func (p *Pool) CatalogStamp(ctx context.Context, src *policy.SourceSpec, pinned map[string]string) (stamp string, err error) {
	req := sqlgov.RunRequest{SQL: stampSQL, ReadOnly: true, Stateless: true, Timeout: stampTimeout, Pinned: pinned}
	_, err = p.Run(ctx, src, req, sqlgov.Sink{
		Fields: func([]sqlgov.Field) error { return nil },
		Row: func(row [][]byte) error {
			stamp = string(row[0])
			return nil
		},
	})
	return stamp, err
}
