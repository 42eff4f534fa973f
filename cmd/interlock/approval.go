package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"interlock/sqlgov"
)

func approvalCommand() *cobra.Command {
	p := &peopleClient{}
	cmd := &cobra.Command{
		Use:   "approval",
		Short: "Look at, approve and reject statements that wait for people",
		Long: "Statements that a policy holds wait until people of its groups have approved them. These verbs talk to a running\n" +
			"gateway's admin listener, as the identity whose API key is in $INTERLOCK_KEY or in --key-file. It shows what that identity\n" +
			"has asked for and what it may approve.",
	}
	p.bind(cmd)
	cmd.AddCommand(approvalListCommand(p), approvalShowCommand(p), approvalVoteCommand(p, "approve"), approvalVoteCommand(p, "reject"), approvalWatchCommand(p))
	return cmd
}

func approvalListCommand(p *peopleClient) *cobra.Command {
	var states []string
	var all, asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what waits, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all {
				states = nil
			}
			views, err := p.list(cmd, states)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), views)
			}
			return printApprovals(cmd.OutOrStdout(), views)
		},
	}
	cmd.Flags().StringArrayVar(&states, "state", []string{string(sqlgov.ApprovalPending)}, "in this state; may be repeated")
	cmd.Flags().BoolVar(&all, "all", false, "in any state")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (p *peopleClient) list(cmd *cobra.Command, states []string) (views []sqlgov.ApprovalView, err error) {
	query := url.Values{"state": states}
	return views, p.call(cmd, "GET", "?"+query.Encode(), nil, &views)
}

func (p *peopleClient) show(cmd *cobra.Command, id string) (v sqlgov.ApprovalView, err error) {
	return v, p.call(cmd, "GET", "/"+url.PathEscape(id), nil, &v)
}

func approvalShowCommand(p *peopleClient) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a statement, who has said what to it, and how it ended",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := p.show(cmd, args[0])
			if err != nil {
				return err
			}
			return printApproval(cmd.OutOrStdout(), &v, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func approvalVoteCommand(p *peopleClient, verb string) *cobra.Command {
	var reason string
	var asJSON bool
	cmd := &cobra.Command{
		Use:  verb + " ID",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := json.Marshal(map[string]string{"reason": reason})
			if err != nil {
				return err
			}
			var v sqlgov.ApprovalView
			if err := p.call(cmd, "POST", "/"+url.PathEscape(args[0])+"/"+verb, body, &v); err != nil {
				return err
			}
			if v, err = p.settled(cmd, v); err != nil {
				return err
			}
			if err := printApproval(cmd.OutOrStdout(), &v, asJSON); err != nil {
				return err
			}
			return badEnd(v.State)
		},
	}
	cmd.Short = "Approve a statement, which is then run"
	cmd.Long = "Approve says yes to a statement exactly as \"approval show\" shows it. When enough people have done so, the gateway judges it\n" +
		"again and runs it. The exit status is 0 if it was run, or waits for more people, and 1 if it ended otherwise."
	if verb == "reject" {
		cmd.Short = "Reject a statement, or withdraw your own"
		cmd.Long = "Reject says no to a statement: it will not be run. Who has asked for it can withdraw it so."
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the one who has asked")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// pollInterval is how often a gateway is asked again.
const pollInterval = 500 * time.Millisecond

// settled waits while a statement runs.
func (p *peopleClient) settled(cmd *cobra.Command, v sqlgov.ApprovalView) (sqlgov.ApprovalView, error) {
	for v.State == sqlgov.ApprovalApproved || v.State == sqlgov.ApprovalExecuting {
		if err := pause(cmd.Context()); err != nil {
			return v, err
		}
		var err error
		if v, err = p.show(cmd, v.ID); err != nil {
			return v, err
		}
	}
	return v, nil
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pollInterval):
		return nil
	}
}

func badEnd(s sqlgov.ApprovalState) error {
	switch s {
	case sqlgov.ApprovalFailed, sqlgov.ApprovalUnknown, sqlgov.ApprovalVoid, sqlgov.ApprovalExpired:
		return exitStatus(exitFailed)
	}
	return nil
}

