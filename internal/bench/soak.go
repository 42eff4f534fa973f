package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"interlock/audit"
	"interlock/internal/tally"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// soaking is a soak under way: clients of many kinds at once, each of which knows what a direct connection would have told it.
type soaking struct {
	direct, through string // DSNs
	until           time.Time
	sent            atomic.Int64 // statements that the gateway was given
	as              sync.Map     // name of the client -> *atomic.Int64: rounds

	mu    sync.Mutex
	wrong map[string]int // what a direct connection would not have said
}

// soakers are the kinds of client, with how many there are of each. Each call is one round, on a connection of its own.
var soakers = []struct {
	name  string
	many  int
	round func(*soaking, context.Context) error
}{
	{"prepared", 4, (*soaking).reads}, {"simple", 2, (*soaking).asks}, {"transactions", 2, (*soaking).writes}, {"refused", 1, (*soaking).isRefused},
	{"canceled", 1, (*soaking).cancels}, {"copies", 1, (*soaking).copies}, {"gone mid-result", 1, (*soaking).leaves},
	{"gone mid-transaction", 1, (*soaking).abandons}, {"server process killed", 1, (*soaking).loses},
}

// idleClients is how many connections are opened at the end and left alone, loggingIn how many of them log in at the same time:
// the gateway lets 256 clients be unauthenticated at once.
const (
	idleClients = 490
	loggingIn   = 50
)

func soak(ctx context.Context, p *place, length time.Duration) error {
	gateway := p.targets[len(p.targets)-1]
	s := &soaking{direct: p.targets[0].dsn, through: gateway.dsn + "&application_name=soak", until: time.Now().Add(length), wrong: map[string]int{}}
	base, err := s.count(ctx, p) // what the start has asked
	if err != nil {
		return err
	}
	s.run(ctx, gateway)
	s.vanish(ctx)
	s.idle(ctx, gateway)
	s.leaked(ctx)
	if err := gateway.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := gateway.cmd.Wait(); err != nil {
		s.note("the gateway's end", err)
	}
	recorded, err := s.count(ctx, p)
	if err != nil {
		return err
	}
	s.tally(ctx, p)
	return s.conclude(recorded-base, gateway)
}

// tally compares the server's own log with the audit log, from the start on.
func (s *soaking) tally(ctx context.Context, p *place) {
	t, err := tally.Await(ctx, tally.Source{Log: p.cluster.Log, Login: p.login, Audit: filepath.Join(p.dir, "data", "audit")}, settle)
	fmt.Println(t)
	if err != nil || !t.Equal() {
		s.note("the two logs", errors.Join(errors.New("they differ"), err))
	}
}

// run lets every client go round until time is over, and prints the gateway's memory meanwhile.
func (s *soaking) run(ctx context.Context, gateway *target) {
	var clients sync.WaitGroup
	for _, k := range soakers {
		rounds := &atomic.Int64{}
		s.as.Store(k.name, rounds)
		for range k.many {
			clients.Go(func() {
				for time.Now().Before(s.until) && ctx.Err() == nil {
					if err := k.round(s, ctx); err != nil {
						s.note(k.name, err)
					}
					rounds.Add(1)
				}
			})
		}
	}
	for every := time.Until(s.until) / 4; time.Now().Before(s.until) && ctx.Err() == nil; time.Sleep(min(every, time.Until(s.until)+time.Second)) {
		fmt.Printf("%s %d statements, memory %s\n", time.Now().Format("15:04:05"), s.sent.Load(), memory(gateway))
	}
	clients.Wait()
	fmt.Printf("%s %d statements, memory %s\n", time.Now().Format("15:04:05"), s.sent.Load(), memory(gateway))
	for _, k := range soakers {
		rounds, _ := s.as.Load(k.name)
		fmt.Printf("%6d rounds of %d clients: %s\n", rounds.(*atomic.Int64).Load(), k.many, k.name)
	}
}

func (s *soaking) note(who string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong[who+": "+err.Error()]++
}

// with gives a round a connection through the gateway.
func (s *soaking) with(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.through)
	if err != nil {
		return err
	}
	return errors.Join(do(conn), conn.Close(context.WithoutCancel(ctx)))
}

// exec runs a statement and counts it.
func (s *soaking) exec(ctx context.Context, conn *pgx.Conn, sql string, args ...any) error {
	s.sent.Add(1)
	_, err := conn.Exec(ctx, sql, args...)
	return err
}

