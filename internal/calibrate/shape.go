package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/engine"
	"speedmatrix/internal/predict"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/stats"
)

// fit is a fit under way.
type fit struct {
	run      *speedmatrix.Run
	o        *Options
	settings predict.Settings
	figures  []figure
	p        profile.Profile
	// loads are what the steps of the decode figures compute, at their mean context; Decodes is 0 for the others.
	loads       []engine.Load
	memo        *predict.Memo
	evaluations int
}

// leastFigures is the least number of decode and of prefill figures that say anything.
const leastFigures = 3

func newFit(run *speedmatrix.Run, o *Options) (*fit, error) {
	f := &fit{run: run, o: o, settings: predict.SettingsOf(run), figures: figuresOf(run), memo: predict.NewMemo()}
	steps, prefills := 0, 0
	for i := range f.figures {
		switch f.figures[i].kind {
		case FigureStep:
			steps++
		case FigurePrefill:
			prefills++
		}
	}
	if steps < leastFigures || prefills < leastFigures {
		return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage,
			What: fmt.Sprintf("the run has %d Valid decode cells and %d Valid prefill cells; a profile needs at least %d of each", steps, prefills, leastFigures),
			Next: "Measure more contexts and concurrencies: speedmatrix run measures enough by default."}
	}
	f.describe()
	f.start()
	return f, f.p.Check()
}

// The scheduler's limits where the run's facts do not tell them: vLLM's for a desktop card.
const (
	usualStepTokens = 2048
	usualRunning    = 256
	usualBlock      = 16
	// hybridBlock is the block from which on a model is taken for a hybrid: plain ones have 16 to 64 tokens.
	hybridBlock = 128
)

// describe makes the profile's description from the run's facts.
func (f *fit) describe() {
	r, p := f.run, &f.p
	text := func(facts speedmatrix.Facts, key, otherwise string) string { return cmp.Or(facts.Text(key), otherwise) }
	model := text(r.Model, speedmatrix.ModelName, text(r.Model, speedmatrix.ModelServedName, "unknown model"))
	gpu := text(r.Hardware, speedmatrix.HardwareGPU, "unknown card")
	*p = profile.Profile{Name: cmp.Or(f.o.Name, nameOf(gpu+"-"+model)), Title: model + " on " + gpu, Kind: profile.KindFitted,
		Source: "Fitted to the run " + r.ID,
		Model: profile.Model{Name: model, ServedName: r.Model.Text(speedmatrix.ModelServedName), Revision: r.Model.Text(speedmatrix.ModelRevision),
			Quantization: r.Model.Text(speedmatrix.ModelQuantization)},
		Hardware: profile.Hardware{Type: r.Hardware.Text(speedmatrix.HardwareType), GPU: gpu, CPU: r.Hardware.Text(speedmatrix.HardwareCPU),
			RAM: r.Hardware.Text(speedmatrix.HardwareRAM), OS: r.Hardware.Text(speedmatrix.HardwareOS)},
		Engine: profile.Engine{Name: text(r.Engine, speedmatrix.EngineName, "vllm"), Version: text(r.Engine, speedmatrix.EngineVersion, "unknown"),
			Backend: r.Engine.Text(speedmatrix.EngineBackend), Repository: r.Engine.Text(speedmatrix.EngineRepository),
			Build: r.Engine.Text(speedmatrix.EngineBuild), KVType: r.Engine.Text(speedmatrix.EngineKVType)},
		Matrix: profile.Matrix{Contexts: r.Plan.Contexts, Concurrency: r.Plan.Concurrency, Prefill: r.Plan.Prefill},
		Prompt: f.prompts(),
	}
	if r.LaunchCommand != nil {
		p.LaunchCommand = fmt.Sprint(r.LaunchCommand.Value)
	}
	if like := f.o.Like; like != nil {
		p.Scheduler, p.KV = like.Scheduler, like.KV
		p.Model.MaxLengthTokens, p.Model.WeightsGiB, p.Hardware.VRAMGiB = like.Model.MaxLengthTokens, like.Model.WeightsGiB, like.Hardware.VRAMGiB
		return
	}
	f.limits()
}

// limits takes the scheduler and the KV cache from the run's facts, and says what is assumed instead.
func (f *fit) limits() {
	r, p := f.run, &f.p
	number := func(facts speedmatrix.Facts, key string, otherwise int) int {
		if n, ok := facts.Int(key); ok && n > 0 {
			return n
		}
		p.Assumptions = append(p.Assumptions, fmt.Sprintf("The run does not tell %s; %d is assumed.", key, otherwise))
		return otherwise
	}
	longest := 0
	for i := range r.Cells {
		longest = max(longest, r.Cells[i].Context)
	}
	p.Model.MaxLengthTokens = number(r.Model, speedmatrix.ModelMaxLength, longest+r.Method.MaxOutput)
	p.KV.BlockTokens = number(r.Engine, speedmatrix.EngineKVBlockTokens, usualBlock)
	tokens := number(r.Engine, speedmatrix.EngineKVTokens, f.leastTokens())
	p.KV.Blocks = max(tokens/p.KV.BlockTokens, (p.Model.MaxLengthTokens+p.KV.BlockTokens-1)/p.KV.BlockTokens+1)
	caching, known := r.Engine.Bool(speedmatrix.EnginePrefixCaching)
	p.Scheduler = profile.Scheduler{StepTokens: number(r.Engine, speedmatrix.EngineStepTokens, usualStepTokens),
		MaxRunning:    number(r.Engine, speedmatrix.EngineRunningLimit, usualRunning),
		PrefixCaching: caching || !known, Hybrid: p.KV.BlockTokens >= hybridBlock}
	if p.Scheduler.Hybrid {
		p.Assumptions = append(p.Assumptions, fmt.Sprintf("Blocks of %d tokens: a hybrid model.", p.KV.BlockTokens))
	}
}

