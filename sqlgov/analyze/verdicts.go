package analyze

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v5"
)

// Verdict says what becomes of a kind of parse node. The table below has one for every kind that the grammar knows, and
// a test holds it against the parser's schema, so that a new kind cannot be forgotten.
type Verdict struct {
	Class  Class
	Reason string // why it is refused, or a word on how it is governed
}

// Class is what becomes of a kind of node.
type Class string

// The classes of verdict.
const (
	Governed Class = "governed" // by the relations, columns and functions in it
	Session  Class = "session"  // session control: a reviewed list
	Part     Class = "part"     // only occurs inside another kind, whose handler knows it
	Refused  Class = "refused"  // 0A000
	Internal Class = "internal" // made by the server behind the parser; no text has it
)

const (
	ddl      = "changes the schema"
	security = "changes who may do what"
	server   = "changes the server or its configuration"
	upkeep   = "maintenance is done by operators"
	code     = "runs code that cannot be seen from here"
	json16   = "SQL/JSON constructors and predicates are newer than the servers supported"
	planned  = "part of analysed or planned queries only"
)

func refused(reason string, names ...string) map[string]Verdict {
	return verdicts(Refused, reason, names...)
}

func verdicts(class Class, reason string, names ...string) map[string]Verdict {
	m := make(map[string]Verdict, len(names))
	for _, n := range names {
		m[n] = Verdict{class, reason}
	}
	return m
}

// Verdicts returns the verdict of every node kind, by the name that the parser's schema gives it.
func Verdicts() map[string]Verdict {
	all := make(map[string]Verdict)
	for _, group := range verdictGroups() {
		for name, v := range group {
			all[name] = v
		}
	}
	return all
}

