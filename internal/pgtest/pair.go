package pgtest

import (
	"context"
	"testing"
	"time"

	"interlock/internal/cluster"
)

// Pair starts a server of its own, with a system identifier of its own, and a streaming standby of it. Both end with t, or before that by their Stop. Setup runs on the first, and
// Pair returns when the standby has it.
func Pair(t testing.TB, setup ...string) (primary, standby *cluster.Cluster) {
	t.Helper()
	primary = single(t, nil)
	for _, sql := range setup {
		if err := execute(primary.DSN(Superuser, "postgres"), sql); err != nil {
			t.Fatalf("pgtest: %v", err)
		}
	}
	return primary, single(t, primary)
}

func single(t testing.TB, copyOf *cluster.Cluster) *cluster.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{CopyOf: copyOf}) // not from a template: its copies have one system identifier
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return c
}
