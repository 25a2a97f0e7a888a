package verify

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"speedmatrix"
)

// checkSanity tests what a cell says about itself, with or without rows.
func (c *checker) checkSanity(key string, cell *speedmatrix.Cell) {
	if cell.Phase != speedmatrix.PhasePrefill && cell.Phase != speedmatrix.PhaseDecode {
		c.disagree(key, "phase", cell.Phase, "prefill or decode")
	}
	if cell.Phase == speedmatrix.PhasePrefill && cell.Concurrency != 1 {
		c.disagree(key, "concurrency", cell.Concurrency, "1 for prefill")
	}
	c.checkStatus(key, cell)
	c.checkPrecedence(key, cell)
	if n := cell.Requests; n != nil {
		if sum := n.Completed + n.Cut + n.Failed; sum != n.Sent {
			c.disagree(key, "requests.sent", n.Sent, fmt.Sprintf("the classes sum to %d", sum))
		}
		if cell.FailedRequests != nil && *cell.FailedRequests != n.Failed {
			c.disagree(key, "failed_requests", *cell.FailedRequests, fmt.Sprintf("requests.failed is %d", n.Failed))
		}
	}
	if c.run.Origin == speedmatrix.OriginImported {
		return
	}
	c.checkRate(key, cell)
	c.checkDistribution(field{cell: key, name: "ttft_ms"}, cell.TTFT)
	c.checkDistribution(field{cell: key, name: "visible_ttft_ms"}, cell.VisibleTTFT)
	c.checkDistribution(field{cell: key, name: "time_between_tokens_ms"}, cell.TimeBetweenTokens)
	c.checkDistribution(field{cell: key, name: "event_gap_ms"}, cell.EventGap)
	c.checkDistribution(field{cell: key, name: "send_ms"}, cell.Send)
	c.checkDistribution(field{cell: key, name: "connect_ms"}, cell.Connect)
}

// checkStatus wants numbers where there must be some and none where there can be none.
func (c *checker) checkStatus(key string, cell *speedmatrix.Cell) {
	if !slices.Contains(speedmatrix.Statuses(), cell.Status) {
		c.disagree(key, "status", fmt.Sprintf("%q", cell.Status), "a status")
		return
	}
	if cell.Status != speedmatrix.StatusValid && cell.Reason == "" {
		c.disagree(key, "reason", `""`, fmt.Sprintf("why the cell is %q", cell.Status))
	}
	switch cell.Status {
	case speedmatrix.StatusSkipped, speedmatrix.StatusExceedsModelLength:
		for _, name := range published(cell) {
			c.disagree(key, name, "a number", fmt.Sprintf("null, as the cell is %q", cell.Status))
		}
	case speedmatrix.StatusValid, speedmatrix.StatusRequestsQueued:
		speed, name := cell.TotalTokensPerSecond, "total_tokens_per_second"
		if cell.Phase == speedmatrix.PhasePrefill {
			speed, name = cell.PromptTokensPerSecond, "prompt_tokens_per_second"
		}
		if speed == nil {
			c.disagree(key, name, "null", fmt.Sprintf("a number, as the cell is %q", cell.Status))
		}
	}
}

// checkPrecedence wants no status when an earlier one applies by the cell's own numbers.
func (c *checker) checkPrecedence(key string, cell *speedmatrix.Cell) {
	order := speedmatrix.Statuses()
	later := func(s speedmatrix.Status) bool { return slices.Index(order, cell.Status) > slices.Index(order, s) }
	if n := cell.Preemptions; n != nil && *n > 0 && later(speedmatrix.StatusOverCapacity) {
		c.disagree(key, "status", cell.Status, fmt.Sprintf("%s: %d preemptions", speedmatrix.StatusOverCapacity, *n))
	}
	if n := cell.Requests; n != nil && cell.Phase == speedmatrix.PhaseDecode && n.Failed*100 > n.Sent && later(speedmatrix.StatusFailed) {
		c.disagree(key, "status", cell.Status, fmt.Sprintf("%s: %d of %d requests failed", speedmatrix.StatusFailed, n.Failed, n.Sent))
	}
	if share := cell.QueuedShare; share != nil && *share > 0.05 && later(speedmatrix.StatusRequestsQueued) {
		c.disagree(key, "status", cell.Status, fmt.Sprintf("%s: queued share %s", speedmatrix.StatusRequestsQueued, number(*share)))
	}
}

// checkRate wants total = tokens ÷ seconds, inside its interval.
func (c *checker) checkRate(key string, cell *speedmatrix.Cell) {
	total := cell.TotalTokensPerSecond
	if total == nil {
		return
	}
	if cell.OutputTokens != nil && cell.WindowSeconds != nil {
		rate := *cell.OutputTokens / *cell.WindowSeconds
		if !(math.Abs(*total-rate) <= exactly*math.Abs(rate)) {
			c.disagree(key, "total_tokens_per_second", number(*total), "output_tokens ÷ window_seconds = "+number(rate))
		}
	}
	if i := cell.Interval95; i != nil && !within(*total, i, exactly) {
		c.disagree(key, "interval_95", fmt.Sprintf("%s to %s", number(i.Low), number(i.High)), "around "+number(*total))
	}
}

// checkDistribution wants rising percentiles and none that the samples cannot support.
func (c *checker) checkDistribution(f field, d *speedmatrix.Distribution) {
	if d == nil {
		return
	}
	rising := []float64{}
	for _, p := range []struct {
		name  string
		value *float64
		least int
	}{{".min", d.Min, 1}, {".p50", d.P50, 1}, {".p90", d.P90, 10}, {".p95", d.P95, 20}, {".p99", d.P99, 100}, {".max", d.Max, 1}} {
		if p.value == nil {
			continue
		}
		rising = append(rising, *p.value)
		if d.N < p.least {
			c.disagree(f.cell, f.name+p.name, number(*p.value), fmt.Sprintf("null under %d samples", p.least))
		}
	}
	if !slices.IsSortedFunc(rising, cmp.Compare[float64]) {
		c.disagree(f.cell, f.name, rising, "rising from min to max")
	}
}
