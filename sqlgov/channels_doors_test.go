package sqlgov_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock/audit"
	"interlock/internal/gatewaytest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const channelsDocument = `
version: 1
sources:
  gov:
    kind: postgres
    upstream: {host: HOST, port: PORT, database: DATABASE, user: USER, tls: disable}
source_roles:
  listener:
    source: gov
    permissions:
      - {allow: [db.channel.listen], on: ["channel:orders", 'channel:"Orders"', "channel:gone"]}
  sender:
    source: gov
    permissions:
      - {allow: [db.channel.notify], on: ["*"]}
      - {deny: [db.channel.notify], on: ["channel:secret"]}
      - {allow: [db.table.select], on: [public.people]}
    masks:
      - {on: [public.people.ssn], with: hidden}
  both:
    source: gov
    permissions:
      - {allow: [db.channel.listen, db.channel.notify], on: ["channel:*"]}
masks:
  hidden: {kind: "null"}
identities:
  ana: {kind: human, grants: [{source: gov, roles: [listener]}]}
  bob: {kind: human, grants: [{source: gov, roles: [sender]}]}
  dan: {kind: human, grants: [{source: gov, roles: [both]}]}
`

// Channels are governed by name, for LISTEN, NOTIFY and pg_notify alike, in both protocols and over MCP; what comes in from other
// sessions is held against the roles of the moment.
func TestChannels(t *testing.T) {
	g := gatewaytest.Start(t, gatewaytest.Options{Governance: channelsDocument,
		Setup: []string{"create table people (id int, ssn text); insert into people values (1, '078-05-1120')"}})
	outside := connectTo(t, g.Upstream)
	tell := func(sql string) {
		t.Helper()
		if _, err := outside.Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	spy := listening(t, g.Upstream, "listen secret")
	t.Run("verdicts", func(t *testing.T) { judgesChannels(t, g) })
	tell("notify secret, 'by the owner'") // and whatever came before it
	if heard := spy(1); !slices.Equal(heard, []string{"secret by the owner"}) {
		t.Errorf("what was sent to a channel that is denied: %q", heard)
	}

	ana := listening(t, g.DSN("ana", "gov"), "listen orders; listen gone")
	tell("notify orders, '1'; notify gone, '2'; notify secret, '3'; notify orders, '4'")
	if heard := ana(3); !slices.Equal(heard, []string{"orders 1", "gone 2", "orders 4"}) {
		t.Errorf("while it is idle: %q", heard)
	}
	// Attack: to go on listening to a channel after the right to it was taken away.
	g.Apply(strings.Replace(channelsDocument, `, "channel:gone"`, "", 1))
	tell("notify gone, '5'; notify orders, '6'")
	if heard := ana(1); !slices.Equal(heard, []string{"orders 6"}) {
		t.Errorf("after a channel was taken away: %q", heard)
	}
	key := &tool{url: g.MCP, key: g.Key("bob")}
	if got := key.run(t.Context(), step{Q: "notify orders, 'from an agent'"}); got.state != "" {
		t.Errorf("over MCP: %+v", got)
	}
	if got := key.run(t.Context(), step{Q: "listen orders"}); got.state != "0A000" {
		t.Errorf("LISTEN on a connection that others share: %+v", got)
	}
	if heard := ana(1); !slices.Equal(heard, []string{"orders from an agent"}) {
		t.Errorf("from MCP: %q", heard)
	}
	if all := g.Records(audit.Filter{Identity: "ana"}); !slices.ContainsFunc(all, func(v audit.View) bool {
		return v.Judgement != nil && slices.Equal(v.Channels, []string{"listen orders", "listen gone"})
	}) {
		t.Error("the audit log does not have what was listened to")
	}
	t.Run("its own", func(t *testing.T) { hearsItself(t, g) })
}

// listening opens a connection that listens, and returns what waits for so many notifications.
func listening(t *testing.T, dsn, sql string) func(n int) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return func(n int) (heard []string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for range n {
			note, err := conn.WaitForNotification(ctx)
			if err != nil {
				t.Fatal(err)
			}
			heard = append(heard, note.Channel+" "+note.Payload)
		}
		return heard
	}
}

func judgesChannels(t *testing.T, g *gatewaytest.Gateway) {
	cases := []struct{ who, sql, state, says string }{
		{"ana", "listen orders", "", ""},
		{"ana", "LISTEN ORDERS", "", ""},
		{"ana", `listen "Orders"`, "", ""},
		{"ana", `listen "ORDERS"`, "42501", `permission denied for channel "ORDERS"`},
		{"ana", "listen secret", "42501", `(listener) allow listen on channel "Orders", gone and orders.`},
		{"ana", "listen secret", "42501", "Ask your administrator for db.channel.listen on channel:secret."},
		{"ana", "unlisten secret", "", ""},
		{"ana", "unlisten *", "", ""},
		{"ana", "notify orders", "42501", "do not allow notify on any channel"},
		{"ana", "select pg_notify('orders', '')", "42501", "permission denied for channel orders"},
		{"bob", "listen orders", "42501", ""},
		{"bob", "notify orders, 'x'", "", ""},
		{"bob", "notify secret, 'x'", "42501", "allow notify on all channels but those that they deny"},
		{"bob", "select pg_notify('orders', 'x')", "", ""},
		{"bob", "select pg_notify('Secret', 'x')", "", ""}, // a name as it is
		{"bob", "select pg_notify('secret', 'x')", "42501", "permission denied for channel secret"},
		{"bob", "select pg_notify('orders', 'x'), pg_notify('secret', 'x')", "42501", "permission denied for channel secret"},
		{"bob", `select pg_notify(U&'\0073ecret', 'x')`, "42501", "permission denied for channel secret"},
		{"bob", "select pg_notify('sec' || 'ret', 'x')", "42501", "known only when the statement runs"},
		{"bob", "select pg_notify('orders', 'x'), pg_notify(lower('SECRET'), 'x')", "42501", "known only when the statement runs"},
		{"bob", "select pg_notify(case when true then 'secret' else 'orders' end, 'x')", "42501", "known only when the statement runs"},
		{"bob", "select pg_notify(c, 'x') from (values ('secret')) v (c)", "42501", "known only when the statement runs"},
		{"bob", "select 1 from pg_notify('secret', 'x')", "42501", "permission denied for channel secret"},
		{"bob", "prepare p (text) as select pg_notify($1, 'x')", "42501", "known only when the statement runs"},
		{"bob", "select pg_notify('orders', id::text) from people", "", ""},
		{"bob", "select pg_notify('orders', ssn) from people", "42501", "ssn"}, // what is masked stays masked for others
		{"bob", "select pg_notify('orders', upper(ssn)) from people", "42501", "ssn"},
		{"dan", "select pg_notify(lower('ORDERS'), 'x')", "", ""},
		{"dan", "notify secret_of_dan", "", ""},
	}
	for _, where := range []string{"simple", "extended"} {
		for _, who := range []string{"ana", "bob", "dan"} {
			at := &wire{dsn: g.DSN(who, "gov"), extended: where == "extended", oid: func(string) uint32 { return 0 }}
			for _, tc := range cases {
				if tc.who != who {
					continue
				}
				got := at.run(t.Context(), step{Q: tc.sql})
				if got.state != tc.state || !strings.Contains(got.message, tc.says) {
					t.Errorf("%s, %s: %s: %q %s", where, who, tc.sql, got.state, got.message)
				}
			}
			at.close()
		}
	}
}

// A client tells notifications of its own by the process id that it was given.
func hearsItself(t *testing.T, g *gatewaytest.Gateway) {
	config, err := pgconn.ParseConfig(g.DSN("dan", "gov"))
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan pgconn.Notification, 10)
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { heard <- *n }
	conn, err := pgconn.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "listen mine; notify mine, 'x'").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if n := <-heard; n.PID != conn.PID() || n.Payload != "x" { // it comes before the end of the transaction that sends it
		t.Errorf("%+v, to %d", n, conn.PID())
	}
}
