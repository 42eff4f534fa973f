package introspect_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// describeQueries are those that psql sends for its describe commands as an identity, each once.
func describeQueries(b *testing.B, dsn string) []string {
	b.Helper()
	cmd := exec.Command("psql", "-X", "-w", "-E", "-d", dsn)
	cmd.Env = append(os.Environ(), "PGPASSFILE=/nonexistent")
	cmd.Stdin = strings.NewReader(strings.Join(commands(b, "crm", "sales", "support"), "\n"))
	out, err := cmd.Output()
	if err != nil {
		b.Fatal(err)
	}
	seen := map[string]bool{}
	var queries []string
	for _, part := range strings.Split(string(out), "********* QUERY **********\n")[1:] {
		sql, _, _ := strings.Cut(part, "**************************\n")
		if !seen[sql] {
			seen[sql] = true
			queries = append(queries, sql)
		}
	}
	return queries
}

// BenchmarkDescribe compares what psql's describe queries take as ana, for whom they are rewritten, with what they take as the
// DBA, for whom nothing is: the sums of the best times, and the worst ratio of one query.
func BenchmarkDescribe(b *testing.B) {
	g := shop(b)
	queries := describeQueries(b, g.DSN("ana", "shop"))
	conns := []*pgconn.PgConn{dial(b, g.DSN("ana", "shop")).PgConn(), dial(b, g.DSN("dba", "shop")).PgConn()}
	best := make([][2]time.Duration, len(queries))
	for b.Loop() {
		for i, sql := range queries {
			for k, conn := range conns {
				begun := time.Now()
				if _, err := conn.Exec(context.Background(), sql).ReadAll(); err != nil {
					b.Fatalf("%v\n%s", err, sql)
				}
				if took := time.Since(begun); best[i][k] == 0 || took < best[i][k] {
					best[i][k] = took
				}
			}
		}
	}
	var sum [2]time.Duration
	worst, at := 0.0, 0
	for i, t := range best {
		sum[0], sum[1] = sum[0]+t[0], sum[1]+t[1]
		if ratio := float64(t[0]) / float64(t[1]); ratio > worst {
			worst, at = ratio, i
		}
	}
	b.ReportMetric(float64(len(queries)), "queries")
	b.ReportMetric(sum[0].Seconds()*1e3, "filtered-ms")
	b.ReportMetric(sum[1].Seconds()*1e3, "plain-ms")
	b.ReportMetric(sum[0].Seconds()/sum[1].Seconds(), "ratio")
	b.ReportMetric(worst, "worst")
	b.Logf("the worst took %v instead of %v:\n%s", best[at][0], best[at][1], queries[at])
}
