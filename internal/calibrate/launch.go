package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"speedmatrix/internal/profile"
)

// How widely the launch times are searched.
const (
	singleStarts = 3 // starts for single requests with each size of the slow first tokens
	splits       = 8 // steps of the front end's split into a serial part and a delay
	refined      = 8 // of the best splits are fitted
	rounds       = 3 // of the same again around the best fit
	// goodEnough is the error, in units of the usual ones, below which no further start is tried.
	goodEnough = 5e-4
)

// fitSingles fits what prefills and single requests decide: all but how the front end's time splits into a serial part
// and a delay, and what simultaneous requests do to each other.
func (f *fit) fitSingles(ctx context.Context) {
	from := f.p
	best := candidate{from, math.Inf(1)}
	// A GEMM of few tokens is slow up to some number of them; from 0 there is no such part.
	for _, slow := range []float64{0, 100, 200, 300, 450, 700, 1100} {
		better := 1.0
		if best.p.StepTime.PrefillSmallTokens == 0 {
			better = clearlyBetter // a further part has to earn its place
		}
		f.p = from
		f.p.StepTime.PrefillSmallTokens, f.p.StepTime.PrefillSmallUS = slow, from.StepTime.PrefillTokenUS/2
		if slow == 0 {
			f.p.StepTime.PrefillSmallUS = 0
		}
		if c := f.fitSingle(ctx); c.error < better*best.error {
			best = c
		}
		if best.error < goodEnough || ctx.Err() != nil {
			break
		}
	}
	f.p = best.p
	f.o.Tell(fmt.Sprintf("single requests: error %.3g of the usual one", best.error))
}

// fitSingle fits the single requests from the current values and from random ones.
func (f *fit) fitSingle(ctx context.Context) candidate {
	random := rand.New(rand.NewPCG(1, 1))
	from, best := f.p, candidate{f.p, math.Inf(1)}
	for start := range singleStarts {
		if ctx.Err() != nil || best.error < goodEnough {
			break
		}
		f.p = from
		if start > 0 {
			f.shake(random, math.Log(3))
			f.p.StepTime.PrefillSmallTokens = from.StepTime.PrefillSmallTokens
		}
		f.p.FrontEnd.DelayMS, f.p.FrontEnd.DelayTokenUS = 0, 0
		if e := f.minimize(singleParameters(&f.p), f.launches(singles, plain)); e < best.error {
			best = candidate{f.p, e}
		}
	}
	return best
}

// singleParameters are the launch parameters that single requests decide.
func singleParameters(p *profile.Profile) []parameter {
	return slices.DeleteFunc(launchParameters(p), func(q parameter) bool {
		x := q.at(p)
		return x == &p.FrontEnd.DelayMS || x == &p.FrontEnd.DelayTokenUS || x == &p.StepTime.AttentionContention
	})
}

// fixedTimes are the constant front end times in ms that are tried, because single requests may not tell them from the
// constant time of a prefill step.
var fixedTimes = []float64{0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 11, 15}

// stillFits is how far above the best error, in units of the usual ones, a fit of single requests still counts.
const stillFits = 0.05

// ladder gives fits of the single requests that are as good as the current one, with other constant front end times.
func (f *fit) ladder(ctx context.Context) []profile.Profile {
	single := f.p
	residuals := f.launches(singles, plain)
	best := rms(residuals(&single))
	list := []profile.Profile{single}
	for _, fixed := range fixedTimes {
		if ctx.Err() != nil {
			break
		}
		f.p = single
		f.p.FrontEnd.SerialMS = fixed
		if f.minimize(f.withoutFixed(), residuals) < best+stillFits {
			list = append(list, f.p)
		}
	}
	f.p = single
	return list
}

// withoutFixed are the parameters of single requests without the constant front end time.
func (f *fit) withoutFixed() []parameter {
	return slices.DeleteFunc(singleParameters(&f.p), func(q parameter) bool { return q.at(&f.p) == &f.p.FrontEnd.SerialMS })
}

func rms(r []float64) float64 { return math.Sqrt(squares(r) / float64(max(len(r), 1))) }

// candidate is a profile and how well it gives the launches back.
type candidate struct {
	p     profile.Profile
	error float64
}

// fitLaunches tries how the front end's time may split, and both ways of computing attention, fits the most promising
// ones, and keeps the best.
func (f *fit) fitLaunches(ctx context.Context) {
	kinds := []string{profile.AttentionPerSequence, profile.AttentionOneKernel}
	if f.o.Like != nil {
		kinds = []string{f.o.Like.StepTime.Attention}
	}
	ladder := f.ladder(ctx)
	best := candidate{f.p, math.Inf(1)}
	for _, kind := range kinds {
		c := f.fitKind(ctx, kind, ladder)
		f.o.Tell(fmt.Sprintf("launches with attention %s: error %.3g of the usual one", kind, c.error))
		if c.error < clearlyBetter*best.error {
			best = c
		}
	}
	f.p = best.p
}

