// Package calibrate fits a profile to a run, so that a machine that was
// measured once can be predicted: the step times, the front end and the lengths
// of prompts that give the run's own numbers back, what is left over at each
// cell, and which of the parameters the run does not decide.
package calibrate

import (
	"context"
	"fmt"
	"time"

	"speedmatrix"
	"speedmatrix/internal/predict"
	"speedmatrix/internal/profile"
)

// Options are what a fit may be told. The zero value finds everything from the run.
type Options struct {
	// Name is the profile's; "" makes one from the run's model and hardware.
	Name string
	// Like gives what no measurement shows: the scheduler, the KV cache, the number of experts and how attention is
	// computed. Nil takes the scheduler and the KV cache from the run's facts and tries the rest.
	Like *profile.Profile
	// Tell is told of the progress, in a few words; may be nil.
	Tell func(string)
}

// Residual is one figure of one cell: what the run says and what the fitted profile predicts.
type Residual struct {
	Cell   string
	Figure Figure
	// Measured and Predicted are in the figure's unit, Error is predicted ÷ measured − 1.
	Measured, Predicted, Error float64
}

// Parameter is one fitted number of the profile.
type Parameter struct {
	// Name is the field of the profile file, such as "step_time.base_ms".
	Name  string
	Value float64
	// Determined is false where the run does not decide it; Why says so in a sentence.
	Determined bool
	Why        string
}

// Result is a fitted profile and how good it is.
type Result struct {
	Profile    *profile.Profile
	Residuals  []Residual
	Parameters []Parameter
	// Median and Worst are the median and the largest size of the residuals' errors.
	Median, Worst float64
	// Evaluations counts how often the machine was simulated.
	Evaluations int
	Took        time.Duration
}

// corrections is how often the fast model of a fit is held against whole predicted runs.
const corrections = 3

// Fit fits a profile to a run's Valid cells. It refuses a run with too few of them to say anything.
func Fit(ctx context.Context, run *speedmatrix.Run, o Options) (*Result, error) {
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	began := time.Now()
	f, err := newFit(run, &o)
	if err != nil {
		return nil, err
	}
	if err := f.search(ctx); err != nil {
		return nil, err
	}
	for range corrections {
		if err := f.correct(ctx); err != nil {
			return nil, err
		}
	}
	result, err := f.result(ctx)
	if err != nil {
		return nil, err
	}
	result.Took = time.Since(began)
	return result, nil
}

// search fits the decode cells by each shape of the step time and keeps the best, then the rest.
func (f *fit) search(ctx context.Context) error {
	f.o.Tell("fitting the decode cells")
	if err := f.measureLoads(); err != nil {
		return err
	}
	f.fitShapes()
	f.o.Tell("fitting the prefills and launches")
	f.fitSingles(ctx)
	f.fitLaunches(ctx)
	return ctx.Err()
}

// correct holds the fast model against a whole predicted run, and fits again what the two differ by.
func (f *fit) correct(ctx context.Context) error {
	f.o.Tell("holding the fit against a predicted run")
	run, err := f.predict(ctx)
	if err != nil {
		return err
	}
	f.takeCorrections(run)
	f.fitDecode()
	f.minimize(launchParameters(&f.p), f.likely(f.launches(everyLaunch, soften)))
	return ctx.Err()
}

// predict is the whole run of the fitted profile.
func (f *fit) predict(ctx context.Context) (*speedmatrix.Run, error) {
	run, err := predict.Predict(ctx, &f.p, f.settings, predict.Options{Start: f.run.StartedAt})
	if err != nil {
		return nil, fmt.Errorf("predicting the fitted machine: %w", err)
	}
	return run, nil
}
