// Command interlock is a governance gateway for PostgreSQL: it reads configuration, builds the parts, runs them, and
// stops them in order. There is one file for each verb.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit statuses of every verb.
const (
	exitFailed = 1 // refused, failed, or a check found something
	exitUsage  = 2 // the command line is wrong
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := rootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "interlock: %v\nRun 'interlock help' for usage.\n", err)
		return exitUsage
	default:
		fmt.Fprintf(os.Stderr, "interlock: %v\n", err)
		return exitFailed
	}
}

// exitStatus ends the process with a status and without a further message.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// errUsage marks errors of the command line.
var errUsage = errors.New("usage")

func usage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "interlock",
		Short:         "A governance gateway for PostgreSQL",
		Long:          "InterLock stands between those who ask for data and the PostgreSQL servers that hold it.\nEvery statement is analysed, authorised column by column, and recorded.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentFlags().StringP("config", "c", "", "configuration file (default $INTERLOCK_CONFIG, else interlock.yaml)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage("%v", err) })
	root.AddCommand(demoCommand(), serveCommand(), checkCommand(), explainCommand(), maskCommand(), scanCommand(), accessCommand(), policyCommand(), diffCommand(), analyzeCommand(),
		auditCommand(), approvalCommand(), keyCommand(), sourceCommand(), versionCommand())
	for _, c := range root.Commands() {
		strictArgs(c)
	}
	return root
}

// strictArgs makes wrong arguments a usage error in a command and all its subcommands.
func strictArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usage("%v", err)
			}
			return nil
		}
	}
	if c.HasSubCommands() && c.RunE == nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q for %q", args[0], cmd.CommandPath())
			}
			return usage("%q needs a subcommand: see 'interlock help %s'", cmd.CommandPath(), cmd.Name())
		}
	}
	for _, sub := range c.Commands() {
		strictArgs(sub)
	}
}
