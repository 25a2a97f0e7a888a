package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/probe"
	"speedmatrix/internal/prompt"
	"speedmatrix/internal/redact"
	"speedmatrix/internal/report"
	"speedmatrix/internal/stats"
	"speedmatrix/internal/unit"
)

const probeLong = `Looks at a server without measuring it: what it is, its limits, how it streams,
each fact with its source, and what is not known. Then the cells that "run" with
the same flags would measure, the reason for each that would not run, and about
how long it would take.

It sends a dozen short requests, and, to a server that is not a hosted service,
one or two prompts of up to 8K tokens, which the expected time is made from.`

const probeExample = `  speedmatrix probe
  speedmatrix probe http://127.0.0.1:8000 --contexts 0,16K,max --concurrency 1,4
  speedmatrix probe http://127.0.0.1:8000 --json`

// probeSchema names the document that --json prints.
const probeSchema = "speedmatrix.probe/1"

func newProbe(env *Env) *cobra.Command {
	o := &runOptions{}
	asJSON := false
	method, server, files := flagSet("method"), flagSet("server"), flagSet("files")
	cmd := &cobra.Command{Use: "probe [URL]", Short: "what a server is, and what a run would measure", Long: probeLong, Example: probeExample,
		Args: atMostOne("URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := &runner{env: env, o: o}
			if o.planFile != "" {
				var err error
				if r.url, err = readPlan(o.planFile, cmd.Flags()); err != nil {
					return err
				}
			}
			if len(args) == 1 {
				r.url = args[0]
			}
			return r.probe(cmd.Context(), asJSON)
		}}
	o.methodFlags(method)
	o.serverFlags(server)
	o.fileFlags(files)
	files.BoolVar(&asJSON, "json", false, "print one JSON document on standard output; what people read goes to standard error")
	// A plan file may hold what only run does.
	for _, name := range []string{"out", "resume", "yes", "events"} {
		files.Lookup(name).Hidden = true
	}
	groups := []flagGroup{{"What a run would measure", method.FlagSet}, {"The server", server.FlagSet}, {"Files and output", files.FlagSet}}
	for _, g := range groups {
		cmd.Flags().AddFlagSet(g.flags)
	}
	cmd.SetHelpFunc(helpOf(env, groups))
	return cmd
}

// probe looks at the server and shows what it is and what would be measured.
func (r *runner) probe(ctx context.Context, asJSON bool) error {
	if err := r.prepareLook(asJSON); err != nil {
		return err
	}
	ctx, interrupts := r.interrupts(ctx)
	defer interrupts.close()
	if err := r.startServer(ctx); err != nil {
		return interruptedOr(ctx, err)
	}
	defer r.stopServer()
	if err := r.look(ctx); err != nil {
		return interruptedOr(ctx, r.withLog(err))
	}
	defer r.server.Close()
	if err := r.readShown(ctx); err != nil {
		return err
	}
	plan, err := bench.NewPlan(r.o.Settings, r.limits())
	if err != nil {
		return err
	}
	pilot, from := r.pilot(ctx)
	if ctx.Err() != nil {
		return interruptedOr(ctx, ctx.Err())
	}
	if r.o.MaxTime > 0 {
		plan.FitInto(r.o.MaxTime, &r.o.Settings, pilot)
	}
	r.doc = &speedmatrix.Run{Server: r.serverRecord(), Model: r.server.Facts.Model, Engine: r.server.Facts.Engine, Hardware: speedmatrix.Facts{}}
	r.doc.Server.URL = r.env.shown.URL(r.doc.Server.URL)
	view := r.planView(plan)
	expected, tokens := plan.Expected(&r.o.Settings, pilot)
	view.Expected, view.PromptTokens = expected, int64(tokens)
	if asJSON {
		return r.printProbe(plan, expected, from)
	}
	return report.Probe(r.env.Stdout, report.ProbeView{Title: r.server.Title(), Found: view.Found, Model: r.server.Facts.Model,
		Engine: r.server.Facts.Engine, Server: r.doc.Server, Hosted: r.server.Hosted, Warnings: r.server.Warnings, Unknown: r.unknown(),
		Plan: view, ExpectedFrom: from})
}

