package main

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"interlock/internal/config"
	"interlock/sqlgov/policy"
)

// checkReport is what interlock check finds, and what --json prints.
type checkReport struct {
	OK         bool            `json:"ok"`
	Config     string          `json:"config,omitempty"`     // file that was read
	Governance string          `json:"governance,omitempty"` // file that was read
	Digest     string          `json:"digest,omitempty"`     // of the ruleset that the document makes
	Sources    int             `json:"sources"`
	Roles      int             `json:"source_roles"`
	Identities int             `json:"identities"`
	Problems   config.Problems `json:"problems"`
	Warnings   config.Problems `json:"warnings"`
}

func checkCommand() *cobra.Command {
	var configFile, governanceFile, schema string
	var catalogs []string
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check interlock.yaml and the governance document",
		Long: "Reads interlock.yaml and the governance document that it names, follows every reference in them and reports all that is wrong\n" +
			"with file, line and column. Masks are held against the catalogs that are known. Nothing is connected to and nothing is changed. Warnings are likely mistakes; with --strict they count.",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if schema != "" {
				return printSchema(cmd.OutOrStdout(), schema)
			}
			report, err := check(cmd, configFile, governanceFile, catalogs)
			if err != nil {
				return err
			}
			report.OK = len(report.Problems) == 0 && (!strict || len(report.Warnings) == 0)
			if err := report.print(cmd, asJSON); err != nil || report.OK {
				return err
			}
			return fmt.Errorf("%d problems, %d warnings", len(report.Problems), len(report.Warnings))
		},
	}
	cmd.Flags().StringVar(&configFile, "config", "interlock.yaml", "path of interlock.yaml")
	cmd.Flags().StringVar(&governanceFile, "governance", "", "check this governance document, and not the one that interlock.yaml names")
	cmd.Flags().StringVar(&schema, "schema", "", "print the JSON Schema of interlock or governance instead")
	cmd.Flags().StringArrayVar(&catalogs, "catalog", nil, "hold masks against this catalog snapshot, as \"interlock source catalog\" prints it, and not against those in the control store")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	cmd.Flags().BoolVar(&strict, "strict", false, "fail on warnings too")
	return cmd
}

func printSchema(out io.Writer, which string) error {
	text := config.Schema
	switch which {
	case "interlock":
	case "governance":
		text = config.GovernanceSchema
	default:
		return fmt.Errorf("there is no schema %q; there are interlock and governance", which)
	}
	_, err := out.Write(text())
	return err
}

// check reads both files. What is wrong in them is in the report; the error is for a file that cannot be read.
func check(cmd *cobra.Command, configFile, governanceFile string, catalogs []string) (*checkReport, error) {
	report := &checkReport{Problems: config.Problems{}, Warnings: config.Problems{}}
	conf, err := config.Load(configFile)
	if err != nil && !report.absorb(err) {
		return nil, err
	}
	report.Config = configFile
	if conf != nil {
		report.warnOfTLS(configFile, conf)
		if governanceFile == "" {
			governanceFile = conf.Governance
		}
	}
	if governanceFile == "" {
		return report, nil // only interlock.yaml knows where it is
	}
	report.Governance = governanceFile
	doc, warnings, err := config.CheckGovernance(governanceFile)
	if err != nil {
		if !report.absorb(err) {
			return nil, err
		}
		return report, nil
	}
	report.Warnings = append(report.Warnings, warnings...)
	rules, err := policy.Compile(doc)
	if err != nil {
		return nil, err
	}
	if err := report.checkMasks(cmd, doc, conf, catalogs); err != nil {
		return nil, err
	}
	report.Digest, report.Sources, report.Roles, report.Identities = rules.Digest, len(doc.Sources), len(doc.Roles), len(doc.Identities)
	return report, nil
}

// absorb adds the problems that an error is made of. It reports false for any other error.
func (r *checkReport) absorb(err error) bool {
	var problems config.Problems
	if !errors.As(err, &problems) {
		return false
	}
	r.Problems = append(r.Problems, problems...)
	return true
}

// warnOfTLS warns of certificates that a listener could not use. They need not be on the machine that checks.
func (r *checkReport) warnOfTLS(file string, conf *config.Config) {
	for _, l := range []struct {
		name string
		*config.Listener
	}{{"pgwire", &conf.Listeners.PGWire}, {"mcp", &conf.Listeners.MCP}, {"admin", &conf.Listeners.Admin}} {
		if l.TLS == nil || l.Disabled {
			continue
		}
		if _, err := tls.LoadX509KeyPair(l.TLS.Cert, l.TLS.Key); err != nil {
			r.Warnings = append(r.Warnings, config.Problem{File: file, Message: fmt.Sprintf("listener %s: %v", l.name, err)})
		}
	}
}

// print writes the report: as JSON, or problems and warnings a line each to standard error and a summary to standard
// output.
func (r *checkReport) print(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	for _, p := range r.Problems {
		fmt.Fprintln(cmd.ErrOrStderr(), p)
	}
	for _, p := range r.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", p)
	}
	if !r.OK {
		return nil
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s and %s are good: %d sources, %d source roles, %d identities; ruleset %.12s\n",
		r.Config, r.Governance, r.Sources, r.Roles, r.Identities, r.Digest)
	return err
}
