// Package predict computes the run of a simulated machine: the same plan, the
// same protocol of a cell and the same summary as a measured run, over the
// simulated engine in virtual time. Nothing is sent and nobody waits.
package predict

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/engine"
	"speedmatrix/internal/profile"
)

// Options are what a prediction needs besides the profile and the settings of the run. The zero value is a
// prediction without noise, at a fixed time, that keeps the document only.
type Options struct {
	// Noise is the standard deviation of a step's duration as a share; Seed decides it.
	Noise float64
	Seed  uint64
	// Start is the virtual time at which the run begins; zero is the year 2000, so that equal predictions are equal documents.
	Start time.Time
	Tool  speedmatrix.Tool
	// Store keeps the run and its raw rows as it grows, may be nil.
	Store bench.Store
	// Tell is told of everything that happens, may be nil.
	Tell func(bench.Event)
}

// SeedSettings are the settings of the published measurement that a profile was calibrated to: its matrix, by the
// method of the tool that measured it. A profile without such a matrix gives the default matrix by that method.
func SeedSettings(p *profile.Profile) bench.Settings {
	return bench.Settings{Method: speedmatrix.MethodCompat, Contexts: slices.Clone(p.Matrix.Contexts),
		Concurrency: slices.Clone(p.Matrix.Concurrency), Prefill: slices.Clone(p.Matrix.Prefill)}
}

// Limits are what the profile's server would tell of itself.
func Limits(p *profile.Profile) bench.Limits {
	return bench.Limits{MaxLength: p.Model.MaxLengthTokens, RunningLimit: p.Scheduler.MaxRunning,
		KVTokens: p.KV.Tokens(), KVBlockTokens: p.KV.BlockTokens}
}

// Predict measures the profile's machine in virtual time. It returns the document of an ordinary run whose origin is
// predicted; where ctx ends, the cells until then and an error of kind KindInterrupted.
func Predict(ctx context.Context, p *profile.Profile, s bench.Settings, o Options) (*speedmatrix.Run, error) {
	s.Salt = cmp.Or(s.Salt, "predicted")
	s, err := s.Complete()
	if err != nil {
		return nil, err
	}
	plan, err := bench.NewPlan(s, Limits(p))
	if err != nil {
		return nil, err
	}
	c := engine.FromProfile(p)
	c.Noise, c.Seed = o.Noise, o.Seed
	e, err := engine.New(c)
	if err != nil {
		return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: fmt.Sprintf("profile %s: %v", p.Name, err), Err: err}
	}
	if o.Start.IsZero() {
		o.Start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	lab := newLab(newWorld(e, engine.FrontEndOf(p), o.Start.UnixNano()), p, &s)
	session := &bench.Session{Settings: s, Plan: plan, Limits: Limits(p), Lab: lab, Store: o.Store, Run: document(p, &s, plan, &o),
		HasGauges: true, Tell: o.Tell}
	if session.Store == nil {
		session.Store = nowhere{}
	}
	warm := lab.warmUp(ctx)
	session.Learn(warm)
	session.Run.Plan = planRecord(plan, &s, session.Pilot)
	session.Prepare()
	return session.Run, session.Measure(ctx)
}

// VirtualTime is how long the predicted run would have taken.
func VirtualTime(r *speedmatrix.Run) time.Duration {
	if r.FinishedAt == nil {
		return 0
	}
	return r.FinishedAt.Sub(r.StartedAt)
}

// nowhere keeps nothing.
type nowhere struct{}

func (nowhere) SaveRun(*speedmatrix.Run) error { return nil }

func (nowhere) SaveCell(string, []speedmatrix.RequestRow, iter.Seq[speedmatrix.EventRow]) error {
	return nil
}

func (nowhere) SaveServer([]speedmatrix.ServerRow) error { return nil }

func (nowhere) SaveMachine([]speedmatrix.MachineRow) error { return nil }
