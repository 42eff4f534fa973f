// Command clients checks that pgx, lib/pq and database/sql work through the gateway.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
)

const (
	types = `select 12345678901234567890.5::numeric::text as n, timestamptz '2026-01-02 03:04:05.678+00' as t, '\x00ff27'::bytea as b,
		'{"a": [1, 2]}'::json as j, null::text as z, 9007199254740993::int8 as i, 'Zoë'::text as s, true as yes`
	masked  = "select t, dom, a, n, i, f, ia, d, tz, j, u, b, yes, ip from masked.wide"
	point   = "select name from crm.customers where id = $1"
	big     = "select id, customer_id, ordered_at, status::text, amount::text from sales.orders"
	bigRows = 120000
	refused = "select ssn from crm.customers"
	slow    = "select count(*) from sales.orders a, sales.orders b, sales.orders c"
)

var dsn = fmt.Sprintf("host=%s port=%s dbname=%s user=ana password=%s sslmode=verify-full sslrootcert=%s", os.Getenv("INTERLOCK_PGHOST"),
	os.Getenv("INTERLOCK_PGPORT"), os.Getenv("INTERLOCK_SOURCE"), os.Getenv("INTERLOCK_KEY_ANA"), os.Getenv("PGSSLROOTCERT"))

var failed bool

func check(client, what string, do func(ctx context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := do(ctx); err != nil {
		failed = true
		fmt.Printf("FAIL %s: %s\n%v\n", client, what, err)
		return
	}
	fmt.Printf("ok   %s: %s\n", client, what)
}

func equal[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}

func main() {
	usePgx()
	for _, driver := range []string{"pgx", "postgres"} {
		useSQL(driver)
	}
	if failed {
		os.Exit(1)
	}
}

func usePgx() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		fmt.Println("FAIL pgx: connects\n", err)
		failed = true
		return
	}
	defer conn.Close(ctx)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		check("pgx", "reads typed values, "+mode.String(), func(ctx context.Context) error {
			var n, j, s string
			var t time.Time
			var b []byte
			var z *string
			var i int64
			var yes bool
			if err := conn.QueryRow(ctx, types, mode).Scan(&n, &t, &b, &j, &z, &i, &s, &yes); err != nil {
				return err
			}
			return errors.Join(equal("numeric", n, "12345678901234567890.5"), equal("bytea", string(b), "\x00\xff'"), equal("json", j, `{"a": [1, 2]}`),
				equal("NULL", z, nil), equal("int8", i, 9007199254740993), equal("text", s, "Zoë"), equal("time", t.UTC().Format(time.RFC3339Nano), "2026-01-02T03:04:05.678Z"))
		})
	}
	for _, format := range []int16{pgx.TextFormatCode, pgx.BinaryFormatCode} {
		check("pgx", fmt.Sprintf("reads masked columns of every kind of type in format %d", format), func(ctx context.Context) error {
			rows, err := conn.Query(ctx, masked, pgx.QueryResultFormats{format})
			if err != nil {
				return err
			}
			row, err := pgx.CollectOneRow(rows, func(r pgx.CollectableRow) ([]any, error) { return r.Values() })
			if err != nil {
				return err
			}
			const want = "[a***@*** ad***t [hidden <nil>] {1230000 -2 false finite true} 1200 1200 [100 <nil> -100] 2026-08-01 00:00:00 +0000 UTC 1785542400 map[n:[1 2] token:<nil>] " +
				"[0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0] [0] true <nil>]"
			row[8] = row[8].(time.Time).Unix()
			return equal("values", fmt.Sprint(row), want)
		})
	}
	check("pgx", "sends batches", func(ctx context.Context) error {
		batch := &pgx.Batch{}
		for i := range 100 {
			batch.Queue(point, i+1)
		}
		return conn.SendBatch(ctx, batch).Close()
	})
	check("pgx", "sees a refusal in a transaction with its SQLSTATE, DETAIL and HINT, and goes on after ROLLBACK", func(ctx context.Context) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, refused)
		var pe *pgconn.PgError
		if !errors.As(err, &pe) || pe.Code != "42501" || pe.Detail == "" || pe.Hint == "" {
			return fmt.Errorf("refusal: %w", err)
		}
		if err := tx.Rollback(ctx); err != nil {
			return err
		}
		return conn.Ping(ctx)
	})
	check("pgx", "reads a big result", func(ctx context.Context) error {
		rows, err := conn.Query(ctx, big)
		if err != nil {
			return err
		}
		n := 0
		for rows.Next() {
			n++
		}
		return errors.Join(rows.Err(), equal("rows", n, bigRows))
	})
	check("pgx", "cancels", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		_, err := conn.Exec(ctx, slow)
		if !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("not cancelled: %w", err)
		}
		return nil
	})
}

