package report

import (
	"fmt"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Length is a prompt's label beside how long it was.
type Length struct {
	Label, Stated, Measured, Off string
	// Share is (measured − label) ÷ label.
	Share float64
}

// lengths compares the labels of prompts with what was measured, decode rows first where the
// run has them. Without measured lengths they follow from tok/s × TTFT of prefill cells: derived.
func lengths(d *Document) (list []Length, derived bool) {
	seen := map[string]bool{}
	for _, m := range d.Measurements {
		c := m.Cell
		if c.Context == 0 || c.PromptTokens == nil || !m.ShowsSpeed || seen[m.Context] {
			continue
		}
		seen[m.Context] = true
		list = append(list, newLength(m, *c.PromptTokens))
	}
	if len(list) > 0 {
		return list, false
	}
	for _, m := range shown(d, speedmatrix.PhasePrefill) {
		if n, ok := derivedLength(m.Cell); ok && m.Cell.Context > 0 {
			list = append(list, newLength(m, n))
		}
	}
	return list, true
}

// derivedLength is tok/s × TTFT.
func derivedLength(c *speedmatrix.Cell) (tokens float64, ok bool) {
	ttft := median(c.TTFT)
	if ttft == nil || c.PromptTokensPerSecond == nil {
		return 0, false
	}
	return *c.PromptTokensPerSecond * *ttft / 1000, true
}

func newLength(m *Measurement, tokens float64) Length {
	l := Length{Label: m.Context, Stated: unit.Count(m.Cell.Context), Measured: unit.Fixed(tokens, 0), Share: tokens/float64(m.Cell.Context) - 1}
	l.Off = unit.Change(l.Share)
	return l
}

// NotRun is a status without a speed, how often it stands in the matrix, and why.
type NotRun struct {
	Status speedmatrix.Status
	Cells  int
	Reason string
}

// notRun gives one sentence for each kind of cell that has no speed.
func notRun(d *Document) []NotRun {
	var kinds []NotRun
	for _, status := range speedmatrix.Statuses() {
		k := NotRun{Status: status}
		var first *Measurement
		same := true
		for _, m := range d.Measurements {
			if m.Cell.Status != status || m.ShowsSpeed {
				continue
			}
			k.Cells++
			if first == nil {
				first = m
			}
			same = same && m.Reason == first.Reason
		}
		if k.Cells == 0 {
			continue
		}
		k.Reason = kindReason(d, first, same)
		kinds = append(kinds, k)
	}
	return kinds
}

func kindReason(d *Document, first *Measurement, same bool) string {
	m := d.Run.Method
	switch {
	case first.Status == speedmatrix.StatusOverCapacity && m.KVPlan == "reserve" && m.MaxOutput > 0 && !anyAttempted(d, first.Status):
		return fmt.Sprintf("planned: requests × (context + %s output tokens) is more than the KV cache holds", unit.Count(m.MaxOutput))
	case first.Reason == "":
		return first.Status.Explanation()
	case same:
		return clip(first.Reason, 400)
	}
	return fmt.Sprintf("%s (%s, and for the like reason the others)", clip(first.Reason, 400), first.Name)
}
