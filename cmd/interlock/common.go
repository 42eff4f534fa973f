package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"interlock/catalog"
	"interlock/internal/config"
	"interlock/internal/gateway"
	"interlock/internal/store"
	"interlock/sqlgov/policy"
)

// configPath is where the configuration is: the flag, the environment, or the working directory.
func configPath(cmd *cobra.Command) string {
	if path, _ := cmd.Flags().GetString("config"); path != "" {
		return path
	}
	if path := os.Getenv("INTERLOCK_CONFIG"); path != "" {
		return path
	}
	return "interlock.yaml"
}

func loadConfig(cmd *cobra.Command) (*config.Config, error) {
	return config.Load(configPath(cmd))
}

// judging says what offline judgements are made from: files, or else the control store.
type judging struct{ governance, catalog string }

func (j *judging) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&j.governance, "governance", "", "judge by this governance document, and not by the ruleset in the control store")
	cmd.Flags().StringVar(&j.catalog, "catalog", "", "judge by this catalog snapshot, as \"interlock source catalog\" prints it, and not by the newest in the control store")
}

// load returns the ruleset and the catalog of a source, which is nil if it was never scanned.
func (j *judging) load(cmd *cobra.Command, source string) (*policy.Ruleset, *catalog.Index, error) {
	rules, err := j.rules(cmd)
	if err != nil {
		return nil, nil, err
	}
	index, err := j.index(cmd, source)
	return rules, index, err
}

func (j *judging) rules(cmd *cobra.Command) (*policy.Ruleset, error) {
	if j.governance != "" {
		return compileFile(j.governance)
	}
	st, err := openStore(cmd)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	rules, _, err := st.CurrentRuleset(cmd.Context())
	if err == nil && rules == nil {
		err = fmt.Errorf("the control store has no ruleset yet: run the gateway once")
	}
	return rules, err
}

func (j *judging) index(cmd *cobra.Command, source string) (*catalog.Index, error) {
	var snap *catalog.Snapshot
	if j.catalog != "" {
		content, err := os.ReadFile(j.catalog)
		if err != nil {
			return nil, fmt.Errorf("reading the catalog: %w", err)
		}
		if snap, err = catalog.Decode(content); err != nil {
			return nil, fmt.Errorf("reading the catalog %s: %w", j.catalog, err)
		}
		return catalog.NewIndex(snap), nil
	}
	st, err := openStore(cmd)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if snap, err = st.LatestCatalog(cmd.Context(), source); err != nil || snap == nil {
		return nil, err
	}
	return catalog.NewIndex(snap), nil
}

func openStore(cmd *cobra.Command) (*store.Store, error) {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return nil, err
	}
	st, _, err := gateway.OpenControl(cmd.Context(), cfg)
	return st, err
}

func compileFile(path string) (*policy.Ruleset, error) {
	doc, err := config.LoadGovernance(path)
	if err != nil {
		return nil, err
	}
	return policy.Compile(doc)
}

func randomHex(bytes int) (string, error) {
	b := make([]byte, bytes)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("reading random bytes: %w", err)
	}
	return hex.EncodeToString(b), nil
}
