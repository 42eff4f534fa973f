package introspect

// The information_schema shows what the server's login may use, by name. Its views are read as they are, so that they show
// what they show to a direct connection, and rows and names are kept from those who may not see them. What is not listed
// tells of foreign servers' options, or is for the other views' own use.

// seen shows a column of a type of the information_schema if a condition holds, else NULL.
func seen(column, condition, typ string) string {
	return "CASE WHEN " + condition + " THEN " + column + " ELSE NULL::information_schema." + typ + " END"
}

// identifiers shows columns that together name something if a condition holds.
func identifiers(hide map[string]string, condition string, columns ...string) {
	for _, c := range columns {
		hide[c] = seen(c, condition, "sql_identifier")
	}
}

// shape hides the names of types and collations that a view tells of a column, a domain, an argument or an element.
func shape(more map[string]string) map[string]string {
	identifiers(more, "{typename udt_schema udt_name}", "udt_catalog", "udt_schema", "udt_name")
	return collation(more)
}

func collation(more map[string]string) map[string]string {
	identifiers(more, "{ownname collation_schema}", "collation_catalog", "collation_schema", "collation_name")
	return more
}

// routine is the condition for a function by its specific name, which ends with its OID.
const routine = `{function pg_catalog.substring(specific_name::pg_catalog.text,'[0-9]+$')::pg_catalog.oid}`

// routineOwn is the same for what comes with PostgreSQL.
const routineOwn = `{system pg_catalog.substring(specific_name::pg_catalog.text,'[0-9]+$')::pg_catalog.oid}`

// granted is the condition for the two roles of a privilege.
const granted = "{grantee grantor} AND {grantee grantee}"

// notGrantable is what the gateway has to say about passing privileges on.
var notGrantable = map[string]string{"is_grantable": "'NO'::information_schema.yes_or_no"}

// triggerByName is the condition for a trigger, which has no OID here.
const triggerByName = `EXISTS (SELECT FROM pg_catalog.pg_trigger, pg_catalog.pg_class AS c, pg_catalog.pg_namespace AS n
WHERE tgname OPERATOR(pg_catalog.=) trigger_name AND c.oid OPERATOR(pg_catalog.=) tgrelid AND c.relname OPERATOR(pg_catalog.=) event_object_table
AND n.oid OPERATOR(pg_catalog.=) c.relnamespace AND n.nspname OPERATOR(pg_catalog.=) event_object_schema AND ` + visibleTrigger + ")"

// objectDescriptor is the condition for what data_type_privileges and element_types describe.
func objectDescriptor(number string) string {
	return `CASE object_type WHEN 'TABLE' THEN {columnnumber object_schema object_name ` + number + `}
WHEN 'ROUTINE' THEN {function pg_catalog.substring(object_name::pg_catalog.text,'[0-9]+$')::pg_catalog.oid} ELSE {typename object_schema object_name} END`
}

const (
	columnSeen     = "{columnname table_schema table_name column_name}"
	constraintSeen = "{constraintname constraint_schema constraint_name}"
	privilegeSeen  = "{privilege table_schema table_name privilege_type} AND " + granted
	columnMay      = columnSeen + " AND ({privilege table_schema table_name privilege_type} OR {columnprivilege table_schema table_name column_name privilege_type}) AND " + granted
	usageSeen      = `CASE object_type WHEN 'DOMAIN' THEN {typename object_schema object_name} WHEN 'SEQUENCE' THEN {name object_schema object_name}
ELSE {ownname object_schema} END AND ` + granted
)