func approvalWatchCommand(p *peopleClient) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch [ID]",
		Short: "Print every change of what waits, or wait for the end of one",
		Long: "Watch prints a line for each approval that is new or has changed its state, until it is interrupted. With an ID it prints\n" +
			"those of that one, and ends with it: with status 0 if it was run.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			seen := map[string]sqlgov.ApprovalState{}
			for {
				views, err := p.watched(cmd, args)
				if err != nil {
					return interrupted(err)
				}
				for i := len(views) - 1; i >= 0; i-- {
					v := &views[i]
					if seen[v.ID] == v.State {
						continue
					}
					seen[v.ID] = v.State
					if err := printChange(cmd.OutOrStdout(), v, asJSON); err != nil {
						return err
					}
				}
				if len(args) == 1 && views[0].State.Final() {
					if views[0].State == sqlgov.ApprovalRejected {
						return exitStatus(exitFailed)
					}
					return badEnd(views[0].State)
				}
				if err := pause(cmd.Context()); err != nil {
					return interrupted(err)
				}
			}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}

// interrupted is nil for the usual end of a watch.
func interrupted(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (p *peopleClient) watched(cmd *cobra.Command, args []string) ([]sqlgov.ApprovalView, error) {
	if len(args) == 0 {
		return p.list(cmd, nil)
	}
	v, err := p.show(cmd, args[0])
	return []sqlgov.ApprovalView{v}, err
}

func printChange(w io.Writer, v *sqlgov.ApprovalView, asJSON bool) error {
	if asJSON {
		return printJSON(w, v)
	}
	_, err := fmt.Fprintf(w, "%s  %s  %-9s  %s@%s  %s\n", v.Changed.Local().Format(time.DateTime), v.ID, v.State, v.Requester, v.Source, oneLine(v.SQL))
	return err
}

// oneLine is a statement for a cell of a table.
func oneLine(sql string) string {
	text := strings.Join(strings.Fields(sql), " ")
	if runes := []rune(text); len(runes) > 60 {
		text = string(runes[:59]) + "…"
	}
	return printable(text)
}

func printApprovals(w io.Writer, views []sqlgov.ApprovalView) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATE\tREQUESTER\tSOURCE\tEXPIRES\tSTATEMENT")
	for i := range views {
		v := &views[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", v.ID, v.State, v.Requester, v.Source, v.Expires.Local().Format(time.DateTime), oneLine(v.SQL))
	}
	return table.Flush()
}

func printApproval(w io.Writer, v *sqlgov.ApprovalView, asJSON bool) error {
	if asJSON {
		return printJSON(w, v)
	}
	p := &printer{w: w}
	p.line("approval", v.ID)
	p.line("state", string(v.State))
	p.line("requester", fmt.Sprintf("%s@%s via %s", v.Requester, v.Source, v.Door))
	p.line("expires", v.Expires.Local().Format(time.DateTime))
	p.line("statement", shownText(v.SQL))
	for i, value := range v.Parameters {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		p.line(fmt.Sprintf("$%d", i+1), string(text))
	}
	for _, h := range v.Holds {
		p.line("hold", holdLine(&h))
	}
	for _, vote := range v.Votes {
		p.line("vote", voteLine(&vote))
	}
	if v.State == sqlgov.ApprovalDone {
		p.line("rows", fmt.Sprint(v.Rows))
	}
	p.line("note", shownText(v.Note))
	p.line("run", v.Run)
	return p.err
}

// shownText is a text with what a terminal would act on made visible. It keeps its lines.
func shownText(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && printable(string(r)) != string(r) && r != '"' && r != '\\' {
			return '�'
		}
		return r
	}, s)
}

func holdLine(h *sqlgov.HoldView) string {
	text := fmt.Sprintf("policy %s: %d of %s", h.Rule, max(1, h.Approvers), strings.Join(h.Groups, ", "))
	if h.MaxRows > 0 {
		text += fmt.Sprintf(", at most %d rows", h.MaxRows)
	}
	if h.Met {
		text += ", met"
	}
	if h.Reason != "" {
		text += ": " + h.Reason
	}
	return text
}

func voteLine(v *sqlgov.Vote) string {
	text := "approved by " + v.By
	if v.Reject {
		text = "rejected by " + v.By
	}
	if v.Reason != "" {
		text += ": " + shownText(v.Reason)
	}
	return text
}
