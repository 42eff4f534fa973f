package upstream

// The queries of a scan. Each gives one object a row, with the JSON keys of the catalog's types as column names; nulls
// stand for zero values. Conventions:
//
//   - OIDs are cast to bigint, because row_to_json prints an oid as a string.
//   - No backslash in a literal: the session's standard_conforming_strings is unknown.
//   - `visible` schemas are all but the temporary ones, of this and of other sessions.
//   - The columns that an expression reads come from its node tree: pg_depend does not list built-in functions,
//     whole-row references, nor (in indexes) which column stands in which part.

// sessionSQL runs under the session's own search_path, so every name in it is qualified.
const sessionSQL = `
SELECT pg_catalog.current_database() AS database,
       pg_catalog.current_setting('server_version') AS server_version,
       pg_catalog.current_setting('server_version_num')::pg_catalog.int4 AS server_num,
       ARRAY(SELECT s FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) AS s
             WHERE s OPERATOR(pg_catalog.!~) '^pg_(toast_)?temp_') AS search_path`

// settingsSQL fixes what the printing of definitions depends on. pg_temp is named last because it is searched first
// when it is not named.
const settingsSQL = `
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL standard_conforming_strings = on;
SET LOCAL quote_all_identifiers = off;
SET LOCAL datestyle = 'ISO, YMD';
SET LOCAL intervalstyle = postgres;
SET LOCAL timezone = 'UTC';
SET LOCAL extra_float_digits = 1;
SET LOCAL bytea_output = hex;
SET LOCAL lc_monetary = 'C';
SET LOCAL lock_timeout = '5s';
SET LOCAL jit = off`

const loginSQL = `
WITH RECURSIVE member(oid) AS (
  SELECT oid FROM pg_roles WHERE rolname = session_user
  UNION
  SELECT m.roleid FROM pg_auth_members m JOIN member ON m.member = member.oid
), every AS (
  SELECT oid FROM member
  UNION
  -- the owner of a database is a member of pg_database_owner in it
  SELECT r.oid FROM pg_roles r, pg_database d
  WHERE r.rolname = 'pg_database_owner' AND d.datname = current_database() AND d.datdba IN (SELECT oid FROM member)
)
SELECT rolname AS name, rolsuper AS superuser, rolbypassrls AS bypass_rls, rolcreaterole AS create_role,
       rolcreatedb AS create_db, rolreplication AS replication,
       ARRAY(SELECT o.rolname FROM pg_roles o WHERE o.oid IN (SELECT oid FROM every) AND o.oid <> r.oid ORDER BY o.rolname) AS member_of,
       ARRAY(SELECT o.rolname FROM pg_roles o WHERE o.oid IN (SELECT oid FROM every) AND o.oid <> r.oid
             AND (o.rolsuper OR o.rolbypassrls) ORDER BY o.rolname) AS elevated,
       (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND c.relowner IN (SELECT oid FROM every)
          AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp_)') AS owns
FROM pg_roles r WHERE rolname = session_user`

const keywordsSQL = `SELECT word, catcode AS category FROM pg_get_keywords() ORDER BY word COLLATE "C"`

// visible and objects are the start of the queries over objects in schemas.
const visible = `
WITH visible AS (
  SELECT oid, nspname FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'
), extended AS (
  SELECT d.classid, d.objid, e.extname FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
  WHERE d.deptype = 'e' AND d.refclassid = 'pg_extension'::regclass
)`

const schemasSQL = visible + `
SELECT n.oid::bigint AS oid, n.nspname AS name, d.description AS comment
FROM visible n
LEFT JOIN pg_description d ON d.classoid = 'pg_namespace'::regclass AND d.objoid = n.oid AND d.objsubid = 0
ORDER BY n.oid`

const extensionsSQL = `
SELECT e.extname AS name, n.nspname AS schema, e.extversion AS version
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace ORDER BY e.extname COLLATE "C"`

// A collation of another encoding than the database's does not exist for a statement.
const collationsSQL = visible + `
SELECT c.oid::bigint AS oid, n.nspname AS schema, c.collname AS name
FROM pg_collation c JOIN visible n ON n.oid = c.collnamespace
WHERE c.collencoding IN (-1, (SELECT encoding FROM pg_database WHERE datname = current_database()))
ORDER BY c.oid`

const castsSQL = `
SELECT castsource::bigint AS source, casttarget::bigint AS target, castfunc::bigint AS function,
       castcontext AS context, castmethod AS method
FROM pg_cast ORDER BY castsource, casttarget`

const operatorsSQL = visible + `
SELECT o.oid::bigint AS oid, n.nspname AS schema, o.oprname AS name, o.oprleft::bigint AS left, o.oprright::bigint AS right,
       o.oprresult::bigint AS result, o.oprcode::oid::bigint AS function
FROM pg_operator o JOIN visible n ON n.oid = o.oprnamespace ORDER BY o.oid`

