package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"interlock/sqlgov"
)

func maskCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "mask", Short: "See what masks do"}
	cmd.AddCommand(maskPreviewCommand())
	return cmd
}

func maskPreviewCommand() *cobra.Command {
	var state judging
	var as, source, door string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "preview SCHEMA.TABLE",
		Short: "Show how an identity sees the columns of a table",
		Long: "Preview lists the columns of a table or view, and for each how an identity would see it: as it is, masked and by which mask, or not at\n" +
			"all, with the line of the governance document that says so. No database is asked, so there are no values.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if as == "" || source == "" {
				return usage("--as and --source are required")
			}
			rules, index, err := state.load(cmd, source)
			if err != nil {
				return err
			}
			if index == nil {
				return fmt.Errorf("the control store has no catalog of source %q", source)
			}
			columns, err := sqlgov.PreviewMasks(rules, index, sqlgov.Hypothesis{Caller: sqlgov.Caller{Identity: as, Door: sqlgov.Door(door)}, Source: source}, args[0])
			if err != nil {
				return err
			}
			for i := range columns {
				if asJSON {
					err = printJSON(cmd.OutOrStdout(), &columns[i])
				} else {
					_, err = fmt.Fprintln(cmd.OutOrStdout(), previewLine(&columns[i]))
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	state.bind(cmd)
	cmd.Flags().StringVar(&as, "as", "", "identity that asks")
	cmd.Flags().StringVar(&source, "source", "", "source that has the table")
	cmd.Flags().StringVar(&door, "door", string(sqlgov.PGWire), "how the request comes in: pgwire or mcp")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}

func previewLine(c *sqlgov.PreviewedColumn) string {
	shown := c.Shown
	if c.Mask != "" {
		shown += " " + c.Mask
	}
	line := fmt.Sprintf("%-20s %-24s %-16s", c.Column, c.Type, shown)
	for i := range c.Reasons {
		line += " " + strings.TrimPrefix(reasonLine(&c.Reasons[i]), "yes ")
		if i < len(c.Reasons)-1 {
			line += ";"
		}
	}
	return strings.TrimRight(line, " ")
}
