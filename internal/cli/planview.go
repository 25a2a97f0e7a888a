package cli

import (
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/report"
)

// planView is the start screen's data.
func (r *runner) planView(plan *bench.Plan) report.PlanView {
	s, facts := r.server, r.doc
	same := s.SameMachine
	v := report.PlanView{
		Engine: s.Title(), URL: r.env.shown.URL(r.server.Base.Redacted()),
		Model: facts.Model.Text(speedmatrix.ModelName), ServedName: facts.Model.Text(speedmatrix.ModelServedName),
		Quantization: facts.Model.Text(speedmatrix.ModelQuantization), MaxLength: s.MaxLength, KVTokens: s.KVTokens,
		RunningLimit: s.RunningLimit, PrefixCaching: s.PrefixCaching, Machine: machineParts(r.doc.Hardware, same),
		Client:   report.PlanClient{SameMachine: &same},
		Contexts: plan.Contexts, Concurrency: plan.Concurrency, Terminal: r.show.terminal(),
	}
	if r.url == "" {
		v.Found = "found on port " + s.Base.Port()
	}
	if p99 := r.doc.Client.StampErrorP99Micros; p99 != nil {
		v.Client.StampErrorP99 = time.Duration(*p99 * 1e3)
	}
	v.PromptTokens = r.promptTokens(plan)
	for _, c := range plan.Cells {
		v.Cells = append(v.Cells, report.PlanCell{Phase: c.Phase, Context: c.Context, Concurrency: c.Concurrency,
			Verdict: report.PlanVerdict(c.Verdict), Status: c.Status, Reason: c.Reason})
	}
	return v
}

// machineParts words the machine, if the server runs on it.
func machineParts(f speedmatrix.Facts, same bool) (parts []string) {
	if !same {
		return nil
	}
	for _, key := range []string{speedmatrix.HardwareGPU, speedmatrix.HardwareCPU, speedmatrix.HardwareRAM, speedmatrix.HardwareOS} {
		if text := f.Text(key); text != "" {
			parts = append(parts, text)
		}
	}
	return parts
}
