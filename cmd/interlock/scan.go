package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"interlock/audit"
	"interlock/catalog"
	"interlock/internal/gateway"
	"interlock/internal/upstream"
	"interlock/sqlgov"
	"interlock/sqlgov/labels"
	"interlock/sqlgov/policy"
)

// proposals is what scan finds, and what --json prints.
type proposals struct {
	Source  string `json:"source"`
	Catalog string `json:"catalog"` // version of the snapshot
	Tables  int    `json:"tables"`  // that were looked at
	Columns int    `json:"columns"`
	// Unsampled are tables whose values were to be looked at and could not, with the reason.
	Unsampled []unsampled        `json:"unsampled"`
	Proposals []*labels.Proposal `json:"proposals"` // for columns without a label
	Labelled  int                `json:"labelled"`  // columns that look sensitive and have a label
	// Unguarded are the columns that look sensitive and have neither label nor mask.
	Unguarded []string `json:"unguarded"`
}

type unsampled struct {
	Table string `json:"table"`
	Why   string `json:"why"`
}

// scanOptions are the flags of scan.
type scanOptions struct {
	judging
	rows      int
	timeout   time.Duration
	noSamples bool
	asJSON    bool
	strict    bool
}

func scanCommand() *cobra.Command {
	var o scanOptions
	cmd := &cobra.Command{
		Use:   "scan SOURCE",
		Short: "Propose labels for the columns of a source",
		Long: "Scan looks at the names, types and comments of columns and at some of their values, and proposes labels for those that seem to hold\n" +
			"personal data or secrets. It prints a piece of YAML for the governance document, and which of the columns have neither label\n" +
			"nor mask; it applies nothing. Values are read by the source's own login in one read-only query a table, at most --rows of them,\n" +
			"and are counted: none is kept or shown. The audit log says that they were read.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.rows < 1 || o.rows > 100_000 || o.timeout < time.Millisecond || o.timeout > time.Hour {
				return usage("--rows is 1 to 100000, --timeout 1ms to 1h")
			}
			found, err := o.propose(cmd, args[0])
			if err != nil {
				return err
			}
			if o.asJSON {
				err = printJSON(cmd.OutOrStdout(), found)
			} else {
				err = found.print(cmd.OutOrStdout())
			}
			if err == nil && o.strict && len(found.Unguarded) > 0 {
				err = exitStatus(exitFailed)
			}
			return err
		},
	}
	o.bind(cmd)
	cmd.Flags().IntVar(&o.rows, "rows", 1000, "look at the values of at most so many rows of a table")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 5*time.Second, "give up the values of a table after this time")
	cmd.Flags().BoolVar(&o.noSamples, "no-samples", false, "connect to nothing: look at names, types and comments in the newest catalog only")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "exit with 1 if a column that looks sensitive has neither label nor mask")
	return cmd
}

func (o *scanOptions) propose(cmd *cobra.Command, source string) (*proposals, error) {
	rules, index, err := o.load(cmd, source)
	if err != nil {
		return nil, err
	}
	src := rules.Source(source)
	if src == nil {
		return nil, fmt.Errorf("the ruleset has no source %q", source)
	}
	s := &scanning{cmd: cmd, options: o, src: src, rules: rules, index: index}
	if !o.noSamples {
		cfg, err := loadConfig(cmd)
		if err != nil {
			return nil, err
		}
		if s.up, err = gateway.NewUpstream(cfg); err != nil {
			return nil, err
		}
		defer s.up.Close()
		if o.catalog == "" { // the newest of all
			snap, err := s.up.ScanCatalog(cmd.Context(), src)
			if err != nil {
				return nil, fmt.Errorf("scanning source %s: %w", source, err)
			}
			s.index = catalog.NewIndex(snap)
		}
	}
	if s.index == nil {
		return nil, fmt.Errorf("the control store has no catalog of source %q", source)
	}
	if s.up != nil {
		if err := s.record(); err != nil {
			return nil, err
		}
	}
	return s.run()
}

// scanning is a scan under way.
type scanning struct {
	cmd     *cobra.Command
	options *scanOptions
	src     *policy.SourceSpec
	rules   *policy.Ruleset
	index   *catalog.Index
	up      *upstream.Pool // nil if no values are looked at
	found   proposals
}

