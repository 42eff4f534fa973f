package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"interlock/audit"
)

// table prints aligned columns.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, head ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(head...)
	return t
}

func (t *table) row(cells ...string) { fmt.Fprintln(t.w, strings.Join(cells, "\t")) }
func (t *table) flush() error        { return t.w.Flush() }

func upper(names []string) []string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = strings.ToUpper(n)
	}
	return all
}

func auditShowCommand() *cobra.Command {
	var asJSON bool
	var ownerKey string
	cmd := &cobra.Command{
		Use:   "show DECISION-ID",
		Short: "Show all that is known of one decision",
		Long:  "Show prints everything that the log says of one decision. With the owner's secret key it also prints the full text of\nthe statement and its parameters, if the ruleset had them kept.",
		Args:  cobra.ExactArgs(1),
	}
	var from logFlags
	from.bind(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&ownerKey, "owner-key", "", "file with the owner's secret key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var found []audit.View
		err := from.search(cmd, audit.Filter{ID: strings.ToUpper(args[0]), Events: true}, func(v audit.View) bool {
			found = append(found, v)
			return true
		})
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("the audit log has no decision %s%s", args[0], elsewhere(cmd, &from, args[0]))
		}
		for i := range found {
			if err == nil {
				err = showView(cmd.OutOrStdout(), &found[i], ownerKey, asJSON)
			}
			if err == nil && from.shared {
				err = showOrigin(cmd, &found[i], ownerKey)
			}
		}
		return err
	}
	return cmd
}

// showOrigin says where the rest of a record is that the shared index has.
func showOrigin(cmd *cobra.Command, v *audit.View, ownerKey string) error {
	hint := fmt.Sprintf("the whole record, with what is sealed for the owner and its place in the chain, is in the log of node %s:\n"+
		"run \"interlock audit show %s\" there, or here with --log and a copy of that log", v.Node, v.ID)
	if ownerKey != "" {
		return errors.New(hint)
	}
	_, err := fmt.Fprintln(cmd.ErrOrStderr(), hint)
	return err
}

// elsewhere says which node has a decision that is not in this node's log, if nodes share an index that can tell.
func elsewhere(cmd *cobra.Command, from *logFlags, id string) string {
	cfg, err := loadConfig(cmd)
	if err != nil || cfg.Audit.SharedIndex.DSN == "" || from.shared || len(from.dirs) > 0 {
		return ""
	}
	node := ""
	shared := logFlags{shared: true}
	err = shared.search(cmd, audit.Filter{ID: strings.ToUpper(id), Events: true, Limit: 1}, func(v audit.View) bool {
		node = v.Node
		return true
	})
	if err != nil || node == "" {
		return ""
	}
	return fmt.Sprintf("; that of node %s has it: run show there, or here with --shared", node)
}

func showView(w io.Writer, v *audit.View, ownerKey string, asJSON bool) error {
	full := ""
	if ownerKey != "" && v.Sealed != "" {
		secret, err := os.ReadFile(ownerKey)
		if err != nil {
			return err
		}
		key, err := audit.ParseOwnerKey(string(secret))
		if err == nil {
			full, err = key.Open(v.ID, v.Sealed)
		}
		if err != nil {
			return err
		}
	}
	if asJSON {
		return printJSON(w, struct {
			audit.View
			Full json.RawMessage `json:"full,omitempty"`
		}{*v, json.RawMessage(full)})
	}
	return printWhole(w, v, full)
}

func printWhole(w io.Writer, v *audit.View, full string) error {
	p := &printer{w: w}
	p.line("decision", v.ID)
	p.line("time", v.Time.Local().Format(time.RFC3339Nano))
	for _, l := range []struct{ name, value string }{{"status", string(v.Status)}, {"node", v.Node}, {"identity", v.Identity}, {"key", v.KeyID},
		{"door", v.Door}, {"client", v.ClientAddr}, {"application", printable(v.Application)}, {"session", v.Session}, {"source", v.Source}, {"trace", v.Trace}} {
		if l.value != "" {
			p.line(l.name, l.value)
		}
	}
	if e := v.Event; e != nil {
		p.line("event", e.Name)
		for _, name := range sortedNames(e.Attributes) {
			p.line("  "+name, printable(e.Attributes[name]))
		}
	}
	if j := v.Judgement; j != nil {
		p.line("ruleset", fmt.Sprintf("%d %.12s", j.Ruleset, j.RulesetDigest))
		p.line("verdict", j.Verdict)
		p.line("statement", j.Statement)
		p.list("reads", j.Reads)
		p.list("writes", j.Writes)
		p.list("functions", j.Functions)
		p.line("reasons", string(j.Reasons))
	}
	if full != "" {
		p.line("full text", full)
	} else if v.Sealed != "" {
		p.line("full text", "sealed for the owner")
	}
	if o := v.Outcome; o != nil {
		p.line("outcome", fmt.Sprintf("%s %s, %d rows, %d bytes in %s", o.Status, o.SQLState, o.Rows, o.Bytes, o.Duration))
		if r := o.Refusal; r != nil {
			p.line("refusal", r.Kind+": "+r.Message)
			p.line("detail", r.Detail)
			p.line("hint", r.Hint)
		}
	}
	p.line("entry", fmt.Sprint(v.Seq))
	return p.err
}

func sortedNames(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func auditOwnerKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "owner-key FILE",
		Short: "Make the key pair of an owner of full texts",
		Long:  "Owner-key writes a secret key to FILE and prints the public key, which goes into the governance document as\naudit.keep_text. Keep the secret key away from this machine: only its holders can read full texts.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := audit.NewOwnerKey()
			if err != nil {
				return err
			}
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(f, key.Secret())
			if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), key.Public())
			return err
		},
	}
}
