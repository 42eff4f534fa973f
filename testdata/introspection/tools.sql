-- What tools with windows ask when they connect, fill their tree and read a schema. None of them runs here: each query was
-- written anew after public descriptions of what the tool reads, with the same catalogs, functions, joins and system columns. A
-- line with "-- ==" begins a query and names its tool and purpose.

-- == DBeaver: session
SELECT current_schema(), session_user IS NOT NULL AS logged_in, current_database(), version();
-- == DBeaver: databases
SELECT d.oid, d.*, pg_encoding_to_char(d.encoding) AS enc FROM pg_catalog.pg_database d WHERE d.datallowconn AND NOT d.datistemplate OR d.datname = current_database() ORDER BY d.datname;
-- == DBeaver: schemas
SELECT s.oid, s.*, t.description FROM pg_catalog.pg_namespace s LEFT JOIN pg_catalog.pg_description t ON t.objoid = s.oid AND t.objsubid = 0 AND t.classoid = 'pg_namespace'::regclass ORDER BY s.nspname;
-- == DBeaver: types
SELECT y.oid, y.*, r.relkind, format_type(nullif(y.typbasetype, 0), y.typtypmod) AS base, t.description
FROM pg_catalog.pg_type y LEFT JOIN pg_catalog.pg_type e ON e.oid = y.typelem LEFT JOIN pg_catalog.pg_class r ON r.oid = y.typrelid LEFT JOIN pg_catalog.pg_description t ON t.objoid = y.oid
WHERE y.typname IS NOT NULL AND (r.relkind IS NULL OR r.relkind = 'c') AND (e.typcategory IS NULL OR e.typcategory <> 'C') ORDER BY y.oid;
-- == DBeaver: relations of a schema
SELECT r.oid, r.*, t.description, pg_catalog.pg_get_expr(r.relpartbound, r.oid) AS bound, pg_catalog.pg_get_partkeydef(r.oid) AS partkey
FROM pg_catalog.pg_class r LEFT JOIN pg_catalog.pg_description t ON t.objoid = r.oid AND t.objsubid = 0 AND t.classoid = 'pg_class'::regclass
WHERE r.relnamespace IN (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname IN ('crm', 'sales', 'hr', 'app')) AND r.relkind NOT IN ('i', 'I', 'c') ORDER BY r.relname;
-- == DBeaver: columns
SELECT r.relname, c.*, pg_catalog.pg_get_expr(f.adbin, f.adrelid, true) AS def, t.description, p.objid
FROM pg_catalog.pg_attribute c JOIN pg_catalog.pg_class r ON r.oid = c.attrelid LEFT JOIN pg_catalog.pg_attrdef f ON c.attrelid = f.adrelid AND c.attnum = f.adnum
LEFT JOIN pg_catalog.pg_description t ON r.oid = t.objoid AND c.attnum = t.objsubid
LEFT JOIN pg_depend p ON p.refobjid = c.attrelid AND p.deptype = 'i' AND p.refobjsubid = c.attnum AND p.classid = p.refclassid
WHERE NOT c.attisdropped AND c.attnum > 0 AND r.relkind NOT IN ('i', 'I', 'c') AND r.oid >= 16384 ORDER BY r.relname, c.attnum;
-- == DBeaver: constraints
SELECT k.oid, k.*, r.relname AS tabrel_name, g.relnamespace AS refnamespace, t.description, pg_get_constraintdef(k.oid) AS text
FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class r ON r.oid = k.conrelid LEFT JOIN pg_catalog.pg_class g ON g.oid = k.confrelid
LEFT JOIN pg_catalog.pg_description t ON t.objoid = k.oid AND t.objsubid = 0 AND t.classoid = 'pg_constraint'::regclass WHERE r.oid >= 16384 ORDER BY k.oid;
-- == DBeaver: indexes
SELECT x.*, x.indkey AS keys, r.relname, r.relnamespace, r.relam, r.reltablespace, tr.relname AS tabrelname, t.description, pg_catalog.pg_get_expr(x.indpred, x.indrelid, true) AS pred,
pg_catalog.pg_get_indexdef(x.indexrelid, 0, false) AS text
FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class r ON r.oid = x.indexrelid JOIN pg_catalog.pg_class tr ON tr.oid = x.indrelid LEFT JOIN pg_catalog.pg_description t ON t.objoid = x.indexrelid
WHERE r.oid >= 16384 ORDER BY r.relname;
-- == DBeaver: sizes
SELECT r.oid, pg_catalog.pg_total_relation_size(r.oid) > 0 AS total, pg_catalog.pg_relation_size(r.oid) >= 0 AS own FROM pg_catalog.pg_class r WHERE r.relkind IN ('r', 'm') AND r.oid >= 16384 ORDER BY r.oid;
-- == DBeaver: functions
SELECT f.oid AS poid, f.*, pg_catalog.pg_get_expr(f.proargdefaults, 0) AS defaults, t.description, pg_catalog.pg_get_function_identity_arguments(f.oid) AS args
FROM pg_catalog.pg_proc f LEFT JOIN pg_catalog.pg_description t ON t.objoid = f.oid WHERE f.oid >= 16384 ORDER BY f.proname, f.oid;
-- == DBeaver: triggers
SELECT g.oid, g.*, f.pronamespace AS func_schema, pg_catalog.pg_get_triggerdef(g.oid) AS text FROM pg_catalog.pg_trigger g LEFT JOIN pg_catalog.pg_proc f ON f.oid = g.tgfoid WHERE NOT g.tgisinternal ORDER BY g.oid;
-- == DBeaver: roles, extensions, tablespaces
SELECT a.oid, a.* FROM pg_catalog.pg_roles a WHERE a.oid < 16384 ORDER BY a.rolname;
SELECT e.oid, e.*, n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace ORDER BY e.oid;
SELECT t.oid, t.*, pg_catalog.pg_tablespace_location(t.oid) AS loc FROM pg_catalog.pg_tablespace t ORDER BY t.oid;
-- == DBeaver: inheritance and sequences
SELECT i.*, r.relnamespace, r.relname FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class r ON r.oid = i.inhrelid ORDER BY i.inhrelid;
SELECT r.oid, s.seqstart, s.seqincrement, s.seqmin, s.seqmax, s.seqcycle FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class r ON r.oid = s.seqrelid ORDER BY r.oid;
-- == DBeaver: enums, casts, collations
SELECT e.oid, e.* FROM pg_catalog.pg_enum e ORDER BY e.enumtypid, e.enumsortorder;
SELECT k.oid, k.* FROM pg_catalog.pg_cast k ORDER BY k.oid LIMIT 50;

