package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"interlock/sqlgov"
	"interlock/sqlgov/policy"
)

// differences is what interlock diff finds.
type differences struct {
	Before string                `json:"before"` // digests
	After  string                `json:"after"`
	Access []policy.AccessChange `json:"access"`
	// Masks, Content and Labels begin with what shows more than before.
	Masks    []sqlgov.MaskChange    `json:"masks"`
	Content  []policy.ContentChange `json:"content"`
	Labels   []policy.LabelChange   `json:"labels"`
	Policies []policy.PolicyChange  `json:"policies"`
	// Uncatalogued are sources whose tables are not known, so that nothing can be said of access to them.
	Uncatalogued []string `json:"uncatalogued"`
}

func diffCommand() *cobra.Command {
	var state judging
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff [OLD] NEW",
		Short: "Show how a new governance document changes who may do what",
		Long: "Diff compares two governance documents, or one with the ruleset in force, by what they allow over the newest catalog of each\n" +
			"source: columns that lose their mask, first of all; the columns, tables and functions that each identity gains and loses; masks,\n" +
			"labels, content detection and policies that change. It exits with 1 if there is a difference.",
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := compareDocuments(cmd, &state, args)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd.OutOrStdout(), d)
			} else {
				err = d.print(cmd)
			}
			if err == nil && d.any() {
				err = exitStatus(exitFailed)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&state.catalog, "catalog", "", "compare over this catalog snapshot, and not over the newest in the control store")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func compareDocuments(cmd *cobra.Command, state *judging, args []string) (*differences, error) {
	if len(args) == 2 {
		state.governance = args[0]
	}
	before, err := state.rules(cmd)
	if err != nil {
		return nil, err
	}
	after, err := compileFile(args[len(args)-1])
	if err != nil {
		return nil, err
	}
	d := &differences{Before: before.Digest, After: after.Digest, Access: []policy.AccessChange{}, Masks: []sqlgov.MaskChange{}, Content: []policy.ContentChange{},
		Uncatalogued: []string{}, Policies: policy.ComparePolicies(before.Document, after.Document), Labels: policy.CompareLabels(before.Document, after.Document)}
	var ids []string
	for _, s := range append(slices.Clone(before.Document.Sources), after.Document.Sources...) {
		if !slices.Contains(ids, s.ID) {
			ids = append(ids, s.ID)
		}
	}
	for _, id := range ids {
		index, err := state.index(cmd, id)
		if err != nil {
			return nil, err
		}
		if index == nil {
			d.Uncatalogued = append(d.Uncatalogued, id)
			continue
		}
		d.Access = append(d.Access, policy.CompareAccess(before, after, id, index)...)
		d.Masks = append(d.Masks, sqlgov.CompareMasks(before, after, id, index)...)
		d.Content = append(d.Content, policy.CompareContent(before, after, id, index)...)
	}
	return d, nil
}

// any reports if there is a difference.
func (d *differences) any() bool {
	return len(d.Access)+len(d.Masks)+len(d.Content)+len(d.Labels)+len(d.Policies) > 0
}

func (d *differences) print(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
	d.printMasks(w, func(c *sqlgov.MaskChange) bool { return c.Change == sqlgov.Unmasked })
	d.printContent(w, true)
	for _, c := range d.Access {
		for _, side := range []struct {
			mark  string
			names []string
		}{{"-", c.Lost}, {"+", c.Gained}} {
			if len(side.names) > 0 {
				fmt.Fprintf(w, "%s %s@%s %s on %s%s\n", side.mark, c.Identity, c.Source, c.Action, c.Object, columnsOf(c.Object, side.names))
			}
		}
	}
	d.printMasks(w, func(c *sqlgov.MaskChange) bool { return c.Change != sqlgov.Unmasked })
	d.printContent(w, false)
	for _, c := range d.Labels {
		for _, side := range []struct {
			mark  string
			names []string
		}{{"-", c.Lost}, {"+", c.Gained}} {
			if len(side.names) > 0 {
				fmt.Fprintf(w, "%s label %s on %s\n", side.mark, c.Label, strings.Join(side.names, ", "))
			}
		}
	}
	for _, c := range d.Policies {
		fmt.Fprintf(w, "policy %s: %s\n", c.Policy, c.Change)
	}
	for _, id := range d.Uncatalogued {
		fmt.Fprintf(w, "source %s has not been catalogued, so access to it is not compared\n", id)
	}
	if !d.any() {
		fmt.Fprintln(w, "no difference")
	}
	return nil
}

func (d *differences) printMasks(w io.Writer, which func(*sqlgov.MaskChange) bool) {
	for i := range d.Masks {
		if c := &d.Masks[i]; which(c) {
			fmt.Fprintln(w, maskLine(c))
		}
	}
}

func maskLine(c *sqlgov.MaskChange) string {
	line := fmt.Sprintf("%s@%s %s (%s)", c.Identity, c.Source, c.Object, strings.Join(c.Columns, ", "))
	switch {
	case c.Change == sqlgov.Unmasked:
		line = fmt.Sprintf("! %s: shown as it is, was masked by %s", line, c.Before)
	case c.Change == sqlgov.NewlyMasked:
		line = fmt.Sprintf("* %s: masked by %s, was shown as it is", line, c.After)
	case c.Before == c.After:
		line = fmt.Sprintf("* %s: masked by %s, which has changed", line, c.After)
	default:
		line = fmt.Sprintf("* %s: masked by %s, was by %s", line, c.After, c.Before)
	}
	if c.Door != "" {
		line += fmt.Sprintf(", at door %s", c.Door)
	}
	if c.Depends {
		line += "; policies on time or client decide as well"
	}
	return line
}

// printContent prints the changes of content detection that show more than before, or the others.
func (d *differences) printContent(w io.Writer, uncovered bool) {
	for _, c := range d.Content {
		if c.Uncovered != uncovered {
			continue
		}
		mark := "*"
		if c.Uncovered {
			mark = "!"
		}
		fmt.Fprintf(w, "%s content on %s in %s (%s): %s, was %s\n", mark, c.Source, c.Object, strings.Join(c.Columns, ", "), c.After, c.Before)
	}
}

func columnsOf(object string, names []string) string {
	if len(names) == 1 && names[0] == object {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.Join(names, ", "))
}
