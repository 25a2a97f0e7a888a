package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Kind says how much a finding weighs.
type Kind string

// The kinds of findings.
const (
	KindWarning Kind = "Warning" // a number may mislead
	KindNote    Kind = "Note"    // what a reader should know of the numbers
)

// Finding is one or two sentences on what the numbers mean: what, and what it means for the reader.
type Finding struct {
	Kind Kind
	// Code is stable and for programs.
	Code, Text string
}

// rule looks for one thing in a document; "" where it is not there.
type rule struct {
	kind Kind
	code string
	find func(*Document) string
}

// rules are all that a document derives from its numbers, in the order of the page.
var rules = []rule{
	{KindWarning, "status_contradicted", contradictedStatus},
	{KindWarning, "would_fit", wouldFit},
	{KindWarning, "beyond_hardware", beyondHardware},
	{KindWarning, "prefill_not_cold", prefillNotCold},
	{KindWarning, "prefill_order", prefillOrder},
	{KindNote, "remarked", remarked},
	{KindNote, "looped_gap", loopedGap},
	{KindNote, "different_spans", differentSpans},
	{KindNote, "shared_prompt", sharedPrompt},
	{KindNote, "single_samples", singleSamples},
	{KindNote, "labels", nominalLabels},
	{KindNote, "no_repeats", noRepeats},
}

// allFindings are those that the run recorded, then those that the rules derive.
func allFindings(d *Document) []Finding {
	var list []Finding
	for _, f := range d.Run.Findings {
		list = append(list, recorded(f))
	}
	for _, r := range rules {
		if text := r.find(d); text != "" {
			list = append(list, Finding{Kind: r.kind, Code: r.code, Text: text})
		}
	}
	return list
}

// recorded is a finding of the run as it is shown.
func recorded(f speedmatrix.Finding) Finding {
	clean := speedmatrix.Finding{Message: Clean(f.Message), Evidence: Clean(f.Evidence), Fix: Clean(f.Fix)}
	return Finding{Kind: KindWarning, Code: Clean(f.Code), Text: findingText(clean)}
}

// remarked repeats what stands beside a Valid cell, such as that its label was corrected.
func remarked(d *Document) string {
	var texts []string
	cells := map[string][]string{}
	for _, m := range shown(d, speedmatrix.PhaseDecode) {
		if m.Status != speedmatrix.StatusValid || m.Reason == "" {
			continue
		}
		if cells[m.Reason] == nil {
			texts = append(texts, m.Reason)
		}
		cells[m.Reason] = append(cells[m.Reason], strings.TrimPrefix(m.Name, "decode "))
	}
	for i, text := range texts {
		texts[i] = strings.Join(cells[text], ", ") + ": " + clip(text, 300) + "."
	}
	return strings.Join(texts, " ")
}

// contradictedStatus finds cells that are said to have queued although every request ran.
func contradictedStatus(d *Document) string {
	var labels []string
	most := 0
	for _, m := range shown(d, speedmatrix.PhaseDecode) {
		c := m.Cell
		if c.Status != speedmatrix.StatusRequestsQueued || c.ActiveRequestsMean == nil || value(c.QueuedShare) > 0 {
			continue
		}
		if *c.ActiveRequestsMean >= float64(c.Concurrency)*0.99 {
			labels, most = append(labels, m.Context), max(most, c.Concurrency)
		}
	}
	if len(labels) == 0 {
		return ""
	}
	text := fmt.Sprintf("Requests queued at %s is doubtful: ", list(slices.Compact(labels)))
	if most == 1 {
		text += "one request was sent and 1.0 ran on average, so nothing can have waited."
	} else {
		text += "as many requests ran on average as were sent, so nothing can have waited for long."
	}
	if d.Run.Method.Name == speedmatrix.MethodCompat {
		text += " A first prompt that took longer than the tool allows for its warm-up gives the same label."
	}
	return text
}

