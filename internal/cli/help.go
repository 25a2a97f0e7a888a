package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is what a help page fits into.
const helpWidth = 80

const start = `speedmatrix measures how fast an LLM server is, at every context length and
every number of simultaneous requests, and how far you can trust the numbers.

  speedmatrix demo              try it now: no server, no GPU, one minute
  speedmatrix run               measure the server on this machine
  speedmatrix run URL           measure another one
  speedmatrix report RUN        tables, page and pictures of a run
  speedmatrix compare A B       runs against each other, cell by cell
  speedmatrix verify RUN        recompute every number from the raw events

All commands: speedmatrix help
`

const rootLong = `speedmatrix measures how fast an LLM server is, at every context length and
every number of simultaneous requests, and how far you can trust the numbers.`

const exitCodes = `Exit codes:
    0  done
    1  a fault of this program
    2  a flag, an argument or a file is wrong
    3  no LLM server there
    4  the server refuses us: key, limit, model, certificate
    5  the server is busy or still loading
    6  the run directory cannot be made, read or written
    7  measured, but cells failed, numbers disagree, or a limit is broken
  130  interrupted
`

// flagGroup is a part of a command's flags under a title of its own.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// helpOf gives the help page of a command whose flags are in groups; without groups they stand as they are.
func helpOf(env *Env, groups []flagGroup) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, _ []string) {
		_, _ = io.WriteString(env.Stdout, helpPage(cmd, groups))
	}
}

func helpPage(cmd *cobra.Command, groups []flagGroup) string {
	var b strings.Builder
	text := cmp.Or(cmd.Long, cmd.Short)
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s\n", strings.TrimSpace(text), usageLine(cmd))
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() || c.Name() == "help" {
				fmt.Fprintf(&b, "  %-12s %s\n", c.Name(), c.Short)
			}
		}
	}
	if groups == nil && cmd.LocalFlags().HasAvailableFlags() {
		groups = []flagGroup{{"Flags", cmd.LocalFlags()}}
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s:\n%s", g.title, g.flags.FlagUsagesWrapped(helpWidth))
	}
	fmt.Fprintf(&b, "\n%s", exitCodes)
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nMore: %s COMMAND --help\n", cmd.CommandPath())
	}
	return b.String()
}

// usageLine is "speedmatrix run [URL] [flags]".
func usageLine(cmd *cobra.Command) string {
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " COMMAND"
	}
	return line
}

// newHelp is the command help: the pages of the commands, and an error for what is none.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{Use: "help [COMMAND]", Short: "how to use a command",
		DisableFlagsInUseLine: true,
		RunE: func(_ *cobra.Command, args []string) error {
			target, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(root, strings.Join(args, " "))
			}
			return target.Help()
		}}
}
