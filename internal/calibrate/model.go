package calibrate

import (
	"math"

	"speedmatrix"
	"speedmatrix/internal/engine"
	"speedmatrix/internal/predict"
	"speedmatrix/internal/profile"
)

// parameter is one number of a profile that is fitted.
type parameter struct {
	name string
	at   func(*profile.Profile) *float64
	// typical is its usual size.
	typical float64
}

// decodeParameters are those that the decode cells decide.
func decodeParameters(p *profile.Profile) []parameter {
	list := []parameter{
		{"step_time.base_ms", func(p *profile.Profile) *float64 { return &p.StepTime.BaseMS }, 5},
		{"step_time.per_sequence_ms", func(p *profile.Profile) *float64 { return &p.StepTime.PerSequenceMS }, 0.1},
		{"step_time.kv_longest_us", func(p *profile.Profile) *float64 { return &p.StepTime.KVLongestUS }, 0.1},
		{"step_time.kv_unique_us", func(p *profile.Profile) *float64 { return &p.StepTime.KVUniqueUS }, 0.05},
		{"step_time.kv_total_us", func(p *profile.Profile) *float64 { return &p.StepTime.KVTotalUS }, 0.05},
	}
	if p.StepTime.Experts > 0 {
		list = append(list, parameter{"step_time.per_expert_ms", func(p *profile.Profile) *float64 { return &p.StepTime.PerExpertMS }, 0.05})
	}
	return list
}

// launchParameters are those that prefills and launches decide.
func launchParameters(p *profile.Profile) []parameter {
	list := []parameter{
		{"step_time.prefill_base_ms", func(p *profile.Profile) *float64 { return &p.StepTime.PrefillBaseMS }, 10},
		{"step_time.prefill_token_us", func(p *profile.Profile) *float64 { return &p.StepTime.PrefillTokenUS }, 50},
		{"step_time.attention_pair_ns", func(p *profile.Profile) *float64 { return &p.StepTime.AttentionPairNS }, 2},
		{"step_time.attention_floor_us", func(p *profile.Profile) *float64 { return &p.StepTime.AttentionFloorUS }, 0.5},
		{"front_end.serial_ms", func(p *profile.Profile) *float64 { return &p.FrontEnd.SerialMS }, 3},
		{"front_end.serial_token_us", func(p *profile.Profile) *float64 { return &p.FrontEnd.SerialTokenUS }, 0.7},
		{"front_end.delay_ms", func(p *profile.Profile) *float64 { return &p.FrontEnd.DelayMS }, 1},
		{"front_end.delay_token_us", func(p *profile.Profile) *float64 { return &p.FrontEnd.DelayTokenUS }, 0.9},
	}
	if p.StepTime.PrefillSmallTokens > 0 {
		list = append(list, parameter{"step_time.prefill_small_us", func(p *profile.Profile) *float64 { return &p.StepTime.PrefillSmallUS }, 20},
			parameter{"step_time.prefill_small_tokens", func(p *profile.Profile) *float64 { return &p.StepTime.PrefillSmallTokens }, 300})
	}
	if p.StepTime.Attention == profile.AttentionOneKernel {
		list = append(list, parameter{"step_time.attention_contention", func(p *profile.Profile) *float64 { return &p.StepTime.AttentionContention }, 0.2})
	}
	return list
}

// measureLoads finds what the steps of each decode figure compute: the launch of its cell on a bed, moved on to the
// figure's mean context.
func (f *fit) measureLoads() error {
	bed, err := predict.NewBed(&f.p, f.settings, f.memo)
	if err != nil {
		return err
	}
	f.loads = make([]engine.Load, len(f.figures))
	for i := range f.figures {
		g := &f.figures[i]
		if g.kind != FigureStep {
			continue
		}
		launched, ok := bed.Launch(g.cell.Context, g.cell.Concurrency)
		if !ok {
			continue
		}
		load := launched.Load
		c := float64(g.cell.Concurrency)
		more := g.context - load.Total/c
		load.Total += more * c
		load.Unique += more * c
		load.Longest += more
		load.LongestDecode += more
		f.loads[i] = load
	}
	return nil
}