// wouldFit counts cells that a plan refused because it set the longest answer aside for every
// request, although what other cells held shows that they fit.
func wouldFit(d *Document) string {
	m := d.Run.Method
	if m.KVPlan != "reserve" || m.MaxOutput <= 0 {
		return ""
	}
	budget := knownBudget(d)
	refused, fit, cells := 0, 0, 0
	for _, x := range d.Measurements {
		c := x.Cell
		if c.Phase != speedmatrix.PhaseDecode {
			continue
		}
		cells++
		if c.Status != speedmatrix.StatusOverCapacity || c.Attempted() {
			continue
		}
		refused++
		if tokensNeeded(d, c) <= budget {
			fit++
		}
	}
	if refused == 0 {
		return ""
	}
	text := fmt.Sprintf("%s of %s were not run because the tool set aside %s output tokens for every request", unit.Count(refused), plural(cells, "decode cell"), unit.Count(m.MaxOutput))
	if m.DurationSeconds > 0 {
		text += fmt.Sprintf(", which a window of %s s does not use", plainNumber(m.DurationSeconds))
	}
	switch {
	case fit == 0:
		return text + "."
	case fit == 1:
		return text + ". One of them would have fitted into what other cells held."
	}
	text = fmt.Sprintf("%s. At least %s of them would have fitted into what other cells held", text, unit.Count(fit))
	if m.Prompts == "shared" {
		return text + ", with the shared prompt counted once."
	}
	return text + "."
}

// knownBudget is the number of tokens that the KV cache holds for certain: the engine's own
// figure, else the most that the plan let run.
func knownBudget(d *Document) float64 {
	if n, ok := d.Run.Engine.Int(speedmatrix.EngineKVTokens); ok && n > 0 {
		return float64(n)
	}
	most := 0.0
	for _, m := range shown(d, speedmatrix.PhaseDecode) {
		most = max(most, float64(m.Cell.Concurrency)*float64(m.Cell.Context+d.Run.Method.MaxOutput))
	}
	return most
}

// tokensNeeded is what a cell's requests hold at the end of a window, each with a prompt of
// its own (one for all where the run shared it), at the speed of the fastest cell.
func tokensNeeded(d *Document, c *speedmatrix.Cell) float64 {
	fastest := 0.0
	for _, m := range shown(d, speedmatrix.PhaseDecode) {
		fastest = max(fastest, value(m.Cell.PerRequestTokensPerSecond))
	}
	output := min(fastest*d.Run.Method.DurationSeconds, float64(d.Run.Method.MaxOutput))
	prompts := float64(c.Concurrency)
	if d.Run.Method.Prompts == "shared" {
		prompts = 1
	}
	return prompts*float64(c.Context) + float64(c.Concurrency)*output
}

// beyondHardware finds numbers above a physical limit.
func beyondHardware(d *Document) string {
	for _, limit := range d.Limits {
		most := 0.0
		for _, row := range limit.Rows {
			most = max(most, row.Share)
		}
		if most <= 1.02 {
			continue
		}
		text := fmt.Sprintf("%s runs at up to %s of the card's %s.", limit.What, unit.Percent(most), limit.Name)
		if unlocked(d.LaunchCommand.Value) {
			return text + fmt.Sprintf(" The launch command names an unlocked card, which would explain it; do not compare with an unmodified %s.", limit.Device)
		}
		return text + " Either the hardware is not what it is said to be, or the prompts were not read in full, or an assumption below is wrong."
	}
	return ""
}

func unlocked(command string) bool { return strings.Contains(strings.ToLower(command), "unlock") }

// prefillNotCold finds prefill cells whose prompts came from a cache.
func prefillNotCold(d *Document) string {
	var labels []string
	for _, m := range shown(d, speedmatrix.PhasePrefill) {
		c := m.Cell
		if c.CachedTokens != nil && *c.CachedTokens > max(float64(c.Context)*0.05, 512) {
			labels = append(labels, m.Context)
		}
	}
	if len(labels) == 0 {
		return ""
	}
	return fmt.Sprintf("Prefill at %s was not cold: part of the prompt came from the server's cache, so reading a new prompt is slower than shown.", list(labels))
}

// prefillOrder finds a longer prompt that was read in less time than a shorter one.
func prefillOrder(d *Document) string {
	var before *Measurement
	for _, m := range shown(d, speedmatrix.PhasePrefill) {
		v := median(m.Cell.TTFT)
		if v == nil {
			continue
		}
		if before != nil && *v < *median(before.Cell.TTFT)*0.98 {
			return fmt.Sprintf("The prompt of %s was read faster than that of %s (%s against %s), which no server does with new prompts: one of the two numbers is wrong.",
				m.Context, before.Context, m.TTFT, before.TTFT)
		}
		before = m
	}
	return ""
}

