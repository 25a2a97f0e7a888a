package bench

import (
	"fmt"
	"math"
	"slices"
	"time"

	"speedmatrix"
	"speedmatrix/internal/prompt"
	"speedmatrix/internal/unit"
)

// Limits are what a server can hold; 0 is unknown.
type Limits struct {
	// MaxLength is the model's maximum length in tokens, RunningLimit the requests it runs at once.
	MaxLength, RunningLimit int
	// KVTokens is the KV budget in tokens, KVBlockTokens its block.
	KVTokens, KVBlockTokens int
}

// Verdict is what the plan says of a cell.
type Verdict int

// The verdicts.
const (
	Runs    Verdict = iota // it fits
	Tried                  // it may not fit, and is tried
	Refused                // it does not run; Status and Reason say why
)

// PlannedCell is one cell of the plan.
type PlannedCell struct {
	Phase       speedmatrix.Phase
	Context     int
	Concurrency int
	Verdict     Verdict
	Status      speedmatrix.Status
	Reason      string
}

// Plan is the order of a run's cells: rows by context, each with its prefill and its decode cells.
type Plan struct {
	Contexts    []int
	Concurrency []int
	Prefill     []int
	Cells       []PlannedCell
}

// DefaultContexts gives at most six rows for a model: 0, powers of two, and the model's length less
// 8,192 tokens or an eighth of it.
func DefaultContexts(maxLength int) []int {
	if maxLength == 0 {
		return []int{0, 4 << 10, 8 << 10, 16 << 10, 32 << 10}
	}
	last := LargestContext(maxLength)
	rows := []int{last}
	for p := 1 << 40; p >= 1<<10 && len(rows) < 5; p >>= 1 {
		if p < last {
			rows = append(rows, p)
		}
	}
	if last > 0 {
		rows = append(rows, 0)
	}
	slices.Sort(rows)
	return rows
}

// LargestContext is the largest context that a run measures by itself: the model's length less
// min(8,192, an eighth of it).
func LargestContext(maxLength int) int { return max(maxLength-min(8192, maxLength/8), 0) }

// DefaultConcurrency is 1 … 128 by powers of two, up to the server's running limit.
func DefaultConcurrency(runningLimit int) []int {
	var list []int
	for c := 1; c <= 128 && (runningLimit == 0 || c <= runningLimit); c *= 2 {
		list = append(list, c)
	}
	return list
}

// NewPlan completes the settings for a server and lists the cells in the order in which they are measured.
func NewPlan(s Settings, l Limits) (*Plan, error) {
	p := &Plan{Contexts: slices.Clone(s.Contexts), Concurrency: slices.Clone(s.Concurrency)}
	if p.Contexts == nil {
		p.Contexts = DefaultContexts(l.MaxLength)
	}
	if i := slices.Index(p.Contexts, Max); i >= 0 {
		if l.MaxLength == 0 {
			return nil, usage(`the context "max" needs the model's maximum length, which the server does not tell`,
				"Give it with --state model.max_length_tokens=131072, or name the contexts.")
		}
		p.Contexts[i] = LargestContext(l.MaxLength)
	}
	slices.Sort(p.Contexts)
	p.Contexts = slices.Compact(p.Contexts)
	if p.Concurrency == nil {
		p.Concurrency = DefaultConcurrency(l.RunningLimit)
	}
	p.Prefill = p.prefillSizes(s, l)
	p.list(s, l)
	return p, nil
}

