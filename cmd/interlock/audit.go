package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"interlock/audit"
	"interlock/internal/gateway"
)

func auditCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Search, verify, export and prune the audit log"}
	cmd.AddCommand(auditSearchCommand(), auditShowCommand(), auditTailCommand(), auditSessionsCommand(), auditStatsCommand(), auditVerifyCommand(),
		auditExportCommand(), auditPruneCommand(), auditPublicKeyCommand(), auditOwnerKeyCommand(), auditReindexCommand(), auditNodesCommand())
	return cmd
}

// auditFilter binds flags to the filter that search, tail and explain share.
type auditFilter struct {
	audit.Filter
	since, until string
	status       string
}

func (f *auditFilter) bind(cmd *cobra.Command) {
	f.bindWho(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.Door, "door", "", "pgwire or mcp")
	fl.StringVar(&f.Session, "session", "", "session id")
	fl.StringVar(&f.Table, "table", "", "table read or written: schema.table, or table")
	fl.StringVar(&f.Column, "column", "", "column read or written: schema.table.column, or the end of it")
	fl.StringVar(&f.Label, "label", "", "label of a column read or written")
	fl.StringVar(&f.Verdict, "verdict", "", "allow or refuse")
	fl.StringVar(&f.status, "status", "", "ok, refused, failed, canceled, unknown, running or unfinished")
	fl.StringVar(&f.SQLState, "sqlstate", "", "SQLSTATE of the outcome")
	fl.StringVar(&f.Fingerprint, "fingerprint", "", "statements that differ from another in literals only")
	fl.StringVar(&f.Text, "text", "", "part of the statement")
	fl.StringVar(&f.Kind, "kind", "", "kind of statement, such as select, or of refusal, such as denied")
	fl.StringVar(&f.Trace, "trace", "", "trace id that the caller sent")
	fl.StringVar(&f.Event, "event", "", "name of an event, such as key.created")
}

// bindWho binds the flags that say who, where and when.
func (f *auditFilter) bindWho(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.Identity, "identity", "", "who asked")
	fl.StringVar(&f.Source, "source", "", "which source")
	fl.StringVar(&f.Client, "client", "", "address of the client: host, or host:port")
	fl.StringVar(&f.Application, "application", "", "name that the client gives itself")
	fl.StringVar(&f.since, "since", "", "not older than this: 2026-01-31, 2026-01-31T10:00:00Z, or an age such as 90m or 7d")
	fl.StringVar(&f.until, "until", "", "older than this, in the same forms")
}

// filter returns the filter with the flags that need reading.
func (f *auditFilter) filter(args []string) (audit.Filter, error) {
	var err error
	if f.Since, err = parseWhen(f.since, time.Now()); err != nil {
		return audit.Filter{}, usage("--since: %v", err)
	}
	if f.Until, err = parseWhen(f.until, time.Now()); err != nil {
		return audit.Filter{}, usage("--until: %v", err)
	}
	f.Status = audit.Status(f.status)
	if len(args) > 0 {
		f.ID = strings.ToUpper(args[0])
	}
	return f.Filter, nil
}

// parseWhen reads a date, a time, or an age before now. "" is the zero time.
func parseWhen(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	age, err := parseAge(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a time nor an age", text)
	}
	return now.Add(-age), nil
}

// parseAge reads a duration, which may be in days.
func parseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		if _, err := fmt.Sscanf(days, "%d", &n); err != nil || n < 0 || fmt.Sprint(n) != days {
			return 0, fmt.Errorf("%q is not a number of days", days)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	return time.ParseDuration(text)
}

