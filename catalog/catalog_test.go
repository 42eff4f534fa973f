package catalog

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// full is a snapshot in which no field of any type is zero.
func full(t *testing.T) *Snapshot {
	t.Helper()
	s := &Snapshot{}
	n := 0
	fill(reflect.ValueOf(s).Elem(), &n)
	setVersion(t, s)
	return s
}

func fill(v reflect.Value, n *int) {
	*n++
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("ü<%d>", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int16, reflect.Int32:
		v.SetInt(int64(*n))
	case reflect.Uint32:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	default:
		panic("a kind of field that the test does not fill: " + v.Type().String())
	}
}

// leaves calls visit with each settable scalar of a value and its path.
func leaves(v reflect.Value, path string, visit func(path string, leaf reflect.Value)) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		visit(path, v)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			leaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit)
		}
	default:
		visit(path, v)
	}
}

func setVersion(t *testing.T, s *Snapshot) {
	t.Helper()
	var err error
	if s.Version, err = s.ContentVersion(); err != nil {
		t.Fatal(err)
	}
}

func TestEncodeDecode(t *testing.T) {
	for name, s := range map[string]*Snapshot{"full": full(t), "zero": {}} {
		t.Run(name, func(t *testing.T) {
			setVersion(t, s)
			data, err := s.Encode()
			if err != nil {
				t.Fatal(err)
			}
			got, err := Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, s) {
				t.Errorf("got %+v\nwant %+v", got, s)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	s := full(t)
	s.Relations[0].RowSecurity = false // not what Version says
	changed, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	good, err := full(t).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"changed content": changed,
		"cut off":         good[:len(good)/2],
		"not gzip":        []byte(`{"source":"x"}`),
		"empty":           nil,
	} {
		if _, err := Decode(data); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
}

// TestEveryFieldCounts changes each field of a snapshot in turn. The version must move, and Differences must say something, for all but
// the fields that are documented as no content.
func TestEveryFieldCounts(t *testing.T) {
	base := full(t)
	var paths []string
	leaves(reflect.ValueOf(base).Elem(), "", func(path string, _ reflect.Value) { paths = append(paths, path) })
	if len(paths) < 200 {
		t.Fatalf("only %d fields", len(paths))
	}
	for i, path := range paths {
		s := full(t)
		at := 0
		leaves(reflect.ValueOf(s).Elem(), "", func(_ string, leaf reflect.Value) {
			if at == i {
				leaf.SetZero()
			}
			at++
		})
		setVersion(t, s)
		content := path != ".Source" && path != ".Version" && path != ".ScannedAt" && !strings.HasSuffix(path, ".RowEstimate")
		if moved := s.Version != base.Version; moved != content {
			t.Errorf("%s: the version moved: %v, want %v", path, moved, content)
		}
		if lines := Differences(base, s); (len(lines) > 0) != content {
			t.Errorf("%s: differences %q", path, lines)
		}
	}
}

func TestDifferences(t *testing.T) {
	before := &Snapshot{
		Schemas: []Schema{{OID: 1, Name: "crm"}},
		Types:   []Type{{OID: 23, Schema: "pg_catalog", Name: "int4"}, {OID: 25, Schema: "crm", Name: "mood"}},
		Relations: []Relation{
			{OID: 10, Schema: "crm", Name: "customers", Kind: Table, RowEstimate: 5, Columns: []Column{
				{Num: 1, Name: "id", TypeName: "integer"}, {Num: 2, Name: "mail", TypeName: "text"}, {Num: 3, Name: "old"}}},
			{OID: 11, Schema: "crm", Name: "v", Kind: View, Definition: "SELECT 1"},
			{OID: 12, Schema: "crm", Name: "gone", Kind: MaterializedView},
		},
		Functions: []Function{{OID: 20, Schema: "crm", Name: "f", Signature: "integer, text", Volatility: "s"}},
		Casts:     []Cast{{Source: 23, Target: 25, Context: "e"}},
	}
	after := &Snapshot{
		Schemas: []Schema{{OID: 1, Name: "crm"}, {OID: 2, Name: "hr"}},
		Types:   before.Types,
		Relations: []Relation{
			{OID: 10, Schema: "crm", Name: "customers", Kind: Table, RowEstimate: 9, RowSecurity: true, Columns: []Column{
				{Num: 1, Name: "id", TypeName: "bigint"}, {Num: 2, Name: "email", TypeName: "text"}, {Num: 4, Name: "new"}}},
			{OID: 11, Schema: "crm", Name: "v", Kind: View, Definition: "SELECT 2"},
		},
		Functions: []Function{{OID: 20, Schema: "crm", Name: "f", Signature: "integer, text", Volatility: "v"}},
		Operators: []Operator{{OID: 30, Schema: "crm", Name: "~", Left: 23, Right: 25}},
	}
	want := []string{
		"schema hr added",
		"table crm.customers: row-level security enabled, column id is now bigint, column mail renamed to email, column new added, column old dropped",
		"view crm.v: definition changed",
		"materialized view crm.gone dropped",
		"function crm.f(integer, text): changed",
		"operator crm.~ (int4, crm.mood) added",
		"cast from int4 to crm.mood dropped",
	}
	if got := Differences(before, after); !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := Differences(before, before); len(got) != 0 {
		t.Errorf("same snapshot: %q", got)
	}
}

func TestDifferencesAfterUpgradeLeavesSystemOut(t *testing.T) {
	before := &Snapshot{ServerNum: 150000, ServerVersion: "15.0"}
	after := &Snapshot{ServerNum: 160000, ServerVersion: "16.0", Functions: []Function{
		{OID: 1, Schema: "pg_catalog", Name: "system_user"}, {OID: 2, Schema: "crm", Name: "g"}}}
	want := []string{"server version 15.0 is now 16.0", "function crm.g() added"}
	if got := Differences(before, after); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestKeywordDrift(t *testing.T) {
	parser := []Keyword{{"select", "R"}, {"json_array", "C"}, {"lateral", "R"}, {"abort", "U"}}
	server := []Keyword{{"abort", "U"}, {"lateral", "T"}, {"select", "R"}, {"vintage", "U"}}
	want := []string{"json_array", "lateral", "vintage"}
	if got := KeywordDrift(parser, server); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := KeywordDrift(server, server); len(got) != 0 {
		t.Errorf("same list: %q", got)
	}
}

func TestWarnings(t *testing.T) {
	if got := (&Snapshot{Login: Login{Name: "svc", MemberOf: []string{"analysts"}}}).Warnings(); len(got) != 0 {
		t.Errorf("a plain login: %q", got)
	}
	worst := Login{Name: `o"x`, Superuser: true, BypassRLS: true, CreateRole: true, CreateDB: true, Replication: true, Owns: 3, Elevated: []string{"dba"}}
	for _, r := range risks {
		worst.MemberOf = append(worst.MemberOf, r.role)
	}
	got := (&Snapshot{Login: worst}).Warnings()
	if len(got) != 7+len(risks) {
		t.Errorf("%d warnings, want %d", len(got), 7+len(risks))
	}
	all := strings.Join(got, "\n")
	for _, part := range []string{"superuser", `ALTER ROLE "o""x" NOBYPASSRLS`, `member of "dba"`, "owns 3 relations", "pg_execute_server_program"} {
		if !strings.Contains(all, part) {
			t.Errorf("no warning says %s", part)
		}
	}
	for _, line := range got {
		if !strings.Contains(line, ";") {
			t.Errorf("does not say what to do instead: %s", line)
		}
	}
}
