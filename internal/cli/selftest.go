package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/stamp"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/unit"
)

const selftestLong = `Measures this program itself on this machine, in about ten seconds: against a
ground truth server that knows when each token left, over real connections on
loopback. It says how many tokens per second can be measured here, and how far
the times are off. Server and client share this machine; where the server is on
another one, more is possible.`

const selftestExample = `  speedmatrix selftest
  speedmatrix selftest --streams 8,64
  speedmatrix selftest --json`

// mostSelftest is the largest number of streams a self-test takes.
const mostSelftest = 8192

func newSelftest(env *Env) *cobra.Command {
	t := &selftest{env: env, streams: []int{1, 32, 128, 512, 1024}}
	cmd := &cobra.Command{Use: "selftest", Short: "how well this program can measure on this machine", Long: selftestLong,
		Example: selftestExample, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if t.serve.Gap > 0 {
				return beBeat(env, t.serve)
			}
			return t.run(cmd.Context())
		}}
	fs := flagSet("selftest")
	fs.define("streams", "LIST", t.setStreams, "numbers of streams (default 1,32,128,512,1024)")
	fs.BoolVar(&t.json, "json", false, "print the result as JSON on standard output, and nothing else there")
	fs.DurationVar(&t.serve.Gap, "serve", 0, "be the server of a self-test")
	fs.BoolVar(&t.serve.Spread, "spread", false, "of --serve: spread the tokens")
	_, _ = fs.MarkHidden("serve"), fs.MarkHidden("spread") // they exist
	cmd.Flags().AddFlagSet(fs.FlagSet)
	return cmd
}

// selftest carries one `selftest` from its options to its end.
type selftest struct {
	env     *Env
	streams []int
	json    bool
	serve   truth.Beat
}

func (t *selftest) setStreams(v string) error {
	list, err := wholeList(v)
	if err != nil {
		return err
	}
	for _, n := range list {
		if n < 1 || n > mostSelftest {
			return fmt.Errorf("%d streams cannot be tested; give from 1 to %d", n, mostSelftest)
		}
	}
	t.streams = list
	return nil
}

func (t *selftest) run(ctx context.Context) error {
	measure := t.env.SelfTest
	if measure == nil {
		measure = measureApart(stamp.NewClock())
	}
	_, _ = fmt.Fprintf(t.env.Stderr, "Measuring this program for about %s …\n", unit.Duration(time.Duration(len(t.streams)+6)*1300*time.Millisecond))
	report, err := bench.SelfTests(ctx, t.streams, measure, nil)
	if ctx.Err() != nil {
		return &speedmatrix.Error{Kind: speedmatrix.KindInterrupted, What: "the self-test was interrupted", Err: ctx.Err()}
	}
	if err != nil {
		return &speedmatrix.Error{Kind: speedmatrix.KindOf(err), What: "the self-test failed: " + err.Error(),
			Next: "Look whether this machine is busy, and try fewer streams with --streams.", Err: err}
	}
	if t.json {
		e := json.NewEncoder(t.env.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(report)
	}
	return printSelfReport(t.env.Stdout, report)
}

// printSelfReport prints the report as a table and a sentence.
func printSelfReport(out io.Writer, r *bench.SelfReport) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "\ttok/s\tstamp error\t\tTTFT error\tsent late\ttotal\tCPU\t\t")
	_, _ = fmt.Fprintln(w, "streams\tsent\tp50\tp99\tp99\tp99\ttok/s error\tcores\tverdict\t")
	for i := range r.Loads {
		selfLine(w, &r.Loads[i])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	c := &r.Ceiling
	_, _ = fmt.Fprintln(out)
	if c.TokensPerSecond == nil {
		_, _ = fmt.Fprintf(out, "Ceiling  below the lowest rate tried: %s\n", c.Limit)
	} else {
		_, _ = fmt.Fprintf(out, "Ceiling  this machine can measure up to %s tokens/s (%s streams; %s)\n", unit.Rate(*c.TokensPerSecond), unit.Count(c.Streams), c.Limit)
	}
	if r.StampErrorP99Micros != nil {
		_, _ = fmt.Fprintf(out, "Times    right to ±%s (p99), %s\n", us(r.StampErrorP99Micros), stampWords(r.StampSource))
	} else {
		_, _ = fmt.Fprintln(out, "Times    no load could be measured well enough to say")
	}
	_, _ = fmt.Fprintf(out, "Machine  %s, server and client share it\nTook     %s\n",
		plural(r.CPUs, "processor", "processors"), unit.Duration(time.Duration(r.Seconds*float64(time.Second))))
	if share := othersShare(r); share > noticeOthers {
		_, _ = fmt.Fprintf(out, "Note     other programs took up to %s of the processors: on a quiet machine more is possible\n", unit.Percent(share))
	}
	for i := range r.Loads {
		if l := &r.Loads[i]; l.Status != speedmatrix.StatusValid {
			_, _ = fmt.Fprintf(out, "Note     %s: %s: %s\n", plural(l.Streams, "stream", "streams"), l.Status, l.Reason)
		}
	}
	return nil
}

// noticeOthers is the share of the machine's processors from which the work of others is worth a note.
const noticeOthers = 0.1

// othersShare is the largest share of the machine's processors that other programs used.
func othersShare(r *bench.SelfReport) (most float64) {
	for i := range r.Loads {
		if q := r.Loads[i].Client; q != nil && q.CPUShare != nil && q.MachineCPUShare != nil && r.CPUs > 0 {
			used := *q.CPUShare
			if server := r.Loads[i].ServerCPUCores; server != nil {
				used += *server
			}
			most = max(most, *q.MachineCPUShare-used/float64(r.CPUs))
		}
	}
	return most
}

func selfLine(w io.Writer, r *bench.SelfResult) {
	cores, total := unit.Dash, unit.Dash
	if r.Client != nil && r.Client.CPUShare != nil {
		cores = unit.Fixed(*r.Client.CPUShare, 2)
	}
	if r.TotalError != nil {
		total = unit.PercentFine(*r.TotalError)
	}
	_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", unit.Count(r.Streams), unit.Maybe(r.TrueTokensPerSecond, unit.Rate),
		us(r.StampErrorP50Micros), us(r.StampErrorP99Micros), us(r.TTFTErrorP99Micros), us(r.ArrivedLateP99Micros), total, cores, r.Status)
}

func stampWords(source string) string {
	if source == bench.StampKernel {
		return "stamped by the kernel"
	}
	return "stamped when a read returns: this system gives no kernel stamps"
}

// us writes a time in µs.
func us(v *float64) string {
	return unit.Maybe(v, func(us float64) string { return unit.Fine(time.Duration(us * 1e3)) })
}

// wholeList parses "1,2,4".
func wholeList(v string) (list []int, err error) {
	for part := range strings.SplitSeq(v, ",") {
		part = strings.TrimSpace(part)
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, fmt.Errorf("%q is no whole number; write a list such as 1,32,128", part)
		}
		list = append(list, n)
	}
	return list, nil
}
