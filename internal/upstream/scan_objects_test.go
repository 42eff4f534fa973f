package upstream

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"interlock/catalog"
)

func indexOf(t *testing.T) *catalog.Index {
	t.Helper()
	return catalog.NewIndex(scanned(t))
}

func relation(t *testing.T, x *catalog.Index, name string) *catalog.Relation {
	t.Helper()
	r := x.RelationNamed("crm", name)
	if r == nil {
		t.Fatalf("no relation crm.%s", name)
	}
	return r
}

func TestScanRelationKinds(t *testing.T) {
	x := indexOf(t)
	for name, want := range map[string]catalog.RelationKind{
		"customers": catalog.Table, "events": catalog.PartitionedTable, "events_eu": catalog.Table, "v_plain": catalog.View,
		"mv": catalog.MaterializedView, "far": catalog.ForeignTable, "orders_id_seq": catalog.Sequence, "pair_t": catalog.CompositeType,
		"customers_pkey": catalog.IndexKind, "events_pkey": catalog.PartitionedIndexKind, "Mixed Näme": catalog.Table,
	} {
		r := x.RelationNamed("crm", name)
		if r == nil || r.Kind != want {
			t.Errorf("crm.%s is %v, want kind %s", name, r, want)
			continue
		}
		if noColumns := want == catalog.IndexKind || want == catalog.PartitionedIndexKind; noColumns != (len(r.Columns) == 0) {
			t.Errorf("crm.%s has %d columns", name, len(r.Columns))
		}
	}
}

func TestScanRelationFacts(t *testing.T) {
	x := indexOf(t)
	customers := relation(t, x, "customers")
	if customers.Owner != "scan_owner" || customers.Comment != "who buys" || !customers.HasTriggers || customers.HasRules || customers.RowSecurity {
		t.Errorf("customers: %+v", customers)
	}
	if got := relation(t, x, "vip").Parents; !slices.Equal(got, []catalog.OID{customers.OID, relation(t, x, "audited").OID}) {
		t.Errorf("parents of vip = %v", got)
	}
	events, eu := relation(t, x, "events"), relation(t, x, "events_eu")
	if !eu.Partition || !slices.Equal(eu.Parents, []catalog.OID{events.OID}) || events.Partition || !slices.Equal(x.Children(events.OID), []catalog.OID{eu.OID}) {
		t.Errorf("partition: %+v", eu)
	}
	// The partition was attached with another order of columns and a dropped one.
	if got := names(eu); !slices.Equal(got, []string{"2 region", "3 id"}) {
		t.Errorf("columns of events_eu: %v", got)
	}
	if r := relation(t, x, "ruled"); !r.HasRules || !r.RowSecurity || r.HasTriggers {
		t.Errorf("ruled: %+v", r)
	}
	if r := relation(t, x, "typed"); r.OfType != x.TypeNamed("crm", "pair_t").OID || r.RowType == 0 || x.Type(r.RowType).Relation != r.OID {
		t.Errorf("typed: %+v", r)
	}
	if relation(t, x, "customers_pkey").Parents != nil || relation(t, x, "far").RowEstimate != -1 {
		t.Error("parents of an index, or the estimate of a table that was never analyzed")
	}
}

func names(r *catalog.Relation) []string {
	var out []string
	for _, c := range r.Columns {
		out = append(out, strings.TrimSpace(string('0'+rune(c.Num))+" "+c.Name))
	}
	return out
}

func TestScanViews(t *testing.T) {
	x := indexOf(t)
	plain, invoker, mv := relation(t, x, "v_plain"), relation(t, x, "v_invoker"), relation(t, x, "mv")
	// v_plain was created while crm was on the search_path, with unqualified names.
	if !strings.Contains(plain.Definition, "FROM crm.customers") || !strings.Contains(mv.Definition, "crm.customers") {
		t.Errorf("definitions are not qualified: %s %s", plain.Definition, mv.Definition)
	}
	if plain.SecurityInvoker || plain.SecurityBarrier || !invoker.SecurityInvoker || !invoker.SecurityBarrier || plain.HasRules {
		t.Errorf("options: %+v %+v", plain, invoker)
	}
	if off := relation(t, x, "v_off"); off.SecurityInvoker || !off.SecurityBarrier || !off.HasRules {
		t.Errorf("v_off: %+v", off)
	}
	if relation(t, x, "customers").Definition != "" {
		t.Error("a table has a definition")
	}
	for _, r := range x.Snapshot.Relations {
		if (r.Kind == catalog.View || r.Kind == catalog.MaterializedView) && r.Definition == "" {
			t.Errorf("view %s.%s has no definition", r.Schema, r.Name)
		}
	}
}

