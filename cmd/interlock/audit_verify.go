package main

import (
	"bufio"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"interlock/audit"
	"interlock/internal/gateway"
)

// verifyOptions say what is verified, and with what.
type verifyOptions struct {
	dir, bundle string
	keys        []string
	checkpoints []string
	asJSON      bool
}

func auditVerifyCommand() *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that no record was changed, removed, inserted, or cut off at the end",
		Long: "Verify reads the whole log of this node and checks its chain, its head and its checkpoints. With --log or --bundle it needs\n" +
			"no configuration: it verifies a copy of the segments, or an exported bundle, by public keys and by checkpoints that were\n" +
			"kept elsewhere. Checkpoints that were kept elsewhere tell even if the log was rewritten with the signing key in hand.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	fl := cmd.Flags()
	fl.StringVar(&o.dir, "log", "", "directory with a copy of a log's segments")
	fl.StringVar(&o.bundle, "bundle", "", "exported bundle")
	fl.StringArrayVar(&o.keys, "public-key", nil, "file with a public key by which checkpoints may be signed")
	fl.StringArrayVar(&o.checkpoints, "checkpoints", nil, "file with checkpoints that were kept elsewhere")
	fl.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

func (o *verifyOptions) run(cmd *cobra.Command) error {
	if o.dir != "" && o.bundle != "" {
		return usage("--log and --bundle exclude each other")
	}
	ev, err := o.evidence()
	if err != nil {
		return err
	}
	var conf audit.Config
	switch {
	case o.bundle != "":
		ev.Offline = true
		dir, err := os.MkdirTemp("", "interlock-verify-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := unpackBundle(o.bundle, ev.Keys, dir); err != nil {
			return err
		}
		conf.Dir = dir
	case o.dir != "":
		ev.Offline, conf.Dir = true, o.dir
	default:
		if conf, err = ownLog(cmd, &ev); err != nil {
			return err
		}
	}
	report, err := audit.VerifyWith(cmd.Context(), conf, ev, progressPrinter(os.Stderr))
	if err != nil {
		return fmt.Errorf("verifying the audit log: %w", err)
	}
	return o.print(cmd, &report)
}

// ownLog is the log of the configuration, with the public part of its own signing key if no other key is given.
func ownLog(cmd *cobra.Command, ev *audit.Evidence) (audit.Config, error) {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return audit.Config{}, err
	}
	if _, err := os.Stat(gateway.AuditKeyFile(cfg)); err == nil && len(ev.Keys) == 0 {
		key, err := audit.LoadSigningKey(gateway.AuditKeyFile(cfg))
		if err != nil {
			return audit.Config{}, err
		}
		ev.Keys = append(ev.Keys, key.Public().(ed25519.PublicKey))
	}
	return gateway.AuditConfig(cfg), nil
}

func (o *verifyOptions) evidence() (audit.Evidence, error) {
	var ev audit.Evidence
	for _, path := range o.keys {
		data, err := os.ReadFile(path)
		if err != nil {
			return ev, err
		}
		key, err := audit.ParsePublicKey(data)
		if err != nil {
			return ev, fmt.Errorf("%s: %w", path, err)
		}
		ev.Keys = append(ev.Keys, key)
	}
	for _, path := range o.checkpoints {
		f, err := os.Open(path)
		if err != nil {
			return ev, err
		}
		found, err := audit.ReadCheckpoints(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return ev, fmt.Errorf("%s: %w", path, err)
		}
		ev.Checkpoints = append(ev.Checkpoints, found...)
	}
	return ev, nil
}

func unpackBundle(path string, keys []ed25519.PublicKey, dir string) error {
	if len(keys) != 1 {
		return usage("--bundle needs one --public-key: the one inside proves nothing")
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = audit.ReadBundle(bufio.NewReaderSize(f, 1<<20), keys[0], dir)
	return errors.Join(err, f.Close())
}

func (o *verifyOptions) print(cmd *cobra.Command, r *audit.Report) error {
	out := cmd.OutOrStdout()
	var err error
	if o.asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = printReport(out, r)
	}
	if err == nil && !r.OK() {
		err = exitStatus(exitFailed)
	}
	return err
}
