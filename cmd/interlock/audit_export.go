package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"interlock/audit"
	"interlock/internal/auditship"
	"interlock/internal/config"
	"interlock/internal/gateway"
	"interlock/internal/store"
)

func auditExportCommand() *cobra.Command {
	var f auditFilter
	var format, out string
	cmd := &cobra.Command{
		Use:   "export --output FILE",
		Short: "Write a part of the audit log to a file, as JSON Lines, CSV or a signed bundle",
		Long: "Export writes the requests that the filter selects as JSON Lines or CSV, oldest first. A bundle has whole segments of the\n" +
			"log, of the time between --since and --until, with checkpoints, public key and a signed manifest: it can be verified by\n" +
			"itself, and it is what prune wants to see. That something was exported is recorded in the log before it is written.",
		Args: cobra.NoArgs,
	}
	f.bind(cmd)
	var from logFlags
	from.bind(cmd)
	cmd.Flags().BoolVar(&f.Events, "events", false, "export events other than requests too")
	cmd.Flags().StringVar(&format, "format", "jsonl", "jsonl, csv or bundle")
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write; it must not exist")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		filter, err := f.filter(nil)
		if err != nil {
			return err
		}
		if out == "" {
			return usage("--output is missing")
		}
		cfg, err := loadConfig(cmd)
		if err != nil {
			return err
		}
		e := &export{cmd: cmd, cfg: cfg, from: &from, filter: filter, format: format, out: out}
		return e.run()
	}
	return cmd
}

type export struct {
	cmd         *cobra.Command
	cfg         *config.Config
	from        *logFlags
	filter      audit.Filter
	format, out string
}

func (e *export) run() (err error) {
	write := map[string]func(io.Writer) error{"jsonl": e.jsonl, "csv": e.csv, "bundle": e.bundle}[e.format]
	if write == nil {
		return usage("--format: %q is none of jsonl, csv, bundle", e.format)
	}
	if e.format == "bundle" && e.from.shared {
		return usage("--shared: a bundle has whole segments, which only the log of a node has; export it on each node that \"interlock audit nodes\" lists")
	}
	f, err := os.OpenFile(e.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(e.out)
		}
	}()
	asked, err := json.Marshal(e.filter)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	// On record first: what cannot be recorded is not exported.
	id, err := gateway.RecordAct(e.cmd.Context(), e.cfg, audit.AuditExported, map[string]string{"format": e.format, "filter": string(asked)})
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err = errors.Join(write(w), w.Flush(), f.Sync(), f.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.cmd.OutOrStdout(), "exported to %s (decision %s)\n", e.out, id)
	return err
}

// each yields what is exported.
func (e *export) each(yield func(*audit.View) error) error {
	e.filter.OldestFirst = true
	var failed error
	err := e.from.search(e.cmd, e.filter, func(v audit.View) bool {
		failed = yield(&v)
		return failed == nil
	})
	return errors.Join(err, failed)
}

func (e *export) jsonl(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return e.each(func(v *audit.View) error { return enc.Encode(v) })
}

var csvColumns = []string{"time", "decision", "type", "status", "identity", "key", "door", "client", "application", "session", "source", "verdict",
	"sqlstate", "refusal", "rows", "bytes", "duration_ms", "ruleset", "fingerprint", "statement", "reads", "writes", "event", "trace", "node", "seq"}

func (e *export) csv(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write(csvColumns); err != nil {
		return err
	}
	err := e.each(func(v *audit.View) error { return c.Write(csvRow(v)) })
	c.Flush()
	return errors.Join(err, c.Error())
}

func csvRow(v *audit.View) []string {
	j, o, ev := v.Judgement, v.Outcome, v.Event
	if j == nil {
		j = &audit.Judgement{}
	}
	if o == nil {
		o = &audit.Outcome{}
	}
	refusal, event := "", ""
	if o.Refusal != nil {
		refusal = o.Refusal.Kind
	}
	if ev != nil {
		event = ev.Name
	}
	row := []string{v.Time.UTC().Format(time.RFC3339Nano), v.ID, string(v.Type), string(v.Status), v.Identity, v.KeyID, v.Door, v.ClientAddr,
		v.Application, v.Session, v.Source, j.Verdict, o.SQLState, refusal, strconv.FormatInt(o.Rows, 10), strconv.FormatInt(o.Bytes, 10),
		strconv.FormatFloat(float64(o.Duration)/1e6, 'f', 3, 64), strconv.FormatInt(j.Ruleset, 10), j.Fingerprint, j.Statement,
		strings.Join(j.Reads, " "), strings.Join(j.Writes, "; "), event, v.Trace, v.Node, strconv.FormatUint(v.Seq, 10)}
	for i, cell := range row {
		if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) { // a spreadsheet would take it for a formula
			row[i] = "'" + cell
		}
	}
	return row
}

