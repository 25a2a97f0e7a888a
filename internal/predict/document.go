package predict

import (
	"fmt"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/profile"
)

// The words that the document uses for what a prediction does not have.
const (
	stampSource = "virtual"
	textSource  = "token numbers"
	api         = "chat"
)

// document is the run before anything is measured.
func document(p *profile.Profile, s *bench.Settings, plan *bench.Plan, o *Options) *speedmatrix.Run {
	method := s.MethodRecord(api)
	method.Text = textSource
	doc := &speedmatrix.Run{
		Schema: speedmatrix.Schema, Tool: o.Tool, Origin: speedmatrix.OriginPredicted, StartedAt: o.Start.UTC(), Method: method,
		ID:    fmt.Sprintf("%s-%s-predicted", o.Start.UTC().Format("20060102T150405Z"), p.Name),
		Model: p.ModelFacts(), Hardware: p.HardwareFacts(), Engine: p.EngineFacts(),
		Server:   speedmatrix.Server{URL: "profile:" + p.Name, API: api, Habits: habits()},
		Client:   speedmatrix.Client{StampSource: stampSource},
		Plan:     planRecord(plan, s, bench.Pilot{}),
		Warnings: []speedmatrix.Warning{}, Findings: []speedmatrix.Finding{}, Repeats: []speedmatrix.Repeat{},
	}
	if p.LaunchCommand != "" {
		doc.LaunchCommand = &speedmatrix.Fact{Value: p.LaunchCommand, Source: profile.Source}
	}
	doc.Warnings = append(doc.Warnings, speedmatrix.Warning{Code: "predicted", Message: origin(p)})
	if o.Noise > 0 {
		doc.Warnings = append(doc.Warnings, speedmatrix.Warning{Code: "noise",
			Message: fmt.Sprintf("each step's time was varied by %.2g %% (seed %d)", o.Noise*100, o.Seed)})
	}
	return doc
}

// origin says in a sentence how far the numbers can be trusted.
func origin(p *profile.Profile) string {
	switch p.Kind {
	case profile.KindCalibrated:
		return "nothing was measured: the numbers come from the simulated engine with profile " + p.Name + ", which was fitted to a published measurement"
	case profile.KindFitted:
		return "nothing was measured: the numbers come from the simulated engine with profile " + p.Name + ", which was fitted to a run"
	}
	return "nothing was measured: the numbers come from the simulated engine with profile " + p.Name + ", which is an estimate from data sheets"
}

func habits() speedmatrix.Habits {
	return speedmatrix.Habits{UsageEveryEvent: true, FinalUsage: true, CachedTokens: true, IgnoresEOS: true, Tokenizer: true,
		TokensPerEvent: 1, EventsPerRead: 1, KeepsConnections: true, CharsPerToken: charsPerToken}
}

func planRecord(plan *bench.Plan, s *bench.Settings, pilot bench.Pilot) speedmatrix.Plan {
	if s.MaxTime > 0 && pilot.Known {
		plan.FitInto(s.MaxTime, s, pilot)
	}
	expected, tokens := plan.Expected(s, pilot)
	return speedmatrix.Plan{Contexts: plan.Contexts, Concurrency: plan.Concurrency, Prefill: plan.Prefill,
		MaxSeconds: s.MaxTime.Seconds(), ExpectedSeconds: expected.Seconds(), PromptTokens: tokens}
}