func verdictGroups() []map[string]Verdict {
	return []map[string]Verdict{
		verdicts(Governed, "columns read, written and returned, functions called",
			"select_stmt", "insert_stmt", "update_stmt", "delete_stmt", "merge_stmt", "truncate_stmt"),
		verdicts(Governed, "the table or query copied; the server's files and programs are refused", "copy_stmt"),
		verdicts(Governed, "what they prepare, execute or explain", "prepare_stmt", "execute_stmt", "explain_stmt"),
		verdicts(Session, "transactions but two-phase commit", "transaction_stmt"),
		verdicts(Session, "parameters of a reviewed list", "variable_set_stmt", "variable_show_stmt"),
		verdicts(Session, "ends state of the session's own", "discard_stmt", "deallocate_stmt", "close_portal_stmt"),
		verdicts(Governed, "expressions",
			"a_const", "column_ref", "param_ref", "a_expr", "bool_expr", "func_call", "type_cast", "case_expr", "sub_link",
			"a_indirection", "row_expr", "a_array_expr", "coalesce_expr", "min_max_expr", "null_test", "boolean_test",
			"collate_clause", "sqlvalue_function", "grouping_func", "current_of_expr", "xml_expr", "xml_serialize", "named_arg_expr"),
		verdicts(Governed, "items of FROM",
			"range_var", "range_subselect", "range_function", "range_table_func", "range_table_sample", "join_expr"),
		verdicts(Part, "",
			"alias", "case_when", "a_star", "a_indices", "res_target", "multi_assign_ref", "sort_by", "window_def", "grouping_set",
			"range_table_func_col", "column_def", "index_elem", "def_elem", "locking_clause", "with_clause", "infer_clause",
			"on_conflict_clause", "ctesearch_clause", "ctecycle_clause", "common_table_expr", "type_name", "set_to_default",
			"into_clause", "raw_stmt", "integer", "float", "boolean", "string", "bit_string", "list", "int_list", "oid_list",
			"role_spec", "trigger_transition", "table_like_clause", "partition_elem", "partition_spec", "partition_bound_spec",
			"partition_range_datum", "partition_cmd", "object_with_args", "access_priv", "create_op_class_item", "stats_elem",
			"function_parameter", "vacuum_relation", "publication_obj_spec", "publication_table", "constraint",
			"replica_identity_stmt", "alter_table_cmd", "merge_when_clause", "return_stmt"),
		verdicts(Governed, "the query of the cursor, judged again whenever rows are fetched", "declare_cursor_stmt", "fetch_stmt"),
		refused(json16,
			"json_output", "json_format", "json_returning", "json_value_expr", "json_key_value", "json_object_constructor",
			"json_array_constructor", "json_array_query_constructor", "json_agg_constructor", "json_object_agg",
			"json_array_agg", "json_is_predicate", "json_constructor_expr"),
		verdicts(Governed, "ACCESS SHARE as reading the tables, ROW SHARE and ROW EXCLUSIVE as updating them; no other modes, no views", "lock_stmt"),
		verdicts(Session, "ALL of them, not by name", "constraints_set_stmt"),
		verdicts(Governed, "the channel; notifications are held against the roles again when they come", "notify_stmt", "listen_stmt", "unlisten_stmt"),
		refused(code, "do_stmt", "call_stmt", "load_stmt", "plassign_stmt"),
		refused(upkeep, "vacuum_stmt", "cluster_stmt", "reindex_stmt", "check_point_stmt", "refresh_mat_view_stmt"),
		refused(security,
			"grant_stmt", "grant_role_stmt", "alter_default_privileges_stmt", "create_role_stmt", "alter_role_stmt",
			"alter_role_set_stmt", "drop_role_stmt", "drop_owned_stmt", "reassign_owned_stmt", "alter_owner_stmt",
			"create_policy_stmt", "alter_policy_stmt", "sec_label_stmt"),
		refused(server,
			"alter_system_stmt", "create_table_space_stmt", "drop_table_space_stmt", "alter_table_space_options_stmt",
			"alter_table_move_all_stmt", "createdb_stmt", "alter_database_stmt", "alter_database_refresh_coll_stmt",
			"alter_database_set_stmt", "dropdb_stmt", "create_extension_stmt", "alter_extension_stmt",
			"alter_extension_contents_stmt", "create_fdw_stmt", "alter_fdw_stmt", "create_foreign_server_stmt",
			"alter_foreign_server_stmt", "create_user_mapping_stmt", "alter_user_mapping_stmt", "drop_user_mapping_stmt",
			"import_foreign_schema_stmt", "create_publication_stmt", "alter_publication_stmt", "create_subscription_stmt",
			"alter_subscription_stmt", "drop_subscription_stmt", "create_event_trig_stmt", "alter_event_trig_stmt",
			"create_plang_stmt", "create_am_stmt"),
		refused(ddl,
			"create_stmt", "create_table_as_stmt", "create_schema_stmt", "alter_table_stmt", "alter_collation_stmt",
			"alter_domain_stmt", "create_foreign_table_stmt", "create_trig_stmt", "create_seq_stmt", "alter_seq_stmt",
			"define_stmt", "create_domain_stmt", "create_op_class_stmt", "create_op_family_stmt", "alter_op_family_stmt",
			"drop_stmt", "comment_stmt", "index_stmt", "create_stats_stmt", "alter_stats_stmt", "create_function_stmt",
			"alter_function_stmt", "rename_stmt", "alter_object_depends_stmt", "alter_object_schema_stmt",
			"alter_operator_stmt", "alter_type_stmt", "rule_stmt", "composite_type_stmt", "create_enum_stmt",
			"create_range_stmt", "alter_enum_stmt", "view_stmt", "create_conversion_stmt", "create_cast_stmt",
			"create_transform_stmt", "alter_tsdictionary_stmt", "alter_tsconfiguration_stmt"),
		verdicts(Internal, planned,
			"table_func", "var", "param", "aggref", "window_func", "subscripting_ref", "func_expr", "op_expr", "distinct_expr",
			"null_if_expr", "scalar_array_op_expr", "sub_plan", "alternative_sub_plan", "field_select", "field_store",
			"relabel_type", "coerce_via_io", "array_coerce_expr", "convert_rowtype_expr", "collate_expr", "case_test_expr",
			"array_expr", "row_compare_expr", "coerce_to_domain", "coerce_to_domain_value", "next_value_expr", "inference_elem",
			"target_entry", "range_tbl_ref", "from_expr", "on_conflict_expr", "query", "range_tbl_entry",
			"rtepermission_info", "range_tbl_function", "table_sample_clause", "with_check_option", "sort_group_clause",
			"window_clause", "row_mark_clause", "merge_action", "set_operation_stmt", "inline_code_block", "call_context"),
	}
}

// refuseStatement refuses a kind of statement that has no handler.
func refuseStatement(n *pg.Node) {
	name := nodeName(n)
	e := refuse("0A000", "%s is not supported by this gateway", statementName(name))
	if v, ok := Verdicts()[name]; ok && v.Class == Refused {
		e.Detail = "Reason: " + v.Reason + "."
	}
	fail(e)
}

