package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"interlock/catalog"
	"interlock/internal/config"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

func policyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "policy", Short: "Test a governance document, and replay history against it"}
	cmd.AddCommand(policyTestCommand(), policyReplayCommand())
	return cmd
}

// testResult is what policy test says of one test.
type testResult struct {
	Name     string   `json:"name"`
	File     string   `json:"file"`
	Line     int      `json:"line"`
	OK       bool     `json:"ok"`
	Expect   string   `json:"expect"`
	Verdict  string   `json:"verdict"`
	SQLState string   `json:"sqlstate,omitempty"`
	Message  string   `json:"message,omitempty"` // what the caller would be told
	Problems []string `json:"problems,omitempty"`
}

func policyTestCommand() *cobra.Command {
	var state judging
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test [FILE...]",
		Short: "Run the tests of a governance document",
		Long: "Each test is a request (identity, source, SQL, and if need be door, client, application and time) with the verdict that is\n" +
			"expected, and optionally SQLSTATE and rule. Without files, the tests are in governance.tests.yaml beside governance.yaml.\n" +
			"The document is the one that interlock.yaml names, as it is on the disk; the catalog is the newest in the control store, or\n" +
			"--catalog. Nothing is run on any database. It exits with 1 if a test fails.",
		RunE: func(cmd *cobra.Command, files []string) error {
			if state.governance == "" {
				cfg, err := loadConfig(cmd)
				if err != nil {
					return err
				}
				state.governance = cfg.Governance
			}
			if len(files) == 0 {
				files = []string{config.PolicyTestsOf(state.governance)}
			}
			results, err := testPolicies(cmd, &state, files)
			if err != nil {
				return err
			}
			return printTests(cmd, results, asJSON)
		},
	}
	state.bind(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a test")
	return cmd
}

func testPolicies(cmd *cobra.Command, state *judging, files []string) ([]testResult, error) {
	rules, err := state.rules(cmd)
	if err != nil {
		return nil, err
	}
	indexes := make(map[string]*catalog.Index)
	var results []testResult
	for _, file := range files {
		tests, err := config.LoadPolicyTests(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, usage("there are no tests in %s", file)
		}
		if err != nil {
			return nil, err
		}
		for i := range tests {
			source := tests[i].Source
			if indexes[source] == nil {
				if indexes[source], err = state.index(cmd, source); err != nil {
					return nil, err
				}
			}
			results = append(results, testPolicy(rules, indexes[source], file, &tests[i]))
		}
	}
	return results, nil
}

func testPolicy(rules *policy.Ruleset, index *catalog.Index, file string, t *config.PolicyTest) testResult {
	e := sqlgov.Explain(rules, index, sqlgov.Hypothesis{Source: t.Source, SQL: t.SQL, At: t.At,
		Caller: sqlgov.Caller{Identity: t.Identity, Door: sqlgov.Door(t.Door), ClientAddr: t.Client, Application: t.Application}})
	r := testResult{Name: t.Name, File: file, Line: t.Line, Expect: string(t.Expect), Verdict: e.Verdict}
	if r.Name == "" {
		r.Name = t.Identity + ": " + t.SQL
	}
	if e.Refusal != nil {
		r.SQLState, r.Message = e.Refusal.SQLState, e.Refusal.Message
	}
	if e.Verdict != string(t.Expect) {
		r.Problems = append(r.Problems, fmt.Sprintf("the verdict is %s, not %s", e.Verdict, t.Expect))
	}
	if t.SQLState != "" && r.SQLState != t.SQLState {
		r.Problems = append(r.Problems, fmt.Sprintf("the SQLSTATE is %q, not %q", r.SQLState, t.SQLState))
	}
	if t.Rule != "" && !slices.ContainsFunc(e.Reasons, func(reason policy.Reason) bool {
		return reason.Role == t.Rule || reason.Policy != nil && reason.Policy.Policy == t.Rule
	}) {
		r.Problems = append(r.Problems, fmt.Sprintf("rule %s took no part in it", t.Rule))
	}
	r.OK = len(r.Problems) == 0
	return r
}

func printTests(cmd *cobra.Command, results []testResult, asJSON bool) error {
	failed := 0
	for _, r := range results {
		if !r.OK {
			failed++
		}
		if asJSON {
			if err := printJSON(cmd.OutOrStdout(), r); err != nil {
				return err
			}
			continue
		}
		if r.OK {
			continue
		}
		for _, problem := range r.Problems {
			fmt.Fprintf(cmd.OutOrStdout(), "%s:%d: %s: %s\n", filepath.Base(r.File), r.Line, r.Name, problem)
		}
		if r.Message != "" {
			fmt.Fprintf(cmd.OutOrStdout(), "    %s %s\n", r.SQLState, r.Message)
		}
	}
	if !asJSON {
		fmt.Fprintf(cmd.OutOrStdout(), "%d tests, %d failed\n", len(results), failed)
	}
	if failed > 0 {
		return exitStatus(exitFailed)
	}
	return nil
}
