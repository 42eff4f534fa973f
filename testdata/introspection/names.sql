-- Every name in the catalogs that belongs to nothing that a caller may see and to nothing that comes with PostgreSQL: of
-- schemas, relations, columns, constraints, functions and types. $1 are the columns that the caller may see, as schema.table.column,
-- $2 the functions, as schema.function. A constraint or an index may be seen if all columns that it is made of may, a sequence
-- if the column that owns it may; all sequences have the same columns.
WITH seen AS (
  SELECT a.attrelid, a.attnum FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname || '.' || c.relname || '.' || a.attname = ANY ($1) AND a.attnum > 0
), rels AS (
  SELECT DISTINCT attrelid AS oid FROM seen
  UNION
  SELECT i.indexrelid FROM pg_index i WHERE i.indexprs IS NULL AND i.indpred IS NULL
  AND NOT EXISTS (SELECT FROM unnest(i.indkey::int2[]) AS k WHERE (i.indrelid, k) NOT IN (SELECT attrelid, attnum FROM seen))
  UNION
  SELECT s.oid FROM pg_class s JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid AND d.refclassid = 'pg_class'::regclass
  WHERE s.relkind = 'S' AND d.deptype IN ('a', 'i') AND (d.refobjid, d.refobjsubid) IN (SELECT attrelid, attnum FROM seen)
), funcs AS (
  SELECT p.oid, p.pronamespace FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname || '.' || p.proname = ANY ($2)
), kept AS (
  SELECT oid FROM pg_constraint k WHERE conrelid IN (SELECT oid FROM rels)
  AND NOT EXISTS (SELECT FROM unnest(conkey) AS n WHERE (conrelid, n) NOT IN (SELECT attrelid, attnum FROM seen))
), shown AS (
  SELECT t.oid FROM pg_type t WHERE t.typrelid IN (SELECT oid FROM rels) OR t.typelem IN (SELECT y.oid FROM pg_type y WHERE y.typrelid IN (SELECT oid FROM rels))
  OR t.oid IN (SELECT a.atttypid FROM pg_attribute a WHERE (a.attrelid, a.attnum) IN (SELECT attrelid, attnum FROM seen))
), types AS (
  SELECT oid FROM shown UNION SELECT oid FROM pg_type WHERE typelem IN (SELECT oid FROM shown)
), names(name, ok) AS (
  SELECT nspname, oid < 16384 OR oid IN (SELECT relnamespace FROM pg_class WHERE oid IN (SELECT oid FROM rels)) OR oid IN (SELECT pronamespace FROM funcs) FROM pg_namespace
  UNION ALL SELECT relname, oid < 16384 OR oid IN (SELECT oid FROM rels) FROM pg_class
  UNION ALL SELECT attname, attrelid < 16384 OR (attrelid, attnum) IN (SELECT attrelid, attnum FROM seen)
    OR attrelid IN (SELECT oid FROM pg_class WHERE relkind = 'S') FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped
  UNION ALL SELECT conname, oid < 16384 OR oid IN (SELECT oid FROM kept) FROM pg_constraint
  UNION ALL SELECT proname, oid < 16384 OR oid IN (SELECT oid FROM funcs) FROM pg_proc
  UNION ALL SELECT typname, oid < 16384 OR oid IN (SELECT oid FROM types) FROM pg_type
  UNION ALL SELECT word, true FROM pg_get_keywords()
)
SELECT name FROM names GROUP BY name HAVING NOT bool_or(ok)