// expect holds an error against the SQLSTATE that a direct connection gives.
func expect(err error, state string) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == state {
		return nil
	}
	return fmt.Errorf("%v instead of %s", err, state)
}

func (s *soaking) reads(ctx context.Context) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		for range 100 {
			id, got := 1+rand.IntN(100_000), 0
			s.sent.Add(1)
			if err := conn.QueryRow(ctx, "select aid from pgbench_accounts where aid = $1", id).Scan(&got); err != nil || got != id {
				return fmt.Errorf("%d for %d: %w", got, id, err)
			}
		}
		return nil
	})
}

func (s *soaking) asks(ctx context.Context) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		for i := range 50 {
			s.sent.Add(1)
			results, err := conn.PgConn().Exec(ctx, fmt.Sprintf("select %d, count(*) from pgbench_branches", i)).ReadAll()
			if err != nil || len(results) != 1 || string(results[0].Rows[0][0]) != fmt.Sprint(i) {
				return fmt.Errorf("%v %w", results, err)
			}
		}
		return nil
	})
}

func (s *soaking) writes(ctx context.Context) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		for i := range 10 {
			err := s.exec(ctx, conn, "begin")
			if err == nil {
				err = s.exec(ctx, conn, "update pgbench_accounts set abalance = abalance + 1 where aid = $1", 1+rand.IntN(100_000))
			}
			if err == nil {
				err = s.exec(ctx, conn, []string{"commit", "rollback"}[i%2])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *soaking) isRefused(ctx context.Context) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		if err := s.exec(ctx, conn, "begin"); err != nil {
			return err
		}
		return errors.Join(
			expect(s.exec(ctx, conn, "delete from pgbench_accounts where aid = 1", pgx.QueryExecModeSimpleProtocol), "42501"),
			expect(s.exec(ctx, conn, "select 1", pgx.QueryExecModeSimpleProtocol), "25P02"),
			s.exec(ctx, conn, "rollback"),
			expect(s.exec(ctx, conn, "select 1/0", pgx.QueryExecModeSimpleProtocol), "22012"))
	})
}

// slow would take hours.
const slow = "select count(*) from pgbench_accounts a, pgbench_accounts b, pgbench_accounts c"

func (s *soaking) cancels(ctx context.Context) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		done := make(chan error, 1)
		go func() { done <- s.exec(ctx, conn, slow, pgx.QueryExecModeSimpleProtocol) }()
		for { // a request that comes before the statement does nothing, as without the gateway
			select {
			case err := <-done:
				return errors.Join(expect(err, "57014"), s.exec(ctx, conn, "select 1", pgx.QueryExecModeSimpleProtocol))
			case <-time.After(200 * time.Millisecond):
				if err := conn.PgConn().CancelRequest(ctx); err != nil {
					return err
				}
			}
		}
	})
}

func (s *soaking) copies(ctx context.Context) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		var out strings.Builder
		s.sent.Add(2)
		tag, err := conn.PgConn().CopyTo(ctx, &out, "copy (select aid, bid from pgbench_accounts limit 20000) to stdout")
		if err != nil || tag.RowsAffected() != 20000 || strings.Count(out.String(), "\n") != 20000 {
			return fmt.Errorf("%s with %d lines: %w", tag, strings.Count(out.String(), "\n"), err)
		}
		lines := strings.Repeat("1\t1\t1\t0\n", 1000)
		tag, err = conn.PgConn().CopyFrom(ctx, strings.NewReader(lines), "copy pgbench_history (tid, bid, aid, delta) from stdin")
		if err != nil || tag.RowsAffected() != 1000 {
			return fmt.Errorf("%s: %w", tag, err)
		}
		return nil
	})
}

// leaves closes its socket amid a result.
func (s *soaking) leaves(ctx context.Context) error {
	conn, err := pgconn.Connect(ctx, s.through)
	if err != nil {
		return err
	}
	s.sent.Add(1)
	rows := conn.Exec(ctx, "select aid, filler from pgbench_accounts")
	if !rows.NextResult() || !rows.ResultReader().NextRow() {
		return errors.Join(errors.New("no row"), rows.Close())
	}
	return conn.Conn().Close()
}

