package policy

import (
	"slices"
	"strings"
	"time"

	"interlock/catalog"
)

// CacheSpec says how long the result of a read may be served again. The zero value keeps no results.
type CacheSpec struct {
	TTL time.Duration `json:"ttl_ns,omitempty"`
}

// Data names the database behind a source. Two sources with one name are two ways to the same data. Two names for one
// server are not seen to be the same.
func (u *UpstreamSpec) Data() string {
	servers, err := u.Servers()
	if err != nil { // such a source is never reached
		return u.Host + "/" + u.Database
	}
	names := make([]string, len(servers))
	for i, s := range servers {
		names[i] = s.String()
	}
	slices.Sort(names)
	return strings.Join(names, ",") + "/" + u.Database
}

// compileKept finds of which data results are kept, and the sources on each.
func compileKept(doc *Document) map[string][]*SourceSpec {
	kept := make(map[string][]*SourceSpec)
	for i := range doc.Sources {
		if doc.Sources[i].Cache.TTL > 0 {
			kept[doc.Sources[i].Upstream.Data()] = nil
		}
	}
	for i := range doc.Sources {
		src := &doc.Sources[i]
		if _, ok := kept[src.Upstream.Data()]; ok {
			kept[src.Upstream.Data()] = append(kept[src.Upstream.Data()], src)
		}
	}
	return kept
}

// Keeps reports if results of any source are kept.
func (r *Ruleset) Keeps() bool { return len(r.kept) > 0 }

// Kept returns the sources on some data, if results of any of them are kept, else nil. The caller must not change it.
func (r *Ruleset) Kept(data string) []*SourceSpec { return r.kept[data] }

// AllKept returns all of which Kept says something, by data. The caller must not change it.
func (r *Ruleset) AllKept() map[string][]*SourceSpec { return r.kept }

// Steady reports if a function of the system schemas gives the same for the same arguments whenever it is called, as long
// as the settings of the session are the same: it knows neither the clock nor chance nor who calls.
func Steady(f *catalog.Function) bool {
	if !catalog.IsSystemSchema(f.Schema) || Builtin(f) != BuiltinPure || strings.Contains(f.Signature, "time with time zone") {
		return false
	}
	return f.Volatility == "i" || f.Volatility == "s" && slices.Contains(steady, f.Name)
}

// steady are the reviewed functions that PostgreSQL calls stable because they depend on settings, or on configuration of
// text search, and not on the clock. Those that are missing read values from text, where 'now' may be found
// (json_to_record), or take the date of today for a time of day (timetz, the jsonb_path functions that end in _tz), or for
// an age.
var steady = strings.Fields(`anytextcat array_to_json array_to_string concat concat_ws convert convert_from convert_to date
date_cmp_timestamptz date_eq_timestamptz date_ge_timestamptz date_gt_timestamptz date_le_timestamptz date_lt_timestamptz
date_ne_timestamptz date_part date_trunc extract format generate_series in_range interval_pl_timestamptz json_agg
json_build_array json_build_object json_object_agg json_to_tsvector jsonb_agg jsonb_build_array jsonb_build_object
jsonb_to_tsvector length make_timestamptz money numeric overlaps phraseto_tsquery plainto_tsquery quote_literal
quote_nullable row_to_json textanycat time timestamp timestamp_cmp_timestamptz timestamp_eq_timestamptz
timestamp_ge_timestamptz timestamp_gt_timestamptz timestamp_le_timestamptz timestamp_lt_timestamptz
timestamp_ne_timestamptz timestamptz timestamptz_cmp_date timestamptz_cmp_timestamp timestamptz_eq_date
timestamptz_eq_timestamp timestamptz_ge_date timestamptz_ge_timestamp timestamptz_gt_date timestamptz_gt_timestamp
timestamptz_le_date timestamptz_le_timestamp timestamptz_lt_date timestamptz_lt_timestamp timestamptz_mi_interval
timestamptz_ne_date timestamptz_ne_timestamp timestamptz_pl_interval to_char to_date to_json to_jsonb to_number
to_timestamp to_tsquery to_tsvector ts_headline ts_match_tq ts_match_tt websearch_to_tsquery`)
