package mcp

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"interlock/catalog"
	"interlock/sqlgov"
)

// TestAppendValue gives the JSON form of texts as PostgreSQL prints them. TestValuesOfPostgreSQL takes them from a
// server.
func TestAppendValue(t *testing.T) {
	const oidTimestamp, oidBytea, oidInt4Array = 1114, 17, 1007
	for _, test := range []struct {
		typ  catalog.OID
		text string
		want string
	}{
		{oidInt8, "9007199254740993", "9007199254740993"},
		{oidInt2, "-32768", "-32768"},
		{oidNumeric, "123456789012345678901234567890.0100", "123456789012345678901234567890.0100"},
		{oidNumeric, "NaN", `"NaN"`},
		{oidNumeric, "-Infinity", `"-Infinity"`},
		{oidFloat8, "0.1", "0.1"},
		{oidFloat8, "1e+20", "1e+20"},
		{oidFloat8, "-0", "-0"},
		{oidFloat4, "Infinity", `"Infinity"`},
		{oidBool, "t", "true"},
		{oidBool, "f", "false"},
		{oidBool, "***", `"***"`},
		{oidInt4, "***", `"***"`},
		{oidInt4, "", `""`},
		{oidInt4, "007", `"007"`},
		{oidInt4, "1,2", `"1,2"`},
		{oidJSON, "{\"a\": 1,\n \"a\":12345678901234567890.10}", "{\"a\": 1,\n \"a\":12345678901234567890.10}"},
		{oidJSONB, `"x"`, `"x"`},
		{oidJSON, "***", `"***"`},
		{oidJSONB, `1],"secret":[1`, `"1],\"secret\":[1"`},
		{oidTimestamp, "2026-01-02 03:04:05.6", `"2026-01-02 03:04:05.6"`},
		{oidBytea, `\x00ff`, `"\\x00ff"`},
		{oidInt4Array, "{1,NULL}", `"{1,NULL}"`},
		{25, "a\u202eb", `"a\u202eb"`},
	} {
		if got := string(appendValue(nil, test.typ, []byte(test.text))); got != test.want {
			t.Errorf("type %d, %q: got %s, want %s", test.typ, test.text, got, test.want)
		}
	}
	if got := string(appendValue(nil, oidInt8, nil)); got != "null" {
		t.Errorf("NULL is %s", got)
	}
}

func TestColumnKeys(t *testing.T) {
	for names, want := range map[string]string{
		"id name":      "id name",
		"id id id":     "id id_2 id_3",
		"id id id_2":   "id id_3 id_2",
		"id_2 id id":   "id_2 id id_3",
		"a a a_2 a_2":  "a a_3 a_2 a_2_2",
		"Id id":        "Id id",
		"count count_": "count count_",
	} {
		var columns []sqlgov.ResultColumn
		for _, name := range strings.Fields(names) {
			columns = append(columns, sqlgov.ResultColumn{Name: name})
		}
		got := columnKeys(columns)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", names, got, want)
		}
		slices.Sort(got)
		if len(slices.Compact(got)) != len(columns) {
			t.Errorf("%s: keys are not unique: %v", names, got)
		}
	}
}

// TestPresent: the first text is always an array of rows, and what is left out is said.
func TestPresent(t *testing.T) {
	columns := []sqlgov.ResultColumn{{Name: "id", Type: oidInt8, TypeName: "bigint"}, {Name: "id", Type: 25, TypeName: "text"}}
	rows := [][][]byte{{[]byte("1"), []byte("a")}, {[]byte("2"), nil}}
	for name, test := range map[string]struct {
		res     sqlgov.Result
		limit   int
		rows    string
		more    string
		counted string
	}{
		"whole": {sqlgov.Result{Columns: columns, Rows: rows, Tag: "SELECT 2", Limit: 10}, 0,
			`[{"id":1,"id_2":"a"},{"id":2,"id_2":null}]`, "", `"row_count":2,"truncated":false,"limit":10`},
		"none": {sqlgov.Result{Columns: columns, Tag: "SELECT 0", Limit: 10}, 0,
			`[]`, "", `"row_count":0,"truncated":false`},
		"cut by rows": {sqlgov.Result{Columns: columns, Rows: rows, Tag: "SELECT 2", Limit: 2, Truncated: true}, 0,
			`[{"id":1,"id_2":"a"},{"id":2,"id_2":null}]`, "cut after 2 rows; there are more", `"row_count":2,"truncated":true,"limit":2`},
		"cut by bytes": {sqlgov.Result{Columns: columns, Rows: rows, Tag: "SELECT 2", Limit: 10}, 30,
			`[{"id":1,"id_2":"a"}]`, "cut after 1 rows, at 30 bytes", `"row_count":1,"truncated":true`},
		"no room": {sqlgov.Result{Columns: columns, Rows: rows, Tag: "SELECT 2", Limit: 10}, 5,
			`[]`, "cut after 0 rows", `"row_count":0,"truncated":true`},
		"a write": {sqlgov.Result{Tag: "UPDATE 3", Limit: 10}, 0,
			`[]`, "Done: UPDATE 3.", `"command":"UPDATE 3"`},
	} {
		said := (&Server{MaxReplyBytes: test.limit}).present(&test.res)
		if got := string(said.texts[0]); got != test.rows || !json.Valid(said.texts[0]) {
			t.Errorf("%s: rows %s, want %s", name, got, test.rows)
		}
		var more string
		if len(said.texts) > 1 {
			more = string(said.texts[1])
		}
		if !strings.Contains(more, test.more) || test.more == "" && more != "" {
			t.Errorf("%s: second text %q, want %q", name, more, test.more)
		}
		structured := bytes.Join(said.structured, nil)
		if s := string(structured); !strings.Contains(s, test.counted) || !strings.HasPrefix(s, `{"rows":`+test.rows) || !json.Valid(structured) {
			t.Errorf("%s: structured content %s, want %s", name, s, test.counted)
		}
	}
}