// abandons closes its socket in a transaction that has changed something.
func (s *soaking) abandons(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.through)
	if err != nil {
		return err
	}
	return errors.Join(s.exec(ctx, conn, "begin"), s.exec(ctx, conn, "update pgbench_tellers set tbalance = -1"), conn.PgConn().Conn().Close())
}

// loses has its server process killed while a statement runs.
func (s *soaking) loses(ctx context.Context) error {
	admin, err := pgx.Connect(ctx, s.direct)
	if err != nil {
		return err
	}
	defer admin.Close(context.WithoutCancel(ctx))
	conn, err := pgx.Connect(ctx, s.through+"-victim")
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.exec(ctx, conn, slow, pgx.QueryExecModeSimpleProtocol) }()
	for killed := false; !killed; time.Sleep(50 * time.Millisecond) {
		err := admin.QueryRow(ctx, `select count(pg_terminate_backend(pid)) > 0 from pg_stat_activity
			where application_name = 'soak-victim' and state = 'active' and query like '%pgbench_accounts c'`).Scan(&killed)
		if err != nil {
			return err
		}
	}
	return expect(<-done, "57P01")
}

// idle logs many clients in at once, lets them be, and says what memory they take.
func (s *soaking) idle(ctx context.Context, gateway *target) {
	before, began := memory(gateway), time.Now()
	conns := make([]*pgx.Conn, idleClients)
	var logins sync.WaitGroup
	storm := make(chan struct{}, loggingIn)
	for i := range conns {
		logins.Go(func() {
			storm <- struct{}{}
			defer func() { <-storm }()
			var err error
			if conns[i], err = pgx.Connect(ctx, s.through); err != nil {
				s.note("login storm", err)
			}
		})
	}
	logins.Wait()
	fmt.Printf("%d clients logged in within %v; memory %s before, %s with them\n", idleClients, time.Since(began).Round(10*time.Millisecond), before, memory(gateway))
	for _, conn := range conns {
		if conn != nil {
			_ = conn.Close(ctx)
		}
	}
}

// leaveTime bounds how long the server's connections may outlive the clients. On a quiet machine they are gone within a second.
const leaveTime = 10 * time.Second

// leaked counts the server's connections that are left of the clients, and what their transactions have left.
func (s *soaking) leaked(ctx context.Context) {
	admin, err := pgx.Connect(ctx, s.direct)
	if err != nil {
		s.note("looking for leaked connections", err)
		return
	}
	defer admin.Close(ctx)
	left, changed, began := 1, 0, time.Now()
	for err == nil && left > 0 && time.Since(began) < leaveTime {
		time.Sleep(100 * time.Millisecond)
		err = admin.QueryRow(ctx, `select (select count(*) from pg_stat_activity where application_name like 'soak%'),
			(select count(*) from pgbench_tellers where tbalance = -1)`).Scan(&left, &changed)
	}
	fmt.Printf("%d connections left after %v, %d rows changed by transactions that were abandoned\n", left, time.Since(began).Round(100*time.Millisecond), changed)
	if err != nil || left > 0 || changed > 0 {
		s.note("leaked", errors.Join(fmt.Errorf("%d connections, %d rows", left, changed), err))
	}
}

// count counts the statements on record, and notes those without an end.
func (s *soaking) count(ctx context.Context, p *place) (n int64, err error) {
	err = audit.Search(ctx, filepath.Join(p.dir, "data", "audit"), audit.Filter{}, func(v audit.View) bool {
		if v.Judgement != nil && len(v.Kinds) > 0 {
			n++
			if v.Outcome == nil {
				s.note("audit", fmt.Errorf("%s has no end", v.Statement))
			}
		}
		return true
	})
	return n, err
}

func (s *soaking) conclude(recorded int64, gateway *target) error {
	fmt.Printf("%d statements sent, %d on record\n", s.sent.Load(), recorded)
	if recorded != s.sent.Load() {
		s.note("audit", errors.New("the two differ"))
	}
	for what, times := range s.wrong {
		fmt.Printf("%d times %s\n", times, what)
	}
	if len(s.wrong) > 0 {
		return errors.New("not as without the gateway\n" + gateway.log.String())
	}
	fmt.Println("nothing that a direct connection would not have said")
	return nil
}

// memory is what the gateway's process takes now.
func memory(t *target) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", t.cmd.Process.Pid))
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
