package sqlgov_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"interlock/internal/gatewaytest"
	"interlock/internal/tally"
)

// accepted are the answers to a case of each verdict: SQLSTATEs, that it runs, that its result is cut. What waits for approval
// is refused here, where nobody approves.
var accepted = map[string][]string{
	"deny":        {"42501"},
	"unsupported": {"0A000", "42501"},
	"reject":      {"0A000", "08P01", "42601", "54000", "54001"},
	"mask":        {runs},
	"approval":    {"42501", "0A000"},
	"limit":       {"54000", "57014", isCut},
}

// attackDoors are the doors, and the protocols and formats of results that they have. Binary results are asked for where there is
// something to mask.
var attackDoors = []string{"mcp", "simple", "extended", "binary"}

// Every case at every door of a gateway: what is benign runs and returns what the server returns, everything else is
// refused, and nothing that is not granted is heard in any message. What PostgreSQL has logged is what is on record as run.
func TestAttacks(t *testing.T) {
	cases := attacks(t)
	shared := copyAttacks(t)
	hidden := plantedSecrets(t, shared)
	before := fingerprint(t, shared)
	g, capped := guard(t, shared, ""), guard(t, copyAttacks(t), caps)
	t.Run("at", func(t *testing.T) { // ends when all doors have
		for _, where := range attackDoors {
			t.Run(where, func(t *testing.T) {
				t.Parallel()
				for _, c := range cases {
					with := g
					if c.Expected == "limit" {
						with = capped
					}
					if c = c.at(where); c != nil {
						t.Run(c.ID, func(t *testing.T) { attackAt(t, c, where, with, hidden) })
					}
				}
			})
		}
	})
	if after := fingerprint(t, shared); after != before {
		t.Errorf("the database is changed:\n%s\nwas\n%s", after, before)
	}
	capped.account(t)
	g.account(t)
}

// at is the case as it is played at a door; nil if it is not.
func (c *attack) at(where string) *attack {
	switch {
	case where == "mcp":
		return c.calls()
	case where == "binary" && c.Expected != "mask":
		return nil
	}
	return c
}

// attackAt plays a case. One that changes the database behind the gateway's back has both for itself.
func attackAt(t *testing.T, c *attack, where string, g *guarded, hidden *secrets) {
	t.Helper()
	if c.disturbs() {
		g = guard(t, copyAttacks(t), "")
		defer g.account(t)
	}
	tr := play(t, c, g.d, enter(t, g.Gateway, where, c, g.d))
	judge(t, c, where, g.d, tr, hidden)
}

// caps bound the results of the cases that are about limits: two rows, where the tables of the cases have three.
const caps = `
policies:
  small-and-quick:
    when: "true"
    cap: {rows: 2, bytes: 1048576, time: 1s}
`

// guarded is a database of the cases behind a gateway of its own, and where what ran there is logged.
type guarded struct {
	*gatewaytest.Gateway
	d    *attackDatabase
	logs tally.Source
}

func guard(t *testing.T, d *attackDatabase, policies string) *guarded {
	t.Helper()
	return guardWith(t, d, gatewaytest.Options{Governance: string(attackFile(t, "governance.yaml")) + policies})
}

func guardWith(t *testing.T, d *attackDatabase, opt gatewaytest.Options) *guarded {
	t.Helper()
	d.server.Exec(t, d.server.DSN("postgres"), "alter database "+d.name+" set log_statement = 'all'")
	opt.Database = d.admin
	logs := tally.Source{Log: d.server.Log, Login: "gov_svc", Database: d.name, Beside: beside, From: len(d.server.Log())}
	g := gatewaytest.Start(t, opt)
	logs.Audit = g.AuditDir
	return &guarded{g, d, logs}
}

