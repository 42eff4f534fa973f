package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"interlock/audit"
	"interlock/internal/gateway"
	"interlock/internal/store"
)

// auditLogs are the logs that a command reads: that of the configuration, or directories with copies of several nodes'.
type auditLogs []string

// logFlags say which logs a command reads.
type logFlags struct {
	dirs   []string
	shared bool
}

func (l *logFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&l.dirs, "log", nil, "directory with a log's segments, instead of this node's; several are merged by time")
	l.bindShared(cmd)
	cmd.MarkFlagsMutuallyExclusive("log", "shared")
}

func (l *logFlags) bindShared(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&l.shared, "shared", false, "ask the index that nodes share (audit.shared_index), for all nodes at once")
}

// auditSearcher yields what a filter selects, by time.
type auditSearcher interface {
	Search(ctx context.Context, f audit.Filter, yield func(audit.View) bool) error
	Close() error
}

func (l *logFlags) open(cmd *cobra.Command) (auditSearcher, error) {
	for _, d := range l.dirs {
		if _, err := os.Stat(d); err != nil {
			return nil, err
		}
	}
	if len(l.dirs) > 0 {
		return auditLogs(l.dirs), nil
	}
	cfg, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	if l.shared {
		return gateway.ReadShared(cmd.Context(), cfg)
	}
	return auditLogs{gateway.AuditConfig(cfg).Dir}, nil
}

// search opens the logs that flags name, and yields what a filter selects in them.
func (l *logFlags) search(cmd *cobra.Command, f audit.Filter, yield func(audit.View) bool) error {
	logs, err := l.open(cmd)
	if err != nil {
		return err
	}
	return errors.Join(logs.Search(cmd.Context(), f, yield), logs.Close())
}

func (l auditLogs) Close() error { return nil }