// loopedGap finds a discarded cell between cells of its row that ran.
func loopedGap(d *Document) string {
	for _, row := range d.Matrix.Rows {
		for i, m := range row.Cells {
			if m.Cell.Status != speedmatrix.StatusLooped {
				continue
			}
			after := slices.IndexFunc(row.Cells[i:], func(x *Measurement) bool { return x.ShowsSpeed })
			if after < 0 {
				continue
			}
			return fmt.Sprintf("%s with %s was discarded because a stream repeated itself. %s at the same context ran, so the gap says nothing about the server.",
				row.Label, plural(m.Cell.Concurrency, "request"), upper(plural(row.Cells[i+after].Cell.Concurrency, "request")))
		}
	}
	return ""
}

// differentSpans finds rows whose columns cannot cover the same time: per request times
// requests is more than the total.
func differentSpans(d *Document) string {
	if d.Run.Origin != speedmatrix.OriginImported && d.Run.Method.Name != speedmatrix.MethodCompat {
		return ""
	}
	var worst *Measurement
	most := 0.0
	for _, m := range shown(d, speedmatrix.PhaseDecode) {
		total, each := value(m.Cell.TotalTokensPerSecond), value(m.Cell.PerRequestTokensPerSecond)
		if total <= 0 {
			continue
		}
		if over := each*float64(m.Cell.Concurrency)/total - 1; over > most {
			worst, most = m, over
		}
	}
	if worst == nil || most < 0.02 {
		return ""
	}
	return fmt.Sprintf("At %s context, per request times requests is up to %s more than the total: the two columns cover different spans of time.", worst.Context, unit.PercentFine(most))
}

func sharedPrompt(d *Document) string {
	many := slices.ContainsFunc(shown(d, speedmatrix.PhaseDecode), func(m *Measurement) bool { return m.Cell.Concurrency > 1 })
	if d.Run.Method.Prompts != "shared" || !many {
		return ""
	}
	return "All requests at once shared one prompt. Real users do not, so expect a lower total and a longer TTFT at long contexts."
}

func singleSamples(d *Document) string {
	cells := shown(d, speedmatrix.PhasePrefill)
	single := 0
	for _, m := range cells {
		if t := m.Cell.TTFT; t != nil && t.N == 1 {
			single++
		}
	}
	switch single {
	case 0:
		return ""
	case len(cells):
		return "Each prefill number is one sample. Its spread is unknown."
	}
	return fmt.Sprintf("%s of %s are one sample each; their spread is unknown.", unit.Count(single), plural(len(cells), "prefill number"))
}

// labelTolerance is how far a prompt may be from its label without a word about it.
const labelTolerance = 0.01

// nominalLabels finds prompts that are not as long as their labels say.
func nominalLabels(d *Document) string {
	var longest, shortest *Length
	for i := range d.Lengths {
		l := &d.Lengths[i]
		if l.Share > labelTolerance && (longest == nil || l.Share > longest.Share) {
			longest = l
		}
		if l.Share < -labelTolerance && (shortest == nil || l.Share < shortest.Share) {
			shortest = l
		}
	}
	about := ""
	if d.LengthsDerived {
		about = "about "
	}
	say := func(l *Length, word string) string {
		return fmt.Sprintf("%s%s %s", about, unit.PercentFine(math.Abs(l.Share)), word)
	}
	switch {
	case longest != nil && shortest != nil:
		return fmt.Sprintf("Context labels are nominal. The prompt behind “%s” was %s than its label, the one behind “%s” %s.",
			longest.Label, say(longest, "longer"), shortest.Label, say(shortest, "shorter"))
	case longest != nil:
		return fmt.Sprintf("Context labels are nominal. The prompt behind “%s” was %s than its label.", longest.Label, say(longest, "longer"))
	case shortest != nil:
		return fmt.Sprintf("Context labels are nominal. The prompt behind “%s” was %s than its label.", shortest.Label, say(shortest, "shorter"))
	}
	return ""
}

// noRepeats finds runs whose spread from one measurement to the next is not known.
func noRepeats(d *Document) string {
	if len(d.Run.Repeats) > 0 || d.Run.Origin != speedmatrix.OriginMeasured || len(shown(d, speedmatrix.PhaseDecode)) == 0 {
		return ""
	}
	return "Every cell was measured once. The intervals are of its window; how much another run would differ is not known."
}

// list writes words as people do: "8K", "8K and 16K", "8K, 16K and 32K".
func list(words []string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

// upper begins a sentence.
func upper(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }

// lower puts a status into the middle of a sentence.
func lower(s string) string { return strings.ToLower(s[:min(1, len(s))]) + s[min(1, len(s)):] }
