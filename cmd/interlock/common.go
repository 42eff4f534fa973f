package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"interlock/catalog"
	"interlock/internal/config"
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

// judgingState is the ruleset in force and the newest catalog of a source, from the control store.
func judgingState(ctx context.Context, st *store.Store, source string) (*policy.Ruleset, *catalog.Index, error) {
	rules, _, err := st.CurrentRuleset(ctx)
	if err != nil {
		return nil, nil, err
	}
	if rules == nil {
		return nil, nil, fmt.Errorf("the control store has no ruleset yet: run the gateway once")
	}
	snap, err := st.LatestCatalog(ctx, source)
	if err != nil {
		return nil, nil, err
	}
	if snap == nil {
		return rules, nil, nil
	}
	return rules, catalog.NewIndex(snap), nil
}

func randomHex(bytes int) (string, error) {
	b := make([]byte, bytes)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("reading random bytes: %w", err)
	}
	return hex.EncodeToString(b), nil
}
