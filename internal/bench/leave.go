package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// leavers is how many clients vanish at once in each state.
const leavers = 8

// leaving is one state that clients can vanish in.
type leaving struct {
	state string
	reach func(*soaking, context.Context, *pgx.Conn) error // brings a client there
	alike string                                           // what the server's pg_stat_activity shows of one that is there
}

var states = []leaving{
	{"idle", func(s *soaking, ctx context.Context, conn *pgx.Conn) error {
		return s.exec(ctx, conn, "select 1")
	}, "state = 'idle'"},
	{"in a transaction", func(s *soaking, ctx context.Context, conn *pgx.Conn) error {
		return errors.Join(s.exec(ctx, conn, "begin"), s.exec(ctx, conn, "insert into pgbench_history (tid) values (-1)"))
	}, "state = 'idle in transaction'"},
	{"amid a result", func(s *soaking, ctx context.Context, conn *pgx.Conn) error {
		s.sent.Add(1)
		rows := conn.PgConn().Exec(ctx, "select a.filler from pgbench_accounts a, pgbench_accounts b")
		if !rows.NextResult() || !rows.ResultReader().NextRow() {
			return errors.Join(errors.New("no row"), rows.Close())
		}
		return nil
	}, "wait_event = 'ClientWrite'"},
	{"computing", runs("select count(*) from pgbench_accounts a, pgbench_accounts b"), "state = 'active'"},
	{"amid a COPY from it", runs("copy pgbench_history (tid, bid, aid, delta) from stdin"), "state = 'active' and wait_event = 'ClientRead'"},
	{"waiting for a lock", runs("update pgbench_branches set bbalance = -1"), "wait_event_type = 'Lock'"},
}

// runs sends a statement and does not wait for what comes of it.
func runs(sql string) func(*soaking, context.Context, *pgx.Conn) error {
	return func(s *soaking, _ context.Context, conn *pgx.Conn) error {
		s.sent.Add(1)
		frame := append([]byte{'Q', 0, 0, 0, byte(4 + len(sql) + 1)}, sql...)
		_, err := conn.PgConn().Conn().Write(append(frame, 0))
		return err
	}
}

// vanish has clients close their sockets in each state, and says how long the server's connections outlive them.
func (s *soaking) vanish(ctx context.Context) {
	admin, err := pgx.Connect(ctx, s.direct)
	if err != nil {
		s.note("vanishing", err)
		return
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, "begin; lock pgbench_branches in share mode"); err != nil {
		s.note("vanishing", err)
		return
	}
	for _, l := range states {
		took, err := s.vanishFrom(ctx, admin, l)
		if err != nil {
			s.note("vanishing "+l.state, err)
			continue
		}
		fmt.Printf("%d clients vanish %s: the server has none of them after %v\n", leavers, l.state, took.Round(time.Millisecond))
	}
}

func (s *soaking) vanishFrom(ctx context.Context, admin *pgx.Conn, l leaving) (time.Duration, error) {
	conns := make([]*pgx.Conn, leavers)
	var arriving sync.WaitGroup
	for i := range conns {
		arriving.Go(func() {
			conn, err := pgx.Connect(ctx, s.through+"-leaver")
			if err == nil {
				conns[i] = conn
				err = l.reach(s, ctx, conn)
			}
			if err != nil {
				s.note("vanishing "+l.state, err)
			}
		})
	}
	arriving.Wait()
	_, err := awaitCount(ctx, admin, l.alike, leavers)
	for _, conn := range conns {
		if conn != nil {
			err = errors.Join(err, conn.PgConn().Conn().Close())
		}
	}
	if err != nil {
		return 0, err
	}
	return awaitCount(ctx, admin, "true", 0)
}

// awaitCount waits until the server has so many connections of leavers of which a condition holds.
func awaitCount(ctx context.Context, admin *pgx.Conn, condition string, want int) (time.Duration, error) {
	begun, got := time.Now(), -1
	sql := "select count(*) from pg_stat_activity where application_name like 'soak%-leaver' and " + condition
	for time.Since(begun) < leaveTime {
		// Otherwise pg_stat_activity stays the same for the whole of a transaction.
		if _, err := admin.Exec(ctx, "select pg_stat_clear_snapshot()"); err != nil {
			return 0, err
		}
		if err := admin.QueryRow(ctx, sql).Scan(&got); err != nil {
			return 0, err
		}
		if got == want {
			return time.Since(begun), nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0, fmt.Errorf("%d instead of %d where %s", got, want, strings.TrimSpace(condition))
}
