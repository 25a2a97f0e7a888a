package cli

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

func newRoot(env *Env) *cobra.Command {
	root := &cobra.Command{
		Use:           "speedmatrix",
		Short:         "how fast an LLM server is, at every context and concurrency",
		Long:          rootLong,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(cmd, args[0])
		},
		RunE: func(*cobra.Command, []string) error {
			_, err := io.WriteString(env.Stdout, start)
			return err
		},
	}
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.SetIn(env.Stdin)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(helpOf(env, nil))
	root.AddCommand(newDemo(env), newRun(env), newProbe(env), newReport(env), newCompare(env), newVerify(env), newCapacity(env), newImport(env), newExport(env), newSim(env), newPredict(env), newCalibrate(env), newSelftest(env), newServe(env), newSubmit(env), newSite(env), newExamine(env), newVersion(env))
	root.SetHelpCommand(newHelp(root))
	return root
}

// unknownCommand names the command that was probably meant.
func unknownCommand(root *cobra.Command, name string) error {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	next := "All commands: speedmatrix help" + strings.TrimPrefix(root.CommandPath(), "speedmatrix")
	if near := unit.Nearest(name, names); near != "" {
		next = "Did you mean: " + root.CommandPath() + " " + near
	}
	return usage(fmt.Sprintf("there is no command %q", name), next)
}

// flagError words a flag that cannot be read, and names the flag nearest to an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	next := "All flags: " + cmd.CommandPath() + " --help"
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usage("--"+e.GetFlag().Name+": "+badValue(e), next)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usage(fmt.Sprintf("--%s needs a value", e.GetSpecifiedName()), next)
	}
	e, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usage(err.Error(), next)
	}
	if e.GetSpecifiedShortnames() != "" {
		return usage("there is no flag -"+e.GetSpecifiedName(), next)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := unit.Nearest(e.GetSpecifiedName(), names); near != "" {
		next = "Did you mean --" + near + "?"
	}
	return usage("there is no flag --"+e.GetSpecifiedName(), next)
}

// badValue says why a flag's value cannot be taken.
func badValue(e *pflag.InvalidValueError) string {
	if e.GetFlag().Value.Type() == "bool" {
		return fmt.Sprintf("%q is neither true nor false", e.GetValue())
	}
	return errors.Unwrap(e).Error()
}

func usage(what, next string) error {
	return &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: what, Next: next}
}

// unreadable is the error of a file of the user's.
func unreadable(what string, err error) error {
	return &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: fmt.Sprintf("the %s cannot be read: %v", what, err),
		Next: "Check its name and its permissions.", Err: err}
}

func newVersion(env *Env) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "what this program is", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			t := tool()
			revision := ""
			if t.Revision != "" {
				revision = " revision " + t.Revision
			}
			_, err := fmt.Fprintf(env.Stdout, "speedmatrix %s%s (%s, %s)\n", t.Version, revision, t.Go, t.Platform)
			return err
		}}
}

// tool is what this program is, as the run document keeps it.
func tool() speedmatrix.Tool {
	t := speedmatrix.Tool{Name: "speedmatrix", Version: "development", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return t
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		t.Version = v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			t.Revision = s.Value
		}
	}
	return t
}