// TestScanColumnsAgree compares every column of every relation with information_schema and with \d's functions.
func TestScanColumnsAgree(t *testing.T) {
	conn := connect(t, fixture(t))
	s := scanned(t)
	run(t, conn, "set search_path = pg_catalog")
	type column struct {
		Schema, Table string
		catalog.Column
	}
	var all []column
	for _, r := range s.Relations {
		for _, c := range r.Columns {
			all = append(all, column{r.Schema, r.Name, c})
		}
	}
	const record = ` from json_to_recordset($1) r("Schema" text, "Table" text, num int, name text, type int8, type_mod int, type_name text,
		"collation" int8, not_null bool, has_default bool, "default" text, generated bool, identity text, comment text) `
	none(t, conn, all, `select format('%s.%s.%s', "Schema", "Table", name)`+record+`
		join information_schema.columns i on (i.table_schema, i.table_name, i.column_name) = ("Schema", "Table", name)
		where i.is_generated <> case when generated then 'ALWAYS' else 'NEVER' end
			or coalesce(i.column_default, i.generation_expression) is distinct from "default"
			or coalesce(i.identity_generation, '') <> case identity when 'a' then 'ALWAYS' when 'd' then 'BY DEFAULT' else '' end
			or (i.is_nullable = 'NO' and not coalesce(not_null, false) and i.domain_name is null)
			or (i.collation_name is not null and i.collation_name <> (select collname from pg_collation where oid = "collation"::oid))
			or i.character_maximum_length is distinct from information_schema._pg_char_max_length(type::oid, type_mod) and i.domain_name is null`)
	none(t, conn, all, `select format('%s.%s.%s', "Schema", "Table", name)`+record+`
		left join pg_attribute a on a.attrelid = to_regclass(format('%I.%I', "Schema", "Table")) and a.attnum = num
		where a.attname is distinct from name or format_type(type::oid, type_mod) <> type_name or a.atttypid <> type::oid
			or a.atttypmod <> type_mod or coalesce(comment, '') <> coalesce(col_description(a.attrelid, num), '')
			or a.atthasdef <> coalesce(has_default, false)`)
	visible := list[int](t, conn, "select count(*) from information_schema.columns")[0]
	if len(all) < visible {
		t.Errorf("%d columns, information_schema has %d", len(all), visible)
	}
}

