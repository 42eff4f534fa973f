// Command interlock reads configuration, builds the parts, runs them and stops them in order. Each verb is in a file of
// its own.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{Use: "interlock", Short: "A governance gateway for PostgreSQL", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(checkCommand())
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "interlock:", err)
		os.Exit(1)
	}
}
