package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"speedmatrix"
)

// measureDecode measures a planned decode cell unless it is refused or measured already. A cell that fails is
// put aside for a second try at the end of its row.
func (s *Session) measureDecode(ctx context.Context, r *rowState, i int) error {
	p, c := &s.Plan.Cells[i], s.cell(i)
	if p.Verdict == Refused || !unmeasured(c) {
		return nil
	}
	if r.full > 0 && p.Concurrency > r.full {
		c.Status, c.Reason = speedmatrix.StatusOverCapacity, fmt.Sprintf("not tried: the engine already ran out of KV cache at %d requests", r.full)
		s.finished(c)
		return s.save()
	}
	s.awaitTurn(ctx, 1, i)
	s.begin(c.Key())
	result := s.attempts(ctx, r, p, c)
	var gone error
	switch c.Status {
	case speedmatrix.StatusFailed:
		r.again = append(r.again, i)
		if gone = s.gone(ctx); gone != nil {
			s.lose(r)
		}
	case speedmatrix.StatusOverCapacity:
		r.full = p.Concurrency
	}
	s.finished(c)
	if err := s.keep(r, c.Key(), result); err != nil {
		return err
	}
	return gone
}

// decodeAgain gives a failed cell its second try. An interruption leaves the first one standing.
func (s *Session) decodeAgain(ctx context.Context, r *rowState, i int) error {
	p, c := &s.Plan.Cells[i], s.cell(i)
	s.begin(c.Key())
	var second speedmatrix.Cell
	result := s.attempts(ctx, r, p, &second)
	if second.Status == speedmatrix.StatusInterrupted {
		return s.publishSamples(r)
	}
	second.Attempts += c.Attempts
	*c = second
	var gone error
	if c.Status == speedmatrix.StatusFailed {
		if gone = s.gone(ctx); gone != nil {
			lose(c)
		}
	}
	s.done--
	s.finished(c)
	if err := s.keep(r, c.Key(), result); err != nil {
		return err
	}
	return gone
}

// gone says whether the server can no longer be reached, as the error that ends the run.
func (s *Session) gone(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	err := s.Lab.Alive(ctx)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return &speedmatrix.Error{Kind: speedmatrix.KindMeasured, What: "the server stopped answering: " + err.Error(),
		Next: "What was measured is kept. Go on when it is up again with --resume.", Err: err}
}

// attempts measures a cell, again with other tails while streams loop, and judges the last attempt.
func (s *Session) attempts(ctx context.Context, r *rowState, p *PlannedCell, c *speedmatrix.Cell) *DecodeResult {
	var result *DecodeResult
	observed := r.observed
	for attempt := range loopAttempts {
		spec := s.decodeSpec(r, p, attempt == loopAttempts-1)
		result = s.Lab.Decode(ctx, spec)
		s.learn(r, spec, result)
		*c = newCell(p)
		c.Attempts = attempt + 1
		if result.Evidence.Outcome.Ending == EndedLooped && ctx.Err() != nil {
			result.Evidence.Outcome.Ending = EndedInterrupted
		}
		if ending := result.Evidence.Outcome.Ending; len(result.Evidence.Outcome.Looping) == 0 || ctx.Err() != nil || ending == EndedSkipped {
			break
		}
	}
	e := result.Evidence
	if e.Outcome.Ending == EndedSkipped {
		c.Status, c.Reason = judgeEnding(e)
		return result
	}
	e.FillTTFT = r.fillTTFT()
	Summarize(e, c)
	c.Loops = result.Loops
	c.Status, c.Reason = Judge(e, c, Judgement{ServerCoalesced: s.ServerCoalesced})
	c.Warnings = append(Doubts(e, c), result.Warnings...)
	s.addDoubts(r, c, e, !observed)
	return result
}

// addDoubts adds the warnings that come from the run around a cell; first says that the row's first launch was in it.
func (s *Session) addDoubts(r *rowState, c *speedmatrix.Cell, e *Evidence, first bool) {
	warn := func(code, message string) {
		c.Warnings = append(c.Warnings, speedmatrix.Warning{Code: code, Message: message})
	}
	if first && r.observed && !r.reuse {
		warn("no prefix reuse", "the server did not keep the prompts that were sent before, so launches in this row are cold")
	}
	if len(e.Outcome.Looping) == 0 && c.Attempts > 1 {
		warn("loops", fmt.Sprintf("measured again %d times because streams repeated the same text", c.Attempts-1))
	}
	if s.Settings.SharedServer {
		warn("shared server", "others' requests ran on the server at the same time")
	}
}

