package sqlgov_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
)

const withHoldDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  reader:
    source: gov
    permissions:
      - {allow: [db.table.select], on: [public.n, public.people, public.swap.shown]}
    masks:
      - {on: [public.people.ssn], with: hidden}
masks:
  hidden: {kind: "null"}
policies:
  few-rows:
    when: '"public.n" in statement.tables'
    cap: {rows: 5}
identities:
  ana: {kind: human, grants: [{source: gov, roles: [reader]}]}
`

const withHoldData = `create table n (i int); insert into n select generate_series(1, 9);
create table people (id int, ssn text); insert into people values (1, '078-05-1120');
create table swap (shown text, secret text); insert into swap values ('harmless', '078-05-1120')`

// A cursor WITH HOLD is one of its session: it gives after its transaction what it would give in it, masks and caps included, and ends
// with CLOSE, or when its transaction is undone.
func TestCursorsWithHold(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: withHoldDocument, Setup: []string{withHoldData}})
	for _, where := range []string{"simple", "extended"} {
		at := servedDoors(g)[where]()
		for _, tc := range []struct{ sql, state, says string }{
			{"begin", "", ""},
			{"declare h cursor with hold for select i from n order by i", "", "[DECLARE CURSOR]"},
			{"declare c cursor for select i from n", "", "[DECLARE CURSOR]"},
			{"fetch 1 from h", "", "[[1]]"},
			{"commit", "", "[COMMIT]"},
			{"fetch c", "34000", "does not exist"},
			{"fetch 1 from h", "", "[[2]]"},
			{"begin", "", ""},
			{"fetch 2 from h", "", "[[3] [4]]"},
			{"rollback", "", ""},
			{"fetch 1 from h", "", "[[5]]"},
			{"fetch 1 from h", "54000", "more than 5 rows"}, // five in all, whatever the pieces and transactions
			{"close h", "", "[CLOSE CURSOR]"},
			{"fetch h", "34000", "does not exist"},
			{"begin", "", ""},
			{"declare r cursor with hold for select id from people", "", ""},
			{"rollback", "", ""},
			{"fetch r", "34000", "does not exist"},
			{"declare m scroll cursor with hold for select id, ssn from people", "", "[DECLARE CURSOR]"},
			{"fetch m", "", `[[1 \N]]`},
			{"move prior in m", "", "[MOVE 0]"},
			{"fetch m", "", `[[1 \N]]`},
			{"close all", "", ""},
			{"fetch m", "34000", "does not exist"},
			{"declare s cursor with hold for select secret from swap", "42501", "secret"},
			{"declare s cursor with hold for select id from people where ssn like '0%'", "42501", "ssn"},
			{"declare e cursor with hold for select shown::int from swap", "22P02", "the server refused a value"}, // it runs at once
			{"begin", "", ""},
			{"declare e cursor with hold for select shown::int from swap", "", ""},
			{"select id from people", "", "[[1]]"},
			{"commit", "22P02", "the server refused a value"}, // and here at the end of the transaction
			{"fetch e", "34000", "does not exist"},
		} {
			got := at.run(t.Context(), step{Q: tc.sql})
			if got.state != tc.state || !strings.Contains(got.message+fmt.Sprint(got.rows, got.tags), tc.says) {
				t.Errorf("%s: %s: %q %s %v %v", where, tc.sql, got.state, got.message, got.rows, got.tags)
			}
		}
		at.close()
	}
	t.Run("changed", func(t *testing.T) { heldWhileChanged(t, g) })
}

// The attack: the rows of a cursor WITH HOLD are kept without a lock on their table. Its columns change their names, so that
// the text, judged as it is now, reads what may be read, and the rows are those of a column that may not be.
func heldWhileChanged(t *testing.T, g *gatewaytest.Gateway) {
	at := servedDoors(g)["simple"]()
	defer at.close()
	if got := at.run(t.Context(), step{Q: "declare h cursor with hold for select upper(shown) from swap"}); got.state != "" {
		t.Fatal(got)
	}
	before := g.Catalogs.Index("gov").Snapshot.Version
	pgtest.Start(t).Exec(t, g.Upstream, "alter table swap rename shown to hidden; alter table swap rename secret to shown; alter table swap rename hidden to secret")
	for deadline := time.Now().Add(time.Minute); g.Catalogs.Index("gov").Snapshot.Version == before; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the change was not seen")
		}
	}
	if got := at.run(t.Context(), step{Q: "fetch h"}); got.state != "55000" || got.rows != nil {
		t.Errorf("%+v", got)
	}
	if got := at.run(t.Context(), step{Q: "close h"}); got.state != "" {
		t.Errorf("%+v", got)
	}
}
