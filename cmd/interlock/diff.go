package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"interlock/sqlgov/policy"
)

// differences is what interlock diff finds.
type differences struct {
	Before   string                `json:"before"` // digests
	After    string                `json:"after"`
	Access   []policy.AccessChange `json:"access"`
	Policies []policy.PolicyChange `json:"policies"`
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
			"source: the columns, tables and functions that each identity gains and loses, and the policies that change. It exits with 1 if\n" +
			"there is a difference.",
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
			if err == nil && len(d.Access)+len(d.Policies) > 0 {
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
	d := &differences{Before: before.Digest, After: after.Digest, Access: []policy.AccessChange{}, Uncatalogued: []string{},
		Policies: policy.ComparePolicies(before.Document, after.Document)}
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
	}
	return d, nil
}

func (d *differences) print(cmd *cobra.Command) error {
	w := cmd.OutOrStdout()
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
	for _, c := range d.Policies {
		fmt.Fprintf(w, "policy %s: %s\n", c.Policy, c.Change)
	}
	for _, id := range d.Uncatalogued {
		fmt.Fprintf(w, "source %s has not been catalogued, so access to it is not compared\n", id)
	}
	if len(d.Access)+len(d.Policies) == 0 {
		fmt.Fprintln(w, "no difference")
	}
	return nil
}

func columnsOf(object string, names []string) string {
	if len(names) == 1 && names[0] == object {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.Join(names, ", "))
}