// decodeSpec is the next attempt at a cell.
func (s *Session) decodeSpec(r *rowState, p *PlannedCell, final bool) *DecodeSpec {
	key := newCell(p)
	spec := &DecodeSpec{Key: s.aside + key.Key(), Context: p.Context, Concurrency: p.Concurrency, WholeLife: s.compat()}
	for i := range p.Concurrency {
		spec.Heads = append(spec.Heads, s.head(r, i))
	}
	spec.Fill = s.headsToFill(r, spec.Heads)
	spec.FirstFill = int32(len(r.samples))
	if !s.isSample(r) {
		spec.FirstFill = looseFrom + int32(len(r.loose[spec.Key]))
	}
	spec.NextTail = r.nextTail(spec.Heads)
	if s.compat() {
		spec.NextTail = func(int) int { return 0 } // it sends one and the same prompt always
	}
	spec.MaxTokens = s.maxTokens(r)
	spec.Rules = s.rules(r, p, len(spec.Fill))
	spec.Rules.EndOnLoop = !final
	return spec
}

// headsToFill lists the streams whose heads the server is to be sent before the launch: those that it was not sent
// yet, as long as its cache keeps them. Method compat sends the one prompt before every cell.
func (s *Session) headsToFill(r *rowState, heads []Head) []int {
	switch {
	case r.context == 0:
		return nil
	case s.compat():
		return []int{0}
	case r.observed && !r.reuse:
		return nil
	}
	var list []int
	planned := map[int]bool{}
	for i, h := range heads {
		if !r.filled[h.Stream] && !planned[h.Stream] {
			planned[h.Stream] = true
			list = append(list, i)
		}
	}
	return list
}

// generations keeps the attempts of heads of one generation apart from those of the next.
const generations = 1 << 20

// head gives the head of a stream: its own, or the one of all where the prompts are shared. At context 0 only method
// compat sends one prompt for all.
func (s *Session) head(r *rowState, stream int) Head {
	if s.sharedHead() && (r.context > 0 || s.compat()) {
		stream = 0
	}
	return Head{Context: r.context, Stream: stream, Attempt: s.Generation * generations}
}

func (s *Session) sharedHead() bool { return s.Settings.Prompts == "shared" }

// The slack between the label of a context and the length of a prompt, in tokens and as shares, and what tails vary by.
const (
	countedSlack   = 0.005
	uncountedSlack = 0.02
	tailSlack      = 32
)

// maxTokens is the output cap of a cell: what the model's length leaves beside the prompt, whose length is
// known once the row has sent one.
func (s *Session) maxTokens(r *rowState) int {
	if s.Limits.MaxLength == 0 {
		return s.Settings.MaxOutput
	}
	slack := uncountedSlack
	if s.Run.Server.Habits.Tokenizer {
		slack = countedSlack
	}
	tokens := promptTokens(r.context) + int(slack*float64(r.context))
	if r.context == 0 {
		tokens += s.Run.Server.Habits.TemplateTokens
	}
	if r.longest > 0 {
		tokens = r.longest
	}
	return max(min(s.Settings.MaxOutput, s.Limits.MaxLength-tokens-tailSlack), 1)
}

// The time that one fill may take: at least, at most where no prefill was timed yet, and again after one failed so.
const (
	leastFillLimit   = 2 * time.Minute
	unknownFillLimit = 10 * time.Minute
	failedFillLimit  = time.Minute
)

func (s *Session) fillLimit(fill time.Duration) time.Duration {
	switch {
	case s.Pilot.Known:
		return max(leastFillLimit, 20*fill)
	case s.fillsFailed > 0:
		return failedFillLimit
	}
	return unknownFillLimit
}

// rules are the protocol's settings for a cell.
func (s *Session) rules(r *rowState, p *PlannedCell, fills int) Rules {
	fill := s.Pilot.Fill(p.Context)
	rules := Rules{Concurrency: p.Concurrency, Fills: fills, DrainLimit: drainLimit, FillLimit: s.fillLimit(fill),
		BaseRunning: s.BaseRunning, BaseWaiting: s.BaseWaiting, Hold: rampHold, Spacing: launchSpacing, Window: s.Settings.windowRules()}
	if s.compat() {
		rules.Hold, rules.MinSinceLaunch, rules.MeasureUnready, rules.FromFill = 3*time.Second, 2*time.Second, true, true
		rules.Spacing = 0
		rules.Allowance = compatAllowance(p.Context)
		return rules
	}
	one := s.Pilot.Fill(tailTokens)
	if !r.observed || !r.reuse {
		one = max(fill, one)
	}
	rules.Saturation = max(leastSaturation, 3*one)
	if !s.HasGauges {
		// Without a gauge a launch that reads long prompts looks like one that waits.
		rules.Saturation = max(leastSaturation, 3*fill)
	}
	rules.Allowance = max(baseAllowance+3*one*time.Duration(p.Concurrency), baseAllowance+rules.Saturation)
	return rules
}

// compatAllowance is how long llm-inference-bench waits for a cell to be ready.
func compatAllowance(context int) time.Duration {
	switch {
	case context >= 128<<10:
		return 180 * time.Second
	case context >= 64<<10:
		return 120 * time.Second
	}
	return 60 * time.Second
}

// fillsFailedReason is the first failed fill's error in the server's words, "" without one.
func fillsFailedReason(fills []Prefilled) string {
	i := slices.IndexFunc(fills, func(f Prefilled) bool { return !f.OK() })
	if i < 0 {
		return ""
	}
	return firstError([]Recorded{fills[i].Recorded})
}
