package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// finishPrefill tops the row's cold samples up and puts its prefill cell into the document.
func (s *Session) finishPrefill(ctx context.Context, r *rowState) error {
	c := s.prefillCell(r.context)
	if c == nil || !unmeasured(c) || ctx.Err() != nil {
		return nil
	}
	s.begin(c.Key())
	for s.wantsSample(r) && ctx.Err() == nil {
		f := s.Lab.Prefill(ctx, s.prefillSpec(r, c.Key()))
		if ctx.Err() != nil {
			break // it was cut: the samples so far stand
		}
		r.samples = append(r.samples, f)
		if f.Drained {
			r.took(&f.Recorded.Row)
		}
		if f.OK() {
			s.refine(&f)
			continue
		}
		s.fillsFailed++
		if f.Skipped {
			break
		}
		if err := s.gone(ctx); err != nil {
			if last := len(r.samples) - 1; last > 0 {
				r.samples = r.samples[:last] // the server's end is no sample; those before it stand
				_ = s.publishSamples(r)
				return err
			}
			s.summarizePrefill(r, c)
			lose(c)
			s.finished(c)
			_ = s.keepPrefill(r, c) // the server's end is what to tell of
			return err
		}
	}
	if ctx.Err() != nil {
		return s.publishSamples(r)
	}
	s.summarizePrefill(r, c)
	s.finished(c)
	return s.keepPrefill(r, c)
}

// wantsSample says whether one more cold sample is to be taken: three where one takes less than a minute, else
// one; and no more after three that failed or were not cold although their heads were fresh.
func (s *Session) wantsSample(r *rowState) bool {
	good, failed, freshBad := 0, 0, 0
	for i := range r.samples {
		f := &r.samples[i]
		switch {
		case f.OK() && s.isCold(f):
			good++
		case !f.OK():
			failed++
		case f.Head.Stream > maxConcurrency:
			freshBad++
		}
	}
	if failed >= wantedSamples || freshBad >= wantedSamples {
		return false
	}
	if good >= 1 && (r.fillTTFT() > slowPrefill || s.compat()) {
		return false
	}
	return good < wantedSamples
}

// isCold says whether no more than the template and one block came from a cache, as far as the server tells.
func (s *Session) isCold(f *Prefilled) bool {
	cached := f.Recorded.Row.CachedTokens
	return cached == nil || int(*cached) <= coldLimit(s.Run.Server.Habits.TemplateTokens, s.Limits.KVBlockTokens)
}

// prefillSpec is the next fresh head of the row. Heads of samples that belong to no stream count from a stream
// number that no cell uses, and as attempts of their own, which are new even where streams share their heads.
func (s *Session) prefillSpec(r *rowState, key string) PrefillSpec {
	r.fresh++
	return PrefillSpec{Key: key, Head: Head{Context: r.context, Stream: maxConcurrency + r.fresh, Attempt: s.Generation*generations + r.fresh},
		Request: int32(len(r.samples)), Rules: s.rules(r, &PlannedCell{Context: r.context, Concurrency: 1}, 0)}
}

// summarizePrefill computes the prefill cell from the row's samples.
func (s *Session) summarizePrefill(r *rowState, c *speedmatrix.Cell) {
	p := PlannedCell{Phase: c.Phase, Context: c.Context, Concurrency: c.Concurrency}
	*c = newCell(&p)
	c.Status = speedmatrix.StatusValid
	var samples []Recorded
	good, left, skipped := 0, "", false
	for i := range r.samples {
		f := &r.samples[i]
		skipped = skipped || f.Skipped
		if !f.Drained {
			if !f.Skipped && left == "" {
				left = f.Left
			}
			continue
		}
		samples = append(samples, f.Recorded)
		if f.OK() {
			good++
			s.addSample(c, f)
		}
	}
	c.Requests = countRequests(samples)
	c.CompletedRequests, c.FailedRequests = &c.Requests.Completed, &c.Requests.Failed
	c.FirstError = firstError(samples)
	s.prefillNumbers(r, c)
	switch {
	case c.PromptTokensPerSecond != nil:
	case skipped:
		c.Status, c.Reason = speedmatrix.StatusSkipped, "skipped by the user while it ran"
	case good > 0:
		c.Status, c.Reason = speedmatrix.StatusFailed, notOneCold(c)
	case left != "":
		c.Status, c.Reason = speedmatrix.StatusFailed, left
	default:
		c.Status, c.Reason = speedmatrix.StatusFailed, "no prefill gave a token"+because(c.FirstError)
	}
	if c.Requests.Failed > 0 && good > 0 {
		c.Warnings = append(c.Warnings, speedmatrix.Warning{Code: "failed requests",
			Message: fmt.Sprintf("%d of %d requests failed%s", c.Requests.Failed, c.Requests.Sent, because(c.FirstError))})
	}
}

