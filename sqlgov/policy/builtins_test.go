package policy

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"interlock/catalog"
	"interlock/internal/pgtest"

	"github.com/jackc/pgx/v5"
)

var update = flag.Bool("update", false, "add functions that the server has and builtins.tsv has not, as unreviewed")

// serverFunction is a row of pg_proc with what PostgreSQL itself knows about the risk of calling it.
type serverFunction struct {
	catalog.Function
	Result     string
	Restricted bool // PostgreSQL does not let everyone call it
	LooksUp    bool // takes an object by its number or name: regclass and its kin
}

const systemFunctions = `
	select p.oid::int8, n.nspname::text, p.proname::text, oidvectortypes(p.proargtypes), p.provolatile::text, p.prokind::text,
		p.prorettype::regtype::text, p.proacl is not null,
		exists (select 1 from unnest(p.proargtypes) t where t = any (array['regclass', 'regtype', 'regproc', 'regprocedure', 'regoper',
			'regoperator', 'regnamespace', 'regrole', 'regcollation']::regtype[]))
	from pg_proc p join pg_namespace n on n.oid = p.pronamespace
	where n.nspname in ('pg_catalog', 'information_schema') and p.oid < 16384 order by p.oid`

func readSystemFunctions(t *testing.T) (major int, all []serverFunction) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, pgtest.Start(t).DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "set search_path = pg_catalog"); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(ctx, "select current_setting('server_version_num')::int / 10000").Scan(&major); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(ctx, systemFunctions)
	if err != nil {
		t.Fatal(err)
	}
	all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (f serverFunction, err error) {
		var oid int64
		err = row.Scan(&oid, &f.Schema, &f.Name, &f.Signature, &f.Volatility, &f.Kind, &f.Result, &f.Restricted, &f.LooksUp)
		f.OID = catalog.OID(oid)
		return f, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return major, all
}

// TestBuiltins compares the table with a real server: on PostgreSQL 15 it is complete, on any other what it has is right.
func TestBuiltins(t *testing.T) {
	major, all := readSystemFunctions(t)
	known := map[string]bool{}
	var missing []serverFunction
	for _, f := range all {
		known[identity(&f.Function)] = true
		if Builtin(&f.Function) == BuiltinUnknown {
			missing = append(missing, f)
		}
	}
	if *update {
		addUnreviewed(t, missing)
		return
	}
	t.Logf("PostgreSQL %d has %d functions in its system schemas, %d are not in the table and so refused", major, len(all), len(missing))
	if major != 15 {
		return
	}
	for _, f := range missing {
		t.Errorf("%d %s is not in the table", f.OID, identity(&f.Function))
	}
	for _, b := range builtins().byIdentity {
		// The first releases of PostgreSQL 15 have one function less for pg_upgrade.
		if !known[b.identity] && !strings.HasPrefix(b.identity, "pg_catalog.binary_upgrade_") {
			t.Errorf("%s is in the table and not on the server", b.identity)
		}
		if b.class == BuiltinUnreviewed {
			t.Errorf("%s has not been judged", b.identity)
		}
	}
}