const functionsSQL = visible + `
SELECT p.oid::bigint AS oid, n.nspname AS schema, p.proname AS name, p.prokind AS kind,
       p.proargtypes::oid[]::bigint[] AS args, p.proallargtypes::bigint[] AS all_args,
       array_to_string(p.proargmodes, '') AS arg_modes, p.proargnames AS arg_names, p.pronargdefaults AS defaults,
       p.provariadic::bigint AS variadic, p.prorettype::bigint AS result, p.proretset AS returns_set,
       oidvectortypes(p.proargtypes) AS signature, p.provolatile AS volatility, l.lanname AS language,
       p.prosecdef AS security_definer, p.proisstrict AS strict, pg_get_userbyid(p.proowner) AS owner,
       p.proconfig AS config, e.extname AS extension, d.description AS comment,
       a.aggkind AS agg_kind, a.aggnumdirectargs AS agg_direct_args
FROM pg_proc p
JOIN visible n ON n.oid = p.pronamespace
JOIN pg_language l ON l.oid = p.prolang
LEFT JOIN pg_aggregate a ON a.aggfnoid = p.oid
LEFT JOIN extended e ON e.classid = 'pg_proc'::regclass AND e.objid = p.oid
LEFT JOIN pg_description d ON d.classoid = 'pg_proc'::regclass AND d.objoid = p.oid AND d.objsubid = 0
ORDER BY p.oid`

// check_funcs: the functions and operators' functions that the node tree of a CHECK names (built-in ones included), and
// what pg_depend knows (all others, whatever node they stand in).
const typesSQL = visible + `, ranges AS (
  SELECT rngtypid AS typ, rngsubtype AS sub, rngmultitypid AS other FROM pg_range
  UNION ALL
  SELECT rngmultitypid, 0, rngtypid FROM pg_range
), named AS (
  SELECT k.contypid AS typ, m[1] AS node, m[2]::oid AS oid
  FROM pg_constraint k, regexp_matches(k.conbin::text, ':(funcid|opfuncid|opno) ([0-9]+)', 'g') AS m
  WHERE k.contypid <> 0
  UNION
  SELECT k.contypid, CASE d.refclassid WHEN 'pg_proc'::regclass THEN 'funcid' ELSE 'opno' END, d.refobjid
  FROM pg_constraint k JOIN pg_depend d ON d.classid = 'pg_constraint'::regclass AND d.objid = k.oid
  WHERE k.contypid <> 0 AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass)
), called AS (
  SELECT typ, oid FROM named WHERE node <> 'opno' AND oid <> 0
  UNION
  SELECT typ, o.oprcode FROM named JOIN pg_operator o ON o.oid = named.oid WHERE node = 'opno'
), checks AS (
  SELECT typ, array_agg(oid::bigint ORDER BY oid) AS funcs FROM called GROUP BY typ
)
SELECT t.oid::bigint AS oid, n.nspname AS schema, t.typname AS name, format_type(t.oid, NULL) AS display, t.typtype AS kind, t.typcategory AS category,
       t.typispreferred AS preferred, t.typelem::bigint AS element,
       CASE WHEN t.typsubscript <> 0 THEN t.typsubscript::regproc::text END AS subscript_handler,
       t.typarray::bigint AS array, t.typrelid::bigint AS relation, t.typbasetype::bigint AS base,
       CASE WHEN t.typtype = 'd' THEN t.typtypmod END AS base_mod, r.sub::bigint AS range_sub, r.other::bigint AS range_multi,
       t.typinput::oid::bigint AS input, t.typoutput::oid::bigint AS output, c.funcs AS check_funcs, e.extname AS extension
FROM pg_type t
JOIN visible n ON n.oid = t.typnamespace
LEFT JOIN ranges r ON r.typ = t.oid
LEFT JOIN checks c ON c.typ = t.oid
LEFT JOIN extended e ON e.classid = 'pg_type'::regclass AND e.objid = t.oid
ORDER BY t.oid`

// shown are the relations of a snapshot.
const shown = `, shown AS (
  SELECT c.*, n.nspname FROM pg_class c JOIN visible n ON n.oid = c.relnamespace
  WHERE n.nspname <> 'pg_toast' AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S', 'c', 'i', 'I')
)`

