package introspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"interlock/catalog"
)

// settings are the parameters that clients ask pg_settings and current_setting for. None tells what the server holds,
// where its files are, or what other sessions do.
var settings = []string{
	"application_name", "block_size", "bytea_output", "client_encoding", "client_min_messages", "DateStyle", "default_text_search_config",
	"default_transaction_deferrable", "default_transaction_isolation", "default_transaction_read_only", "extra_float_digits",
	"in_hot_standby", "integer_datetimes", "IntervalStyle", "is_superuser", "lc_collate", "lc_ctype", "lc_messages", "lc_monetary", "lc_numeric",
	"lc_time", "lock_timeout", "max_function_args", "max_identifier_length", "max_index_keys", "search_path", "server_encoding", "server_version",
	"server_version_num", "standard_conforming_strings", "statement_timeout", "TimeZone", "transaction_isolation", "transaction_read_only",
}

// list writes the sets as SQL arrays.
func (s *Sight) list() {
	s.lists = map[kind]string{}
	for k, set := range s.objects {
		s.lists[k] = array(set, func(oid catalog.OID) string { return strconv.FormatUint(uint64(oid), 10) }) + "::pg_catalog.oid[]"
	}
	for k, set := range s.keys {
		s.lists[k] = array(set, func(key int64) string { return strconv.FormatInt(key, 10) }) + "::pg_catalog.int8[]"
	}
	for k, set := range s.names {
		s.lists[k] = array(set, quoteElement) + "::pg_catalog.text[]"
	}
}

func array[T comparable](set map[T]bool, write func(T) string) string {
	list := make([]string, 0, len(set))
	for v := range set {
		list = append(list, write(v))
	}
	slices.Sort(list)
	return quote("{" + strings.Join(list, ",") + "}")
}

// quoteElement writes an element of an array literal.
func quoteElement(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// quote writes a string constant; standard_conforming_strings is on.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// condition is SQL that is true if what the operands stand for is visible.
func (s *Sight) condition(k kind, operands ...string) string {
	if s.all && !privileges[k] {
		return "true"
	}
	switch k {
	case column, defaultOf, comment:
		rel, num := operands[0], operands[1]
		test := fmt.Sprintf("(%s)::pg_catalog.int8 OPERATOR(pg_catalog.*) 65536::pg_catalog.int8 OPERATOR(pg_catalog.+) (%s)::pg_catalog.int8", rel, num)
		return fmt.Sprintf("(%s OPERATOR(pg_catalog.<) '16384'::pg_catalog.oid OR %s)", rel, s.member(k, test))
	case name, definition, schemaName, typeName, domainName, defaultName, tableConstraint:
		return fmt.Sprintf("(%s OR %s)", fromServer(operands[0]), s.member(k, joined(operands...)))
	case columnName, columnNumber:
		return fmt.Sprintf("(%s OR %s OR %s)", fromServer(operands[0]), s.member(wholeName, joined(operands[:2]...)), s.member(k, joined(operands...)))
	case ownName:
		return fromServer(operands[0])
	case constraintName:
		return s.constraintNamed(operands[0], operands[1])
	case privilege, columnPrivilege, may:
		return s.member(k, joined(operands...))
	case grantee:
		return fmt.Sprintf("(%s OPERATOR(pg_catalog.=) 'PUBLIC'::pg_catalog.name OR %s OPERATOR(pg_catalog.~) '^pg_'::pg_catalog.text OR %s)",
			operands[0], operands[0], s.member(role, joined(operands...)))
	case extension, role, setting:
		return s.member(k, joined(operands...))
	case partitioned:
		r := relations["pg_catalog.pg_partitioned_table"]
		return fmt.Sprintf("EXISTS (SELECT FROM pg_catalog.pg_partitioned_table WHERE partrelid OPERATOR(pg_catalog.=) %s AND %s)", operands[0], s.expand(r.where))
	}
	return fmt.Sprintf("(%s OPERATOR(pg_catalog.<) '16384'::pg_catalog.oid OR %s)", operands[0], s.member(k, operands[0]))
}

// fromServer is SQL that is true for a schema that comes with PostgreSQL.
func fromServer(schema string) string {
	return schema + " OPERATOR(pg_catalog.=) ANY ('{pg_catalog,information_schema}'::pg_catalog.name[])"
}

// joined is SQL for the text under which addName keeps the parts of a name.
func joined(operands ...string) string {
	parts := make([]string, len(operands))
	for i, o := range operands {
		parts[i] = "(" + o + ")::pg_catalog.text"
	}
	return strings.Join(parts, ` OPERATOR(pg_catalog.||) U&'\000a' OPERATOR(pg_catalog.||) `)
}

// constraintNamed is SQL that is true if there is a constraint of a name in a schema, and all of that name are visible. Names
// that the information_schema gives to NOT NULL stand for no constraint of the catalog.
func (s *Sight) constraintNamed(schema, name string) string {
	named := fmt.Sprintf(`EXISTS (SELECT FROM pg_catalog.pg_constraint WHERE conname OPERATOR(pg_catalog.=) %s
AND connamespace OPERATOR(pg_catalog.=) (SELECT n.oid FROM pg_catalog.pg_namespace AS n WHERE n.nspname OPERATOR(pg_catalog.=) %s)`, name, schema)
	return fmt.Sprintf("((%s OR %s)) AND NOT %s AND NOT %s))", s.member(notNull, joined(schema, name)), named, named, s.expand(relations["pg_catalog.pg_constraint"].where))
}

func (s *Sight) member(k kind, value string) string {
	list := s.lists[k]
	if list == "" {
		return "false"
	}
	return value + " OPERATOR(pg_catalog.=) ANY (" + list + ")"
}

// expand replaces each {kind operand ...} of a template by its condition.
func (s *Sight) expand(template string) string {
	var b strings.Builder
	for {
		start := strings.IndexByte(template, '{')
		if start < 0 {
			b.WriteString(template)
			return b.String()
		}
		end := start + strings.IndexByte(template[start:], '}')
		words := strings.Fields(template[start+1 : end])
		b.WriteString(template[:start])
		b.WriteString(s.condition(kind(words[0]), words[1:]...))
		template = template[end+1:]
	}
}