// record brings into the audit log that values are about to be looked at.
func (s *scanning) record() error {
	cfg, err := loadConfig(s.cmd)
	if err != nil {
		return err
	}
	_, err = gateway.RecordAct(s.cmd.Context(), cfg, audit.SourceSampled, map[string]string{"source": s.src.ID,
		"catalog": s.index.Snapshot.Version, "rows": strconv.Itoa(s.options.rows)})
	if err != nil {
		return fmt.Errorf("values are not looked at without a record: %w", err)
	}
	return nil
}

func (s *scanning) run() (*proposals, error) {
	s.found = proposals{Source: s.src.ID, Catalog: s.index.Snapshot.Version, Unsampled: []unsampled{}, Proposals: []*labels.Proposal{}, Unguarded: []string{}}
	relations := slices.DeleteFunc(slices.Clone(s.index.Snapshot.Relations), func(r catalog.Relation) bool { return !labels.Scanned(&r) })
	slices.SortFunc(relations, func(a, b catalog.Relation) int {
		return strings.Compare(a.Schema+"."+a.Name, b.Schema+"."+b.Name)
	})
	progress := scanProgress(os.Stderr, len(relations))
	for i := range relations {
		progress(i)
		if err := s.table(&relations[i]); err != nil {
			return nil, err
		}
	}
	progress(len(relations))
	s.found.Tables = len(relations)
	return &s.found, nil
}

// scanProgress shows how many tables have been looked at, on terminals only.
func scanProgress(f *os.File, all int) func(done int) {
	if !isatty.IsTerminal(f.Fd()) {
		return func(int) {}
	}
	return func(done int) {
		fmt.Fprintf(f, "\r%d of %d tables", done, all)
		if done == all {
			fmt.Fprintln(f)
		}
	}
}

func (s *scanning) table(rel *catalog.Relation) error {
	samples, err := s.sample(rel)
	if err != nil {
		return err
	}
	for i := range rel.Columns {
		c := &rel.Columns[i]
		s.found.Columns++
		p := labels.Propose(s.index, rel, c, &samples[i])
		if p == nil {
			continue
		}
		g := s.rules.Guard(s.index, s.src.ID, rel, c.Name)
		p.Labels, p.Masks, p.Readers = append([]string{}, g.Labels...), append([]string{}, g.Masks...), append([]string{}, g.Readers...)
		switch {
		case len(p.Labels) > 0:
			s.found.Labelled++
			continue
		case p.Label == "" && (g.Content == policy.ContentMask || g.Content == policy.ContentReport):
			continue
		case p.Unguarded():
			s.found.Unguarded = append(s.found.Unguarded, p.Column)
		}
		s.found.Proposals = append(s.found.Proposals, p)
	}
	return nil
}

// sample looks at values of a table. There is a Sample for each of its columns; it is empty if there are no values.
func (s *scanning) sample(rel *catalog.Relation) ([]labels.Sample, error) {
	samples := make([]labels.Sample, len(rel.Columns))
	var names []string
	var of []int
	for i := range rel.Columns {
		if labels.Sampled(s.index, &rel.Columns[i]) {
			names, of = append(names, rel.Columns[i].Name), append(of, i)
		}
	}
	if s.up == nil || len(names) == 0 {
		return samples, nil
	}
	request := upstream.SampleRequest{Relation: rel, Columns: names, Rows: s.options.rows, Timeout: s.options.timeout}
	err := s.up.Sample(s.cmd.Context(), s.src, request, func(values [][]byte) {
		for i, v := range values {
			samples[of[i]].Add(v)
		}
	})
	if err != nil && s.cmd.Context().Err() != nil {
		return nil, s.cmd.Context().Err()
	}
	if err != nil {
		s.found.Unsampled = append(s.found.Unsampled, unsampled{rel.Schema + "." + rel.Name, whyUnsampled(err)})
	}
	return samples, nil
}

// whyUnsampled says why values could not be read. The server's own words could quote one.
func whyUnsampled(err error) string {
	var fromServer *sqlgov.UpstreamError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "it took too long"
	case !errors.As(err, &fromServer):
		return "the connection failed"
	case fromServer.SQLState == "57014":
		return "it took too long"
	case fromServer.SQLState == "42501":
		return "the source's login may not read it"
	}
	return "the server answered " + fromServer.SQLState
}
