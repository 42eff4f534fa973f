package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"interlock/internal/config"
	"interlock/internal/gateway"
	"interlock/internal/identity"
	"interlock/internal/store"
)

func keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Create, list and revoke API keys",
		Long:  "An API key is what an identity shows at every door: as bearer token to /mcp, as password to psql.\nA running gateway with the same data directory takes every change over at its next statement.",
	}
	cmd.AddCommand(keyCreateCommand(), keyListCommand(), keyRevokeCommand())
	return cmd
}

// withKeys runs f on the configuration's control store.
func withKeys(cmd *cobra.Command, f func(context.Context, *controlKeys) error) (err error) {
	cfg, err := loadConfig(cmd)
	if err != nil {
		return err
	}
	st, keys, err := gateway.OpenControl(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return f(cmd.Context(), &controlKeys{Keys: keys, store: st, cfg: cfg})
}

type controlKeys struct {
	*identity.Keys
	store *store.Store
	cfg   *config.Config
}

// checkIdentity refuses an identity that neither the ruleset in force nor the governance document on disk knows.
func (k *controlKeys) checkIdentity(ctx context.Context, name string) error {
	rules, _, err := k.store.CurrentRuleset(ctx)
	if err == nil && rules != nil && rules.Knows(name) {
		return nil
	}
	doc, err := config.LoadGovernance(k.cfg.Governance)
	if err != nil {
		return fmt.Errorf("looking for identity %q: %w", name, err)
	}
	for i := range doc.Identities {
		if doc.Identities[i].Name == name {
			return nil
		}
	}
	return fmt.Errorf("%s has no identity %q: add it there first, or use --force", k.cfg.Governance, name)
}

// createdKey is what key create --json prints.
type createdKey struct {
	Key string `json:"key"`
	identity.KeyInfo
}

func keyCreateCommand() *cobra.Command {
	var name, expires string
	var asJSON, force bool
	cmd := &cobra.Command{
		Use:   "create IDENTITY",
		Short: "Create an API key and show it, once",
		Long:  "Create makes an API key for an identity and prints it on standard output, alone; the rest goes to standard error.\nIt cannot be shown again.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			until, err := parseExpiry(expires, time.Now())
			if err != nil {
				return usage("--expires: %v", err)
			}
			return withKeys(cmd, func(ctx context.Context, keys *controlKeys) error {
				if !force {
					if err := keys.checkIdentity(ctx, args[0]); err != nil {
						return err
					}
				}
				key, info, err := keys.Create(ctx, args[0], identity.CreateOptions{Name: name, Expires: until})
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), createdKey{key, info})
				}
				_, err = fmt.Fprintf(cmd.ErrOrStderr(), "Key %s for %s, %s. Keep it now, it is not shown again:\n", info.ID, info.Identity, validity(&info))
				_, err2 := fmt.Fprintln(cmd.OutOrStdout(), key)
				return errors.Join(err, err2)
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "what the key is for")
	cmd.Flags().StringVar(&expires, "expires", "", "how long it is valid (90d, 12h) or its last day (2027-01-31); default: for ever")
	cmd.Flags().BoolVar(&force, "force", false, "even if the governance document has no such identity")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// parseExpiry reads a duration in days or in Go's units, or a date, which is valid to its end in local time.
func parseExpiry(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, s, now.Location()); err == nil {
		return inFuture(day.AddDate(0, 0, 1), now)
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return inFuture(now.AddDate(0, 0, int(n)), now)
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a duration like 90d or 12h nor a date like 2027-01-31", s)
	}
	return inFuture(now.Add(d), now)
}

func inFuture(t, now time.Time) (time.Time, error) {
	if !t.After(now) {
		return time.Time{}, fmt.Errorf("%s is not in the future", t.Format(time.DateTime))
	}
	return t, nil
}

func validity(info *identity.KeyInfo) string {
	if info.Expires == nil {
		return "valid until it is revoked"
	}
	return "valid until " + info.Expires.Local().Format(time.DateTime)
}

func keyListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [IDENTITY]",
		Short: "List API keys",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withKeys(cmd, func(ctx context.Context, keys *controlKeys) error {
				infos, err := keys.List(ctx, strings.Join(args, ""))
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), infos)
				}
				return printKeys(cmd.OutOrStdout(), infos)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printKeys(w io.Writer, infos []identity.KeyInfo) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tIDENTITY\tNAME\tKEY\tSTATUS\tCREATED\tEXPIRES")
	for i := range infos {
		k := &infos[i]
		expires := "never"
		if k.Expires != nil {
			expires = k.Expires.Local().Format(time.DateTime)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t…%s\t%s\t%s\t%s\n", k.ID, printable(k.Identity), printable(k.Name), k.Hint, k.Status,
			k.Created.Local().Format(time.DateTime), expires)
	}
	return table.Flush()
}

// printable makes a text safe for a terminal and for one cell of a table.
func printable(s string) string {
	if quoted := strconv.Quote(s); quoted[1:len(quoted)-1] != s {
		return quoted
	}
	return s
}

func keyRevokeCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "revoke ID",
		Short: "Revoke an API key for good",
		Long:  "Revoke makes a key invalid. Sessions that were opened with it end at their next statement.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withKeys(cmd, func(ctx context.Context, keys *controlKeys) error {
				info, err := keys.Revoke(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(cmd.OutOrStdout(), info)
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "Key %s of %s is revoked.\n", info.ID, info.Identity)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
