package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"speedmatrix"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/report"
	"speedmatrix/internal/simserver"
	"speedmatrix/internal/unit"
)

const simLong = `Serves the simulated engine: a real HTTP server with vLLM's routes, scheduler and
metrics, and the step times of a chosen machine and model. Other programs take it
for vLLM; every answer says in its headers that it is simulated.

PROFILE is the name of an embedded profile or a YAML file of your own.`

const simExample = `  speedmatrix sim rtx3090-agents-a1-4b-fp8 --port 8000
  speedmatrix sim machine.yaml --speed 10
  speedmatrix sim --fault spike=250ms@1% --fault kv=25%
  speedmatrix sim --list`

// defaultProfile is served where none is named.
const defaultProfile = "rtx3090-agents-a1-4b-fp8"

// simOptions are the options of sim.
type simOptions struct {
	port       int
	speed      float64
	noise      float64
	seed       uint64
	faults     []string
	list, show bool
}

func newSim(env *Env) *cobra.Command {
	o := &simOptions{}
	cmd := &cobra.Command{Use: "sim [PROFILE]", Short: "serve the simulated engine", Long: simLong, Example: simExample, Args: atMostOne("profile"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := defaultProfile
			if len(args) == 1 {
				name = args[0]
			}
			switch {
			case o.list:
				return listProfiles(env.Stdout)
			case o.show:
				return showProfile(env.Stdout, name)
			}
			return o.serve(cmd.Context(), env, name)
		}}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.IntVar(&o.port, "port", 8000, "`PORT` on 127.0.0.1; 0 takes a free one")
	fs.Float64Var(&o.speed, "speed", 1, "`FACTOR` by which the server's clock runs faster than time; it announces it, and a run records it")
	fs.Float64Var(&o.noise, "noise", 0, "standard deviation of a step's duration as a `SHARE`, such as 0.005")
	fs.Uint64Var(&o.seed, "seed", 0, "`NUMBER` that decides answers, noise and faults")
	fs.StringArrayVar(&o.faults, "fault", nil, "a `FAULT` such as spike=250ms@1%, drop=2%@50, error=5%@503, metrics=2s or kv=25%; may be given several times")
	fs.BoolVar(&o.list, "list", false, "list the embedded profiles")
	fs.BoolVar(&o.show, "show", false, "print a profile as the YAML file that it is")
	return cmd
}

func listProfiles(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tKIND\tWHAT")
	for _, p := range profile.All() {
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, p.Kind, p.Title)
	}
	return w.Flush()
}

func showProfile(out io.Writer, name string) error {
	machine, err := findProfile(name)
	if err != nil {
		return err
	}
	text, err := machine.Encode()
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// serve serves until the first interrupt.
func (o *simOptions) serve(ctx context.Context, env *Env, name string) error {
	machine, err := findProfile(name)
	if err != nil {
		return err
	}
	faults, err := simserver.ParseFaults(o.faults)
	if err != nil {
		return err
	}
	if o.speed < 0.01 || o.speed > 1000 {
		return usage(fmt.Sprintf("--speed %g is out of range", o.speed), "It is a factor from 0.01 to 1000.")
	}
	server, err := simserver.New(machine, simserver.Options{Seed: o.seed, Speed: o.speed, Noise: o.noise, Faults: faults, Spin: true})
	if err != nil {
		return err
	}
	defer server.Close()
	l, err := listenLocal(o.port)
	if err != nil {
		return err
	}
	printServed(env.Stdout, machine, server, l.Addr().String())
	ctx, in := listenForInterrupts(ctx, env, func() {})
	defer in.close()
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return nil
	}
}

// listenLocal listens on loopback; a port in use is named.
func listenLocal(port int) (net.Listener, error) {
	if port < 0 || port > 65535 {
		return nil, usage(fmt.Sprintf("there is no port %d", port), "A port is a number from 0 to 65535.")
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err == nil {
		return l, nil
	}
	what := fmt.Sprintf("port %d cannot be listened on: %v", port, err)
	if isInUse(err) {
		what = fmt.Sprintf("port %d is in use", port)
	}
	return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: what, Next: "Take another with --port, or a free one with --port 0.", Err: err}
}

func isInUse(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Err != nil && e.Err.Error() == "bind: address already in use"
}

// printServed says what is served and where.
func printServed(w io.Writer, p *profile.Profile, s *simserver.Server, address string) {
	_, _ = fmt.Fprintf(w, `Simulated  %s
Profile    %s (%s)
Serves     %q at http://%s, up to %s tokens, %s tokens of KV cache

Measure it  speedmatrix run http://%s
Ctrl-C stops it.
`, report.Clean(p.Title), p.Name, p.Kind, s.Served(), address, unit.Count(p.Model.MaxLengthTokens), unit.Count(p.KV.Tokens()), address)
}