// fitKind fits the launches with one way of computing attention.
func (f *fit) fitKind(ctx context.Context, kind string, ladder []profile.Profile) candidate {
	var list []candidate
	for _, p := range ladder {
		p.StepTime.Attention = kind
		list = append(list, f.trySplits(ctx, p)...)
	}
	best := f.refine(ctx, list, candidate{f.p, math.Inf(1)})
	for range rounds {
		if best.error < goodEnough || ctx.Err() != nil {
			break
		}
		best = f.refine(ctx, f.around(best.p), best)
	}
	return best
}

// refine fits the most promising candidates and gives the best of them, or the one so far.
func (f *fit) refine(ctx context.Context, list []candidate, best candidate) candidate {
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(a.error, b.error) })
	for _, c := range list[:min(refined, len(list))] {
		if ctx.Err() != nil || best.error < goodEnough {
			break
		}
		f.p = c.p
		if e := f.minimize(launchParameters(&f.p), f.likely(f.launches(everyLaunch, soften))); e < best.error {
			best = candidate{f.p, e}
		}
	}
	return best
}

// around gives candidates near a fit: other constant front end times, with the single requests fitted to each, and
// other splits.
func (f *fit) around(p profile.Profile) (list []candidate) {
	single := p
	single.FrontEnd = profile.FrontEnd{SerialMS: p.FrontEnd.SerialMS + p.FrontEnd.DelayMS, SerialTokenUS: p.FrontEnd.SerialTokenUS + p.FrontEnd.DelayTokenUS}
	fixed, token := share(p.FrontEnd.SerialMS, p.FrontEnd.DelayMS), share(p.FrontEnd.SerialTokenUS, p.FrontEnd.DelayTokenUS)
	residuals := f.likely(f.launches(everyLaunch, soften))
	for _, factor := range []float64{0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15} {
		f.p = single
		f.p.FrontEnd.SerialMS *= factor
		f.minimize(f.withoutFixed(), f.launches(singles, plain))
		for _, a := range []float64{-0.1, -0.03, 0, 0.03, 0.1} {
			for _, b := range []float64{-0.1, -0.03, 0, 0.03, 0.1} {
				q := f.p
				q.FrontEnd = split(f.p.FrontEnd, fixed+a, token+b)
				if r := residuals(&q); r != nil {
					list = append(list, candidate{q, squares(r)})
				}
			}
		}
	}
	return list
}

// The serial shares of the constant and of the per-token front end time on the machine of the calibrated profiles, and
// how little it counts, in units of the usual errors, to be away from them.
const (
	usualFixedShare = 0.795
	usualTokenShare = 0.418
	shareWeight     = 0.02
)

// likely adds that, of splits of the front end's time which the run cannot tell apart, the usual one is taken.
func (f *fit) likely(residuals func(*profile.Profile) []float64) func(*profile.Profile) []float64 {
	return func(p *profile.Profile) []float64 {
		r := residuals(p)
		if r == nil {
			return nil
		}
		e := &p.FrontEnd
		return append(r, shareWeight*(share(e.SerialMS, e.DelayMS)-usualFixedShare), shareWeight*(share(e.SerialTokenUS, e.DelayTokenUS)-usualTokenShare))
	}
}

// share is a's share of both.
func share(a, b float64) float64 {
	if a+b == 0 {
		return 0
	}
	return a / (a + b)
}

// split divides a front end's serial times into a serial part and a delay, by the serial parts' shares.
func split(total profile.FrontEnd, fixed, token float64) profile.FrontEnd {
	fixed, token = min(max(fixed, 0), 1), min(max(token, 0), 1)
	return profile.FrontEnd{SerialMS: total.SerialMS * fixed, DelayMS: total.SerialMS * (1 - fixed),
		SerialTokenUS: total.SerialTokenUS * token, DelayTokenUS: total.SerialTokenUS * (1 - token)}
}

// trySplits gives the most promising splits of the front end's time, with the contention of attention where there is any.
func (f *fit) trySplits(ctx context.Context, from profile.Profile) []candidate {
	contentions := []float64{0}
	if from.StepTime.Attention == profile.AttentionOneKernel {
		contentions = []float64{0, 0.3}
	}
	var list []candidate
	residuals := f.likely(f.launches(everyLaunch, soften))
	for i := range splits * splits * len(contentions) {
		if ctx.Err() != nil {
			break
		}
		p := from
		p.StepTime.AttentionContention = contentions[i/(splits*splits)]
		fixed, token := (float64(i%splits)+0.5)/splits, (float64(i/splits%splits)+0.5)/splits
		p.FrontEnd = split(from.FrontEnd, fixed, token)
		if r := residuals(&p); r != nil {
			list = append(list, candidate{p, squares(r)})
		}
	}
	return list
}

// shake moves the launch parameters at random by a factor of e to the spread at most.
func (f *fit) shake(random *rand.Rand, spread float64) {
	for _, q := range launchParameters(&f.p) {
		x := q.at(&f.p)
		*x = max(*x, 0.05*q.typical) * math.Exp(spread*(2*random.Float64()-1))
	}
}
