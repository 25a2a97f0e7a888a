package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/predict"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/report"
	"speedmatrix/internal/simserver"
	"speedmatrix/internal/unit"
)

const demoLong = `Tries the whole thing with no server and no GPU: starts the simulated engine of
an RTX 3090 in the same process, measures six cells over real HTTP on loopback,
and prints the matrix beside what the profile predicts. It takes about a minute.`

// demoSettings are the demo's six cells.
func demoSettings() bench.Settings {
	return bench.Settings{Contexts: []int{0, 4 << 10}, Concurrency: []int{1, 4, 8}, Prefill: []int{4 << 10}, Quick: true, Salt: "demo"}
}

func newDemo(env *Env) *cobra.Command {
	var out string
	cmd := &cobra.Command{Use: "demo", Short: "try it now: no server, no GPU, one minute", Long: demoLong, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), env, out) }}
	cmd.Flags().StringVar(&out, "out", "", "the run's `DIR`; it must not exist (default runs/ID)")
	return cmd
}

// demo measures the simulated engine over loopback.
func demo(ctx context.Context, env *Env, out string) error {
	machine, err := profile.Named(defaultProfile)
	if err != nil {
		return err
	}
	server, err := simserver.New(machine, simserver.Options{})
	if err != nil {
		return err
	}
	defer server.Close()
	l, err := listenLocal(0)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	_, _ = fmt.Fprintf(env.Stdout, "Simulated: %s. No GPU is used; the server below is this program itself.\n\n", machine.Title)
	r := &runner{env: env, url: "http://" + l.Addr().String(), o: &runOptions{Settings: demoSettings(), out: out, yes: true}}
	if err := r.run(ctx); err != nil {
		return err
	}
	predicted, err := predict.Predict(ctx, machine, demoSettings(), predict.Options{Tool: tool()})
	if err != nil {
		return err
	}
	return printBeside(env.Stdout, r.doc, predicted)
}

// printBeside prints the measured numbers beside the predicted ones.
func printBeside(out io.Writer, measured, predicted *speedmatrix.Run) error {
	_, _ = fmt.Fprintln(out, "\nMeasured over HTTP beside what the profile predicts")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "cell\tmeasured\tpredicted\t\tTTFT\tpredicted\t")
	for i := range measured.Cells {
		m := &measured.Cells[i]
		p := predicted.FindCell(m.Phase, m.Context, m.Concurrency)
		if p == nil || !m.Status.ShowsSpeed() {
			continue
		}
		name, speed, wanted := fmt.Sprintf("decode %s × %d", m.ContextLabel, m.Concurrency), m.TotalTokensPerSecond, p.TotalTokensPerSecond
		if m.Phase == speedmatrix.PhasePrefill {
			name, speed, wanted = "prefill "+m.ContextLabel, m.PromptTokensPerSecond, p.PromptTokensPerSecond
		}
		change := unit.Dash
		if speed != nil && wanted != nil {
			change = unit.Change(*speed / *wanted - 1)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s tok/s\t%s tok/s\t%s\t%s\t%s\t\n", report.Clean(name), unit.Maybe(speed, unit.Rate), unit.Maybe(wanted, unit.Rate), change,
			unit.Maybe(medianOf(m.TTFT), unit.TTFT), unit.Maybe(medianOf(p.TTFT), unit.TTFT))
	}
	return w.Flush()
}

func medianOf(d *speedmatrix.Distribution) *float64 {
	if d == nil {
		return nil
	}
	return d.P50
}