// notOneCold is the reason of a cell whose samples give no speed.
func notOneCold(c *speedmatrix.Cell) string {
	if c.TTFT != nil {
		return "the prefills took no time that could be measured"
	}
	first := c.PrefillSamples[0]
	return fmt.Sprintf("every sample came from the server's prefix cache (%s of %s tokens of the first): did another run use the same --salt?",
		unit.Count(int(*first.CachedTokens)), unit.Count(int(first.PromptTokens)))
}

func (s *Session) addSample(c *speedmatrix.Cell, f *Prefilled) {
	row := &f.Recorded.Row
	sample := speedmatrix.PrefillSample{TTFTMillis: float64(*row.FirstNS-*row.WrittenNS) / 1e6, Request: int(row.Request)}
	sample.PromptTokens = float64(f.Head.Context)
	if row.PromptTokens != nil {
		sample.PromptTokens = float64(*row.PromptTokens)
	}
	if row.CachedTokens != nil {
		cached := float64(*row.CachedTokens)
		sample.CachedTokens = &cached
	}
	c.PrefillSamples = append(c.PrefillSamples, sample)
}

// prefillNumbers fills in the medians over the cold samples.
func (s *Session) prefillNumbers(r *rowState, c *speedmatrix.Cell) {
	var speeds, ttft, prompts, cached []float64
	var cold []Recorded
	warm, unsure := 0, 0
	delete(s.prefillSpans, r.context)
	for i := range r.samples {
		f := &r.samples[i]
		if !f.OK() {
			continue
		}
		if !s.isCold(f) {
			warm++
			continue
		}
		cold = append(cold, f.Recorded)
		row := &f.Recorded.Row
		took := float64(*row.FirstNS - *row.WrittenNS)
		tokens := float64(f.Head.Context)
		if row.PromptTokens != nil {
			tokens = float64(*row.PromptTokens)
		}
		if row.CachedTokens == nil {
			unsure++
		}
		if took > 0 {
			speeds = append(speeds, tokens/took*1e9)
		}
		s.notePrefill(r.context, f, tokens)
		ttft = append(ttft, took/1e6)
		prompts, cached = append(prompts, tokens), appendKnown(cached, row.CachedTokens)
	}
	c.PromptTokensPerSecond, c.PromptTokens, c.CachedTokens = median(speeds), median(prompts), median(cached)
	c.TTFT = distribution(ttft, "requests")
	c.Send, c.Connect = sendTimes(cold)
	if len(ttft) > 0 {
		c.TTFTKind = speedmatrix.TTFTCold
	}
	if warm > 0 {
		c.Warnings = append(c.Warnings, speedmatrix.Warning{Code: "not cold",
			Message: fmt.Sprintf("%d samples found more than the chat template in the server's cache and do not count", warm)})
	}
	if unsure > 0 {
		c.Warnings = append(c.Warnings, speedmatrix.Warning{Code: "cold unproven",
			Message: "the server does not report cached tokens; the prompts were new, so the samples are taken for cold"})
	}
}

// keepPrefill writes the row's prefill requests and the document.
func (s *Session) keepPrefill(r *rowState, c *speedmatrix.Cell) error {
	var list []Recorded
	for i := range r.samples {
		if r.samples[i].Drained {
			list = append(list, r.samples[i].Recorded)
		}
	}
	if err := s.saveRows(c.Key(), list); err != nil {
		return err
	}
	return s.save()
}

// Expected is the time left, from the pilot and what is still to be measured.
func (s *Session) Expected() time.Duration {
	var left time.Duration
	for i := range s.Plan.Cells {
		p := &s.Plan.Cells[i]
		if c := s.cell(i); p.Verdict == Refused || c == nil || !unmeasured(c) {
			continue
		}
		filled := 0
		if r := s.rows[p.Context]; r != nil {
			filled = len(r.filled)
		}
		if i > 0 && s.Plan.Cells[i-1].Context == p.Context && p.Phase == speedmatrix.PhaseDecode {
			filled = max(filled, s.Plan.Cells[i-1].Concurrency)
		}
		if p.Phase == speedmatrix.PhasePrefill && slices.Contains(s.Plan.Contexts, p.Context) {
			continue
		}
		left += p.Expected(&s.Settings, s.Pilot, filled)
	}
	return left + time.Duration(max(s.Settings.Repeat-1-len(s.Run.Repeats), 0))*s.matrixTime()
}

// matrixTime is the expected time of one more measurement of the decode matrix.
func (s *Session) matrixTime() (total time.Duration) {
	for i := range s.Plan.Cells {
		if p := &s.Plan.Cells[i]; p.Phase == speedmatrix.PhaseDecode {
			total += p.Expected(&s.Settings, s.Pilot, 0)
		}
	}
	return total
}