func TestScanColumnsByHand(t *testing.T) {
	x := indexOf(t)
	typ := func(name string) catalog.OID { return x.TypeNamed("pg_catalog", name).OID }
	want := []catalog.Column{
		{Num: 1, Name: "id", Type: typ("int4"), TypeMod: -1, TypeName: "integer", NotNull: true, Identity: "a"},
		{Num: 2, Name: "name", Type: typ("varchar"), TypeMod: 44, TypeName: "character varying(40)", Collation: 100, NotNull: true,
			HasDefault: true, Default: "'nobody'::character varying", Comment: "as on the passport"},
		{Num: 4, Name: "ssn", Type: typ("text"), TypeMod: -1, TypeName: "text", Collation: 100},
		{Num: 5, Name: "tail", Type: typ("text"), TypeMod: -1, TypeName: "text", Collation: 100, HasDefault: true, Generated: true,
			Default: `"right"(ssn, (id + 4))`, DependsOn: []int16{1, 4}},
		{Num: 6, Name: "mood", Type: x.TypeNamed("crm", "mood").OID, TypeMod: -1, TypeName: "crm.mood", HasDefault: true, Default: "'ok'::crm.mood"},
		{Num: 7, Name: "since", Type: typ("timestamptz"), TypeMod: -1, TypeName: "timestamp with time zone", HasDefault: true,
			Default: "'2026-01-01 12:00:00+00'::timestamp with time zone"},
	}
	if got := relation(t, x, "customers").Columns; !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

func TestScanConstraintsAndIndexes(t *testing.T) {
	x := indexOf(t)
	orders, customers := relation(t, x, "orders"), relation(t, x, "customers")
	byName := map[string]catalog.Constraint{}
	for _, c := range orders.Constraints {
		byName[c.Name] = c
	}
	pkey := relation(t, x, "customers_pkey").OID
	fk := byName["orders_customer_fkey"]
	if fk.Kind != "f" || !slices.Equal(fk.Columns, []int16{2}) || fk.RefTable != customers.OID || !slices.Equal(fk.RefColumns, []int16{1}) ||
		fk.Index != pkey || fk.Definition != "FOREIGN KEY (customer) REFERENCES crm.customers(id)" {
		t.Errorf("foreign key: %+v", fk)
	}
	check := byName["orders_check"]
	slices.Sort(check.Columns) // conkey has the order in which the expression names them
	if check.Kind != "c" || !slices.Equal(check.Columns, []int16{3, 4}) || check.Definition != "CHECK ((paid <= amount))" {
		t.Errorf("check: %+v", check)
	}
	if ex := byName["orders_excl"]; ex.Kind != "x" || ex.Index == 0 {
		t.Errorf("exclusion: %+v", ex)
	}
	got := map[string]catalog.UniqueIndex{}
	for _, u := range orders.UniqueIndexes {
		u.OID = 0
		got[u.Name] = u
	}
	want := map[string]catalog.UniqueIndex{
		"orders_pkey":    {Name: "orders_pkey", Columns: []int16{1}},
		"orders_excl":    {Name: "orders_excl", Columns: []int16{5}, ExprReads: []int16{2}, Exclusion: true},
		"orders_expr":    {Name: "orders_expr", Columns: []int16{2}, ExprReads: []int16{3, 4}},
		"orders_partial": {Name: "orders_partial", Columns: []int16{2}, ExprReads: []int16{3}},
		"orders_include": {Name: "orders_include", Columns: []int16{2, 1}},
		"orders_whole":   {Name: "orders_whole", Columns: []int16{}, ExprReads: []int16{1, 2, 3, 4, 5}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("unique indexes:\n got %+v\nwant %+v", got, want)
	}
}

// TestScanExpressionReads compares the columns read out of node trees with those that pg_depend records for the same
// objects: each plain reference is in both.
func TestScanExpressionReads(t *testing.T) {
	conn := connect(t, fixture(t))
	x := indexOf(t)
	orders := relation(t, x, "orders")
	for _, u := range orders.UniqueIndexes {
		recorded := list[int16](t, conn, `select distinct refobjsubid::int2 from pg_depend where classid = 'pg_class'::regclass and objid = $1
			and refclassid = 'pg_class'::regclass and refobjid = $2 and refobjsubid > 0`, uint32(u.OID), uint32(orders.OID))
		for _, n := range recorded {
			included := u.Name == "orders_include" && n == 3
			if !included && !slices.Contains(u.Columns, n) && !slices.Contains(u.ExprReads, n) {
				t.Errorf("%s reads column %d by pg_depend", u.Name, n)
			}
		}
	}
	customers := relation(t, x, "customers")
	recorded := list[int16](t, conn, `select distinct d.refobjsubid::int2 from pg_depend d join pg_attrdef f on f.oid = d.objid
		where d.classid = 'pg_attrdef'::regclass and f.adrelid = $1 and f.adnum = 5 and d.refobjid = $1 and d.refobjsubid not in (0, 5) order by 1`, uint32(customers.OID))
	if got := customers.Columns[3].DependsOn; !slices.Equal(got, recorded) {
		t.Errorf("generated column reads %v, pg_depend says %v", got, recorded)
	}
}

func TestScanTypes(t *testing.T) {
	conn := connect(t, fixture(t))
	x := indexOf(t)
	crm := func(name string) *catalog.Type {
		t.Helper()
		typ := x.TypeNamed("crm", name)
		if typ == nil {
			t.Fatalf("no type crm.%s", name)
		}
		return typ
	}
	if e := crm("mood"); e.Kind != "e" || e.Category != "E" || x.Type(e.Array).Element != e.OID || x.Type(e.Array).SubscriptHandler != "array_subscript_handler" {
		t.Errorf("enum: %+v", e)
	}
	if c := crm("pair_t"); c.Kind != "c" || x.Relation(c.Relation).Name != "pair_t" {
		t.Errorf("composite: %+v", c)
	}
	r, m := crm("span"), crm("span_multirange")
	if r.Kind != "r" || x.Type(r.RangeSub).Name != "float8" || r.RangeMulti != m.OID || m.Kind != "m" || m.RangeMulti != r.OID || m.RangeSub != 0 {
		t.Errorf("range %+v, multirange %+v", r, m)
	}
	d := crm("code")
	if d.Kind != "d" || x.Type(d.Base).Name != "varchar" || d.BaseMod != 14 {
		t.Errorf("domain: %+v", d)
	}
	if h := x.TypeNamed("ext", "hstore"); h.Extension != "hstore" || h.SubscriptHandler != "ext.hstore_subscript_handler" {
		t.Errorf("hstore: %+v", h)
	}
	for name, handler := range map[string]string{"jsonb": "jsonb_subscript_handler", "point": "raw_array_subscript_handler", "_text": "array_subscript_handler", "text": ""} {
		if got := x.TypeNamed("pg_catalog", name).SubscriptHandler; got != handler {
			t.Errorf("%s: handler %q, want %q", name, got, handler)
		}
	}
	none(t, conn, x.Snapshot.Types, `select r.name from json_to_recordset($1) r(oid int8, name text, kind text, category text, input int8, output int8, base_mod int)
		join pg_type t on t.oid = r.oid::oid where t.typtype::text <> kind or t.typcategory::text <> category
			or t.typinput <> coalesce(input, 0)::oid or t.typoutput <> coalesce(output, 0)::oid or (kind = 'd' and coalesce(base_mod, 0) <> t.typtypmod)`)
}

// TestScanDomainChecks: PostgreSQL's own functions are not in pg_depend, but run all the same.
func TestScanDomainChecks(t *testing.T) {
	x := indexOf(t)
	got := map[string]bool{}
	for _, oid := range x.TypeNamed("crm", "code").CheckFuncs {
		f := x.Function(oid)
		got[f.Schema+"."+f.Name+"("+f.Signature+")"] = true
	}
	want := map[string]bool{
		"pg_catalog.textregexeq(text, text)":  true, // the operator ~
		"crm.fits(text)":                      true, // called
		"crm.alike(text, text)":               true, // the operator crm.=~=
		"pg_catalog.length(text)":             true,
		"pg_catalog.int4gt(integer, integer)": true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("check functions: %v, want %v", got, want)
	}
	if funcs := x.TypeNamed("crm", "free").CheckFuncs; len(funcs) != 0 {
		t.Errorf("a domain without checks calls %v", funcs)
	}
}

func TestScanOperatorsAndCasts(t *testing.T) {
	conn := connect(t, fixture(t))
	x := indexOf(t)
	ops := x.OperatorsNamed("crm", "=~=")
	if len(ops) != 1 || x.Function(ops[0].Function).Name != "alike" || x.Type(ops[0].Result).Name != "bool" {
		t.Errorf("operator =~=: %v", ops)
	}
	if neg := x.OperatorsNamed("crm", "!!!"); len(neg) != 1 || neg[0].Left != 0 || x.Type(neg[0].Right).Name != "int4" {
		t.Errorf("prefix operator: %v", neg)
	}
	c := x.Cast(x.TypeNamed("pg_catalog", "int4").OID, x.TypeNamed("crm", "pair_t").OID)
	if c == nil || x.Function(c.Function).Name != "to_pair" || c.Context != "e" || c.Method != "f" {
		t.Errorf("cast: %+v", c)
	}
	none(t, conn, x.Snapshot.Casts, `select source::text from json_to_recordset($1) r(source int8, target int8, function int8, context text, method text)
		left join pg_cast c on (c.castsource, c.casttarget) = (source::oid, target::oid)
		where c.castfunc is distinct from coalesce(function, 0)::oid or c.castcontext::text <> context or c.castmethod::text <> method`)
}
