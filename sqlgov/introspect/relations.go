package introspect

import "interlock/catalog"

// rule says how a relation of the system schemas is shown. Texts are SQL over its columns, in which {kind column ...}
// stands for the condition that something is visible; see Sight.condition.
type rule struct {
	where string            // which rows; "" is all
	hide  map[string]string // column -> what stands in its place
	// absent says which hidden rows are shown as if what they are about had been dropped, and with what values; see absence.
	absent *absence
	// only are the columns that are shown, if it is set; the others are NULL.
	only []string
	// always is for what nobody may see, however much they are granted.
	always bool
	// privileges is set for what tells who may do what: the answer is the gateway's for everyone.
	privileges bool
}

// own is the condition for objects that come with PostgreSQL itself.
const own = "oid OPERATOR(pg_catalog.<) '16384'::pg_catalog.oid"

// nobody is for catalogs whose objects no permission is about. They have rows that come with PostgreSQL, or none.
const nobody = "false"

// acl is what stands in the place of privileges: those of the server's logins are not those of the caller.
const acl = "NULL::pg_catalog.aclitem[]"

func ownOr(column, value, typ string) string {
	return "CASE WHEN " + column + " OPERATOR(pg_catalog.<) '16384'::pg_catalog.oid THEN " + value + " ELSE NULL::" + typ + " END"
}

// visibleFunction shows a regproc column only if the function may be seen; 0 is printed as "-".
func visibleFunction(column string) string {
	return "CASE WHEN {function " + column + "::pg_catalog.oid} THEN " + column + " ELSE 0::pg_catalog.regproc END"
}

// visibleTrigger is the condition for a trigger, over the columns of pg_trigger.
const visibleTrigger = `({whole tgrelid} AND {function tgfoid} AND tgqual IS NULL AND tgnargs OPERATOR(pg_catalog.=) '0'::pg_catalog.int2
AND (tgconstrrelid OPERATOR(pg_catalog.=) '0'::pg_catalog.oid OR {whole tgconstrrelid})
AND (tgconstraint OPERATOR(pg_catalog.=) '0'::pg_catalog.oid OR {constraint tgconstraint}))`

// statistics shows that there is a table, and about how many rows it has. How much it is used is told to nobody whose roles do
// not allow everything.
var statistics = rule{where: "{relation relid}", only: []string{"relid", "schemaname", "relname", "n_live_tup"}}

// indexStatistics does the same for indexes.
var indexStatistics = rule{where: "({relation relid} AND {relation indexrelid})", only: []string{"relid", "indexrelid", "schemaname", "relname", "indexrelname"}}