-- == DataGrip: state of the server
SELECT round(extract(epoch FROM pg_postmaster_start_time() AT TIME ZONE 'UTC')) > 0 AS startup, pg_is_in_recovery() AS recovering, current_database() AS db;
-- == DataGrip: the oldest transaction under way
SELECT min(k.transactionid::varchar::bigint) IS NULL AS none FROM pg_catalog.pg_locks k WHERE k.transactionid IS NOT NULL AND k.pid <> pg_backend_pid();
-- == DataGrip: databases
SELECT d.oid::bigint AS id, d.datname AS name, x.description, d.datistemplate AS is_template, d.datallowconn AS allow, pg_get_userbyid(d.datdba) AS "owner"
FROM pg_catalog.pg_database d LEFT JOIN pg_catalog.pg_shdescription x ON x.objoid = d.oid ORDER BY CASE WHEN d.datname = current_database() THEN -1 ELSE d.oid::bigint END;
-- == DataGrip: schemas
SELECT s.oid::bigint AS id, s.xmin::varchar::bigint > 0 AS state, s.nspname AS name, x.description, pg_get_userbyid(s.nspowner) AS "owner"
FROM pg_catalog.pg_namespace s LEFT JOIN pg_catalog.pg_description x ON x.objoid = s.oid ORDER BY CASE WHEN s.nspname = current_schema THEN -1 ELSE s.oid::bigint END;
-- == DataGrip: relations
SELECT r.relkind AS kind, r.relname AS name, r.oid::bigint AS id, r.xmin IS NOT NULL AS state, r.relpersistence AS persistence, a.amname AS access_method, r.reltablespace AS tablespace,
r.relispartition AS is_partition, pg_get_partkeydef(r.oid) AS partition_key, pg_get_expr(r.relpartbound, r.oid) AS bound, pg_get_userbyid(r.relowner) AS "owner"
FROM pg_catalog.pg_class r LEFT JOIN pg_catalog.pg_am a ON a.oid = r.relam
WHERE r.relkind IN ('r', 'm', 'v', 'f', 'p') AND r.relnamespace = ANY (ARRAY(SELECT oid FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_')) ORDER BY r.relkind, r.oid;
-- == DataGrip: columns, with changes since a transaction
WITH t AS (SELECT DISTINCT r.oid AS table_id, r.relname AS table_name FROM pg_catalog.pg_class r JOIN pg_catalog.pg_attribute a ON r.oid = a.attrelid
  WHERE r.relnamespace IN (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname IN ('crm', 'sales', 'app')) AND r.relkind IN ('r', 'm', 'v', 'f', 'p')
  AND (pg_catalog.age(a.xmin) <= coalesce(nullif(greatest(pg_catalog.age('1'::varchar::xid), -1), -1), 2147483647) OR pg_catalog.age(r.xmin) <= 2147483647))
SELECT t.table_id, c.attnum AS pos, c.attname AS name, c.xmin IS NOT NULL AS state, c.atttypmod AS typmod, c.attndims AS dims, format_type(c.atttypid, c.atttypmod) AS spec, c.atttypid AS type_id,
c.attnotnull AS mandatory, pg_get_expr(d.adbin, t.table_id) AS def, NOT c.attislocal AS inherited, c.attisdropped AS dropped, c.attidentity AS identity, c.attgenerated AS generated
FROM t JOIN pg_catalog.pg_attribute c ON t.table_id = c.attrelid LEFT JOIN pg_catalog.pg_attrdef d ON c.attrelid = d.adrelid AND c.attnum = d.adnum
WHERE c.attnum > 0 AND NOT c.attisdropped ORDER BY t.table_id, c.attnum;
-- == DataGrip: keys
SELECT g.oid::bigint AS table_id, r.oid::bigint AS con_id, r.xmin IS NOT NULL AS state, conname AS name, contype AS kind, conkey AS columns, conindid AS index_id, confrelid AS ref_table, condeferrable AS deferrable,
condeferred AS initially, confupdtype AS on_update, confdeltype AS on_delete, confkey AS ref_columns, pg_get_constraintdef(r.oid) AS text
FROM pg_catalog.pg_constraint r JOIN pg_catalog.pg_class g ON r.conrelid = g.oid WHERE g.oid >= 16384 ORDER BY strpos('pufc', contype::text), r.oid;
-- == DataGrip: sources of views and functions
SELECT r.relkind AS view_kind, r.oid AS view_id, pg_catalog.pg_get_viewdef(r.oid, true) AS source FROM pg_catalog.pg_class r WHERE r.relkind IN ('m', 'v') AND r.oid >= 16384 ORDER BY r.oid;
SELECT f.oid AS id, pg_catalog.pg_get_function_sqlbody(f.oid) AS body, f.prosrc AS source FROM pg_catalog.pg_proc f JOIN pg_catalog.pg_language l ON f.prolang = l.oid WHERE f.oid >= 16384 AND l.lanname NOT IN ('c', 'internal') ORDER BY f.oid;
-- == DataGrip: comments and roles
SELECT d.objoid AS id, CASE WHEN 'pg_class'::regclass::oid = d.classoid THEN 'C' ELSE 'x' END AS kind, d.objsubid AS sub, d.description FROM pg_catalog.pg_description d JOIN pg_catalog.pg_class r ON d.objoid = r.oid WHERE r.oid >= 16384 ORDER BY d.objoid, d.objsubid;
SELECT a.oid::bigint AS role_id, a.rolname, a.rolsuper, a.rolcanlogin FROM pg_catalog.pg_roles a WHERE a.oid < 16384 ORDER BY a.oid;

-- == Metabase: the schema's tables
SELECT n.nspname AS schema, c.relname AS name, CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'f' THEN 'FOREIGN TABLE' END AS type,
d.description, s.n_live_tup >= 0 AS estimated
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
LEFT JOIN pg_stat_user_tables s ON s.schemaname = n.nspname AND s.relname = c.relname
WHERE c.relnamespace = n.oid AND n.nspname !~ '^information_schema|catalog_history|pg_' AND c.relkind IN ('r', 'p', 'v', 'f', 'm') ORDER BY type, schema, name;
-- == Metabase: which of them its user may read
SELECT NULL AS role, t.schemaname AS schema, t.objectname AS "table", pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'update') AS update,
pg_catalog.has_any_column_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'select') AS "select"
FROM (SELECT schemaname, tablename AS objectname FROM pg_catalog.pg_tables UNION SELECT schemaname, viewname FROM pg_catalog.pg_views UNION SELECT schemaname, matviewname FROM pg_catalog.pg_matviews) AS t
WHERE t.schemaname !~ '^pg_' AND t.schemaname <> 'information_schema' AND pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage') ORDER BY 2, 3;
-- == Metabase: fields
SELECT c.column_name AS name, c.udt_schema, c.udt_name AS type, c.ordinal_position - 1 AS position, c.table_schema, c.table_name, c.is_identity <> 'NO' AS auto,
EXISTS (SELECT 1 FROM information_schema.table_constraints k JOIN information_schema.key_column_usage u ON k.constraint_name = u.constraint_name AND k.table_schema = u.table_schema AND k.table_name = u.table_name
  WHERE k.constraint_type = 'PRIMARY KEY' AND u.table_schema = c.table_schema AND u.table_name = c.table_name AND u.column_name = c.column_name) AS pk,
