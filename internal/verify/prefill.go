package verify

import (
	"fmt"

	"speedmatrix"
)

// prefill recomputes a prefill cell from the requests that its samples name.
func (c *checker) prefill(m *measurement) *speedmatrix.Cell {
	var speeds, ttft, prompt, cached, send, connect []float64
	var spans []stretch
	var tokens float64
	got := &speedmatrix.Cell{PrefillSamples: c.samples(m)}
	for _, s := range got.PrefillSamples {
		if s.CachedTokens != nil && *s.CachedTokens > float64(c.coldLimit()) {
			continue
		}
		if s.TTFTMillis > 0 {
			speeds = append(speeds, s.PromptTokens/s.TTFTMillis*1000)
		}
		if r := m.find(s.Request); *r.FirstNS-*r.WrittenNS >= longPrefill {
			spans, tokens = append(spans, stretch{*r.WrittenNS, *r.FirstNS}), tokens+s.PromptTokens
		}
		ttft = append(ttft, s.TTFTMillis)
		prompt = append(prompt, s.PromptTokens)
		if s.CachedTokens != nil {
			cached = append(cached, *s.CachedTokens)
		}
		send, connect = appendMillis(send, m.find(s.Request).SendNS), appendMillis(connect, m.find(s.Request).ConnectNS)
	}
	c.overMachine(got, spans)
	got.EnergyPerPromptToken = energyPerToken(got.GPUPower, spans, tokens)
	got.PromptTokensPerSecond = median(speeds)
	got.TTFT = distribution(ttft, "requests")
	got.PromptTokens, got.CachedTokens = median(prompt), median(cached)
	got.Send, got.Connect = distribution(send, "requests"), distribution(connect, "requests")
	if len(ttft) > 0 {
		got.TTFTKind = speedmatrix.TTFTCold
	}
	got.Requests = countClasses(m.requests)
	got.CompletedRequests, got.FailedRequests = new(got.Requests.Completed), new(got.Requests.Failed)
	return got
}

// samples are the published samples with the numbers that their requests give.
func (c *checker) samples(m *measurement) []speedmatrix.PrefillSample {
	var all []speedmatrix.PrefillSample
	named := map[int]bool{}
	for i, s := range m.cell.PrefillSamples {
		name := fmt.Sprintf("prefill_samples[%d].request", i)
		r := m.find(s.Request)
		if r == nil {
			c.disagree(m.key, name, s.Request, "no such request")
			continue
		}
		if named[s.Request] {
			c.disagree(m.key, name, s.Request, "a sample already")
		}
		named[s.Request] = true
		ttft, ok := r.firstMillis()
		if !ok {
			c.disagree(m.key, name, s.Request, "a request without a token")
			continue
		}
		// A server that does not count prompts leaves the client's own count.
		sample := speedmatrix.PrefillSample{PromptTokens: s.PromptTokens, TTFTMillis: ttft, Request: s.Request}
		if r.PromptTokens != nil {
			sample.PromptTokens = float64(*r.PromptTokens)
		}
		if r.CachedTokens != nil {
			sample.CachedTokens = new(float64(*r.CachedTokens))
		}
		all = append(all, sample)
	}
	for _, r := range m.requests {
		if _, ok := r.firstMillis(); ok && r.isSample() && !named[int(r.Request)] {
			c.disagree(m.key, "prefill_samples", "left out", fmt.Sprintf("request %d is a sample", r.Request))
		}
	}
	return all
}

// isSample says whether a request with a first token has to be a sample.
func (r *request) isSample() bool {
	return r.Purpose == "fill" && r.Class != string(speedmatrix.RequestFailed)
}

// firstMillis is the request's TTFT: by its events, or as its row has it where no
// event has text: the one token of a prefill may have none.
func (r *request) firstMillis() (float64, bool) {
	first, ok := r.firstText()
	if !ok && r.FirstNS != nil {
		first, ok = *r.FirstNS, true
	}
	if !ok || r.WrittenNS == nil {
		return 0, false
	}
	return float64(first-*r.WrittenNS) / 1e6, true
}