func useSQL(driver string) {
	client := map[string]string{"pgx": "database/sql with pgx", "postgres": "lib/pq"}[driver]
	db, err := sql.Open(driver, dsn)
	if err != nil {
		fmt.Printf("FAIL %s: opens\n%v\n", client, err)
		failed = true
		return
	}
	defer db.Close()
	check(client, "reads typed values", func(ctx context.Context) error {
		var n, j, s string
		var t time.Time
		var b []byte
		var z sql.NullString
		var i int64
		var yes bool
		if err := db.QueryRowContext(ctx, types).Scan(&n, &t, &b, &j, &z, &i, &s, &yes); err != nil {
			return err
		}
		return errors.Join(equal("numeric", n, "12345678901234567890.5"), equal("bytea", string(b), "\x00\xff'"), equal("int8", i, 9007199254740993), equal("text", s, "Zoë"))
	})
	check(client, "reads masked columns of every kind of type", func(ctx context.Context) error {
		var t, dom, a, n, ia, j, u string
		var i int64
		var f float64
		var d, tz time.Time
		var b []byte
		var yes bool
		var ip sql.NullString
		if err := db.QueryRowContext(ctx, masked).Scan(&t, &dom, &a, &n, &i, &f, &ia, &d, &tz, &j, &u, &b, &yes, &ip); err != nil {
			return err
		}
		return errors.Join(equal("texts", t+" "+dom+" "+a, "a***@*** ad***t {hidden,NULL}"), equal("numbers", fmt.Sprintln(n, i, f, ia), "12300.00 1200 1200 {100,NULL,-100}\n"),
			equal("times", d.Format(time.DateOnly)+tz.UTC().Format(time.RFC3339), "2026-08-012026-08-01T00:00:00Z"), equal("bytes", string(b), "\x00"),
			equal("others", fmt.Sprintln(j, u, yes, ip.Valid), `{"n":[1, 2],"token":null} 00000000-0000-0000-0000-000000000000 true false`+"\n"))
	})
	check(client, "runs a prepared statement a hundred times", func(ctx context.Context) error {
		st, err := db.PrepareContext(ctx, point)
		if err != nil {
			return err
		}
		defer st.Close()
		for range 100 {
			var name string
			if err := st.QueryRowContext(ctx, 7).Scan(&name); err != nil {
				return err
			}
		}
		return nil
	})
	check(client, "sees a refusal in a transaction with its SQLSTATE, DETAIL and HINT, and goes on after ROLLBACK", func(ctx context.Context) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, refused)
		var pe *pgconn.PgError
		var qe *pq.Error
		switch {
		case errors.As(err, &pe) && pe.Code == "42501" && pe.Detail != "" && pe.Hint != "":
		case errors.As(err, &qe) && qe.Code == "42501" && qe.Detail != "" && qe.Hint != "":
		default:
			return fmt.Errorf("refusal: %w", err)
		}
		return errors.Join(tx.Rollback(), db.PingContext(ctx))
	})
	check(client, "reads a big result", func(ctx context.Context) error {
		rows, err := db.QueryContext(ctx, big)
		if err != nil {
			return err
		}
		n := 0
		for rows.Next() {
			n++
		}
		return errors.Join(rows.Err(), equal("rows", n, bigRows))
	})
	check(client, "cancels", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		if _, err := db.ExecContext(ctx, slow); err == nil {
			return errors.New("not cancelled")
		}
		return db.PingContext(context.Background())
	})
}
