package introspect

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"sync"

	"interlock/catalog"
	"interlock/sqlgov/analyze"
)

// A condition that a caller writes may be evaluated before the one that hides rows, unless it must not be moved into the
// sub-select. If it can fail for some values, the failure tells of a hidden row: 1/(relname = 'x')::int. So a sub-select
// gets OFFSET 0, which keeps conditions out, unless everything that the statement calls is known to be calm: it does not
// fail, whatever the values of its arguments.

// leakproof lists the functions that PostgreSQL 15 itself marks as leakproof, one line each: OID and name.
//
//go:embed leakproof.txt
var leakproof string

var leakproofOIDs = sync.OnceValue(func() map[catalog.OID]bool {
	set := map[catalog.OID]bool{}
	for line := range strings.Lines(leakproof) {
		oid, _, _ := strings.Cut(line, " ")
		n, err := strconv.ParseUint(oid, 10, 32)
		if err != nil {
			panic("introspect: " + err.Error()) // the text is part of the program, and a test reads it
		}
		set[catalog.OID(n)] = true
	}
	return set
})

// calmNames are further functions of pg_catalog that do not fail for values that catalogs hold, reviewed. Patterns are
// written by the caller; a name as a pattern could fail, which tells that it is no pattern and nothing else.
var calmNames = []string{
	"textregexeq", "textregexne", "texticregexeq", "texticregexne", "nameregexeq", "nameregexne", "nameicregexeq", "nameicregexne",
	"textlike", "textnlike", "texticlike", "texticnlike", "namelike", "namenlike", "nameiclike", "nameicnlike",
	"text", "textcat", "textanycat", "anytextcat", "lower", "upper", "btrim", "length", "quote_ident", "quote_literal", "coalesce", "concat", "concat_ws",
	"array_to_string", "array_upper", "array_lower", "array_length", "unnest", "array_remove", "array_append", "array_position", "array_agg",
	"arraycontains", "arraycontained", "arrayoverlap", "array_cat", "array_eq", "array_ne", "string_agg", "count", "min", "max", "sum", "bool_and", "bool_or",
	"row_number", "generate_series",
	"current_database", "current_schema", "current_schemas", "current_setting", "version", "pg_backend_pid",
	"pg_encoding_to_char", "pg_char_to_encoding", "getdatabaseencoding", "pg_size_pretty", "pg_options_to_table", "format_type",
	"pg_get_userbyid", "pg_get_expr", "pg_get_constraintdef", "pg_get_indexdef", "pg_get_viewdef", "pg_get_ruledef", "pg_get_triggerdef",
	"pg_get_functiondef", "pg_get_function_arguments", "pg_get_function_identity_arguments", "pg_get_function_result", "pg_get_function_sqlbody",
	"pg_get_partkeydef", "pg_get_partition_constraintdef", "pg_get_statisticsobjdef", "pg_get_statisticsobjdef_columns",
	"pg_get_statisticsobjdef_expressions", "obj_description", "col_description", "shobj_description",
	"pg_table_is_visible", "pg_type_is_visible", "pg_function_is_visible", "pg_operator_is_visible", "pg_opclass_is_visible",
	"pg_opfamily_is_visible", "pg_conversion_is_visible", "pg_collation_is_visible", "pg_statistics_obj_is_visible", "pg_ts_parser_is_visible",
	"pg_ts_dict_is_visible", "pg_ts_config_is_visible", "pg_ts_template_is_visible", "ts_token_type",
	"pg_relation_size", "pg_table_size", "pg_indexes_size", "pg_total_relation_size", "pg_relation_is_publishable",
	"pg_partition_ancestors", "pg_partition_tree", "pg_partition_root", "pg_database_size", "pg_tablespace_size", "pg_tablespace_location",
	"pg_is_other_temp_schema", "pg_my_temp_schema", "oidvectortypes", "aclexplode", "acldefault",
}

// calm reports if nothing that a statement calls can fail for some values and not for others.
func calm(st *analyze.Statement) bool {
	called := func(f *catalog.Function) bool {
		return slices.ContainsFunc(st.System.Calls, func(c analyze.SystemCall) bool { return c.Function == f })
	}
	return !st.System.Raises && !slices.ContainsFunc(st.Functions, func(f *catalog.Function) bool {
		return !isCalm(f) && (!conversion(f) || called(f))
	})
}

func isCalm(f *catalog.Function) bool {
	return f.OID < 10000 && leakproofOIDs()[f.OID] ||
		f.Schema == "pg_catalog" && f.OID < firstUserOID && slices.Contains(calmNames, f.Name) || f.Schema == "information_schema" && Watched(f)
}
