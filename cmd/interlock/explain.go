package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"interlock/audit"
	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

func explainCommand() *cobra.Command {
	var f auditFilter
	var asJSON bool
	var h hypothesis
	cmd := &cobra.Command{
		Use:   "explain [DECISION-ID | --as IDENTITY --source SOURCE SQL]",
		Short: "Explain a recorded decision, or what would be decided",
		Long: "With a decision id, or with filters, explain shows recorded decisions with every reason. With --as it judges a\n" +
			"statement offline, step by step, from the ruleset and the catalog in the control store, or from --governance and --catalog;\n" +
			"\"-\" reads the statement from standard input. It exits with 1 if that statement would be refused or held.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if h.as != "" {
				h.source, h.door, h.client, h.application = f.Source, f.Door, f.Client, f.Application
				return explainStatement(cmd, &h, args, asJSON)
			}
			return explainRecorded(cmd, &f, args, asJSON)
		},
	}
	f.bind(cmd)
	h.bind(cmd)
	cmd.Flags().IntVar(&f.Limit, "limit", 1, "explain at most this many recorded decisions")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a decision")
	return cmd
}

func explainRecorded(cmd *cobra.Command, f *auditFilter, args []string, asJSON bool) error {
	filter, err := f.filter(args)
	if err != nil {
		return err
	}
	found := 0
	var failure error
	err = (&logFlags{}).search(cmd, filter, func(v audit.View) bool {
		found++
		if asJSON {
			failure = printJSON(cmd.OutOrStdout(), v)
		} else {
			failure = printView(cmd.OutOrStdout(), &v)
		}
		return failure == nil
	})
	if err == nil && failure == nil && found == 0 {
		return errors.New("the audit log has no such decision")
	}
	return errors.Join(err, failure)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func printView(w io.Writer, v *audit.View) error {
	p := &printer{w: w}
	p.line("decision", v.ID)
	p.line("time", v.Time.Local().Format("2006-01-02 15:04:05.000 MST"))
	p.line("identity", v.Identity)
	p.line("door", strings.TrimSpace(v.Door+" "+v.ClientAddr+" "+v.Application))
	p.line("source", v.Source)
	if j := v.Judgement; j != nil {
		p.line("ruleset", fmt.Sprintf("%d (%.12s)", j.Ruleset, j.RulesetDigest))
		p.line("catalog", fmt.Sprintf("%.12s", j.Catalog))
		p.line("statement", j.Statement)
		p.line("kinds", strings.Join(j.Kinds, ", "))
		p.list("reads", j.Reads)
		p.list("writes", j.Writes)
		p.list("functions", j.Functions)
		p.line("verdict", j.Verdict)
		var reasons []policy.Reason
		if len(j.Reasons) > 0 {
			if err := json.Unmarshal(j.Reasons, &reasons); err != nil {
				return fmt.Errorf("reading the reasons of %s: %w", v.ID, err)
			}
		}
		p.reasons(reasons)
	}
	if o := v.Outcome; o != nil {
		p.line("outcome", strings.TrimSpace(fmt.Sprintf("%s %s", v.Status, o.SQLState)))
		p.line("rows", fmt.Sprintf("%d (%d bytes) in %s", o.Rows, o.Bytes, o.Duration))
		if o.Refusal != nil {
			p.refusal(o.Refusal.Message, o.Refusal.Detail, o.Refusal.Hint)
		}
	} else {
		p.line("outcome", string(v.Status))
	}
	return p.err
}

// printer prints a name and a value a line and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(name, value string) {
	if value != "" && p.err == nil {
		_, p.err = fmt.Fprintf(p.w, "%-10s %s\n", name, strings.ReplaceAll(value, "\n", "\n           "))
	}
}

func (p *printer) list(name string, values []string) { p.line(name, strings.Join(values, "\n")) }

func (p *printer) refusal(message, detail, hint string) {
	p.line("message", message)
	p.line("detail", detail)
	p.line("hint", hint)
}

func (p *printer) reasons(reasons []policy.Reason) {
	lines := make([]string, len(reasons))
	for i := range reasons {
		lines[i] = reasonLine(&reasons[i])
	}
	p.list("reasons", lines)
}

