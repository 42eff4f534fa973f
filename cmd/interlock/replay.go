package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"interlock/audit"
	"interlock/catalog"
	"interlock/internal/gateway"
	"interlock/internal/store"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

// replayReport is what policy replay finds. Changes are in the order in which they should be read.
type replayReport struct {
	Candidate string         `json:"candidate"` // digest
	Since     time.Time      `json:"since"`
	Records   int            `json:"records"`  // requests with a statement
	Replayed  int            `json:"replayed"` // of these
	Gaps      []replayGap    `json:"gaps"`
	Unchanged int            `json:"unchanged"`
	Changes   []replayChange `json:"changes"`
}

// replayGap counts what could not be replayed, by reason.
type replayGap struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

// replayChange is one statement of one identity that would be decided otherwise.
type replayChange struct {
	From      string   `json:"from"`
	To        string   `json:"to"`
	Count     int      `json:"count"`
	Identity  string   `json:"identity"`
	Source    string   `json:"source"`
	Statement string   `json:"statement"` // with literals replaced
	First     string   `json:"first"`     // decision ids
	Last      string   `json:"last"`
	Why       []string `json:"why"`
}

func policyReplayCommand() *cobra.Command {
	var f auditFilter
	var candidate string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replay --candidate FILE",
		Short: "Judge the history again by another governance document",
		Long: "Replay judges the requests in the audit log again, by a candidate document, from the facts on record: each at its own time,\n" +
			"against the catalog of then if it is still kept. It reports how much could be replayed, and which decisions would change:\n" +
			"first what is allowed now and would be refused. It exits with 1 if any would.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if candidate == "" {
				return usage("--candidate is required")
			}
			report, err := replay(cmd, &f, candidate)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), report)
			} else {
				err = report.print(cmd.OutOrStdout())
			}
			if err == nil && len(report.Changes) > 0 {
				err = exitStatus(exitFailed)
			}
			return err
		},
	}
	f.bind(cmd)
	cmd.Flags().Lookup("since").DefValue = "30d"
	f.since = "30d"
	cmd.Flags().StringVar(&candidate, "candidate", "", "governance document to judge by")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

// replayer collects the report.
type replayer struct {
	rules    *policy.Ruleset
	store    *store.Store
	catalogs map[string]*catalog.Index
	report   *replayReport
	gaps     map[string]int
	changes  map[string]*replayChange
}

func replay(cmd *cobra.Command, f *auditFilter, candidate string) (*replayReport, error) {
	filter, err := f.filter(nil)
	if err != nil {
		return nil, err
	}
	filter.OldestFirst = true
	rules, err := compileFile(candidate)
	if err != nil {
		return nil, err
	}
	cfg, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	st, err := openStore(cmd)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	r := &replayer{rules: rules, store: st, catalogs: map[string]*catalog.Index{}, gaps: map[string]int{}, changes: map[string]*replayChange{},
		report: &replayReport{Candidate: rules.Digest, Since: filter.Since}}
	var failure error
	err = audit.Search(cmd.Context(), gateway.AuditConfig(cfg).Dir, filter, func(v audit.View) bool {
		failure = r.take(cmd.Context(), &v)
		return failure == nil
	})
	if err == nil {
		err = failure
	}
	return r.finish(), err
}

func (r *replayer) take(ctx context.Context, v *audit.View) error {
	if v.Judgement == nil || v.Statement == "" {
		return nil // nothing was asked for: a failed login, a look at the catalog
	}
	r.report.Records++
	index, err := r.catalog(ctx, v)
	if err != nil {
		return err
	}
	again := sqlgov.Replay(r.rules, index, v)
	if again.Gap != "" {
		r.gaps[again.Gap]++
		return nil
	}
	r.report.Replayed++
	if string(again.Verdict) == v.Verdict {
		r.report.Unchanged++
		return nil
	}
	r.note(v, &again)
	return nil
}

// catalog is the one that a record was judged against, or else the newest of its source.
func (r *replayer) catalog(ctx context.Context, v *audit.View) (*catalog.Index, error) {
	key := v.Source + " " + v.Catalog
	if index, known := r.catalogs[key]; known {
		return index, nil
	}
	snap, err := r.store.Catalog(ctx, v.Catalog)
	if err == nil && snap == nil {
		snap, err = r.store.LatestCatalog(ctx, v.Source)
	}
	if err != nil {
		return nil, err
	}
	r.catalogs[key] = nil
	if snap != nil {
		r.catalogs[key] = catalog.NewIndex(snap)
	}
	return r.catalogs[key], nil
}

func (r *replayer) note(v *audit.View, again *sqlgov.Replayed) {
	key := strings.Join([]string{v.Identity, v.Source, v.Verdict, string(again.Verdict), v.Statement}, "\x00")
	c := r.changes[key]
	if c == nil {
		c = &replayChange{From: v.Verdict, To: string(again.Verdict), Identity: v.Identity, Source: v.Source, Statement: v.Statement, First: v.ID, Why: []string{}}
		for i := range again.Reasons {
			c.Why = append(c.Why, reasonLine(&again.Reasons[i]))
		}
		r.changes[key] = c
	}
	c.Count++
	c.Last = v.ID
}

func (r *replayer) finish() *replayReport {
	r.report.Gaps, r.report.Changes = []replayGap{}, []replayChange{}
	for reason, n := range r.gaps {
		r.report.Gaps = append(r.report.Gaps, replayGap{reason, n})
	}
	slices.SortFunc(r.report.Gaps, func(a, b replayGap) int { return cmp.Or(b.Count-a.Count, cmp.Compare(a.Reason, b.Reason)) })
	for _, c := range r.changes {
		r.report.Changes = append(r.report.Changes, *c)
	}
	slices.SortFunc(r.report.Changes, func(a, b replayChange) int {
		return cmp.Or(a.rank()-b.rank(), b.Count-a.Count, cmp.Compare(a.First, b.First))
	})
	return r.report
}

// rank puts what people lose first, then what they gain, then what waits or no longer waits.
func (c *replayChange) rank() int {
	return slices.Index([]string{"allow refuse", "refuse allow", "allow hold", "hold allow", "refuse hold", "hold refuse"}, c.From+" "+c.To)
}

func (r *replayReport) print(w io.Writer) error {
	p := &printer{w: w}
	percent := 100.0
	if r.Records > 0 {
		percent = 100 * float64(r.Replayed) / float64(r.Records)
	}
	p.line("coverage", fmt.Sprintf("%d of %d requests replayed (%.1f%%)", r.Replayed, r.Records, percent))
	for _, g := range r.Gaps {
		p.line("gap", fmt.Sprintf("%d not replayable: %s", g.Count, g.Reason))
	}
	p.line("unchanged", fmt.Sprint(r.Unchanged))
	for _, c := range r.Changes {
		p.line(c.From+" to "+c.To, fmt.Sprintf("%dx %s@%s %s (decision %s)\n%s", c.Count, c.Identity, c.Source,
			strings.Join(strings.Fields(c.Statement), " "), c.Last, strings.Join(c.Why, "\n")))
	}
	if len(r.Changes) == 0 {
		p.line("result", "no decision changes")
	}
	return p.err
}
