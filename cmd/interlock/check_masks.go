package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"interlock/catalog"
	"interlock/internal/config"
	"interlock/internal/gateway"
	"interlock/sqlgov/policy"
)

// checkMasks holds the masks of a document against the catalogs that are known: those of the files, and of the control
// store if there is one.
func (r *checkReport) checkMasks(cmd *cobra.Command, doc *policy.Document, conf *config.Config, files []string) error {
	if len(doc.Masks) == 0 {
		return nil
	}
	known, err := snapshotFiles(files)
	if err != nil {
		return err
	}
	if conf != nil && len(files) == 0 {
		if known, err = storedCatalogs(cmd, doc, conf); err != nil {
			return err
		}
	}
	for _, snap := range known {
		for _, p := range policy.CheckMasks(doc, snap.Source, catalog.NewIndex(snap)) {
			r.Problems = append(r.Problems, config.Problem{File: r.Governance, Line: p.Line, Column: 1, Message: p.Message})
		}
	}
	return nil
}

func snapshotFiles(files []string) ([]*catalog.Snapshot, error) {
	var all []*catalog.Snapshot
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the catalog: %w", err)
		}
		snap, err := catalog.Decode(content)
		if err != nil {
			return nil, fmt.Errorf("reading the catalog %s: %w", file, err)
		}
		all = append(all, snap)
	}
	return all, nil
}

// storedCatalogs are the newest ones in the control store. A store that does not exist yet has none, and is not made.
func storedCatalogs(cmd *cobra.Command, doc *policy.Document, conf *config.Config) ([]*catalog.Snapshot, error) {
	if _, err := os.Stat(conf.DataDir); err != nil {
		return nil, nil
	}
	st, _, err := gateway.OpenControl(cmd.Context(), conf)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	var all []*catalog.Snapshot
	for i := range doc.Sources {
		snap, err := st.LatestCatalog(cmd.Context(), doc.Sources[i].ID)
		if err != nil {
			return nil, err
		}
		if snap != nil {
			all = append(all, snap)
		}
	}
	return all, nil
}