func addUnreviewed(t *testing.T, missing []serverFunction) {
	t.Helper()
	file, err := os.OpenFile("builtins.tsv", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range missing {
		oid := "-"
		if fixedOID(f.OID) {
			oid = fmt.Sprint(f.OID)
		}
		if _, err := fmt.Fprintf(file, "%s\t%s\t%s\n", oid, BuiltinUnreviewed, identity(&f.Function)); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFreeBuiltins holds what everyone may call against what PostgreSQL itself says about these functions.
func TestFreeBuiltins(t *testing.T) {
	_, all := readSystemFunctions(t)
	plumbing := regexp.MustCompile(`\b(internal|cstring|trigger|event_trigger)\b|_handler\b`)
	for _, f := range all {
		class := Builtin(&f.Function)
		lvl := builtinLevels[class]
		name := identity(&f.Function)
		switch {
		case f.Restricted && lvl == levelFree:
			t.Errorf("%s is %s, but PostgreSQL does not let everyone call it", name, class)
		case f.LooksUp && lvl == levelFree:
			t.Errorf("%s is %s, but it looks an object up", name, class)
		case plumbing.MatchString(f.Signature+" "+f.Result) && lvl != levelNever:
			t.Errorf("%s is %s, but its types are the server's own", name, class)
		case f.Volatility == "v" && class == BuiltinPure:
			t.Errorf("%s is %s, but volatile", name, class)
		case f.Volatility == "i" && f.Kind != "f" && lvl != levelFree:
			t.Errorf("%s is %s, but an aggregate or window function", name, class)
		}
	}
}

// TestBuiltinIsChecked: an OID alone is not enough.
func TestBuiltinIsChecked(t *testing.T) {
	lower := catalog.Function{OID: 870, Schema: "pg_catalog", Name: "lower", Signature: "text", Volatility: "i"}
	if got := Builtin(&lower); got != BuiltinPure {
		t.Fatalf("lower is %q", got)
	}
	for what, change := range map[string]func(*catalog.Function){
		"name":      func(f *catalog.Function) { f.Name = "upper" },
		"signature": func(f *catalog.Function) { f.Signature = "integer" },
		"schema":    func(f *catalog.Function) { f.Schema = "information_schema" },
		"OID":       func(f *catalog.Function) { f.OID = 871 },
		"user OID":  func(f *catalog.Function) { f.OID = 20000 },
		"no OID":    func(f *catalog.Function) { f.OID = 0 },
	} {
		f := lower
		change(&f)
		if got := Builtin(&f); got != BuiltinUnknown {
			t.Errorf("with another %s it is %q", what, got)
		}
		if builtinLevel(&f) != levelNever {
			t.Errorf("with another %s it may run", what)
		}
	}
	f := catalog.Function{OID: 13412, Schema: "information_schema", Name: "_pg_interval_type", Signature: "oid, integer"}
	if got := Builtin(&f); got != BuiltinCatalog {
		t.Errorf("a function without a fixed OID is %q", got)
	}
	f.OID = firstUserOID
	if got := Builtin(&f); got != BuiltinUnknown {
		t.Errorf("a user's function of the same name is %q", got)
	}
}

func TestParseBuiltins(t *testing.T) {
	for _, bad := range []string{"870\tpure", "870\tnice\tpg_catalog.lower(text)", "0\tpure\tx", "20000\tpure\tx", "x\tpure\ty",
		"1\tpure\ta\n2\tpure\ta", "1\tpure\ta\n1\tpure\tb"} {
		if _, err := parseBuiltins(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestAttacksMeetBuiltins: a built-in function in a statement that must run is free. What an attack is about is not.
func TestAttacksMeetBuiltins(t *testing.T) {
	byName := map[string][]builtin{}
	for _, b := range builtins().byIdentity {
		name, _, _ := strings.Cut(strings.TrimPrefix(b.identity, "pg_catalog."), "(")
		byName[name] = append(byName[name], b)
	}
	call := regexp.MustCompile(`([a-z_][a-z0-9_.]*)\(`)
	seen := map[string]bool{}
	for _, c := range attackCases(t) {
		text := strings.ToLower(string(c.SQL))
		for _, m := range call.FindAllStringSubmatch(text, -1) {
			name := strings.TrimPrefix(m[1], "pg_catalog.")
			for _, b := range byName[name] {
				if (c.Expected == "allow" || c.Expected == "mask") && builtinLevels[b.class] != levelFree {
					t.Errorf("%s must run, but %s is %s", c.ID, b.identity, b.class)
				}
			}
		}
		for _, name := range dangerous[c.ID] {
			seen[c.ID] = true
			if !strings.Contains(text, name) || len(byName[name]) == 0 {
				t.Errorf("%s does not call %s", c.ID, name)
			}
			for _, b := range byName[name] {
				if builtinLevels[b.class] == levelFree {
					t.Errorf("%s must not run, but %s is %s", c.ID, b.identity, b.class)
				}
			}
		}
	}
	for id := range dangerous {
		if !seen[id] {
			t.Errorf("there is no case %s", id)
		}
	}
}

// dangerous names the built-in functions that make a case an attack.
var dangerous = map[string][]string{
	"APPR-07": {"set_config"}, "APPR-10": {"nextval"}, "APPR-11": {"query_to_xml"},
	"CAT-18": {"pg_get_constraintdef"}, "CAT-19": {"pg_get_expr"}, "CAT-29": {"pg_get_indexdef"},
	"DOS-01": {"pg_sleep"}, "DOS-02": {"pg_sleep"}, "ERR-25": {"nextval"}, "ERR-26": {"current_setting"},
	"FILE-10": {"pg_read_file"}, "LAUND-02": {"set_config"}, "LAUND-03": {"set_config"}, "LAUND-04": {"pg_notify"},
	"LAUND-10": {"setval"}, "LAUND-13": {"obj_description"}, "SESS-03": {"set_config"}, "SESS-22": {"set_config"},
	"SESS-18":  {"pg_notify", "set_config", "pg_advisory_lock", "pg_export_snapshot", "txid_current"},
	"SQLFN-01": {"query_to_xml"}, "SQLFN-02": {"query_to_xml"}, "SQLFN-03": {"query_to_xml"},
	"SQLFN-05": {"query_to_xml_and_xmlschema"}, "SQLFN-06": {"table_to_xml"}, "SQLFN-07": {"schema_to_xml"},
	"SQLFN-08": {"database_to_xml"}, "SQLFN-09": {"cursor_to_xml"}, "SQLFN-10": {"ts_stat"},
	"SQLFN-18": {"lo_from_bytea", "lo_get"}, "SQLFN-25": {"pg_relation_size", "pg_table_size", "pg_stat_get_live_tuples"},
	"SQLFN-26": {"to_regclass"}, "SQLFN-29": {"pg_notify"}, "SQLFN-30": {"pg_reload_conf", "pg_switch_wal"},
	"SQLFN-32": {"nextval"}, "SQLFN-33": {"setval"}, "SQLFN-37": {"setseed"}, "SQLFN-38": {"pg_logical_emit_message"},
	"SQLFN-39": {"inet_server_addr", "current_setting"}, "SQLFN-41": {"has_column_privilege", "col_description"},
	"WIRE-02": {"query_to_xml"}, "WIRE-14": {"query_to_xml"}, "WIRE-15": {"set_config"},
}

// TestOverloads: of two functions of one name, one may be free and the other not.
func TestOverloads(t *testing.T) {
	for name, want := range map[string]level{
		"pg_catalog.ts_rewrite(tsquery, text)": levelNever, "pg_catalog.ts_rewrite(tsquery, tsquery, tsquery)": levelFree,
		"pg_catalog.age(xid)": levelFree, "pg_catalog.text(character)": levelFree, "pg_catalog.regclass(text)": levelNamed,
		"pg_catalog.pg_read_file(text)": levelNever, "pg_catalog.count()": levelFree,
		"pg_catalog.pg_stat_get_backend_activity(integer)": levelNever, "pg_catalog.pg_mcv_list_items(pg_mcv_list)": levelNever,
	} {
		b, ok := builtins().byIdentity[name]
		if !ok || builtinLevels[b.class] != want {
			t.Errorf("%s is %q (%v)", name, b.class, ok)
		}
	}
}

type attackCase struct {
	ID       string          `json:"id"`
	Expected string          `json:"expected"`
	SQL      json.RawMessage `json:"sql"`
}

func attackCases(t *testing.T) []attackCase {
	t.Helper()
	path, err := pgtest.File("testdata/attacks/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []attackCase
	for scan := bufio.NewScanner(f); scan.Scan(); {
		var c attackCase
		if err := json.Unmarshal(scan.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if !slices.ContainsFunc(all, func(c attackCase) bool { return c.ID == "CTRL-01" }) {
		t.Fatal("the cases were not read")
	}
	return all
}