// Search yields what a filter selects in all logs, by time.
func (l auditLogs) Search(ctx context.Context, f audit.Filter, yield func(audit.View) bool) error {
	if len(l) == 1 {
		return searchLog(ctx, l[0], f, yield)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	searches := make([]audit.Searcher, 0, len(l))
	for _, dir := range l {
		searches = append(searches, func(yield func(audit.View) bool) error {
			return searchLog(ctx, dir, f, func(v audit.View) bool {
				v.Node = dir
				return yield(v)
			})
		})
	}
	return audit.Merge(searches, f.OldestFirst, f.Limit, yield)
}

// searchLog searches one log: by its index as far as that has come, and by reading what is newer.
func searchLog(ctx context.Context, dir string, f audit.Filter, yield func(audit.View) bool) error {
	x, err := store.ReadIndex(ctx, filepath.Dir(filepath.Clean(dir)))
	if errors.Is(err, fs.ErrNotExist) {
		return audit.Search(ctx, dir, f, yield)
	}
	if err != nil {
		return err
	}
	defer x.Close()
	at, err := x.Position(ctx)
	if err != nil {
		return err
	}
	parts := []func(audit.Filter, func(audit.View) bool) error{
		func(f audit.Filter, y func(audit.View) bool) error {
			f.After = at.Seq
			return audit.Search(ctx, dir, f, y)
		},
		func(f audit.Filter, y func(audit.View) bool) error {
			f.UpTo = at.Seq // it may have come further by now
			return x.Search(ctx, dir, f, y)
		},
	}
	if f.OldestFirst {
		parts[0], parts[1] = parts[1], parts[0]
	}
	return inTurn(parts, f, yield)
}

// inTurn runs searches one after the other within one limit.
func inTurn(parts []func(audit.Filter, func(audit.View) bool) error, f audit.Filter, yield func(audit.View) bool) error {
	stopped := false
	for _, search := range parts {
		n := 0
		err := search(f, func(v audit.View) bool {
			n++
			stopped = !yield(v)
			return !stopped
		})
		if err != nil || stopped {
			return err
		}
		if f.Limit > 0 {
			if f.Limit -= n; f.Limit <= 0 {
				return nil
			}
		}
	}
	return nil
}

func auditSessionsCommand() *cobra.Command {
	var f auditFilter
	var from logFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sessions [SESSION]",
		Short: "List sessions of the PostgreSQL door, or tell the story of one in order",
		Long:  "Without an argument sessions lists the sessions, newest first. With one it shows what happened in that session, oldest\nfirst: how it was opened, every statement with its decision and its outcome, and how it ended.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := f.filter(nil)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				return sessionStory(cmd, &from, args[0], asJSON)
			}
			var sessions []store.SessionInfo
			err = withIndex(cmd, from.shared, func(x auditIndex) (err error) {
				sessions, err = x.Sessions(cmd.Context(), filter)
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), sessions)
			}
			return printSessions(cmd, sessions, from.shared)
		},
	}
	f.bindWho(cmd)
	from.bindShared(cmd)
	cmd.Flags().IntVar(&f.Limit, "limit", 100, "show at most this many; 0 shows all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// auditIndex is what an index knows beside the requests.
type auditIndex interface {
	Sessions(ctx context.Context, f audit.Filter) ([]store.SessionInfo, error)
	Stats(ctx context.Context, f audit.Filter, by []string) ([]store.Count, error)
	Close() error
}

// withIndex opens this node's index, or that of all nodes.
func withIndex(cmd *cobra.Command, shared bool, use func(auditIndex) error) error {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	var x auditIndex
	if shared {
		x, err = gateway.ReadShared(cmd.Context(), cfg)
	} else {
		x, err = store.ReadIndex(cmd.Context(), cfg.DataDir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New(`there is no index yet: run the gateway, or "interlock audit reindex"`)
	}
	if err != nil {
		return err
	}
	return errors.Join(use(x), x.Close())
}

func sessionStory(cmd *cobra.Command, from *logFlags, session string, asJSON bool) error {
	show := viewPrinter(cmd.OutOrStdout(), asJSON)
	n := 0
	var failed error
	err := from.search(cmd, audit.Filter{Session: session, Events: true, OldestFirst: true}, func(v audit.View) bool {
		n++
		failed = show(v)
		return failed == nil
	})
	if err = errors.Join(err, failed); err == nil && n == 0 {
		err = fmt.Errorf("the audit log has no session %s", session)
	}
	return err
}

func printSessions(cmd *cobra.Command, list []store.SessionInfo, nodes bool) error {
	head, first := []string{"SESSION", "IDENTITY", "SOURCE", "CLIENT", "APPLICATION", "OPENED", "LASTED", "STATEMENTS"}, 1
	if nodes {
		head, first = append([]string{"NODE"}, head...), 0
	}
	t := newTable(cmd.OutOrStdout(), head...)
	for i := range list {
		s := &list[i]
		lasted := "open"
		if s.Closed != nil {
			lasted = s.Closed.Sub(s.Opened).Round(time.Millisecond).String()
		}
		cells := []string{s.Node, s.Session, printable(s.Identity), printable(s.Source), s.Client, printable(s.Application),
			s.Opened.Local().Format(time.DateTime), lasted, fmt.Sprint(s.Statements)}
		t.row(cells[first:]...)
	}
	return t.flush()
}

func auditStatsCommand() *cobra.Command {
	var f auditFilter
	var from logFlags
	var by []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Count requests, by whom, on what, with which end",
		Long:  "Stats counts the requests that the filter selects, in whole hours, by the columns named with --by, which are:\n" + fmt.Sprint(store.StatNames()),
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.filter(nil)
			if err != nil {
				return err
			}
			var counts []store.Count
			err = withIndex(cmd, from.shared, func(x auditIndex) (err error) {
				counts, err = x.Stats(cmd.Context(), filter, by)
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), counts)
			}
			t := newTable(cmd.OutOrStdout(), append(upper(by), "REQUESTS", "ROWS", "MEAN TIME")...)
			for _, c := range counts {
				cells := make([]string, 0, len(by)+3)
				for _, b := range c.By {
					cells = append(cells, orDash(printable(b)))
				}
				t.row(append(cells, fmt.Sprint(c.Requests), fmt.Sprint(c.Rows), c.Mean.Round(10*time.Microsecond).String())...)
			}
			return t.flush()
		},
	}
	f.bind(cmd)
	from.bindShared(cmd)
	cmd.Flags().StringSliceVar(&by, "by", []string{"identity", "source", "status"}, "columns to count by")
	cmd.Flags().IntVar(&f.Limit, "limit", 100, "show at most this many; 0 shows all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