// fitDecode fits the decode cells from the current values on, and gives the root of the mean square error in units of
// the usual errors.
func (f *fit) fitDecode() float64 {
	timing := func(p *profile.Profile) []float64 {
		t := engine.TimingOf(&p.StepTime)
		out := make([]float64, 0, len(f.figures))
		for i := range f.figures {
			g := &f.figures[i]
			if g.kind == FigureStep && f.loads[i].Decodes > 0 {
				out = append(out, g.residual(t.Step(&f.loads[i])/1e6))
			}
		}
		return out
	}
	return f.minimize(decodeParameters(&f.p), timing)
}

// residual is the error of a value in units of the figure's usual error.
func (f *figure) residual(value float64) float64 {
	if value <= 0 {
		return 1e3
	}
	return math.Log(value/f.target()) / f.usual
}

// minimize fits parameters from their current values on and keeps the best ones.
func (f *fit) minimize(list []parameter, residuals func(*profile.Profile) []float64) float64 {
	x, scale := make([]float64, len(list)), make([]float64, len(list))
	for i, q := range list {
		x[i], scale[i] = *q.at(&f.p), q.typical
	}
	n := 1
	trial := f.p
	p := problem{scale: scale, residuals: func(x []float64) []float64 {
		for i, q := range list {
			*q.at(&trial) = x[i]
		}
		r := residuals(&trial)
		n = max(len(r), 1)
		return r
	}}
	x, sum := p.solve(x)
	for i, q := range list {
		*q.at(&f.p) = x[i]
	}
	return math.Sqrt(sum / float64(n))
}

// which selects figures.
type which func(*figure) bool

// The figures of single requests follow smoothly from the parameters; those of many at once jump where a request just
// misses a step.
func singles(g *figure) bool { return g.kind != FigureStep && g.cell.Concurrency == 1 }

func everyLaunch(g *figure) bool { return g.kind != FigureStep }

// launches gives the residuals of prefills and launches on a bed of that profile; nil where it is no machine.
func (f *fit) launches(some which, loss func(float64) float64) func(p *profile.Profile) []float64 {
	return func(p *profile.Profile) []float64 {
		f.evaluations++
		values := f.fast(p, some)
		if values == nil {
			return nil
		}
		out := make([]float64, 0, len(f.figures))
		for i := range f.figures {
			if g := &f.figures[i]; some(g) {
				out = append(out, loss(g.residual(values[i])))
			}
		}
		return out
	}
}

// plain is the loss of figures that follow smoothly.
func plain(r float64) float64 { return r }

// soften makes a large residual count less, so that one launch that jumped does not decide over the others.
func soften(r float64) float64 {
	return math.Copysign(math.Sqrt(2*(math.Sqrt(1+r*r)-1)), r)
}

// fast gives the selected figures of a profile by the fast model: a bed, and the step time at the mean context.
func (f *fit) fast(p *profile.Profile, some which) []float64 {
	bed, err := predict.NewBed(p, f.settings, f.memo)
	if err != nil || p.StepTime.PrefillSmallTokens > float64(p.Scheduler.StepTokens) {
		return nil
	}
	t := engine.TimingOf(&p.StepTime)
	values := make([]float64, len(f.figures))
	for i := range f.figures {
		g := &f.figures[i]
		if !some(g) {
			continue
		}
		switch g.kind {
		case FigurePrefill:
			values[i], _ = bed.Prefill(g.cell.Context)
		case FigureLaunch:
			launched, _ := bed.Launch(g.cell.Context, g.cell.Concurrency)
			values[i] = launched.TTFT
		case FigureStep:
			values[i] = t.Step(&f.loads[i]) / 1e6
		}
	}
	return values
}

// takeCorrections notes by how much a whole predicted run differs from the fast model.
func (f *fit) takeCorrections(run *speedmatrix.Run) {
	values := f.fast(&f.p, func(*figure) bool { return true })
	for i := range f.figures {
		g := &f.figures[i]
		if whole, ok := g.read(run); ok && values != nil && values[i] > 0 {
			g.factor = whole / values[i]
		}
	}
}
