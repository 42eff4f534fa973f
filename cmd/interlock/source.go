package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"interlock/catalog"
	"interlock/internal/gateway"
)

func sourceCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "source", Short: "Look at the sources"}
	cmd.AddCommand(sourceScanCommand(), sourceCatalogCommand())
	return cmd
}

// scanned is what source scan prints.
type scanned struct {
	Source    string   `json:"source"`
	Catalog   string   `json:"catalog"` // version of the snapshot
	Server    string   `json:"server"`
	Relations int      `json:"relations"`
	Functions int      `json:"functions"`
	Changes   []string `json:"changes"` // since the snapshot that was kept before; none if there was none
	Warnings  []string `json:"warnings"`
}

func sourceScanCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "scan SOURCE",
		Short: "Read a source's catalog now",
		Long:  "Scan reads a source's catalog and keeps it. A running gateway with the same data directory takes it over within a second.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			result, err := scanSource(cmd, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), result)
			}
			p := &printer{w: cmd.OutOrStdout()}
			p.line("source", result.Source)
			p.line("catalog", fmt.Sprintf("%.12s", result.Catalog))
			p.line("server", result.Server)
			p.line("relations", fmt.Sprint(result.Relations))
			p.line("functions", fmt.Sprint(result.Functions))
			p.list("changes", result.Changes)
			p.list("warnings", result.Warnings)
			return p.err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func sourceCatalogCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "catalog SOURCE",
		Short: "Print the newest catalog of a source, for --catalog",
		Long:  "Catalog writes the newest snapshot in the control store to standard output, compressed. With it, explain, access, diff and\npolicy work where there is no control store.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := openStore(cmd)
			if err != nil {
				return err
			}
			defer st.Close()
			snap, err := st.LatestCatalog(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if snap == nil {
				return fmt.Errorf("the control store has no catalog of source %q", args[0])
			}
			content, err := snap.Encode()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(content)
			return err
		},
	}
}

func scanSource(cmd *cobra.Command, id string) (*scanned, error) {
	ctx := cmd.Context()
	cfg, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	st, _, err := gateway.OpenControl(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	rules, _, err := st.CurrentRuleset(ctx)
	if err != nil {
		return nil, err
	}
	if rules == nil || rules.Source(id) == nil {
		return nil, fmt.Errorf("the ruleset in force has no source %q", id)
	}
	up, err := gateway.NewUpstream(cfg)
	if err != nil {
		return nil, err
	}
	defer up.Close()
	before, err := st.LatestCatalog(ctx, id)
	if err != nil {
		return nil, err
	}
	snap, err := up.ScanCatalog(ctx, rules.Source(id))
	if err != nil {
		return nil, fmt.Errorf("scanning source %s: %w", id, err)
	}
	if err := st.SaveCatalog(ctx, snap); err != nil {
		return nil, err
	}
	result := &scanned{Source: id, Catalog: snap.Version, Server: snap.ServerVersion, Relations: len(snap.Relations),
		Functions: len(snap.Functions), Changes: []string{}, Warnings: append([]string{}, snap.Warnings()...)}
	if before != nil {
		result.Changes = append(result.Changes, catalog.Differences(before, snap)...)
	}
	return result, nil
}
