package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"interlock/audit"
	"interlock/internal/config"
	"interlock/internal/gateway"
	"interlock/internal/store"
)

func auditReindexCommand() *cobra.Command {
	var shared bool
	cmd := &cobra.Command{
		Use:   "reindex",
		Short: "Make the search index anew from the log",
		Long: "Reindex throws the search index away and makes it from the log; with --shared, what the index that nodes share has of this\n" +
			"node's log. The gateway must not be running: it keeps its index up by itself.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			log, err := audit.Open(gateway.AuditConfig(cfg)) // keeps a gateway from writing the index meanwhile
			if err != nil {
				return err
			}
			defer log.Close()
			if shared {
				return reindexShared(cmd, cfg)
			}
			return reindex(cmd, cfg)
		},
	}
	cmd.Flags().BoolVar(&shared, "shared", false, "make the part of this node's log in the index that nodes share (audit.shared_index) anew")
	return cmd
}

func reindex(cmd *cobra.Command, cfg *config.Config) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(cfg.DataDir, store.IndexName+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	x, err := store.OpenIndex(cmd.Context(), cfg.DataDir)
	if err != nil {
		return err
	}
	for more := true; more && err == nil; {
		more, err = x.CatchUp(cmd.Context(), gateway.AuditConfig(cfg).Dir, 0)
	}
	return errors.Join(err, x.Close())
}

func reindexShared(cmd *cobra.Command, cfg *config.Config) error {
	part, err := gateway.OpenSharedPart(cfg)
	if err != nil {
		return err
	}
	if part == nil {
		return errors.New("there is no shared audit index: set audit.shared_index in the configuration")
	}
	dir := gateway.AuditConfig(cfg).Dir
	err = part.Reset(cmd.Context(), dir)
	for more := true; more && err == nil; {
		more, err = part.CatchUp(cmd.Context(), dir, 0)
	}
	return errors.Join(err, part.Close())
}

func auditNodesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "List the nodes in the shared index, and how far each has come",
		Long:  "Nodes lists the logs that the index that nodes share (audit.shared_index) knows: up to which entry it has each, up to which\nentry that log was pruned, and when its node has written last.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			x, err := gateway.ReadShared(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			parts, err := x.Parts(cmd.Context())
			if err = errors.Join(err, x.Close()); err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), parts)
			}
			t := newTable(cmd.OutOrStdout(), "NODE", "LOG", "ENTRIES", "PRUNED", "WRITTEN")
			for _, p := range parts {
				t.row(p.Node, p.Log, fmt.Sprint(p.Entries), fmt.Sprint(p.Pruned), p.Written.Local().Format(time.DateTime))
			}
			return t.flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