col_description(CAST(CAST(format('%I.%I', CAST(c.table_schema AS text), CAST(c.table_name AS text)) AS regclass) AS oid), c.ordinal_position) AS remarks
FROM information_schema.columns c WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' ORDER BY c.table_schema, c.table_name, c.ordinal_position;
-- == Metabase: foreign keys
SELECT fn.nspname, fr.relname, fc.attname, pn.nspname, pr.relname, pc.attname
FROM pg_constraint k JOIN pg_class fr ON k.conrelid = fr.oid JOIN pg_namespace fn ON k.connamespace = fn.oid JOIN pg_attribute fc ON fc.attrelid = fr.oid
JOIN pg_class pr ON k.confrelid = pr.oid JOIN pg_namespace pn ON pr.relnamespace = pn.oid JOIN pg_attribute pc ON pc.attrelid = pr.oid
WHERE k.contype = 'f' AND fc.attnum = ANY (k.conkey) AND pc.attnum = ANY (k.confkey) AND fn.nspname !~ '^information_schema|catalog_history|pg_' ORDER BY 1, 2, 3;
-- == Metabase: enums and time zone
SELECT n.nspname, t.typname, e.enumlabel FROM pg_enum e JOIN pg_type t ON e.enumtypid = t.oid JOIN pg_namespace n ON t.typnamespace = n.oid ORDER BY 1, 2, e.enumsortorder;
SHOW timezone;

