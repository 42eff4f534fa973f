package introspect

import (
	"strings"

	"interlock/catalog"
)

// absence shows hidden rows with values that tell nothing. Columns that values does not have get nothing: 0, false or NULL.
type absence struct {
	where  string
	values map[string]string
}

// absentColumns shows hidden columns of visible tables as PostgreSQL shows dropped ones. Their numbers are missing in the table
// either way, and pg_dump takes a table to be damaged whose columns are not numbered without a gap.
var absentColumns = absence{
	where: "attnum OPERATOR(pg_catalog.>) '0'::pg_catalog.int2 AND {relation attrelid} AND NOT ({whole attrelid} OR {column attrelid attnum})",
	values: map[string]string{
		"attrelid": "attrelid", "attnum": "attnum",
		"attname":      "pg_catalog.concat('........pg.dropped.'::pg_catalog.text, attnum, '........'::pg_catalog.text)::pg_catalog.name",
		"attisdropped": "true", "attislocal": "true", "attbyval": "true",
		"attlen": "'4'::pg_catalog.int2", "attalign": `'i'::pg_catalog."char"`, "attstorage": `'p'::pg_catalog."char"`,
		"atttypmod": "'-1'::pg_catalog.int4", "attcacheoff": "'-1'::pg_catalog.int4",
	},
}

// nothing are the values of types that say nothing. Those of other types are NULL.
var nothing = map[string]string{
	"oid": "'0'::pg_catalog.oid", "int2": "'0'::pg_catalog.int2", "int4": "'0'::pg_catalog.int4", "bool": "false", "char": `''::pg_catalog."char"`,
}

// untold is NULL of a column's type. No cast makes a NULL of a pseudo-type.
func untold(name string) string { return "CASE WHEN false THEN " + name + " END" }

// absentRows is the part of a sub-select that reads them; "" if there are none.
func (s *Sight) absentRows(rel *catalog.Relation, a *absence, hidden []string) string {
	if a == nil || !s.partial {
		return ""
	}
	list := make([]string, 0, len(rel.Columns)+1)
	for i := range rel.Columns {
		c := &rel.Columns[i]
		value, ok := a.values[c.Name]
		if !ok {
			value, ok = nothing[s.index.Type(c.Type).Name]
		}
		if !ok {
			value = untold(c.Name)
		}
		list = append(list, value)
	}
	for _, name := range hidden {
		list = append(list, untold(name))
	}
	return " UNION ALL SELECT " + strings.Join(list, ", ") + " FROM " + rel.Schema + "." + rel.Name + " WHERE " + s.expand(a.where)
}