// standard are the rules for the relations of the information_schema.
var standard = map[string]rule{
	"information_schema_catalog_name": {}, "sql_features": {}, "sql_implementation_info": {}, "sql_parts": {}, "sql_sizing": {},
	"character_sets": {},
	"collations":     {where: "{ownname collation_schema}"}, "collation_character_set_applicability": {where: "{ownname collation_schema}"},

	"schemata": {where: "{schemaname schema_name}"},
	"tables": {where: "{name table_schema table_name}", hide: func() map[string]string {
		hide := map[string]string{}
		identifiers(hide, "{typename user_defined_type_schema user_defined_type_name}", "user_defined_type_catalog", "user_defined_type_schema", "user_defined_type_name")
		return hide
	}()},
	"columns": {where: columnSeen, hide: func() map[string]string {
		hide := shape(map[string]string{})
		identifiers(hide, "{typename domain_schema domain_name}", "domain_catalog", "domain_schema", "domain_name")
		for _, c := range []string{"column_default", "generation_expression"} {
			hide[c] = seen(c, "{defaultname table_schema table_name column_name}", "character_data")
		}
		return hide
	}()},
	"views": {where: "{name table_schema table_name}", hide: map[string]string{
		"view_definition": seen("view_definition", "{definition table_schema table_name}", "character_data")}},
	"sequences":            {where: "{name sequence_schema sequence_name}"},
	"element_types":        {where: objectDescriptor("collection_type_identifier"), hide: shape(map[string]string{"domain_default": "NULL::information_schema.character_data"})},
	"data_type_privileges": {where: objectDescriptor("dtd_identifier")},
	"column_column_usage":  {where: columnSeen + " AND {columnname table_schema table_name dependent_column}"},
	"column_domain_usage":  {where: columnSeen + " AND {typename domain_schema domain_name}"},
	"column_udt_usage":     {where: columnSeen + " AND {typename udt_schema udt_name}"},

	"table_constraints": {where: "{tableconstraint table_schema table_name constraint_name}"},
	"key_column_usage":  {where: columnSeen + " AND {tableconstraint table_schema table_name constraint_name}"},
	"referential_constraints": {where: constraintSeen, hide: func() map[string]string {
		hide := map[string]string{}
		identifiers(hide, "{constraintname unique_constraint_schema unique_constraint_name}", "unique_constraint_catalog", "unique_constraint_schema", "unique_constraint_name")
		return hide
	}()},
	"check_constraints":              {where: constraintSeen},
	"check_constraint_routine_usage": {where: constraintSeen + " AND " + routine},
	"constraint_column_usage":        {where: columnSeen + " AND " + constraintSeen},
	"constraint_table_usage":         {where: "{name table_schema table_name} AND " + constraintSeen},

	"domains": {where: "{typename domain_schema domain_name}", hide: shape(map[string]string{
		"domain_default": seen("domain_default", "{ownname domain_schema}", "character_data")})},
	"domain_constraints": {where: "{domainname domain_schema domain_name}"},
	"domain_udt_usage":   {where: "{typename domain_schema domain_name} AND {typename udt_schema udt_name}"},
	"attributes": {where: "{typename udt_schema udt_name}", hide: func() map[string]string {
		hide := collation(map[string]string{"attribute_default": "NULL::information_schema.character_data"})
		identifiers(hide, "{typename attribute_udt_schema attribute_udt_name}", "attribute_udt_catalog", "attribute_udt_schema", "attribute_udt_name")
		return hide
	}()},
	"user_defined_types": {where: "{typename user_defined_type_schema user_defined_type_name}"},
	"transforms":         {where: "{typename udt_schema udt_name} AND " + routine},

	"routines": {where: routine, hide: func() map[string]string {
		hide := map[string]string{"routine_definition": seen("routine_definition", routineOwn, "character_data"),
			"external_name": seen("external_name", routineOwn, "character_data")}
		identifiers(hide, "{typename type_udt_schema type_udt_name}", "type_udt_catalog", "type_udt_schema", "type_udt_name")
		return hide
	}()},
	"parameters": {where: routine, hide: shape(map[string]string{
		"parameter_default": seen("parameter_default", routineOwn, "character_data")})},
	"routine_column_usage":   {where: routine + " AND " + columnSeen},
	"routine_table_usage":    {where: routine + " AND {name table_schema table_name}"},
	"routine_sequence_usage": {where: routine + " AND {name sequence_schema sequence_name}"},
	"routine_routine_usage":  {where: nobody},

	"triggers":                 {where: triggerByName},
	"triggered_update_columns": {where: triggerByName + " AND {columnname event_object_schema event_object_table event_object_column}"},

	"view_column_usage":  {where: "{definition view_schema view_name} AND " + columnSeen},
	"view_table_usage":   {where: "{definition view_schema view_name} AND {name table_schema table_name}"},
	"view_routine_usage": {where: "{definition table_schema table_name} AND " + routine},

	"enabled_roles": {where: "{grantee role_name}"}, "applicable_roles": {where: "{grantee grantee} AND {grantee role_name}"},
	"administrable_role_authorizations": {where: "{grantee grantee} AND {grantee role_name}"},
	"table_privileges":                  {where: privilegeSeen, hide: notGrantable, privileges: true},
	"role_table_grants":                 {where: privilegeSeen, hide: notGrantable, privileges: true},
	"column_privileges":                 {where: columnMay, hide: notGrantable, privileges: true},
	"role_column_grants":                {where: columnMay, hide: notGrantable, privileges: true},
	"routine_privileges":                {where: routine + " AND " + granted, hide: notGrantable},
	"role_routine_grants":               {where: routine + " AND " + granted, hide: notGrantable},
	"udt_privileges":                    {where: "{typename udt_schema udt_name} AND " + granted, hide: notGrantable},
	"role_udt_grants":                   {where: "{typename udt_schema udt_name} AND " + granted, hide: notGrantable},
	"usage_privileges":                  {where: usageSeen, hide: notGrantable},
	"role_usage_grants":                 {where: usageSeen, hide: notGrantable},

	"foreign_tables": {where: "{name foreign_table_schema foreign_table_name}", hide: map[string]string{
		"foreign_server_catalog": "NULL::information_schema.sql_identifier", "foreign_server_name": "NULL::information_schema.sql_identifier"}},
	"foreign_servers": {where: nobody}, "foreign_data_wrappers": {where: nobody},
}
