package cli

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"speedmatrix"
	"speedmatrix/internal/calibrate"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/report"
	"speedmatrix/internal/unit"
)

const calibrateLong = `Fits a profile of the simulated engine to a measured run, so that the machine can
be predicted where it was not measured: a twin to carry about. It prints what is
left over at each cell, and which parameters the run does not decide.`

const calibrateExample = `  speedmatrix calibrate runs/2026… --out twin.yaml
  speedmatrix predict twin.yaml --contexts 0,96K --concurrency 1,24`

func newCalibrate(env *Env) *cobra.Command {
	var out, name, like string
	cmd := &cobra.Command{Use: "calibrate RUN", Short: "fit a profile to a measured run", Long: calibrateLong, Example: calibrateExample,
		Args: exactlyOne("run directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, doc, err := openRun(env, args[0])
			if err != nil {
				return err
			}
			o := calibrate.Options{Name: name, Tell: func(text string) { _, _ = fmt.Fprintln(env.Stderr, text) }}
			if like != "" {
				if o.Like, err = findProfile(like); err != nil {
					return err
				}
			}
			result, err := calibrate.Fit(cmd.Context(), doc, o)
			if err != nil {
				return err
			}
			return publishFit(env, result, out)
		}}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&out, "out", "", "`FILE` for the profile; it must not exist (default NAME.yaml)")
	fs.StringVar(&name, "name", "", "the profile's `NAME` (default from model and hardware)")
	fs.StringVar(&like, "like", "", "`PROFILE` that gives what no measurement shows: scheduler, KV cache, experts, kind of attention")
	return cmd
}

// publishFit keeps the fitted profile and prints how good it is.
func publishFit(env *Env, r *calibrate.Result, out string) error {
	text, err := r.Profile.Encode()
	if err != nil {
		return err
	}
	if out == "" {
		out = r.Profile.Name + ".yaml"
	}
	if err := writeNew(out, text); err != nil {
		return err
	}
	if err := printFit(env.Stdout, r); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(env.Stdout, "\nSaved    %s (%s)\nNext     speedmatrix predict %s\n", out, profile.KindFitted, out)
	return nil
}

// writeNew writes a file that does not exist.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		_, err = f.Write(text)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}
	if err != nil {
		return &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: "the profile cannot be written: " + err.Error(), Next: "Name another file with --out.", Err: err}
	}
	return nil
}

func printFit(out io.Writer, r *calibrate.Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "cell\tfigure\tmeasured\tfitted\terror\t")
	for _, x := range r.Residuals {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\n", report.Clean(x.Cell), x.Figure, unit.Fixed(x.Measured, 2), unit.Fixed(x.Predicted, 2), unit.Change(x.Error))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "\nErrors   median %s, largest %s, over %s in %s\n", unit.PercentFine(r.Median), unit.PercentFine(r.Worst),
		plural(len(r.Residuals), "figure", "figures"), unit.Duration(r.Took))
	for _, p := range r.Parameters {
		if !p.Determined {
			_, _ = fmt.Fprintf(out, "Open     %s: %s\n", p.Name, p.Why)
		}
	}
	return nil
}