func (e *export) bundle(w io.Writer) error {
	conf := gateway.AuditConfig(e.cfg)
	var err error
	if conf.SigningKey, err = audit.LoadSigningKey(gateway.AuditKeyFile(e.cfg)); err != nil {
		return err
	}
	since, until := e.filter.Since, e.filter.Until
	m, err := audit.WriteBundle(w, conf, func(s audit.Segment) bool {
		return s.LastHash != "" && (since.IsZero() || !s.LastTime.Before(since)) && (until.IsZero() || s.LastTime.Before(until))
	})
	if err == nil && len(m.Segments) == 0 {
		err = errors.New("the audit log has no segment of that time")
	}
	return err
}

func auditPublicKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "public-key",
		Short: "Print the public key by which this node's checkpoints and bundles can be verified",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			key, err := audit.LoadSigningKey(gateway.AuditKeyFile(cfg))
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(audit.PublicKeyPEM(key.Public().(ed25519.PublicKey)))
			return err
		},
	}
}

func auditPruneCommand() *cobra.Command {
	var before string
	var bundles []string
	cmd := &cobra.Command{
		Use:   "prune --before TIME --bundle FILE...",
		Short: "Remove old segments that have been exported",
		Long: "Prune removes whole segments whose entries are all older than --before, from the oldest on, and only those that a bundle\n" +
			"given has byte for byte, that every sink has confirmed and that are in the shared index, if there is one. It is recorded in the log, signed, with the hash that the rest\n" +
			"of the chain goes on from, before anything is removed.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			when, err := parseWhen(before, time.Now())
			if err != nil || before == "" || len(bundles) == 0 {
				return usage("--before and --bundle are needed: a time or an age, and an exported bundle")
			}
			cfg, err := loadConfig(cmd)
			if err != nil {
				return err
			}
			return prune(cmd, cfg, when, bundles)
		},
	}
	cmd.Flags().StringVar(&before, "before", "", "older than this: 2026-01-31, 2026-01-31T10:00:00Z, or an age such as 90d")
	cmd.Flags().StringArrayVar(&bundles, "bundle", nil, "exported bundle that has the segments")
	return cmd
}

func prune(cmd *cobra.Command, cfg *config.Config, before time.Time, bundles []string) error {
	key, err := audit.LoadSigningKey(gateway.AuditKeyFile(cfg))
	if err != nil {
		return err
	}
	exported, err := exportedSegments(bundles, key.Public().(ed25519.PublicKey))
	if err != nil {
		return err
	}
	dir := gateway.AuditConfig(cfg).Dir
	segs, err := audit.Prunable(dir, before, exported)
	if err != nil {
		return err
	}
	if segs, err = confirmedSegments(cmd.Context(), cfg, segs); err != nil {
		return err
	}
	if len(segs) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "nothing to prune: no segment is old enough, exported and confirmed by every sink and the shared index")
		return err
	}
	last := segs[len(segs)-1]
	id, err := gateway.RecordAct(cmd.Context(), cfg, audit.AuditPruned, map[string]string{
		"from": strconv.FormatUint(segs[0].First, 10), "to": strconv.FormatUint(last.Last, 10), "hash": last.LastHash,
		"segments": strconv.Itoa(len(segs)), "signature": audit.SignPrune(key, last.Last, last.LastHash)})
	if err != nil {
		return err
	}
	if err := audit.Remove(dir, segs); err != nil {
		return err
	}
	if x, err := store.ReadIndex(cmd.Context(), cfg.DataDir); err == nil {
		defer x.Close()
		if err := x.Forget(cmd.Context(), last.Last); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed %d segments, entries %d to %d (decision %s)\n", len(segs), segs[0].First, last.Last, id)
	return err
}

// exportedSegments returns the SHA-256 of every segment in bundles.
func exportedSegments(bundles []string, key ed25519.PublicKey) (map[string]string, error) {
	all := map[string]string{}
	for _, path := range bundles {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		m, err := audit.ReadBundle(bufio.NewReaderSize(f, 1<<20), key, "")
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, s := range m.Segments {
			all[s.Name] = s.SHA256
		}
	}
	return all, nil
}

// confirmedSegments leaves out segments that a sink has not confirmed, or that are not in the shared index.
func confirmedSegments(ctx context.Context, cfg *config.Config, segs []audit.Segment) ([]audit.Segment, error) {
	for _, s := range cfg.Audit.Sinks {
		sent, err := auditship.Sent(gateway.AuditPositions(cfg), s.Name)
		if err != nil {
			return nil, err
		}
		segs = upTo(segs, sent)
	}
	part, err := gateway.OpenSharedPart(cfg)
	if err != nil || part == nil {
		return segs, err
	}
	at, err := part.Position(ctx)
	if err = errors.Join(err, part.Close()); err != nil {
		return nil, fmt.Errorf("nothing is pruned before the shared index says that it has it: %w", err)
	}
	return upTo(segs, at), nil
}

func upTo(segs []audit.Segment, last uint64) []audit.Segment {
	for len(segs) > 0 && segs[len(segs)-1].Last > last {
		segs = segs[:len(segs)-1]
	}
	return segs
}