func (p *Plan) prefillSizes(s Settings, l Limits) []int {
	if s.NoPrefill {
		return nil
	}
	sizes := slices.Clone(s.Prefill)
	if sizes == nil {
		if l.MaxLength == 0 || 8<<10 < l.MaxLength {
			sizes = append(sizes, 8<<10)
		}
		for _, c := range p.Contexts {
			if c > 0 && c != 8<<10 {
				sizes = append(sizes, c)
			}
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// list puts the cells in the order of measuring: by context, a row's prefill cell first.
func (p *Plan) list(s Settings, l Limits) {
	contexts := slices.Concat(p.Contexts, p.Prefill)
	slices.Sort(contexts)
	for _, context := range slices.Compact(contexts) {
		if slices.Contains(p.Prefill, context) {
			p.Cells = append(p.Cells, planPrefill(context, l))
		}
		if slices.Contains(p.Contexts, context) {
			for _, c := range p.Concurrency {
				p.Cells = append(p.Cells, planDecode(context, c, s, l))
			}
		}
	}
}

func planPrefill(context int, l Limits) PlannedCell {
	cell := PlannedCell{Phase: speedmatrix.PhasePrefill, Context: context, Concurrency: 1}
	if l.MaxLength > 0 && context+1 > l.MaxLength {
		cell.refuse(speedmatrix.StatusExceedsModelLength, fmt.Sprintf("%s tokens and one of output need more than the model's %s",
			unit.Count(context), unit.Count(l.MaxLength)))
		return cell
	}
	if l.KVTokens > 0 && context+1 > l.KVTokens {
		cell.refuse(speedmatrix.StatusOverCapacity, fmt.Sprintf("one prompt of %s needs %s of %s tokens of KV cache",
			unit.FormatTokens(context), unit.Count(context+1), unit.Count(l.KVTokens)))
	}
	return cell
}

func (c *PlannedCell) refuse(status speedmatrix.Status, reason string) {
	c.Verdict, c.Status, c.Reason = Refused, status, reason
}

func promptTokens(context int) int { return max(context, shortPromptTokens) }

func planDecode(context, concurrency int, s Settings, l Limits) PlannedCell {
	cell := PlannedCell{Phase: speedmatrix.PhaseDecode, Context: context, Concurrency: concurrency}
	tokens := promptTokens(context)
	if l.MaxLength > 0 && tokens+MinOutputRoom > l.MaxLength {
		cell.refuse(speedmatrix.StatusExceedsModelLength, fmt.Sprintf("%s + %d tokens of output exceed the model's %s tokens",
			unit.Count(tokens), MinOutputRoom, unit.Count(l.MaxLength)))
		return cell
	}
	if l.KVTokens == 0 {
		return cell
	}
	if s.KVPlan == KVReserve {
		need := concurrency * (context + s.MaxOutput)
		fitsAtZero := context == 0 && l.RunningLimit > 0 && concurrency <= l.RunningLimit && s.Method != speedmatrix.MethodCompat
		if need > l.KVTokens && !fitsAtZero {
			cell.refuse(speedmatrix.StatusOverCapacity, fmt.Sprintf("%s × (%s + %s) tokens reserved need %s of %s",
				unit.Count(concurrency), unit.Count(context), unit.Count(s.MaxOutput), unit.Count(need), unit.Count(l.KVTokens)))
		}
		return cell
	}
	planObserved(&cell, tokens, s, l)
	return cell
}

// planObserved refuses only what cannot fit: the prompts alone need more blocks than there are.
func planObserved(cell *PlannedCell, tokens int, s Settings, l Limits) {
	block := max(l.KVBlockTokens, 1)
	budget := l.KVTokens / block
	blocks := func(perStream int) int {
		n := (perStream + 1 + block - 1) / block
		if s.Prompts == prompt.ModeShared && cell.Context > 0 {
			shared := tokens / block
			return shared + cell.Concurrency*(n-shared)
		}
		return cell.Concurrency * n
	}
	if need := blocks(tokens); need > budget {
		cell.refuse(speedmatrix.StatusOverCapacity, fmt.Sprintf("%s prompts of %s need %s of %s tokens of KV cache",
			unit.Count(cell.Concurrency), unit.FormatTokens(cell.Context), unit.Count(need*block), unit.Count(l.KVTokens)))
		return
	}
	output := min(s.MaxOutput, windowTokens*2)
	if blocks(tokens+output) > budget {
		cell.Verdict = Tried
		cell.Reason = "may not fit, will be tried"
	}
}

// Pilot predicts how long steps take, from the warm-up and every prefill since: a prompt of P tokens
// takes A·P + B·P² seconds.
type Pilot struct {
	A, B float64
	// Known is false before the first prefill was timed.
	Known bool
}

// Fill is the expected time of a cold prefill.
func (p Pilot) Fill(tokens int) time.Duration {
	x := float64(tokens)
	return time.Duration((p.A*x + p.B*x*x) * float64(time.Second))
}

// overhead is what a decode cell takes besides fills and window: drains, ramp, hold and stop.
const overhead = 3 * time.Second

// Expected is the time that a cell takes; heads is the number of heads already filled in its row.
func (c *PlannedCell) Expected(s *Settings, p Pilot, heads int) time.Duration {
	if c.Verdict == Refused {
		return 0
	}
	if c.Phase == speedmatrix.PhasePrefill {
		one := p.Fill(c.Context)
		if one > time.Minute {
			return one
		}
		return one * 3
	}
	fills := time.Duration(0)
	if c.Context > 0 {
		fills = p.Fill(c.Context) * time.Duration(max(c.Concurrency-heads, 0))
		if s.Prompts == prompt.ModeShared {
			fills = p.Fill(c.Context)
			if heads > 0 {
				fills = 0
			}
		}
	}
	return fills + s.windowRules().expected() + overhead
}

// expected is the length of a window at a speed typical of the machines that people measure: 1,024 tokens at 60 tok/s.
func (w WindowRules) expected() time.Duration {
	if w.Tokens == 0 {
		return w.Duration
	}
	return min(w.Duration, max(w.Min, 17*time.Second))
}

// Expected is the time of all cells, and the prompt tokens that they send.
func (p *Plan) Expected(s *Settings, pilot Pilot) (total time.Duration, tokens float64) {
	context, heads := math.MinInt, 0
	for i := range p.Cells {
		c := &p.Cells[i]
		if c.Context != context {
			context, heads = c.Context, 0
		}
		if c.Verdict == Refused {
			continue
		}
		if c.Phase == speedmatrix.PhasePrefill && slices.Contains(p.Contexts, c.Context) {
			// The row's fills are its samples: only what they leave over is extra.
			continue
		}
		total += c.Expected(s, pilot, heads)
		switch {
		case c.Phase == speedmatrix.PhasePrefill:
			tokens += 3 * float64(c.Context)
		default:
			tokens += float64(max(c.Concurrency-heads, 0)+c.Concurrency) * float64(promptTokens(c.Context))
			heads = max(heads, c.Concurrency)
		}
	}
	return total * time.Duration(s.Repeat), tokens * float64(s.Repeat)
}

// FitInto drops the least informative cells until the plan takes at most limit, and returns how many it
// dropped: first the cells between the ends of a row, from the highest context down, then whole rows from
// the middle; the corners of the matrix go last.
func (p *Plan) FitInto(limit time.Duration, s *Settings, pilot Pilot) int {
	dropped := 0
	for range p.Cells {
		total, _ := p.Expected(s, pilot)
		if limit == 0 || total <= limit {
			break
		}
		i := p.leastInformative(s, pilot)
		if i < 0 {
			break
		}
		p.Cells[i].refuse(speedmatrix.StatusSkipped, fmt.Sprintf("--max-time %s leaves no room for it", unit.Duration(limit)))
		dropped++
	}
	return dropped
}

// leastInformative is the cell that runs, costs most, and tells least: a cell with neighbours on both sides
// of its row is worth half of one without.
func (p *Plan) leastInformative(s *Settings, pilot Pilot) int {
	best, bestScore := -1, 0.0
	left := 0
	for i := range p.Cells {
		if p.Cells[i].Verdict != Refused {
			left++
		}
	}
	if left <= 1 {
		return -1
	}
	for i := range p.Cells {
		c := &p.Cells[i]
		if c.Verdict == Refused {
			continue
		}
		score := c.Expected(s, pilot, 0).Seconds()
		if c.Phase == speedmatrix.PhaseDecode && p.between(i) {
			score *= 2
		}
		if i == 0 {
			score /= 4
		}
		if score > bestScore {
			best, bestScore = i, score
		}
	}
	return best
}

// between says whether cells that run stand on both sides of cell i in its row.
func (p *Plan) between(i int) bool {
	same := func(j int) bool {
		return j >= 0 && j < len(p.Cells) && p.Cells[j].Context == p.Cells[i].Context &&
			p.Cells[j].Phase == speedmatrix.PhaseDecode && p.Cells[j].Verdict != Refused
	}
	return same(i-1) && same(i+1)
}
