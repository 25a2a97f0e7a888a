package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"speedmatrix"
	"speedmatrix/internal/predict"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/report"
	"speedmatrix/internal/runfile"
	"speedmatrix/internal/unit"
)

const predictLong = `Computes the whole matrix of a simulated machine in virtual time: the same plan,
protocol and summary as a measured run, over the simulated engine, in seconds.

PROFILE is the name of an embedded profile (speedmatrix sim --list) or a YAML
file. Without settings a profile that was calibrated to a published page gives
that page's matrix, by the method of the tool that made it. It writes an
ordinary run marked as predicted, which every other command reads.`

const predictExample = `  speedmatrix predict rtx3090-agents-a1-4b-fp8
  speedmatrix predict rtx3090-agents-a1-4b-fp8 --method standard/1
  speedmatrix predict machine.yaml --contexts 0,64K --concurrency 1,8 --json`

func newPredict(env *Env) *cobra.Command {
	p := &prediction{env: env, o: &runOptions{}}
	method, files := flagSet("method"), flagSet("files")
	cmd := &cobra.Command{Use: "predict PROFILE", Short: "compute the matrix of a simulated machine, in seconds", Long: predictLong,
		Example: predictExample, Args: exactlyOne("profile"),
		RunE: func(cmd *cobra.Command, args []string) error {
			method.VisitAll(func(f *pflag.Flag) { p.given = p.given || f.Changed })
			return p.run(cmd, args[0])
		}}
	p.o.methodFlags(method)
	files.text(&p.o.out, "out", "DIR", "the run's directory; it must not exist (default runs/ID; none with --json)")
	files.BoolVar(&p.json, "json", false, "print the document on standard output, and nothing else there")
	files.Float64Var(&p.noise, "noise", 0, "standard deviation of a step's duration as a `SHARE`, such as 0.005")
	files.Uint64Var(&p.seed, "seed", 0, "`NUMBER` that decides the noise")
	groups := []flagGroup{{"What is predicted", method.FlagSet}, {"Files and noise", files.FlagSet}}
	for _, g := range groups {
		cmd.Flags().AddFlagSet(g.flags)
	}
	cmd.SetHelpFunc(helpOf(env, groups))
	return cmd
}

// prediction carries one `predict` from its options to its end.
type prediction struct {
	env   *Env
	o     *runOptions
	given bool
	json  bool
	noise float64
	seed  uint64
}

func (p *prediction) run(cmd *cobra.Command, name string) error {
	machine, err := findProfile(name)
	if err != nil {
		return err
	}
	if p.noise < 0 || p.noise > 0.2 {
		return usage(fmt.Sprintf("--noise %g is out of range", p.noise), "It is a share from 0 to 0.2, such as 0.005.")
	}
	settings := predict.SeedSettings(machine)
	if p.given {
		settings = p.o.Settings
	}
	if settings, err = settings.Complete(); err != nil {
		return err
	}
	if p.o.out != "" {
		if err := runfile.CheckNew(p.o.out); err != nil {
			return err
		}
	}
	start := time.Now().UTC()
	doc, err := predict.Predict(cmd.Context(), machine, settings, predict.Options{Noise: p.noise, Seed: p.seed, Start: start, Tool: tool()})
	if err != nil {
		return err
	}
	return p.publish(doc)
}

// publish keeps and prints the predicted run.
func (p *prediction) publish(doc *speedmatrix.Run) error {
	path := p.o.out
	if path != "" || !p.json {
		dir, err := keepRun(doc, p.o.out)
		if err != nil {
			return err
		}
		path = dir.Path()
	}
	if p.json {
		return render(p.env, doc, nil, format{json: true})
	}
	show := newProgress(p.env, false)
	_ = report.Terminal(p.env.Stdout, report.Build(doc), show.terminal())
	_, _ = fmt.Fprintf(p.env.Stdout, "\nPredicted for %s of virtual time\n%sSaved    %s\nNext     speedmatrix report %s --open\n",
		unit.Duration(predict.VirtualTime(doc)), tookLine(doc), path, path)
	return nil
}

// findProfile gives an embedded profile by its name, or the one in a YAML file.
func findProfile(name string) (*profile.Profile, error) {
	if !strings.HasSuffix(name, ".yaml") && !strings.HasSuffix(name, ".yml") {
		return profile.Named(name)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, unreadable("profile", err)
	}
	return profile.Decode(name, data)
}
