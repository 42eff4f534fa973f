package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"interlock/internal/tally"

	"github.com/jackc/pgx/v5"
)

// settle bounds how long a comparison waits for what clients that are gone have left.
const settle = 30 * time.Second

// beginTally has a server log every statement, and returns where its log ends now.
func beginTally(ctx context.Context, dsn string, log func() string) (from int, err error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range []string{"alter system set log_statement = 'all'", "select pg_reload_conf()"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return 0, err
		}
	}
	for state := ""; state != "all"; { // what is told last is known to all that ask from now on
		if err := conn.QueryRow(ctx, "select current_setting('log_statement')").Scan(&state); err != nil {
			return 0, err
		}
	}
	return len(log()), nil
}

// tallyDemo counts for a command that "interlock demo" runs: with "begin" it prints a mark, and with that mark it compares the logs
// of what was done since.
func tallyDemo(ctx context.Context, mark string) error {
	path, err := demoLog(ctx)
	if err != nil {
		return err
	}
	log := func() string {
		text, _ := os.ReadFile(path) // one that cannot be read has nothing, which is a difference
		return string(text)
	}
	if mark == "begin" {
		since := time.Now()
		from, err := beginTally(ctx, os.Getenv("INTERLOCK_UPSTREAM_DSN"), log)
		fmt.Printf("%d,%d\n", from, since.UnixNano())
		return err
	}
	from, since, ok := strings.Cut(mark, ",")
	src := tally.Source{Log: log, Login: "gateway", Audit: filepath.Join(filepath.Dir(os.Getenv("INTERLOCK_CONFIG")), "data", "audit")}
	n, err := strconv.ParseInt(since, 10, 64)
	if src.From, _ = strconv.Atoi(from); !ok || err != nil {
		return fmt.Errorf("%q is no mark", mark)
	}
	src.Since = time.Unix(0, n)
	got, err := tally.Await(ctx, src, settle)
	if err != nil {
		return err
	}
	fmt.Println(got)
	if !got.Equal() {
		return errors.New("the logs differ")
	}
	return nil
}

// demoLog is the file of the log of the demo's server, which stands beside its data.
func demoLog(ctx context.Context) (string, error) {
	conn, err := pgx.Connect(ctx, os.Getenv("INTERLOCK_UPSTREAM_DSN"))
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var data string
	err = conn.QueryRow(ctx, "select current_setting('data_directory')").Scan(&data)
	return filepath.Join(filepath.Dir(data), "log"), err
}
