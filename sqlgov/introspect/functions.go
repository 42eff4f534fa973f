package introspect

import (
	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// guard says when a call of a function is shown as it is: when the condition holds for the arguments. Else it is NULL,
// as for an object that does not exist.
type guard struct {
	// when is SQL over the arguments a, b, c, ... with {kind operand ...} for what must be visible; "" is always.
	when string
	// of says the same of the first argument, so that a column or a literal that is known to be fine needs no guard.
	of kind
	// paired is set when the first argument, an expression of a row, fits only the relation of the same row.
	paired bool
	// privilege is set for those of privilegeFunctions.
	privilege bool
	// settings is set when the first argument names a parameter.
	settings bool
}

func of(k kind) guard { return guard{when: "{" + string(k) + " a::pg_catalog.oid}", of: k} }

// functions are those of pg_catalog that introspection may call, by name. Functions of several forms are guarded in all of
// them, and a form whose first argument is no OID is refused.
var functions = map[string]guard{
	"pg_get_viewdef": of(viewText), "pg_get_constraintdef": of(constraint), "pg_get_indexdef": of(relation),
	"pg_get_triggerdef": of("trigger"), "pg_get_ruledef": of("rule"), "pg_get_partition_constraintdef": of(whole),
	"pg_get_partkeydef":                   of(partitioned),
	"pg_get_statisticsobjdef":             of("statistics"),
	"pg_get_statisticsobjdef_columns":     of("statistics"),
	"pg_get_statisticsobjdef_expressions": of("statistics"),
	"pg_get_expr":                         {paired: true},
	"pg_get_functiondef":                  of(source), "pg_get_function_sqlbody": of(source), "pg_get_function_arg_default": of(source),
	"pg_get_function_arguments": of(signature), "pg_get_function_identity_arguments": of(function), "pg_get_function_result": of(function),
	"pg_get_serial_sequence": {when: `{relation pg_catalog.to_regclass(a)::pg_catalog.oid} AND EXISTS (SELECT FROM pg_catalog.pg_attribute
WHERE attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass(a)::pg_catalog.oid AND attname OPERATOR(pg_catalog.=) b::pg_catalog.name AND ({whole attrelid} OR {column attrelid attnum}))`},
	"pg_sequence_parameters": of(relation), "pg_sequence_last_value": {when: "{may a::pg_catalog.oid 'SELECT'}"},
	"pg_get_userbyid":     of("owner"),
	"format_type":         of(typ),
	"obj_description":     {when: "({object a} AND (a OPERATOR(pg_catalog.<) '16384'::pg_catalog.oid OR {comment a 0} OR {functioncomment a} OR {schemacomment a}))"},
	"col_description":     {when: "{comment a b}"},
	"shobj_description":   of(system),
	"pg_table_is_visible": of(relation), "pg_type_is_visible": of(typ), "pg_function_is_visible": of(function),
	"pg_operator_is_visible": of(operator), "pg_opclass_is_visible": of("opclass"), "pg_opfamily_is_visible": of("opfamily"),
	"pg_conversion_is_visible": of("conversion"), "pg_collation_is_visible": of("collation"), "pg_statistics_obj_is_visible": of("statistics"),
	"pg_ts_parser_is_visible": of("tsparser"), "pg_ts_dict_is_visible": of("tsdict"), "pg_ts_config_is_visible": of("tsconfig"),
	"pg_ts_template_is_visible": of("tstemplate"),
	"ts_token_type":             of("tsparser"),

	"pg_relation_size": of(relation), "pg_table_size": of(relation), "pg_indexes_size": of(relation), "pg_total_relation_size": of(relation),
	"pg_relation_is_publishable": of(relation), "pg_relation_is_updatable": of(relation), "pg_column_is_updatable": of(relation),
	"pg_index_column_has_property": of(relation), "pg_index_has_property": of(relation), "pg_indexam_has_property": of("accessmethod"),
	"pg_relation_filenode": of(relation), "row_security_active": of(relation), "pg_get_replica_identity_index": of(relation),
	"pg_partition_ancestors": of(tree), "pg_partition_tree": of(tree), "pg_partition_root": of(tree),
	"pg_database_size": of("database"), "pg_tablespace_size": of("tablespace"), "pg_tablespace_location": of(system),
	"pg_describe_object": {when: "({object b} AND c OPERATOR(pg_catalog.=) '0'::pg_catalog.int4)"}, "pg_identify_object": {when: "({object b} AND c OPERATOR(pg_catalog.=) '0'::pg_catalog.int4)"},

	"pg_is_other_temp_schema": {}, "pg_my_temp_schema": {}, "oidvectortypes": {when: "NOT EXISTS (SELECT FROM pg_catalog.unnest(a) AS t(t) WHERE NOT {type t.t})"},
	"aclexplode": {}, "acldefault": {}, "current_setting": {settings: true},
	"to_regclass": {when: "{relation pg_catalog.to_regclass(a)::pg_catalog.oid}"}, "to_regtype": {when: "{type pg_catalog.to_regtype(a)::pg_catalog.oid}"},
	"to_regnamespace": {when: "{schema pg_catalog.to_regnamespace(a)::pg_catalog.oid}"},
	"to_regproc":      {when: "{function pg_catalog.to_regproc(a)::pg_catalog.oid}"},
	"to_regprocedure": {when: "{function pg_catalog.to_regprocedure(a)::pg_catalog.oid}"},
}

// standardFunctions are those of the information_schema. They compute from their arguments alone, but for one.
var standardFunctions = map[string]guard{
	"_pg_expandarray": {}, "_pg_char_max_length": {}, "_pg_char_octet_length": {}, "_pg_numeric_precision": {}, "_pg_numeric_precision_radix": {},
	"_pg_numeric_scale": {}, "_pg_datetime_precision": {}, "_pg_interval_type": {}, "_pg_index_position": of(relation),
}

// guardOf returns the guard of a function, if introspection may call it.
func guardOf(f *catalog.Function) (guard, bool) {
	switch f.Schema {
	case "pg_catalog":
		if _, ok := privilegeFunctions[f.Name]; ok {
			return guard{privilege: true}, true
		}
		g, ok := functions[f.Name]
		return g, ok
	case "information_schema":
		g, ok := standardFunctions[f.Name]
		return g, ok
	}
	return guard{}, false
}

// carried says which objects the columns of filtered catalogs hold: only visible ones. Kinds that no set is kept of are
// those of catalogs that are filtered by themselves: whatever they show may be asked about.
var carried = map[string][]kind{
	"pg_class.oid": {relation}, "pg_class.relnamespace": {schema}, "pg_class.reltype": {typ}, "pg_class.reloftype": {typ},
	"pg_class.relowner": {"owner"}, "pg_class.relam": {"accessmethod"}, "pg_class.reltablespace": {"tablespace"},
	"pg_attribute.attrelid": {relation}, "pg_attribute.atttypid": {typ}, "pg_attribute.attcollation": {"collation"},
	"pg_attrdef.adrelid":  {relation},
	"pg_index.indexrelid": {relation}, "pg_index.indrelid": {relation},
	"pg_constraint.oid": {constraint}, "pg_constraint.conrelid": {relation}, "pg_constraint.confrelid": {relation},
	"pg_constraint.conindid": {relation}, "pg_constraint.connamespace": {schema}, "pg_constraint.contypid": {typ},
	"pg_inherits.inhrelid": {relation}, "pg_inherits.inhparent": {relation},
	"pg_namespace.oid": {schema}, "pg_namespace.nspowner": {"owner"},
	"pg_type.oid": {typ}, "pg_type.typelem": {typ}, "pg_type.typarray": {typ}, "pg_type.typbasetype": {typ}, "pg_type.typnamespace": {schema},
	"pg_type.typowner": {"owner"}, "pg_type.typrelid": {relation}, "pg_type.typcollation": {"collation"},
	"pg_type.typinput": {function}, "pg_type.typoutput": {function},
	"pg_enum.enumtypid": {typ}, "pg_range.rngtypid": {typ}, "pg_range.rngsubtype": {typ},
	"pg_proc.oid": {function}, "pg_proc.pronamespace": {schema}, "pg_proc.prorettype": {typ}, "pg_proc.proowner": {"owner"},
	"pg_proc.proargtypes": {typ}, "pg_proc.proallargtypes": {typ},
	"pg_aggregate.aggfnoid": {function},
	"pg_operator.oid":       {operator}, "pg_operator.oprleft": {typ}, "pg_operator.oprright": {typ}, "pg_operator.oprresult": {typ},
	"pg_operator.oprcode": {function}, "pg_operator.oprnamespace": {schema}, "pg_operator.oprowner": {"owner"},
	"pg_cast.castsource": {typ}, "pg_cast.casttarget": {typ}, "pg_cast.castfunc": {function},
	"pg_am.oid": {"accessmethod"}, "pg_am.amhandler": {function},
	"pg_amop.amoplefttype": {typ}, "pg_amop.amoprighttype": {typ}, "pg_amop.amopopr": {operator},
	"pg_amproc.amproclefttype": {typ}, "pg_amproc.amprocrighttype": {typ}, "pg_amproc.amproc": {function},
	"pg_opclass.oid": {"opclass"}, "pg_opclass.opcintype": {typ}, "pg_opclass.opckeytype": {typ}, "pg_opclass.opcowner": {"owner"},
	"pg_opfamily.oid": {"opfamily"}, "pg_opfamily.opfowner": {"owner"},
	"pg_collation.oid": {"collation"}, "pg_collation.collowner": {"owner"}, "pg_conversion.oid": {"conversion"}, "pg_conversion.conproc": {function},
	"pg_conversion.conowner": {"owner"},
	"pg_language.lanowner":   {"owner"}, "pg_language.lanplcallfoid": {function}, "pg_language.laninline": {function}, "pg_language.lanvalidator": {function},
	"pg_ts_config.oid": {"tsconfig"}, "pg_ts_config.cfgparser": {"tsparser"}, "pg_ts_config_map.mapdict": {"tsdict"}, "pg_ts_dict.oid": {"tsdict"},
	"pg_ts_parser.oid": {"tsparser"}, "pg_ts_parser.prsstart": {function}, "pg_ts_parser.prstoken": {function}, "pg_ts_parser.prsend": {function},
	"pg_ts_parser.prsheadline": {function}, "pg_ts_parser.prslextype": {function},
	"pg_ts_template.oid": {"tstemplate"}, "pg_ts_template.tmplinit": {function}, "pg_ts_template.tmpllexize": {function},
	"pg_trigger.oid": {"trigger"}, "pg_trigger.tgrelid": {relation}, "pg_trigger.tgfoid": {function},
	"pg_rewrite.oid": {"rule"}, "pg_rewrite.ev_class": {relation}, "pg_policy.polrelid": {relation},
	"pg_statistic_ext.oid": {"statistics"}, "pg_statistic_ext.stxrelid": {relation}, "pg_statistic_ext.stxnamespace": {schema},
	"pg_statistic_ext.stxowner":      {"owner"},
	"pg_partitioned_table.partrelid": {relation, partitioned},
	"pg_stat_all_tables.relid":       {relation}, "pg_stat_user_tables.relid": {relation}, "pg_statio_all_tables.relid": {relation}, "pg_statio_user_tables.relid": {relation},
	"pg_foreign_table.ftrelid":           {relation},
	"pg_foreign_data_wrapper.fdwhandler": {function}, "pg_foreign_data_wrapper.fdwvalidator": {function}, "pg_foreign_data_wrapper.fdwowner": {"owner"},
	"pg_foreign_server.srvowner": {"owner"},
	"pg_sequence.seqrelid":       {relation}, "pg_sequence.seqtypid": {typ},
	"pg_extension.extnamespace": {schema}, "pg_extension.extowner": {"owner"},
	"pg_database.oid": {"database", system}, "pg_database.datdba": {"owner"}, "pg_database.datname": {"database"}, "pg_database.dattablespace": {"tablespace"},
	"pg_tablespace.oid": {"tablespace", system}, "pg_tablespace.spcowner": {"owner"}, "pg_tablespace.spcname": {"tablespace"},
	"pg_roles.oid":              {"owner", system},
	"pg_event_trigger.evtowner": {"owner"}, "pg_event_trigger.evtfoid": {function},
	"pg_publication.pubowner": {"owner"}, "pg_subscription.subowner": {"owner"}, "pg_default_acl.defaclrole": {"owner"},
	"pg_largeobject_metadata.lomowner": {"owner"},
}

// expressions are the columns that hold expressions, with the column of the same row that says which relation's columns
// they name.
var expressions = map[string]string{
	"pg_attrdef.adbin": "adrelid", "pg_constraint.conbin": "conrelid", "pg_index.indexprs": "indrelid", "pg_index.indpred": "indrelid",
	"pg_class.relpartbound": "oid", "pg_partitioned_table.partexprs": "partrelid", "pg_policy.polqual": "polrelid", "pg_policy.polwithcheck": "polrelid",
	"pg_trigger.tgqual": "tgrelid", "pg_publication_rel.prqual": "prrelid",
}

// Watched reports if calls of a function are guarded, so that Rewrite has to know of them.
func Watched(f *catalog.Function) bool {
	_, ok := guardOf(f)
	return ok
}

func qualifiedName(c analyze.Column) string { return c.Table + "." + c.Name }

// Catalogs says what of the system schemas needs no permission.
type Catalogs struct{}

// Relation reports if a relation is shown by rows that are filtered.
func (Catalogs) Relation(rel *catalog.Relation) bool {
	_, ok := ruleOf(rel)
	return ok
}

// Function reports if a function is shown by calls that are guarded.
func (Catalogs) Function(f *catalog.Function) bool {
	return Watched(f) || conversion(f) && f.Schema == "pg_catalog"
}