// readShown completes what is known of the server by what its process tells, as it may be shown.
func (r *runner) readShown(ctx context.Context) (err error) {
	r.readProcess(ctx)
	s := r.server
	if s.Facts, err = redact.Copy(r.env.shown, s.Facts); err != nil {
		return err
	}
	if s.Warnings, err = redact.Copy(r.env.shown, s.Warnings); err != nil {
		return err
	}
	r.stated.hardware, err = redact.Copy(r.env.shown, r.stated.hardware)
	return err
}

// pilotSizes are the prompts whose time predicts that of all others, and the one for a server
// that takes none of them.
var pilotSizes = [...]int{2 << 10, 8 << 10}

const (
	pilotSmallest = 512
	// pilotPatience is the most that the shorter prompt may take for the longer to be sent too.
	pilotPatience = 3 * time.Second
)

// pilot times prompts, so that the expected time knows the prefills. A prompt of P tokens takes
// a·P + b·P² beyond what a request of a few tokens takes.
func (r *runner) pilot(ctx context.Context) (p bench.Pilot, from string) {
	if r.server.Hosted {
		return p, "without the time of the prompts: a hosted service charges for trying them"
	}
	base, err := r.server.Ping(ctx)
	if err != nil {
		return p, "without the time of the prompts: a short request failed"
	}
	library, err := prompt.Embedded()
	if err != nil {
		return p, ""
	}
	writer := prompt.NewWriter(library, r.o.Salt, prompt.ModeDistinct)
	timed := func(size int) (took time.Duration, tokens int, ok bool) {
		text := writer.Head(prompt.HeadID{Context: size}, int(float64(size)*r.charsPerToken()))
		took, tokens, err := r.server.TimePrompt(ctx, text)
		return took, tokens, err == nil && tokens > 0
	}
	var prompts, seconds []float64
	for i, size := range pilotSizes {
		most := size
		if limit := r.server.MaxLength; limit > 0 {
			most = min(size, limit/2)
		}
		took, tokens, ok := timed(most)
		if !ok && i == 0 && ctx.Err() == nil {
			most = pilotSmallest
			took, tokens, ok = timed(most)
		}
		if !ok {
			break
		}
		prompts, seconds = append(prompts, float64(tokens)), append(seconds, max(took-base, time.Microsecond).Seconds())
		from = fmt.Sprintf("a prompt of %s tokens took %s", unit.Count(tokens), unit.Fine(took))
		if took > pilotPatience || most < size {
			break
		}
	}
	a, b, ok := stats.FitQuadratic(prompts, seconds)
	if !ok {
		return p, "without the time of the prompts: a longer prompt failed"
	}
	return bench.Pilot{A: a, B: b, Known: true}, from
}

func (r *runner) charsPerToken() float64 {
	if c := r.server.Habits.CharsPerToken; c > 0 {
		return c
	}
	return defaultCharsPerToken
}

// wanted are the facts that a reader of numbers asks for.
var wanted = []struct{ section, key string }{
	{"engine", speedmatrix.EngineName}, {"engine", speedmatrix.EngineVersion}, {"model", speedmatrix.ModelRevision},
	{"model", speedmatrix.ModelQuantization}, {"model", speedmatrix.ModelMaxLength}, {"engine", speedmatrix.EngineKVTokens},
	{"engine", speedmatrix.EngineKVType}, {"engine", speedmatrix.EngineRunningLimit}, {"engine", speedmatrix.EnginePrefixCaching},
	{"engine", speedmatrix.EngineSpeculative}, {"engine", speedmatrix.EngineTensorParallel}, {"engine", speedmatrix.EngineMetrics},
	{"engine", speedmatrix.EngineTokenizer}, {"engine", speedmatrix.EngineAbort},
}

