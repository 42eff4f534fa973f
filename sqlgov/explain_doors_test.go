package sqlgov_test

import (
	"strings"
	"testing"
	"time"

	"interlock/internal/gatewaytest"
	"interlock/sqlgov"
)

// What is explained is what is enforced: the same verdict, the same words, for each identity at each door.
func TestExplainedAsEnforced(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: policiesDocument, Setup: []string{policiesData}})
	verdicts := map[string]int{}
	for _, who := range []string{"ana", "bot"} {
		doors := map[sqlgov.Door]door{sqlgov.PGWire: &wire{dsn: g.DSN(who, "gov"), oid: func(string) uint32 { return 0 }}, sqlgov.MCP: &tool{url: g.MCP, key: g.Key(who)}}
		for _, sql := range []string{
			"select id, name from c", "select ssn from c", "select number from v", "select id from c where ssn = '1'", "select * from looked",
			"select reads()", "insert into looked values (1)", "select * from timed", "select * from near", "select * from shell",
			"truncate held", "delete from held", "update held set i = 2", "select changes()", "update held set i = i where i = 1",
			"select * from missing", "select missing from c", "selec", "select 1; select ssn from c", "create table x (i int)", "select pg_read_file('x')",
		} {
			for at, d := range doors {
				e := sqlgov.Explain(g.Rules.Current(), g.Catalogs.Index("gov"), sqlgov.Hypothesis{SQL: sql, Source: "gov", At: time.Now(),
					Caller: sqlgov.Caller{Identity: who, Door: at, ClientAddr: "127.0.0.1:1"}})
				got := d.run(t.Context(), step{Q: sql})
				verdicts[e.Verdict]++
				switch {
				case e.Refusal == nil && got.state == "":
				case at == sqlgov.MCP && (e.Verdict == "hold" || sql == "select 1; select ssn from c"): // it says that in a way of its own
				case e.Refusal == nil || got.state != e.Refusal.SQLState || at == sqlgov.PGWire && !strings.HasPrefix(got.message, e.Refusal.Message+" | "):
					t.Errorf("%s, %s: %s: %+v is explained, %q %s is enforced", who, at, sql, e.Refusal, got.state, got.message)
				}
			}
		}
		for _, d := range doors {
			d.close()
		}
	}
	if verdicts["allow"] < 10 || verdicts["hold"] < 10 || verdicts["refuse"] < 30 {
		t.Errorf("%v", verdicts)
	}
}