-- == Tableau: what the driver and the tree ask
SELECT t.table_schema, t.table_name, t.table_type FROM information_schema.tables t WHERE t.table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2;
SELECT n.nspname, c.relname, a.attname, a.atttypid, t.typname, a.attnum, a.attlen, a.atttypmod, a.attnotnull, c.relhasrules, c.relkind, c.oid, pg_get_expr(d.adbin, d.adrelid),
CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE 0 END, t.typtypmod, c.relhassubclass
FROM (((pg_catalog.pg_class c INNER JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND c.oid >= 16384)
INNER JOIN pg_catalog.pg_attribute a ON (NOT a.attisdropped) AND a.attnum > 0 AND a.attrelid = c.oid) INNER JOIN pg_catalog.pg_type t ON t.oid = a.atttypid)
LEFT OUTER JOIN pg_attrdef d ON a.atthasdef AND d.adrelid = a.attrelid AND d.adnum = a.attnum ORDER BY n.nspname, c.relname, a.attnum;
SELECT ta.attname, ia.attnum, ic.relname, n.nspname, tc.relname FROM pg_catalog.pg_attribute ta, pg_catalog.pg_attribute ia, pg_catalog.pg_class tc, pg_catalog.pg_index i, pg_catalog.pg_namespace n, pg_catalog.pg_class ic
WHERE tc.oid >= 16384 AND n.oid = tc.relnamespace AND i.indrelid = tc.oid AND i.indisprimary AND ia.attrelid = i.indexrelid AND ta.attrelid = i.indrelid AND ta.attnum = i.indkey[ia.attnum - 1]
AND NOT ta.attisdropped AND NOT ia.attisdropped AND ic.oid = i.indexrelid ORDER BY tc.relname, ia.attnum;

