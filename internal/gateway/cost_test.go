package gateway_test

import (
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"interlock/audit"
	"interlock/internal/config"
	"interlock/internal/gatewaytest"
	"interlock/internal/pgtest"
)

// unaudited records nothing. It exists for this benchmark alone, to have something to compare with.
type unaudited struct{}

func (unaudited) Intent(context.Context, *audit.Record) error                  { return nil }
func (unaudited) Outcome(context.Context, *audit.Outcome) error                { return nil }
func (unaudited) Request(context.Context, *audit.Record, *audit.Outcome) error { return nil }
func (unaudited) Event(context.Context, *audit.Record, *audit.Event) error     { return nil }

// BenchmarkAuditCost runs pgbench -S -M prepared through gateways with each setting of audit.sync in turn, and reports the
// median of their throughput as a ratio to that of a gateway that records nothing, by round.
func BenchmarkAuditCost(b *testing.B) {
	dsn := pgtest.Start(b).Database(b)
	if out, err := exec.Command("pgbench", "-i", "-q", "-s", "1", dsn).CombinedOutput(); err != nil {
		b.Fatalf("pgbench -i: %v\n%s", err, out)
	}
	modes := []string{"none", "group", "always", "relaxed", "compressing"}
	gateways := map[string]*gatewaytest.Gateway{}
	for _, mode := range modes {
		gateways[mode] = gatewaytest.Start(b, gatewaytest.Options{Database: dsn, Configure: func(c *config.Config) {
			switch mode {
			case "none":
			case "compressing": // group, with what otherwise waits for a quiet time
				c.Audit.CompressionBacklog, c.Audit.SegmentBytes = 0, 8<<20
			default:
				c.Audit.Sync = mode
			}
		}})
		if mode == "none" {
			gateways[mode].Core.Audit = unaudited{}
		}
		gateways[mode].Key("ana")
	}
	for _, clients := range []int{1, 8} {
		b.Run(strconv.Itoa(clients), func(b *testing.B) {
			tps, ratios := map[string]float64{}, map[string][]float64{}
			for range 15 {
				for _, mode := range modes {
					tps[mode] = pgbench(b, gateways[mode].DSN("ana", "shop"), clients)
					ratios[mode] = append(ratios[mode], tps[mode]/tps["none"])
				}
			}
			b.ReportMetric(tps["none"], "tps-none")
			for _, mode := range modes[1:] {
				b.ReportMetric(median(ratios[mode]), mode)
			}
		})
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

var tpsLine = regexp.MustCompile(`tps = ([0-9.]+) \(without initial`)

func pgbench(b *testing.B, dsn string, clients int) float64 {
	out, err := exec.Command("pgbench", "-n", "-S", "-M", "prepared", "-c", strconv.Itoa(clients), "-T", "1", dsn).CombinedOutput()
	m := tpsLine.FindSubmatch(out)
	if err != nil || m == nil {
		b.Fatalf("pgbench: %v\n%s", err, out)
	}
	tps, _ := strconv.ParseFloat(string(m[1]), 64)
	return tps
}
