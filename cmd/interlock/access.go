package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"interlock/sqlgov"
)

func accessCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "access", Short: "See who may do what"}
	cmd.AddCommand(accessWhoCommand())
	return cmd
}

func accessWhoCommand() *cobra.Command {
	var state judging
	var source string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "who RESOURCE",
		Short: "List who reaches a table, column or function",
		Long: "Who lists the identities whose source roles let them read, change or call a resource (schema.table, schema.table.column or\n" +
			"schema.function), directly or through a view that shows it, with the role that allows it and the policies that a statement that\n" +
			"does nothing else would meet. It exits with 1 if nobody does.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := who(cmd, &state, source, args[0])
			if err != nil {
				return err
			}
			for i := range found {
				if asJSON {
					err = printJSON(cmd.OutOrStdout(), &found[i])
				} else {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), accessorLine(&found[i]))
				}
				if err != nil {
					return err
				}
			}
			if len(found) == 0 {
				return exitStatus(exitFailed)
			}
			return nil
		},
	}
	state.bind(cmd)
	cmd.Flags().StringVar(&source, "source", "", "which source; needed if there are several")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}

func who(cmd *cobra.Command, state *judging, source, resource string) ([]sqlgov.Accessor, error) {
	rules, err := state.rules(cmd)
	if err != nil {
		return nil, err
	}
	if source == "" {
		if len(rules.Document.Sources) != 1 {
			return nil, usage("--source is required: there are %d", len(rules.Document.Sources))
		}
		source = rules.Document.Sources[0].ID
	}
	if rules.Source(source) == nil {
		return nil, fmt.Errorf("the ruleset has no source %q", source)
	}
	index, err := state.index(cmd, source)
	if err != nil {
		return nil, err
	}
	if index == nil {
		return nil, fmt.Errorf("the control store has no catalog of source %q", source)
	}
	return sqlgov.WhoCan(rules, index, source, resource)
}

func accessorLine(a *sqlgov.Accessor) string {
	line := fmt.Sprintf("%-8s %-16s %s on %s", a.Verdict, a.Identity, a.Action, a.Object)
	if a.View {
		line += " (a view)"
	}
	if a.Role != "" {
		line += fmt.Sprintf(": role %s allows %s, line %d", a.Role, a.Pattern, a.Line)
	}
	if a.Mask != "" {
		line += ", masked by " + a.Mask
	}
	for i := range a.Policies {
		line += "\n         " + policyLine(&a.Policies[i])
	}
	if a.Depends {
		line += "\n         and policies that depend on time or client"
	}
	return line
}