// account says that the server has run what is on record as run, and nothing else.
func (g *guarded) account(t *testing.T) {
	t.Helper()
	both, err := tally.Await(t.Context(), g.logs, stepTimeout)
	if err != nil || !both.Equal() {
		t.Errorf("the logs differ: %v %v", both, err)
	}
}

func enter(t *testing.T, g *gatewaytest.Gateway, where string, c *attack, d *attackDatabase) door {
	t.Helper()
	if where == "mcp" {
		return &tool{url: g.MCP, key: g.Key(c.identity())}
	}
	return &wire{dsn: g.DSN(c.identity(), "gov"), extended: where != "simple", binary: where == "binary", oid: d.oid(t)}
}

func judge(t *testing.T, c *attack, where string, d *attackDatabase, tr *transcript, hidden *secrets) {
	t.Helper()
	if leaked := hidden.in(tr, c.typed()); len(leaked) > 0 {
		t.Errorf("LEAK of %q\n%s", leaked, describe(c, tr))
	}
	if names := hidden.namesIn(tr, c.typed()); len(names) > 0 {
		t.Errorf("hidden names are told: %q\n%s", names, describe(c, tr))
	}
	answer := answered(c, tr)
	noted, isNoted := otherwiseAt(c.ID, where)
	if isNoted {
		if answer != noted.answer && !slices.Contains(accepted[c.Expected], answer) {
			t.Errorf("answered %s; %s is noted beside the case\n%s", answer, noted.answer, describe(c, tr))
		}
	} else {
		expect(t, c, answer, tr)
	}
	if c.Expected == "allow" && answer == runs {
		sameRows(t, c, where, d, tr)
	}
	if c.Expected == "mask" && answer == runs {
		sameNumberOfRows(t, c, d, tr)
	}
	last := tr.own()[len(tr.own())-1]
	if c.Expected != "allow" && last.state == "" && noted.answer != runs && evident(t, c, d, tr) {
		t.Errorf("EVIDENCE %s\n%s", c.Proof, describe(c, tr))
	}
}

// runs is the answer of a case that is not refused, and isCut that of one whose result is cut at a limit.
const (
	runs  = "runs"
	isCut = "is cut"
)

// answered is how a case was answered: the SQLSTATE that is stated for it if a step ended so, else the first SQLSTATE of
// any step. Steps after that one may run: what they show is held against the proof.
func answered(c *attack, tr *transcript) string {
	first := runs
	for _, r := range tr.own() {
		if slices.Contains(accepted[c.Expected], r.state) {
			return r.state
		}
		if r.cut && c.Expected == "limit" {
			return isCut
		}
		if first == runs && r.state != "" {
			first = r.state
		}
	}
	return first
}

func expect(t *testing.T, c *attack, answer string, tr *transcript) {
	t.Helper()
	want := accepted[c.Expected]
	if c.Expected == "allow" {
		want = []string{runs}
	}
	switch {
	case slices.Contains(want, answer):
	case answer == "42601" && strings.Contains(string(tr.heard), "one statement is expected"): // interlock_query's rule
	case answer == runs:
		t.Errorf("WRONG ALLOW, want %s\n%s", c.Expected, describe(c, tr))
	default:
		t.Errorf("answered %s, want %s\n%s", answer, c.Expected, describe(c, tr))
	}
}

// sameRows compares what a benign case returns with what the server returns to the gateway's login.
func sameRows(t *testing.T, c *attack, where string, d *attackDatabase, tr *transcript) {
	t.Helper()
	direct := play(t, c, d, &wire{dsn: d.client, extended: where == "extended", oid: d.oid(t)})
	if strings.Contains(c.typed(), "now()") || strings.Contains(c.typed(), "SHOW search_path") {
		return // no two runs return the same; the gateway pins the path
	}
	for i, r := range tr.replies {
		if got, want := fmt.Sprint(r.rows), fmt.Sprint(direct.replies[i].rows); got != want {
			t.Errorf("step %d returns %s, want %s\n%s", i+1, got, want, describe(c, tr))
		}
	}
}