func reasonLine(r *policy.Reason) string {
	mark := "no "
	if r.Granted {
		mark = "yes"
	}
	line := mark
	if m := r.Policy; m != nil {
		return line + " " + policyLine(m)
	}
	if n := r.Need; n.Action != "" {
		line += fmt.Sprintf(" %s on %s", n.Action, strings.Trim(n.Schema+"."+n.Object+"."+n.Column, "."))
	}
	switch {
	case r.Mask != "" && r.Note != "":
		line += fmt.Sprintf(": mask %s, %s, line %d", r.Mask, r.Note, r.Line)
	case r.Mask != "":
		line += fmt.Sprintf(": mask %s of role %s, line %d", r.Mask, r.Role, r.Line)
	case r.Note != "":
		line += ": " + r.Note
	case r.Role != "":
		line += fmt.Sprintf(": %s %s in role %s, line %d", r.Effect, r.Pattern, r.Role, r.Line)
	default:
		line += ": no permission matches"
	}
	return line
}

// hypothesis is the command line of a request that could be made.
type hypothesis struct {
	as, source, door, client, application, at string
	state                                     judging
}

func (h *hypothesis) bind(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&h.as, "as", "", "judge the statement for this identity")
	fl.StringVar(&h.at, "at", "", "with --as: when the statement comes; default now")
	h.state.bind(cmd)
}

func explainStatement(cmd *cobra.Command, h *hypothesis, args []string, asJSON bool) error {
	if h.source == "" || len(args) != 1 {
		return usage("explain --as needs --source and one statement")
	}
	at, err := parseWhen(h.at, time.Now())
	if err != nil {
		return usage("--at: %v", err)
	}
	sql, err := statementText(args[0])
	if err != nil {
		return err
	}
	rules, index, err := h.state.load(cmd, h.source)
	if err != nil {
		return err
	}
	e := sqlgov.Explain(rules, index, sqlgov.Hypothesis{SQL: sql, Source: h.source, At: at,
		Caller: sqlgov.Caller{Identity: h.as, Door: sqlgov.Door(h.door), ClientAddr: h.client, Application: h.application}})
	if asJSON {
		err = printJSON(cmd.OutOrStdout(), e)
	} else {
		err = printExplanation(cmd.OutOrStdout(), e)
	}
	if err == nil && e.Refusal != nil {
		err = exitStatus(exitFailed)
	}
	return err
}

func statementText(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	b, err := io.ReadAll(io.LimitReader(os.Stdin, 64<<20))
	if err != nil {
		return "", fmt.Errorf("reading the statement: %w", err)
	}
	return string(b), nil
}

func printExplanation(w io.Writer, e *sqlgov.Explanation) error {
	p := &printer{w: w}
	for _, s := range e.Steps {
		result := "passed"
		if !s.Passed {
			result = map[string]string{"hold": "held", "refuse": "refused"}[e.Verdict]
		}
		p.line("step", s.Name+": "+result)
	}
	p.line("verdict", e.Verdict)
	p.line("statement", e.Statement)
	p.list("reads", e.Reads)
	p.list("writes", e.Writes)
	p.list("functions", e.Functions)
	p.reasons(e.Reasons)
	if r := e.Refusal; r != nil {
		p.line("sqlstate", r.SQLState)
		p.refusal(r.Message, r.Detail, r.Hint)
	}
	if b, err := json.Marshal(e.Obligations); err == nil && e.Refusal == nil && string(b) != "{}" {
		p.line("obliges", string(b))
	}
	for _, r := range e.Remedies {
		p.line("remedy", remedyLine(&r))
	}
	return p.err
}

// policyLine is a policy that was met: policy no-bulk (governance.yaml:40) refuse [dry-run].
func policyLine(m *policy.Match) string {
	line := fmt.Sprintf("policy %s (%s:%d): %s", m.Policy, filepath.Base(m.File), m.Line, strings.Join(m.Effects, ", "))
	if m.Error != "" {
		line += "; not evaluated: " + m.Error
	}
	if m.State == policy.DryRun {
		line += " [dry-run, not enforced]"
	}
	return line
}

func remedyLine(r *policy.Remedy) string {
	switch r.Change {
	case "except":
		return fmt.Sprintf("make policy %s not hold for this, line %d", r.Policy, r.Line)
	case "allow":
		return fmt.Sprintf("allow %s on %s in source role %s", r.Action, r.Resource, r.Role)
	}
	return fmt.Sprintf("remove the deny of %s on %s in source role %s, line %d", r.Action, r.Resource, r.Role, r.Line)
}