// leastTokens is the KV cache that the largest cell which ran needs at least.
func (f *fit) leastTokens() (most int) {
	for i := range f.figures {
		c := &f.figures[i].cell
		most = max(most, c.Concurrency*(c.Context+f.run.Method.WindowTokens)*11/10)
	}
	return most
}

// prompts gives the length of prompts by context, where the method does not aim at the context itself.
func (f *fit) prompts() profile.Prompt {
	var x, y []float64
	out := profile.Prompt{}
	for i := range f.figures {
		c := &f.figures[i].cell
		switch {
		case c.PromptTokens == nil:
		case c.Context == 0:
			out.ZeroContextTokens = int(*c.PromptTokens + 0.5)
		case !slices.Contains(x, float64(c.Context)):
			x, y = append(x, float64(c.Context)), append(y, *c.PromptTokens)
		}
	}
	if slope, intercept, ok := stats.Line(x, y); ok && intercept >= 0 {
		out.PerContextToken, out.OffsetTokens = slope, intercept
	} else if len(x) > 0 {
		out.PerContextToken = y[len(y)-1] / x[len(x)-1]
	}
	return out
}

// nameOf makes a profile's name of a text.
func nameOf(text string) string {
	text = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' {
			return c
		}
		return '-'
	}, strings.ToLower(text))
	fields := strings.FieldsFunc(text, func(c rune) bool { return c == '-' })
	text = strings.Trim(strings.Join(fields, "-"), "-.")
	return strings.TrimRight(text[:min(len(text), 80)], "-.")
}

// start gives every parameter a first value: decode by its least step, prefill by a parabola through its times.
func (f *fit) start() {
	var x, y []float64
	least := math.Inf(1)
	for i := range f.figures {
		g := &f.figures[i]
		switch {
		case g.kind == FigureStep:
			least = min(least, g.measured)
		case g.kind == FigurePrefill && g.cell.PromptTokens != nil:
			x, y = append(x, *g.cell.PromptTokens), append(y, g.measured)
		}
	}
	a, b, _ := stats.FitQuadratic(x, y)
	pair := 2e6 * b
	s := profile.StepTime{BaseMS: least * 0.9, KVUniqueUS: 0.03, KVTotalUS: 0.02, KVWaveFactor: 1, KVNorm: 1,
		PrefillBaseMS: least, PrefillTokenUS: max(1e3*a*0.9, 0.01), AttentionPairNS: max(pair, 1e-3), AttentionFloorUS: max(pair*0.2, 1e-3),
		Attention: profile.AttentionPerSequence, PrefillSmallTokens: 300, PrefillSmallUS: 1}
	f.p.StepTime = s
	f.p.FrontEnd = profile.FrontEnd{SerialMS: 3, SerialTokenUS: 0.6, DelayMS: 1, DelayTokenUS: 0.9}
}

// shape is a form of the step time whose numbers are to be fitted.
type shape struct {
	norm, wave       float64
	experts, perUsed float64
}

// shapes are the forms that are tried, the simplest first.
func (f *fit) shapes() []shape {
	if like := f.o.Like; like != nil {
		s := &like.StepTime
		return []shape{{s.KVNorm, s.KVWaveFactor, s.Experts, s.ExpertsPerToken}}
	}
	var list []shape
	// What counts of a mixture is the share of the experts that a token uses.
	for _, used := range []float64{0, 8, 4, 16, 32, 2.5} {
		experts := 128.0
		if used == 0 {
			experts = 0
		}
		list = append(list, shape{1, 1, experts, used}, shape{3, 2, experts, used})
	}
	return list
}

// clearlyBetter is how much smaller the error of a more complicated shape has to be.
const clearlyBetter = 0.8

// fitShapes fits the decode cells by each shape and keeps the best one.
func (f *fit) fitShapes() {
	best, bestError := profile.StepTime{}, math.Inf(1)
	from := f.p.StepTime
	for _, s := range f.shapes() {
		f.p.StepTime = from
		t := &f.p.StepTime
		t.KVNorm, t.KVWaveFactor, t.Experts, t.ExpertsPerToken = s.norm, s.wave, s.experts, s.perUsed
		if e := f.fitDecode(); e < clearlyBetter*bestError && bestError-e > 1e-5 {
			best, bestError = f.p.StepTime, e
		}
	}
	f.p.StepTime = best
}