var relations = map[string]rule{
	"pg_catalog.pg_class": {where: "{relation oid}", hide: map[string]string{
		"relacl":       ownOr("oid", "relacl", "pg_catalog.aclitem[]"),
		"relpartbound": "CASE WHEN {whole oid} THEN relpartbound END",
	}},
	"pg_catalog.pg_attribute": {
		where: "({whole attrelid} OR {column attrelid attnum} OR attnum OPERATOR(pg_catalog.<) '0'::pg_catalog.int2 AND {relation attrelid})",
		hide: map[string]string{
			"attacl":        ownOr("attrelid", "attacl", "pg_catalog.aclitem[]"),
			"attfdwoptions": "NULL::pg_catalog.text[]",
		}, absent: &absentColumns},
	"pg_catalog.pg_attrdef":    {where: "{default adrelid adnum}"},
	"pg_catalog.pg_constraint": {where: "({constraint oid} OR contypid OPERATOR(pg_catalog.<>) '0'::pg_catalog.oid AND {domain contypid})"},
	"pg_catalog.pg_index":      {where: "{relation indexrelid}"},
	"pg_catalog.pg_inherits":   {where: "({relation inhrelid} AND {relation inhparent})"},
	"pg_catalog.pg_namespace":  {where: "{schema oid}", hide: map[string]string{"nspacl": ownOr("oid", "nspacl", "pg_catalog.aclitem[]")}},
	"pg_catalog.pg_sequence":   {where: "{relation seqrelid}"},
	"pg_catalog.pg_partitioned_table": {where: `({whole partrelid} OR {relation partrelid} AND partexprs IS NULL AND NOT EXISTS (
SELECT FROM pg_catalog.unnest(partattrs::pg_catalog.int2[]) AS k(num) WHERE NOT {column partrelid k.num}))`},
	"pg_catalog.pg_foreign_table": {where: "{relation ftrelid}", always: true, hide: map[string]string{"ftoptions": "NULL::pg_catalog.text[]"}},

	"pg_catalog.pg_type": {where: "{type oid}", hide: map[string]string{
		"typacl":        ownOr("oid", "typacl", "pg_catalog.aclitem[]"),
		"typdefault":    ownOr("oid", "typdefault", "pg_catalog.text"),
		"typdefaultbin": ownOr("oid", "typdefaultbin", "pg_catalog.pg_node_tree"),
		"typinput":      visibleFunction("typinput"), "typoutput": visibleFunction("typoutput"),
		"typreceive": visibleFunction("typreceive"), "typsend": visibleFunction("typsend"),
		"typmodin": visibleFunction("typmodin"), "typmodout": visibleFunction("typmodout"),
		"typanalyze": visibleFunction("typanalyze"), "typsubscript": visibleFunction("typsubscript"),
	}},
	"pg_catalog.pg_enum":  {where: "{type enumtypid}"},
	"pg_catalog.pg_range": {where: "rngtypid OPERATOR(pg_catalog.<) '16384'::pg_catalog.oid"},
	"pg_catalog.pg_proc": {where: "{function oid}", hide: map[string]string{
		"proacl":         ownOr("oid", "proacl", "pg_catalog.aclitem[]"),
		"prosrc":         ownOr("oid", "prosrc", "pg_catalog.text"),
		"probin":         ownOr("oid", "probin", "pg_catalog.text"),
		"prosqlbody":     ownOr("oid", "prosqlbody", "pg_catalog.pg_node_tree"),
		"proargdefaults": ownOr("oid", "proargdefaults", "pg_catalog.pg_node_tree"),
		"proconfig":      ownOr("oid", "proconfig", "pg_catalog.text[]"),
		"prosupport":     visibleFunction("prosupport"),
	}},
	"pg_catalog.pg_aggregate": {where: "aggfnoid OPERATOR(pg_catalog.<) '16384'::pg_catalog.oid"},
	"pg_catalog.pg_operator":  {where: "{operator oid}"},
	"pg_catalog.pg_cast":      {where: own},
	"pg_catalog.pg_language":  {where: own, hide: map[string]string{"lanacl": ownOr("oid", "lanacl", "pg_catalog.aclitem[]")}},
	"pg_catalog.pg_collation": {where: own}, "pg_catalog.pg_conversion": {where: own},
	"pg_catalog.pg_am": {where: own}, "pg_catalog.pg_amop": {where: own}, "pg_catalog.pg_amproc": {where: own},
	"pg_catalog.pg_opclass": {where: own}, "pg_catalog.pg_opfamily": {where: own}, "pg_catalog.pg_transform": {where: own},
	"pg_catalog.pg_ts_config": {where: own}, "pg_catalog.pg_ts_dict": {where: own},
	"pg_catalog.pg_ts_config_map": {where: "mapcfg OPERATOR(pg_catalog.<) '16384'::pg_catalog.oid"},
	"pg_catalog.pg_ts_parser":     {where: own}, "pg_catalog.pg_ts_template": {where: own},

	"pg_catalog.pg_trigger": {where: visibleTrigger},
	"pg_catalog.pg_rewrite": {where: own},
	"pg_catalog.pg_policy":  {where: nobody}, "pg_catalog.pg_policies": {where: nobody}, "pg_catalog.pg_rules": {where: nobody},
	"pg_catalog.pg_group": {where: nobody}, "pg_catalog.pg_publication_tables": {where: nobody}, "pg_catalog.pg_seclabel": {where: nobody},
	"pg_catalog.pg_seclabels": {where: nobody}, "pg_catalog.pg_shseclabel": {where: nobody},
	"pg_catalog.pg_available_extensions": {}, "pg_catalog.pg_available_extension_versions": {},
	"pg_catalog.pg_statistic_ext": {where: "({whole stxrelid} AND stxexprs IS NULL)"},

	"pg_catalog.pg_description": {where: `(objoid OPERATOR(pg_catalog.<) '16384'::pg_catalog.oid
OR classoid OPERATOR(pg_catalog.=) '1259'::pg_catalog.oid AND {comment objoid objsubid}
OR classoid OPERATOR(pg_catalog.=) '1255'::pg_catalog.oid AND {functioncomment objoid}
OR classoid OPERATOR(pg_catalog.=) '2615'::pg_catalog.oid AND {schemacomment objoid})`},
	"pg_catalog.pg_shdescription": {where: `(objoid OPERATOR(pg_catalog.<) '16384'::pg_catalog.oid)`},
	"pg_catalog.pg_depend": {where: `({object objid} AND {object refobjid}
AND (refobjsubid OPERATOR(pg_catalog.=) '0'::pg_catalog.int4 OR {whole refobjid} OR {column refobjid refobjsubid})
AND (objsubid OPERATOR(pg_catalog.=) '0'::pg_catalog.int4 OR {whole objid} OR {column objid objsubid}))`},
	"pg_catalog.pg_shdepend": {where: nobody}, "pg_catalog.pg_init_privs": {where: nobody}, "pg_catalog.pg_default_acl": {where: nobody},

	"pg_catalog.pg_extension": {where: "{extension extname}", hide: map[string]string{"extconfig": "NULL::pg_catalog.oid[]", "extcondition": "NULL::pg_catalog.text[]"}},
	"pg_catalog.pg_database": {where: "datname OPERATOR(pg_catalog.=) pg_catalog.current_database()",
		hide: map[string]string{"datacl": acl}},
	"pg_catalog.pg_tablespace":      {where: own, hide: map[string]string{"spcacl": acl, "spcoptions": "NULL::pg_catalog.text[]"}},
	"pg_catalog.pg_roles":           {where: "(" + own + " OR {role rolname})", hide: map[string]string{"rolconfig": "NULL::pg_catalog.text[]", "rolvaliduntil": "NULL::pg_catalog.timestamptz"}},
	"pg_catalog.pg_user":            {where: "(usesysid OPERATOR(pg_catalog.<) '16384'::pg_catalog.oid OR {role usename})", hide: map[string]string{"useconfig": "NULL::pg_catalog.text[]", "valuntil": "NULL::pg_catalog.timestamptz"}},
	"pg_catalog.pg_auth_members":    {where: nobody},
	"pg_catalog.pg_db_role_setting": {where: nobody}, "pg_catalog.pg_parameter_acl": {where: nobody},
	"pg_catalog.pg_event_trigger": {where: nobody}, "pg_catalog.pg_largeobject_metadata": {where: nobody, always: true},

	"pg_catalog.pg_foreign_data_wrapper": {where: own, hide: map[string]string{"fdwacl": acl, "fdwoptions": "NULL::pg_catalog.text[]"}},
	"pg_catalog.pg_foreign_server":       {where: nobody},
	"pg_catalog.pg_user_mappings":        {where: nobody, always: true},
	"pg_catalog.pg_publication":          {where: nobody}, "pg_catalog.pg_publication_rel": {where: nobody},
	"pg_catalog.pg_publication_namespace": {where: nobody},
	"pg_catalog.pg_subscription":          {where: nobody, always: true, hide: map[string]string{"subconninfo": "NULL::pg_catalog.text"}},

	"pg_catalog.pg_locks": {where: "pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()", always: true,
		hide: map[string]string{"relation": "CASE WHEN {relation relation} THEN relation END"}},
	"pg_catalog.pg_stat_activity":   {where: "pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()", always: true},
	"pg_catalog.pg_stat_all_tables": statistics, "pg_catalog.pg_stat_user_tables": statistics, "pg_catalog.pg_statio_all_tables": statistics,
	"pg_catalog.pg_statio_user_tables": statistics,
	"pg_catalog.pg_stat_all_indexes":   indexStatistics, "pg_catalog.pg_stat_user_indexes": indexStatistics,
	"pg_catalog.pg_statio_all_indexes": indexStatistics, "pg_catalog.pg_statio_user_indexes": indexStatistics,

	"pg_catalog.pg_settings":       {where: "{setting name}", hide: map[string]string{"sourcefile": "NULL::pg_catalog.text", "sourceline": "NULL::pg_catalog.int4"}},
	"pg_catalog.pg_timezone_names": {}, "pg_catalog.pg_timezone_abbrevs": {},

	"pg_catalog.pg_tables": {where: "{name schemaname tablename}", hide: map[string]string{"tablespace": "NULL::pg_catalog.name"}},
	"pg_catalog.pg_views": {where: "{name schemaname viewname}", hide: map[string]string{
		"definition": "CASE WHEN {definition schemaname viewname} THEN definition END"}},
	"pg_catalog.pg_matviews": {where: "{name schemaname matviewname}", hide: map[string]string{
		"tablespace": "NULL::pg_catalog.name", "definition": "CASE WHEN {definition schemaname matviewname} THEN definition END"}},
	"pg_catalog.pg_indexes":   {where: "({name schemaname tablename} AND {name schemaname indexname})", hide: map[string]string{"tablespace": "NULL::pg_catalog.name"}},
	"pg_catalog.pg_sequences": {where: "{name schemaname sequencename}", hide: map[string]string{"last_value": "NULL::pg_catalog.int8"}},
}

// ruleOf returns the rule for a relation, if there is one.
func ruleOf(rel *catalog.Relation) (rule, bool) {
	if rel.Schema == "information_schema" {
		r, ok := standard[rel.Name]
		return r, ok
	}
	r, ok := relations[rel.Schema+"."+rel.Name]
	return r, ok
}
