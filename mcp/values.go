package mcp

import (
	"encoding/json"
	"slices"
	"strconv"

	"interlock/catalog"
	"interlock/sqlgov"
)

// How a PostgreSQL value becomes JSON. It is made from the text that the server printed, never from a number of ours,
// so no digit is lost:
//
//   - NULL is null, and boolean is true or false.
//   - smallint, integer, bigint, numeric, real and double precision are JSON numbers with the server's own digits:
//     9007199254740993, 0.10, 1e+20. NaN and infinities, which JSON has not, are strings.
//   - json and jsonb are embedded as they are.
//   - Everything else is a string with PostgreSQL's text: timestamps in ISO form, intervals, bytea as \x and hex
//     digits, arrays, ranges and composites as literals ("{1,2}", "[1,5)", "(1,a)").
//
// A value that is not what its type promises, because a mask replaced it, is a string.

// Types with a form of their own (pg_type.oid of built-in types never changes).
const (
	oidBool    catalog.OID = 16
	oidInt8    catalog.OID = 20
	oidInt2    catalog.OID = 21
	oidInt4    catalog.OID = 23
	oidJSON    catalog.OID = 114
	oidFloat4  catalog.OID = 700
	oidFloat8  catalog.OID = 701
	oidNumeric catalog.OID = 1700
	oidJSONB   catalog.OID = 3802
)

// appendValue appends a value of the given type, in the server's text format; nil is NULL.
func appendValue(dst []byte, typ catalog.OID, v []byte) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	switch typ {
	case oidInt2, oidInt4, oidInt8, oidNumeric, oidFloat4, oidFloat8:
		if len(v) > 0 && numberLength(v) == len(v) {
			return append(dst, v...)
		}
	case oidBool:
		if len(v) == 1 && v[0] == 't' {
			return append(dst, "true"...)
		}
		if len(v) == 1 && v[0] == 'f' {
			return append(dst, "false"...)
		}
	case oidJSON, oidJSONB:
		if json.Valid(v) {
			return append(dst, v...)
		}
	}
	return appendString(dst, v)
}

// columnKeys gives every column its member name in a row object. The first column of a name keeps it; later ones get
// _2, _3 and so on, skipping names that another column has.
func columnKeys(columns []sqlgov.ResultColumn) []string {
	taken := make(map[string]bool, len(columns))
	for _, c := range columns {
		taken[c.Name] = true
	}
	first := make(map[string]bool, len(columns))
	keys := make([]string, len(columns))
	for i, c := range columns {
		keys[i] = c.Name
		if !first[c.Name] {
			first[c.Name] = true
			continue
		}
		for n := 2; taken[keys[i]]; n++ {
			keys[i] = c.Name + "_" + strconv.Itoa(n)
		}
		taken[keys[i]] = true
	}
	return keys
}

// appendRows appends the rows as a JSON array of objects with the columns in order. It stops before the row with
// which the array would be larger than limit bytes, and returns how many rows it took.
func appendRows(dst []byte, res *sqlgov.Result, limit int) ([]byte, int) {
	begin := len(dst)
	names := make([][]byte, len(res.Columns))
	for i, key := range columnKeys(res.Columns) {
		names[i] = append(appendString(nil, key), ':')
	}
	dst = append(slices.Grow(dst, min(sizeOfRows(res, names), limit)), '[')
	for n, row := range res.Rows {
		mark := len(dst)
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		for i, v := range row {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(append(dst, names[i]...), res.Columns[i].Type, v)
		}
		dst = append(dst, '}')
		if len(dst)-begin >= limit {
			return append(dst[:mark], ']'), n
		}
	}
	return append(dst, ']'), len(res.Rows)
}

// sizeOfRows is about how large the rows are as JSON: exact but for escapes.
func sizeOfRows(res *sqlgov.Result, names [][]byte) int {
	frame := len("{},")
	for _, name := range names {
		frame += len(name) + len(`"",`)
	}
	size := len("[]") + frame*len(res.Rows)
	for _, row := range res.Rows {
		for _, v := range row {
			size += len(v)
		}
	}
	return size
}

// appendColumns appends the description of the columns: their real names, their types, their masks if they
// have one and, where it differs from the name, their member name in a row.
func appendColumns(dst []byte, columns []sqlgov.ResultColumn) []byte {
	dst = append(dst, '[')
	for i, key := range columnKeys(columns) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(append(dst, `{"name":`...), columns[i].Name)
		if key != columns[i].Name {
			dst = appendString(append(dst, `,"key":`...), key)
		}
		dst = appendString(append(dst, `,"type":`...), columns[i].TypeName)
		if columns[i].Mask != "" {
			dst = appendString(append(dst, `,"masked":`...), columns[i].Mask)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}