// nodeName is the name that the parser's schema gives the kind of a node.
func nodeName(n *pg.Node) string {
	if n == nil {
		return "nothing"
	}
	m := n.ProtoReflect()
	field := m.WhichOneof(m.Descriptor().Oneofs().Get(0))
	if field == nil {
		return "nothing"
	}
	return string(field.Name())
}

// statementName turns a node's name into words: "create_role_stmt" is "CREATE ROLE".
func statementName(node string) string {
	if name, ok := statementNames[node]; ok {
		return name
	}
	return upperWords(node)
}

var statementNames = map[string]string{
	"create_stmt": "CREATE TABLE", "create_table_as_stmt": "CREATE TABLE AS", "view_stmt": "CREATE VIEW",
	"index_stmt": "CREATE INDEX", "define_stmt": "CREATE", "rule_stmt": "CREATE RULE", "create_trig_stmt": "CREATE TRIGGER",
	"create_seq_stmt": "CREATE SEQUENCE", "alter_seq_stmt": "ALTER SEQUENCE", "createdb_stmt": "CREATE DATABASE",
	"dropdb_stmt": "DROP DATABASE", "declare_cursor_stmt": "DECLARE CURSOR", "close_portal_stmt": "CLOSE",
	"check_point_stmt": "CHECKPOINT", "create_plang_stmt": "CREATE LANGUAGE", "create_stats_stmt": "CREATE STATISTICS",
	"constraints_set_stmt": "SET CONSTRAINTS", "refresh_mat_view_stmt": "REFRESH MATERIALIZED VIEW",
	"variable_set_stmt": "SET", "variable_show_stmt": "SHOW", "transaction_stmt": "BEGIN, COMMIT, ROLLBACK, SAVEPOINT, RELEASE",
	"rename_stmt": "ALTER ... RENAME", "create_op_class_stmt": "CREATE OPERATOR CLASS", "create_op_family_stmt": "CREATE OPERATOR FAMILY",
	"alter_op_family_stmt": "ALTER OPERATOR FAMILY", "create_enum_stmt": "CREATE TYPE AS ENUM", "create_range_stmt": "CREATE TYPE AS RANGE",
	"composite_type_stmt": "CREATE TYPE", "alter_enum_stmt": "ALTER TYPE ... ADD VALUE", "create_event_trig_stmt": "CREATE EVENT TRIGGER",
	"alter_event_trig_stmt": "ALTER EVENT TRIGGER", "create_table_space_stmt": "CREATE TABLESPACE", "drop_table_space_stmt": "DROP TABLESPACE",
	"alter_table_space_options_stmt": "ALTER TABLESPACE", "alter_table_move_all_stmt": "ALTER TABLE ALL IN TABLESPACE",
	"alter_stats_stmt": "ALTER STATISTICS", "alter_fdw_stmt": "ALTER FOREIGN DATA WRAPPER", "alter_object_schema_stmt": "ALTER ... SET SCHEMA",
	"alter_object_depends_stmt": "ALTER ... DEPENDS ON", "alter_owner_stmt": "ALTER ... OWNER TO",
	"sec_label_stmt": "SECURITY LABEL", "create_fdw_stmt": "CREATE FOREIGN DATA WRAPPER", "create_am_stmt": "CREATE ACCESS METHOD",
}

func upperWords(node string) string {
	return strings.ToUpper(strings.ReplaceAll(strings.TrimSuffix(node, "_stmt"), "_", " "))
}

// location is the byte offset that the parser noted for an expression, or -1.
func location(n *pg.Node) int32 {
	switch x := n.GetNode().(type) {
	case *pg.Node_AExpr:
		return x.AExpr.Location
	case *pg.Node_ColumnRef:
		return x.ColumnRef.Location
	case *pg.Node_FuncCall:
		return x.FuncCall.Location
	case *pg.Node_AConst:
		return x.AConst.Location
	case *pg.Node_TypeCast:
		return x.TypeCast.Location
	case *pg.Node_SubLink:
		return x.SubLink.Location
	case *pg.Node_BoolExpr:
		return x.BoolExpr.Location
	case *pg.Node_RowExpr:
		return x.RowExpr.Location
	case *pg.Node_ParamRef:
		return x.ParamRef.Location
	}
	return -1
}
