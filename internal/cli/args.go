package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// atMostOne allows one argument.
func atMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage(fmt.Sprintf("%s takes one %s, but was given %d arguments", cmd.Name(), name, len(args)),
				"Usage: "+cmd.UseLine())
		}
		return nil
	}
}

// exactlyOne demands one argument.
func exactlyOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usage(fmt.Sprintf("%s takes one %s, but was given %d arguments", cmd.Name(), name, len(args)),
				"Usage: "+cmd.UseLine())
		}
		return nil
	}
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Sprintf("%s takes no argument, but was given %q", cmd.Name(), args[0]), "Leave it out.")
	}
	return nil
}