// parallel are the kinds of engines that spread a model over devices as their users say.
var parallel = []probe.Kind{probe.KindVLLM, probe.KindSGLang, probe.KindTRTLLM, probe.KindTGI}

// unknown lists the keys of those facts that nothing tells.
func (r *runner) unknown() (keys []string) {
	for _, w := range wanted {
		if w.key == speedmatrix.EngineTensorParallel && !slices.Contains(parallel, r.server.Kind) {
			continue
		}
		facts := r.server.Facts.Engine
		if w.section == "model" {
			facts = r.server.Facts.Model
		}
		if facts.Text(w.key) == "" {
			keys = append(keys, w.section+"."+w.key)
		}
	}
	return keys
}

// probeDocument is what --json prints.
type probeDocument struct {
	Schema   string                `json:"schema"`
	Tool     speedmatrix.Tool      `json:"tool"`
	Title    string                `json:"title"`
	Kind     probe.Kind            `json:"kind"`
	Server   speedmatrix.Server    `json:"server"`
	Hosted   bool                  `json:"hosted"`
	APIs     []string              `json:"apis"`
	Model    speedmatrix.Facts     `json:"model"`
	Engine   speedmatrix.Facts     `json:"engine"`
	Stated   speedmatrix.Facts     `json:"hardware"`
	Unknown  []string              `json:"unknown"`
	Warnings []speedmatrix.Warning `json:"warnings"`
	Plan     probePlan             `json:"plan"`
}

type probePlan struct {
	Method          string      `json:"method"`
	Contexts        []int       `json:"contexts"`
	Concurrency     []int       `json:"concurrency"`
	Prefill         []int       `json:"prefill"`
	Cells           []probeCell `json:"cells"`
	ExpectedSeconds float64     `json:"expected_seconds"`
	ExpectedFrom    string      `json:"expected_from"`
	PromptTokens    float64     `json:"prompt_tokens"`
}

// probeCell is a planned cell: verdict is "runs", "tried" or "refused".
type probeCell struct {
	Phase        speedmatrix.Phase  `json:"phase"`
	ContextLabel string             `json:"context_label"`
	Context      int                `json:"context"`
	Concurrency  int                `json:"concurrency"`
	Verdict      string             `json:"verdict"`
	Status       speedmatrix.Status `json:"status,omitempty"`
	Reason       string             `json:"reason"`
}

// printProbe prints the document.
func (r *runner) printProbe(plan *bench.Plan, expected time.Duration, from string) error {
	_, tokens := plan.Expected(&r.o.Settings, bench.Pilot{})
	p := probePlan{Method: r.o.Method, Contexts: plan.Contexts, Concurrency: plan.Concurrency, Prefill: slices.Concat([]int{}, plan.Prefill),
		ExpectedSeconds: expected.Seconds(), ExpectedFrom: from, PromptTokens: tokens, Cells: []probeCell{}}
	verdicts := map[bench.Verdict]string{bench.Runs: "runs", bench.Tried: "tried", bench.Refused: "refused"}
	for i := range plan.Cells {
		c := &plan.Cells[i]
		p.Cells = append(p.Cells, probeCell{Phase: c.Phase, ContextLabel: unit.FormatTokens(c.Context), Context: c.Context,
			Concurrency: c.Concurrency, Verdict: verdicts[c.Verdict], Status: c.Status, Reason: c.Reason})
	}
	s := r.server
	out := json.NewEncoder(r.env.Stdout)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(probeDocument{Schema: probeSchema, Tool: tool(), Title: s.Title(), Kind: s.Kind, Server: r.doc.Server, Hosted: s.Hosted,
		APIs: slices.Concat([]string{}, s.APIs), Model: s.Facts.Model, Engine: s.Facts.Engine, Stated: r.stated.hardware,
		Unknown: slices.Concat([]string{}, r.unknown()), Warnings: slices.Concat([]speedmatrix.Warning{}, s.Warnings), Plan: p})
}