-- == Power BI: the types that its driver loads
SELECT n.nspname, y.oid, y.typname, y.typtype, y.typnotnull, y.elemtypoid FROM (
  SELECT t.oid, t.typnamespace, t.typname, t.typtype, t.typrelid, t.typnotnull, t.relkind, e.oid AS elemtypoid, e.typname AS elemtypname, er.relkind AS elemrelkind, CASE WHEN ep.proname = 'array_recv' THEN 'a' ELSE e.typtype END AS elemtyptype
  FROM (SELECT y.oid, y.typnamespace, y.typname, y.typrelid, y.typnotnull, y.typelem AS elemoid, r.relkind, CASE WHEN p.proname = 'array_recv' THEN 'a' ELSE y.typtype END AS typtype
    FROM pg_type AS y LEFT JOIN pg_class AS r ON r.oid = y.typrelid LEFT JOIN pg_proc AS p ON p.oid = y.typreceive LEFT JOIN pg_range ON pg_range.rngtypid = y.oid) AS t
  LEFT JOIN pg_type AS e ON e.oid = t.elemoid LEFT JOIN pg_class AS er ON er.oid = e.typrelid LEFT JOIN pg_proc AS ep ON ep.oid = e.typreceive) AS y
JOIN pg_namespace AS n ON n.oid = y.typnamespace
WHERE y.typtype IN ('b', 'r', 'm', 'e', 'd') OR (y.typtype = 'c' AND y.relkind = 'c') OR (y.typtype = 'p' AND y.typname IN ('record', 'void')) OR (y.typtype = 'a' AND y.elemtyptype IN ('b', 'r', 'm', 'e', 'd'))
ORDER BY CASE WHEN y.typtype IN ('b', 'e', 'p') THEN 0 WHEN y.typtype = 'r' THEN 1 ELSE 2 END, y.oid;
SELECT t.oid, a.attname, a.atttypid FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace JOIN pg_class AS r ON r.oid = t.typrelid JOIN pg_attribute AS a ON a.attrelid = t.typrelid
WHERE t.typtype = 'c' AND r.relkind = 'c' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY t.oid, a.attnum;
SELECT t.oid, e.enumlabel FROM pg_enum AS e JOIN pg_type AS t ON t.oid = e.enumtypid ORDER BY t.oid, e.enumsortorder;
-- == Power BI: tables, columns and relations
SELECT character_set_name FROM information_schema.character_sets;
SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY table_schema, table_name;
SELECT column_name, ordinal_position, is_nullable, CASE WHEN data_type LIKE '%unsigned%' THEN data_type || ' unsigned' ELSE data_type END AS data_type FROM information_schema.columns WHERE table_schema = 'crm' AND table_name = 'customers' ORDER BY ordinal_position;
SELECT pk.column_name, fk.table_schema, fk.table_name, fk.column_name, fk.ordinal_position, fk.constraint_name
FROM information_schema.referential_constraints c INNER JOIN information_schema.key_column_usage pk ON c.unique_constraint_name = pk.constraint_name AND c.unique_constraint_schema = pk.constraint_schema
INNER JOIN information_schema.key_column_usage fk ON c.constraint_name = fk.constraint_name AND c.constraint_schema = fk.constraint_schema AND pk.ordinal_position = fk.ordinal_position ORDER BY fk.constraint_name, fk.ordinal_position;

-- == Superset: what it adds to SQLAlchemy's inspector
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'm' ORDER BY 1, 2;
SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' ORDER BY nspname;

-- == Prisma: namespaces and tables
SELECT n.nspname AS namespace_name FROM pg_namespace AS n WHERE n.nspname = ANY (ARRAY['crm', 'sales', 'hr', 'app', 'public']) ORDER BY 1;
SELECT r.relname AS table_name, n.nspname AS namespace, (r.relhassubclass AND r.relkind = 'p') AS is_partition, (r.relhassubclass AND r.relkind = 'r') AS has_subclass, r.relrowsecurity AS has_row_level_security,
r.reloptions, obj_description(r.oid, 'pg_class') AS description
FROM pg_class AS r INNER JOIN pg_namespace AS n ON n.oid = r.relnamespace WHERE r.relkind IN ('r', 'p') AND r.oid >= 16384 ORDER BY n.nspname, r.relname;
-- == Prisma: columns
SELECT o.namespace, i.table_name, i.column_name, format_type(a.atttypid, a.atttypmod) AS formatted_type, i.numeric_precision, i.numeric_scale, i.numeric_precision_radix, i.datetime_precision, i.data_type, i.udt_schema AS type_schema, i.udt_name AS full_data_type,
pg_get_expr(d.adbin, d.adrelid) AS column_default, i.is_nullable, i.is_identity, i.character_maximum_length, col_description(a.attrelid, a.attnum) AS description
FROM information_schema.columns i JOIN pg_attribute a ON a.attname = i.column_name
JOIN (SELECT r.oid, r.relname, n.nspname AS namespace FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace AND r.oid >= 16384 WHERE r.reltype > 0) AS o ON o.oid = a.attrelid AND o.relname = i.table_name AND o.namespace = i.table_schema
LEFT OUTER JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum AND d.adrelid = o.oid WHERE a.attnum > 0 ORDER BY o.namespace, i.table_name, i.ordinal_position;
-- == Prisma: indexes
WITH raw AS (SELECT t.relname AS table_name, i.indrelid AS rel, i.indexrelid AS idx, i.indisunique AS uniq, i.indisprimary AS pk, generate_subscripts(i.indkey, 1) AS at, unnest(i.indkey) AS attnum, unnest(i.indoption) AS opt, unnest(i.indclass) AS class
  FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid WHERE i.indpred IS NULL AND NOT i.indisexclusion AND i.indrelid >= 16384 AND array_position(i.indkey::int2[], 0::int2) IS NULL)