// A view's own rule is the one ON SELECT (ev_type 1). An index has parents too, but no statement reads through them.
const relationsSQL = visible + shown + `, parents AS (
  SELECT inhrelid, array_agg(inhparent::bigint ORDER BY inhseqno) AS oids FROM pg_inherits GROUP BY inhrelid
), options AS (
  SELECT c.oid, bool_or(o.option_value::bool) FILTER (WHERE o.option_name = 'security_invoker') AS invoker,
         bool_or(o.option_value::bool) FILTER (WHERE o.option_name = 'security_barrier') AS barrier
  FROM pg_class c, pg_options_to_table(c.reloptions) o
  WHERE c.relkind = 'v' AND o.option_name IN ('security_invoker', 'security_barrier') GROUP BY c.oid
)
SELECT c.oid::bigint AS oid, c.nspname AS schema, c.relname AS name, c.relkind AS kind, pg_get_userbyid(c.relowner) AS owner,
       c.reltype::bigint AS row_type, c.reloftype::bigint AS of_type,
       CASE WHEN c.relkind NOT IN ('i', 'I') THEN p.oids END AS parents,
       c.relispartition AS partition, c.relrowsecurity AS row_security,
       c.oid IN (SELECT ev_class FROM pg_rewrite WHERE ev_type <> '1') AS has_rules,
       c.oid IN (SELECT tgrelid FROM pg_trigger WHERE NOT tgisinternal) AS has_triggers,
       d.description AS comment, c.reltuples AS row_estimate,
       CASE WHEN c.relkind IN ('v', 'm') THEN pg_get_viewdef(c.oid)
            WHEN c.relkind IN ('i', 'I') THEN pg_get_indexdef(c.oid) END AS definition,
       o.invoker AS security_invoker, o.barrier AS security_barrier
FROM shown c
LEFT JOIN parents p ON p.inhrelid = c.oid
LEFT JOIN options o ON o.oid = c.oid
LEFT JOIN pg_description d ON d.classoid = 'pg_class'::regclass AND d.objoid = c.oid AND d.objsubid = 0
ORDER BY c.oid`

const columnsSQL = visible + shown + `
SELECT c.oid::bigint AS of, a.attnum AS num, a.attname AS name, a.atttypid::bigint AS type, a.atttypmod AS type_mod,
       format_type(a.atttypid, a.atttypmod) AS type_name, a.attcollation::bigint AS collation, a.attnotnull AS not_null,
       a.atthasdef AS has_default, a.attgenerated <> '' AS generated, a.attidentity AS identity,
       pg_get_expr(f.adbin, f.adrelid) AS default,
       CASE WHEN a.attgenerated <> '' THEN ARRAY(
         SELECT DISTINCT m[1]::int2 FROM regexp_matches(f.adbin::text, ':varattno ([0-9]+)', 'g') AS m
         WHERE m[1] <> '0' ORDER BY 1) END AS depends_on,
       d.description AS comment
FROM shown c
JOIN pg_attribute a ON a.attrelid = c.oid
LEFT JOIN pg_attrdef f ON f.adrelid = c.oid AND f.adnum = a.attnum
LEFT JOIN pg_description d ON d.classoid = 'pg_class'::regclass AND d.objoid = c.oid AND d.objsubid = a.attnum
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind NOT IN ('i', 'I')
ORDER BY c.oid, a.attnum`

const constraintsSQL = visible + shown + `
SELECT c.oid::bigint AS of, k.oid::bigint AS oid, k.conname AS name, k.contype AS kind, k.conkey AS columns,
       k.conindid::bigint AS index, k.confrelid::bigint AS ref_table, k.confkey AS ref_columns,
       pg_get_constraintdef(k.oid) AS definition
FROM shown c JOIN pg_constraint k ON k.conrelid = c.oid
ORDER BY c.oid, k.oid`

// Attribute number 0 in an expression is the whole row: then every column is read.
const uniqueIndexesSQL = visible + shown + `
SELECT c.oid::bigint AS of, i.indexrelid::bigint AS oid, x.relname AS name, i.indisexclusion AS exclusion,
       ARRAY(SELECT k FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS u(k, n)
             WHERE k <> 0 AND n <= i.indnkeyatts ORDER BY n) AS columns,
       CASE WHEN i.indexprs IS NOT NULL OR i.indpred IS NOT NULL THEN ARRAY(
         SELECT DISTINCT a.attnum
         FROM regexp_matches(concat(i.indexprs::text, ' ', i.indpred::text), ':varattno ([0-9]+)', 'g') AS m
         JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum > 0 AND NOT a.attisdropped AND m[1]::int2 IN (0, a.attnum)
         ORDER BY 1) END AS expr_reads
FROM shown c
JOIN pg_index i ON i.indrelid = c.oid
JOIN pg_class x ON x.oid = i.indexrelid
WHERE (i.indisunique OR i.indisexclusion) AND i.indisvalid
ORDER BY c.oid, i.indexrelid`

// partsSQL reads what indexes and owned sequences belong to. As above, number 0 in an expression is the whole row.
const partsSQL = visible + shown + `
SELECT c.oid::bigint AS of, i.indrelid::bigint AS relation, ARRAY(
         SELECT DISTINCT a.attnum
         FROM pg_attribute a
         WHERE a.attrelid = i.indrelid AND a.attnum > 0 AND NOT a.attisdropped AND (a.attnum = ANY (i.indkey::int2[]) OR EXISTS (
           SELECT FROM regexp_matches(concat(i.indexprs::text, ' ', i.indpred::text), ':varattno ([0-9]+)', 'g') AS m
           WHERE m[1]::int2 IN (0, a.attnum)))
         ORDER BY 1) AS columns
FROM shown c JOIN pg_index i ON i.indexrelid = c.oid
UNION ALL
SELECT c.oid::bigint, d.refobjid::bigint, ARRAY[d.refobjsubid::int2]
FROM shown c JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.objsubid = 0
WHERE c.relkind = 'S' AND d.refclassid = 'pg_class'::regclass AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i')
ORDER BY 1`
