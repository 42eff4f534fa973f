package policy

import (
	"slices"
	"strings"
	"testing"
)

// Of the functions that depend on their arguments and on settings alone, these are the ones that read values from text,
// where 'now' may be found, that take the date of today for a time of day or an age, or that tell how a value is stored.
// PostgreSQL calls all of them stable.
const unsteady = `age json_populate_record json_populate_recordset json_to_record json_to_recordset jsonb_path_exists_tz
jsonb_path_match_tz jsonb_path_query_array_tz jsonb_path_query_first_tz jsonb_path_query_tz jsonb_populate_record
jsonb_populate_recordset jsonb_to_record jsonb_to_recordset pg_char_to_encoding pg_collation_for pg_column_compression
pg_column_size pg_encoding_to_char pg_options_to_table timetz timezone xml xml_is_well_formed`

func TestSteady(t *testing.T) {
	_, all := readSystemFunctions(t)
	seen, left := map[string]bool{}, map[string]bool{}
	for i := range all {
		f := &all[i].Function
		switch {
		case f.Volatility == "v" && Steady(f), Steady(f) && Builtin(f) != BuiltinPure:
			t.Errorf("%s(%s) is steady", f.Name, f.Signature)
		case f.Volatility != "s" || Builtin(f) != BuiltinPure:
		case Steady(f):
			seen[f.Name] = true
		default:
			left[f.Name] = true
		}
	}
	for _, name := range steady {
		if !seen[name] {
			t.Errorf("%s is no stable function, or not a pure one", name)
		}
	}
	want := strings.Fields(unsteady)
	for name := range left {
		if !slices.Contains(want, name) {
			t.Errorf("nobody has said if %s knows the clock", name)
		}
	}
	for _, name := range want {
		if !left[name] || slices.Contains(steady, name) {
			t.Errorf("%s is taken for steady", name)
		}
	}
}