SELECT n.nspname, x.relname AS index_name, raw.table_name, a.attname, raw.uniq, raw.pk, raw.at AS column_index, oc.opcname, oc.opcdefault, am.amname, CASE raw.opt & 1 WHEN 1 THEN 'DESC' ELSE 'ASC' END AS column_order, raw.opt & 2 = 2 AS nulls_first
FROM raw JOIN pg_class x ON x.oid = raw.idx JOIN pg_namespace n ON n.oid = x.relnamespace JOIN pg_attribute a ON a.attrelid = raw.rel AND a.attnum = raw.attnum JOIN pg_opclass oc ON oc.oid = raw.class JOIN pg_am am ON am.oid = x.relam
ORDER BY n.nspname, raw.table_name, x.relname, raw.at;
-- == Prisma: foreign keys
SELECT k.oid AS con_id, c.attname AS child, p.attname AS parent, k.confdeltype, k.confupdtype, rt.relname AS referenced, k.conname, k.relname, k.nspname, k.condeferrable, k.condeferred
FROM (SELECT n.nspname, r.relname, unnest(q.conkey) AS child, unnest(q.confkey) AS parent, generate_subscripts(q.conkey, 1) AS ord, q.confrelid, q.conrelid, q.conname, q.oid, q.confdeltype, q.confupdtype, q.condeferrable, q.condeferred
  FROM pg_constraint q JOIN pg_class r ON q.conrelid = r.oid JOIN pg_namespace n ON n.oid = r.relnamespace WHERE q.contype = 'f') k
JOIN pg_attribute p ON p.attrelid = k.confrelid AND p.attnum = k.parent JOIN pg_class rt ON k.confrelid = rt.oid JOIN pg_attribute c ON c.attrelid = k.conrelid AND c.attnum = k.child ORDER BY k.nspname, k.relname, k.conname, k.ord;
-- == Prisma: views, enums, sequences, procedures, extensions, checks
SELECT v.viewname, v.definition, v.schemaname, obj_description((quote_ident(v.schemaname) || '.' || quote_ident(v.viewname))::regclass, 'pg_class') FROM pg_catalog.pg_views v WHERE v.schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 3, 1;
SELECT s.sequencename, s.schemaname, s.start_value, s.min_value, s.max_value, s.increment_by, s.cycle, s.cache_size FROM pg_sequences s ORDER BY s.sequencename;
SELECT f.proname, n.nspname, CASE WHEN l.lanname = 'internal' THEN f.prosrc ELSE pg_get_functiondef(f.oid) END AS definition FROM pg_proc f LEFT JOIN pg_namespace n ON f.pronamespace = n.oid LEFT JOIN pg_language l ON f.prolang = l.oid
WHERE n.nspname IN ('crm', 'sales', 'app') AND f.prokind = 'f' ORDER BY 1;
SELECT e.extname, e.extversion, n.nspname, a.default_version FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace LEFT JOIN pg_available_extensions a ON a.name = e.extname ORDER BY e.extname;
SELECT n.nspname, r.relname, k.conname, k.contype, pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class r ON r.oid = k.conrelid JOIN pg_namespace n ON n.oid = r.relnamespace WHERE k.contype NOT IN ('p', 'u', 'f') ORDER BY 1, 2, 3;