func auditSearchCommand() *cobra.Command {
	var f auditFilter
	var from logFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "search [DECISION-ID]",
		Short: "Find requests in the audit log, newest first",
		Args:  cobra.MaximumNArgs(1),
	}
	from.bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		filter, err := f.filter(args)
		if err != nil {
			return err
		}
		found := false
		show := viewPrinter(cmd.OutOrStdout(), asJSON)
		err = from.search(cmd, filter, func(v audit.View) bool {
			found = true
			return show(v) == nil
		})
		if err == nil && filter.ID != "" && !found {
			return fmt.Errorf("the audit log has no decision %s", filter.ID)
		}
		return err
	}
	f.bind(cmd)
	cmd.Flags().BoolVar(&f.OldestFirst, "oldest-first", false, "turn the order")
	cmd.Flags().IntVar(&f.Limit, "limit", 100, "show at most this many; 0 shows all")
	cmd.Flags().BoolVar(&f.Events, "events", false, "show events other than requests too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}

func auditTailCommand() *cobra.Command {
	var f auditFilter
	var asJSON, follow bool
	var n int
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show the newest requests in the audit log",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			filter, err := f.filter(args)
			if err != nil {
				return err
			}
			show := viewPrinter(cmd.OutOrStdout(), asJSON)
			err = audit.Tail(cmd.Context(), gateway.AuditConfig(cfg).Dir, n, follow, filter, func(v audit.View) bool { return show(v) == nil })
			if errors.Is(err, context.Canceled) {
				return nil // how following ends
			}
			return err
		},
	}
	f.bind(cmd)
	cmd.Flags().IntVarP(&n, "lines", "n", 20, "how many requests to show")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with requests as they end")
	cmd.Flags().BoolVar(&f.Events, "events", false, "show events other than requests too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}

// viewPrinter prints requests as JSON lines, or as two lines for people: what happened, and the statement.
func viewPrinter(w io.Writer, asJSON bool) func(audit.View) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return func(v audit.View) error { return enc.Encode(v) }
	}
	return func(v audit.View) error {
		_, err := fmt.Fprintln(w, viewLine(v))
		return err
	}
}

func viewLine(v audit.View) string {
	when := v.Time.Local().Format("2006-01-02 15:04:05.000")
	if v.Event != nil {
		return fmt.Sprintf("%s  %s  event %s %v", when, v.ID, v.Event.Name, v.Event.Attributes)
	}
	line := fmt.Sprintf("%s  %s  %-8s %s@%s via %s", when, v.ID, v.Status, orDash(v.Identity), orDash(v.Source), orDash(v.Door))
	if o := v.Outcome; o != nil {
		if o.SQLState != "" {
			line += " " + o.SQLState
		}
		if v.Status != audit.Refused {
			line += fmt.Sprintf(" %d rows in %s", o.Rows, o.Duration.Round(10*time.Microsecond))
		}
		if o.Refusal != nil {
			line += ": " + o.Refusal.Message
		}
	}
	if v.Judgement != nil && v.Statement != "" {
		line += "\n    " + strings.Join(strings.Fields(v.Statement), " ")
	}
	return line
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func printReport(w io.Writer, r *audit.Report) error {
	p := &printer{w: w}
	p.line("entries", fmt.Sprintf("%d in %d segments", r.Entries, r.Segments))
	if r.Entries > 0 {
		p.line("range", fmt.Sprintf("%d to %d, %s to %s", r.First, r.Last, r.From.Local().Format(time.RFC3339), r.To.Local().Format(time.RFC3339)))
	}
	if r.UnfinishedCount > 0 {
		p.line("unfinished", fmt.Sprintf("%d requests without an outcome", r.UnfinishedCount))
	}
	if r.SignedTo > 0 {
		p.line("signed", fmt.Sprintf("up to entry %d, %s", r.SignedTo, r.SignedAt.Local().Format(time.RFC3339)))
	}
	p.list("notes", r.Notes)
	for _, problem := range r.Problems {
		p.line("problem", problem.String())
	}
	if r.Dropped > 0 {
		p.line("problem", fmt.Sprintf("and %d more", r.Dropped))
	}
	result := "ok: nothing was changed, removed or cut off"
	if !r.OK() {
		result = "FAILED"
	}
	p.line("result", result)
	return p.err
}

// progressPrinter shows how far a verification has come, on terminals only.
func progressPrinter(f *os.File) func(audit.Progress) {
	if !isatty.IsTerminal(f.Fd()) {
		return nil
	}
	return func(p audit.Progress) {
		percent := 100.0
		if p.Total > 0 {
			percent = 100 * float64(p.Bytes) / float64(p.Total)
		}
		fmt.Fprintf(f, "\r%d entries, %.0f%%", p.Entries, percent)
		if p.Bytes >= p.Total {
			fmt.Fprintln(f)
		}
	}
}
