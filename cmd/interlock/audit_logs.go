package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
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

// bindLogs adds the flag that names other logs.
func bindLogs(cmd *cobra.Command) *[]string {
	return cmd.Flags().StringArray("log", nil, "directory with a log's segments, instead of this node's; several are merged by time")
}

func findLogs(cmd *cobra.Command, dirs []string) (auditLogs, error) {
	if len(dirs) > 0 {
		for _, d := range dirs {
			if _, err := os.Stat(d); err != nil {
				return nil, err
			}
		}
		return dirs, nil
	}
	cfg, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	return auditLogs{gateway.AuditConfig(cfg).Dir}, nil
}

// search yields what a filter selects in all logs, by time.
func (l auditLogs) search(ctx context.Context, f audit.Filter, yield func(audit.View) bool) error {
	if len(l) == 1 {
		return searchLog(ctx, l[0], f, yield)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	streams := make([]*viewStream, 0, len(l))
	for _, dir := range l {
		s := openStream(ctx, dir, f)
		defer s.stop()
		s.advance()
		streams = append(streams, s)
	}
	for left := f.Limit; ; left-- {
		s := first(streams, f.OldestFirst)
		if s == nil || f.Limit > 0 && left == 0 {
			return nil
		}
		if s.err != nil {
			return s.err
		}
		if !yield(s.view) {
			return nil
		}
		s.advance()
	}
}

// viewStream is what one log yields, one at a time.
type viewStream struct {
	next func() (audit.View, error, bool)
	stop func()
	view audit.View
	err  error
	done bool
}

func openStream(ctx context.Context, dir string, f audit.Filter) *viewStream {
	var s viewStream
	s.next, s.stop = iter.Pull2(func(yield func(audit.View, error) bool) {
		stopped := false
		err := searchLog(ctx, dir, f, func(v audit.View) bool {
			v.Node = dir
			stopped = !yield(v, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(audit.View{}, err)
		}
	})
	return &s
}

func (s *viewStream) advance() {
	var more bool
	s.view, s.err, more = s.next()
	s.done = !more
}

// first returns the stream whose turn it is, or one that has failed.
func first(streams []*viewStream, oldest bool) *viewStream {
	var best *viewStream
	for _, s := range streams {
		switch {
		case s.done:
		case s.err != nil:
			return s
		case best == nil, oldest == s.view.Time.Before(best.view.Time) && !s.view.Time.Equal(best.view.Time):
			best = s
		}
	}
	return best
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
				return sessionStory(cmd, args[0], asJSON)
			}
			list, err := withIndex(cmd, func(x *store.Index) (any, error) { return x.Sessions(cmd.Context(), filter) })
			if err != nil {
				return err
			}
			sessions := list.([]store.SessionInfo)
			if asJSON {
				return printJSON(cmd.OutOrStdout(), sessions)
			}
			return printSessions(cmd, sessions)
		},
	}
	f.bindWho(cmd)
	cmd.Flags().IntVar(&f.Limit, "limit", 100, "show at most this many; 0 shows all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// withIndex opens this node's index.
func withIndex(cmd *cobra.Command, use func(*store.Index) (any, error)) (any, error) {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	x, err := store.ReadIndex(cmd.Context(), cfg.DataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New(`there is no index yet: run the gateway, or "interlock audit reindex"`)
	}
	if err != nil {
		return nil, err
	}
	defer x.Close()
	return use(x)
}

func sessionStory(cmd *cobra.Command, session string, asJSON bool) error {
	logs, err := findLogs(cmd, nil)
	if err != nil {
		return err
	}
	show := viewPrinter(cmd.OutOrStdout(), asJSON)
	n := 0
	var failed error
	err = logs.search(cmd.Context(), audit.Filter{Session: session, Events: true, OldestFirst: true}, func(v audit.View) bool {
		n++
		failed = show(v)
		return failed == nil
	})
	if err = errors.Join(err, failed); err == nil && n == 0 {
		err = fmt.Errorf("the audit log has no session %s", session)
	}
	return err
}

func printSessions(cmd *cobra.Command, list []store.SessionInfo) error {
	t := newTable(cmd.OutOrStdout(), "SESSION", "IDENTITY", "SOURCE", "CLIENT", "APPLICATION", "OPENED", "LASTED", "STATEMENTS")
	for i := range list {
		s := &list[i]
		lasted := "open"
		if s.Closed != nil {
			lasted = s.Closed.Sub(s.Opened).Round(time.Millisecond).String()
		}
		t.row(s.Session, printable(s.Identity), printable(s.Source), s.Client, printable(s.Application),
			s.Opened.Local().Format(time.DateTime), lasted, fmt.Sprint(s.Statements))
	}
	return t.flush()
}

func auditStatsCommand() *cobra.Command {
	var f auditFilter
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
			found, err := withIndex(cmd, func(x *store.Index) (any, error) { return x.Stats(cmd.Context(), filter, by) })
			if err != nil {
				return err
			}
			counts := found.([]store.Count)
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
	cmd.Flags().StringSliceVar(&by, "by", []string{"identity", "source", "status"}, "columns to count by")
	cmd.Flags().IntVar(&f.Limit, "limit", 100, "show at most this many; 0 shows all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func auditReindexCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reindex",
		Short: "Make the search index anew from the log",
		Long:  "Reindex throws the search index away and makes it from the log. The gateway must not be running: it keeps the index up by itself.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			log, err := audit.Open(gateway.AuditConfig(cfg)) // keeps a gateway from writing the index meanwhile
			if err != nil {
				return err
			}
			defer log.Close()
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(filepath.Join(cfg.DataDir, store.IndexName+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
			x, err := store.OpenIndex(cmd.Context(), cfg.DataDir)
			if err != nil {
				return err
			}
			defer x.Close()
			for more := true; more && err == nil; {
				more, err = x.CatchUp(cmd.Context(), gateway.AuditConfig(cfg).Dir, 0)
			}
			return err
		},
	}
}