// sameNumberOfRows says that masking a result neither drops nor adds rows.
func sameNumberOfRows(t *testing.T, c *attack, d *attackDatabase, tr *transcript) {
	t.Helper()
	direct := play(t, c, d, &wire{dsn: d.client, oid: d.oid(t)})
	for i, r := range tr.replies {
		if len(r.rows) != len(direct.replies[i].rows) || len(r.rows) == 0 {
			t.Errorf("step %d returns %d rows, the server %d\n%s", i+1, len(r.rows), len(direct.replies[i].rows), describe(c, tr))
		}
	}
}

func describe(c *attack, tr *transcript) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", c.Reason, c.Expected)
	for i, r := range tr.replies {
		text := c.SQL[i].Q + c.SQL[i].Fastpath + c.SQL[i].Exec + strings.Join(c.SQL[i].Pipeline, " / ")
		fmt.Fprintf(&b, "  %.300s\n    -> %s %.300s rows %.300s %v\n", text, r.state, r.message, fmt.Sprint(r.rows), r.tags)
	}
	return b.String()
}

// evident reports if what was heard, or what became of the database, is what the case claims for an unguarded server.
func evident(t *testing.T, c *attack, d *attackDatabase, tr *transcript) bool {
	t.Helper()
	kind, rest, _ := strings.Cut(c.Proof, ":")
	switch kind {
	case "secret":
		return slices.ContainsFunc(tr.lines(), anySecret.MatchString)
	case "re":
		return slices.ContainsFunc(tr.lines(), regexp.MustCompile(rest).MatchString)
	case "rows":
		last := tr.own()[len(tr.own())-1]
		return last.state == "" && strconv.Itoa(len(last.rows)) == rest
	case "slow":
		ms, err := strconv.Atoi(rest)
		return err == nil && tr.elapsed > time.Duration(ms)*time.Millisecond
	case "sql":
		query, want, _ := cutLast(rest, "=")
		if tr.check == nil {
			tr.check = d.query(t, query)
		}
		return len(tr.check) == 1 && tr.check[0][0] == want
	}
	return false
}

// anySecret finds some of the planted values.
var anySecret = regexp.MustCompile(`078-05-1120|219-09-9999|457-55-5462|666-12-0001|987-65-4320|4111111111111111|5500005555555559|` +
	`vip-secret-note|tenant-secret|tok_live|flag-secret|long-name-secret|@corp\.test`)

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// fingerprint is the content of the database, so that an effect of any case shows.
func fingerprint(t *testing.T, d *attackDatabase) string {
	t.Helper()
	var b strings.Builder
	for _, r := range d.query(t, `select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast', 'public') and c.relkind in ('r', 'p', 'm', 'S', 'v') order by 1`) {
		hash := d.query(t, "select count(*), md5(string_agg(x::text, ';' order by x::text)) from (select * from "+r[0]+") x")
		fmt.Fprintln(&b, r[0], hash)
	}
	for _, q := range []string{
		"select count(*), md5(string_agg(p::text, ';' order by oid)) from pg_proc p where oid >= 16384",
		"select count(*), md5(string_agg(c.oid::text || relname || relkind::text || coalesce(relacl::text, ''), ';' order by c.oid)) from pg_class c where c.oid >= 16384 and relnamespace::regnamespace::text !~ 'pg_t'",
		"select count(*) from pg_largeobject_metadata",
		"select count(*), md5(string_agg(rolname || rolconfig::text, ';')) from pg_roles",
	} {
		fmt.Fprintln(&b, q, d.query(t, q))
	}
	return b.String()
}

// other is an answer that is not the one stated with a case, and why it is right.
type other struct{ answer, why string }

func otherwiseAt(id, where string) (other, bool) {
	if o, found := otherwise[id+"/"+where]; found {
		return o, true
	}
	o, found := otherwise[id]
	return o, found
}
