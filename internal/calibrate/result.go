package calibrate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"speedmatrix/internal/engine"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/stats"
)

// result rounds the profile, predicts the run with it and says what is left over and what is not decided.
func (f *fit) result(ctx context.Context) (*Result, error) {
	parameters := f.determine()
	all := append(decodeParameters(&f.p), launchParameters(&f.p)...)
	for i, q := range all {
		*q.at(&f.p) = round(*q.at(&f.p))
		parameters[i].Value = *q.at(&f.p)
	}
	run, err := f.predict(ctx)
	if err != nil {
		return nil, err
	}
	out := &Result{Parameters: parameters, Evaluations: f.evaluations}
	var sizes []float64
	for i := range f.figures {
		g := &f.figures[i]
		value, ok := g.read(run)
		if !ok {
			continue
		}
		r := Residual{Cell: g.cell.Key(), Figure: g.kind, Measured: g.measured, Predicted: value, Error: value/g.measured - 1}
		out.Residuals = append(out.Residuals, r)
		sizes = append(sizes, math.Abs(r.Error))
	}
	if len(sizes) > 0 {
		out.Median, out.Worst = stats.Median(sizes), slices.Max(sizes)
	}
	f.p.Source = fmt.Sprintf("Fitted to the run %s: %d figures, median error %.2g %%, largest %.2g %%.", f.run.ID, len(sizes), 100*out.Median, 100*out.Worst)
	for _, q := range parameters {
		if !q.Determined {
			f.p.Assumptions = append(f.p.Assumptions, q.Name+": "+q.Why)
		}
	}
	p := f.p
	out.Profile = &p
	return out, p.Check()
}

// The limits of what counts as decided: a parameter whose uncertainty, if the figures are wrong by their usual errors,
// is above this share of it; and one whose whole value changes no figure by a tenth of its usual error.
const (
	undecided = 0.5
	noEffect  = 0.1
	related   = 0.95
)

// determine says of each parameter whether the figures decide it: from the curvature of the error around the fit.
func (f *fit) determine() []Parameter {
	decode, launch := decodeParameters(&f.p), launchParameters(&f.p)
	list := f.judge(decode, func(p *profile.Profile) []float64 {
		t := engine.TimingOf(&p.StepTime)
		var out []float64
		for i := range f.figures {
			if f.figures[i].kind == FigureStep && f.loads[i].Decodes > 0 {
				out = append(out, f.figures[i].residual(t.Step(&f.loads[i])/1e6))
			}
		}
		return out
	})
	return append(list, f.judge(launch, f.launches(everyLaunch, soften))...)
}

func (f *fit) judge(list []parameter, residuals func(*profile.Profile) []float64) []Parameter {
	out := make([]Parameter, len(list))
	trial := f.p
	x, scale := make([]float64, len(list)), make([]float64, len(list))
	for i, q := range list {
		x[i] = *q.at(&f.p)
		scale[i] = max(x[i], 0.05*q.typical)
		out[i] = Parameter{Name: q.name, Value: x[i], Determined: true}
	}
	p := problem{scale: scale, residuals: func(x []float64) []float64 {
		for i, q := range list {
			*q.at(&trial) = x[i]
		}
		return residuals(&trial)
	}}
	r := p.residuals(x)
	j := p.jacobian(x, r)
	_, normal := normalEquations(j, r)
	covariance := inverse(normal)
	for i := range out {
		effect := 0.0
		for _, change := range j[i] {
			effect = max(effect, math.Abs(change))
		}
		switch {
		case effect < noEffect:
			out[i].Determined, out[i].Why = false, "no figure of the run depends on it"
		case math.Sqrt(covariance[i][i]) > undecided:
			out[i].Determined, out[i].Why = false, "the run decides it to "+percent(covariance[i][i])+" only"+partner(list, covariance, i)
		}
		if !out[i].Determined && strings.HasPrefix(out[i].Name, "front_end.") {
			out[i].Why += "; the split between serial part and delay is near that of the calibrated profiles"
		}
	}
	return out
}

func percent(variance float64) string {
	share := math.Sqrt(variance) * 100
	if share > 999 {
		return "a factor"
	}
	return fmt.Sprintf("%.0f %%", share)
}

// partner names the parameter that makes up for a change of parameter i.
func partner(list []parameter, covariance [][]float64, i int) string {
	best, which := related, -1
	for k := range list {
		if k == i {
			continue
		}
		c := math.Abs(covariance[i][k]) / math.Sqrt(covariance[i][i]*covariance[k][k])
		if c > best {
			best, which = c, k
		}
	}
	if which < 0 {
		return ""
	}
	return ", because " + list[which].name + " can make up for it"
}

// inverse inverts a symmetric matrix that may be almost singular: what no figure depends on gets a large number.
func inverse(m [][]float64) [][]float64 {
	n := len(m)
	out := make([][]float64, n)
	for i := range n {
		work, unit := make([][]float64, n), make([]float64, n)
		for a := range n {
			work[a] = slices.Clone(m[a])
			work[a][a] += 1e-9
		}
		unit[i] = 1
		if out[i] = cholesky(work, unit); out[i] == nil {
			out[i] = make([]float64, n)
			out[i][i] = math.Inf(1)
		}
	}
	return out
}

// round keeps six digits.
func round(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err != nil {
		return x
	}
	return y
}
