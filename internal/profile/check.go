package profile

import (
	"fmt"
	"math"
	"regexp"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

var nameRule = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,79}$`)

// The bounds of what a simulated machine may be: beyond them the simulation would take for ever or all memory.
const (
	mostTokens = 1 << 27
	mostBlocks = 1 << 24
	mostTime   = 1e9
)

// fault is what is wrong with one field.
type fault struct{ field, what, next string }

// Check says what is wrong with a profile, nil if nothing is.
func (p *Profile) Check() error {
	for _, check := range []func(*Profile) *fault{checkNames, checkScheduler, checkKV, checkNumbers, checkShapes, checkPrompt, checkRoom} {
		if f := check(p); f != nil {
			return &speedmatrix.Error{Kind: speedmatrix.KindUsage, What: fmt.Sprintf("profile %s: %s %s", p.label(), f.field, f.what), Next: f.next}
		}
	}
	return nil
}

func (p *Profile) label() string {
	if p.Name == "" {
		return "without a name"
	}
	return p.Name
}

func checkNames(p *Profile) *fault {
	kinds := []string{KindCalibrated, KindEstimated, KindFitted}
	switch {
	case !nameRule.MatchString(p.Name):
		return &fault{"name", fmt.Sprintf("cannot be %q", p.Name), "It has lower-case letters, digits, dots and hyphens, at most 80."}
	case !slices.Contains(kinds, p.Kind):
		return &fault{"kind", fmt.Sprintf("cannot be %q", p.Kind), "It is calibrated, estimated or fitted."}
	case p.Source == "":
		return &fault{"source", "is missing", "Say where the numbers come from."}
	case p.Model.Name == "":
		return &fault{"model.name", "is missing", "It is what the server calls its model."}
	case p.Hardware.GPU == "":
		return &fault{"hardware.gpu", "is missing", "Name the card."}
	case p.Engine.Name == "" || p.Engine.Version == "":
		return &fault{"engine", "has no name or no version", "The simulated server answers with them: name vllm, version 0.32.0 for example."}
	}
	return nil
}

func checkScheduler(p *Profile) *fault {
	s := &p.Scheduler
	switch {
	case p.Model.MaxLengthTokens < 2 || p.Model.MaxLengthTokens > mostTokens:
		return bad("model.max_length_tokens", p.Model.MaxLengthTokens, fmt.Sprintf("It is from 2 to %s.", unit.Count(mostTokens)))
	case s.StepTokens < 1 || s.StepTokens > mostTokens:
		return bad("scheduler.step_tokens", s.StepTokens, "It is the token budget of a step, such as 2048.")
	case s.MaxRunning < 1 || s.MaxRunning > 1<<16:
		return bad("scheduler.max_running", s.MaxRunning, "It is from 1 to 65,536.")
	case s.LongPrefillTokens < 0 || s.Hybrid && s.LongPrefillTokens > 0 && s.LongPrefillTokens < p.KV.BlockTokens:
		return bad("scheduler.long_prefill_tokens", s.LongPrefillTokens, "It is 0, or for a hybrid model at least a block.")
	case !(s.Watermark >= 0 && s.Watermark < 1):
		return bad("scheduler.watermark", s.Watermark, "It is a share, 0 to below 1.")
	}
	return nil
}

func checkKV(p *Profile) *fault {
	k := &p.KV
	switch {
	case k.BlockTokens < 1 || k.BlockTokens > 1<<16:
		return bad("kv.block_tokens", k.BlockTokens, "It is the size of a block, such as 16.")
	case k.Blocks < 2 || k.Blocks > mostBlocks:
		return bad("kv.blocks", k.Blocks, fmt.Sprintf("It is from 2 to %s; the memory must hold the weights and at least some KV cache.", unit.Count(mostBlocks)))
	case p.Scheduler.Hybrid && p.Scheduler.StepTokens < k.BlockTokens:
		return bad("scheduler.step_tokens", p.Scheduler.StepTokens, fmt.Sprintf("A hybrid model reads whole blocks, here of %s tokens.", unit.Count(k.BlockTokens)))
	case !finite(k.BytesPerToken):
		return bad("kv.bytes_per_token", k.BytesPerToken, "It is 0 (unknown) or more.")
	}
	return nil
}

// checkNumbers wants every time finite and not negative.
func checkNumbers(p *Profile) *fault {
	s, f := &p.StepTime, &p.FrontEnd
	for _, n := range []struct {
		field string
		value float64
	}{
		{"step_time.base_ms", s.BaseMS}, {"step_time.per_sequence_ms", s.PerSequenceMS}, {"step_time.per_expert_ms", s.PerExpertMS},
		{"step_time.experts", s.Experts}, {"step_time.experts_per_token", s.ExpertsPerToken}, {"step_time.kv_longest_us", s.KVLongestUS},
		{"step_time.kv_unique_us", s.KVUniqueUS}, {"step_time.kv_total_us", s.KVTotalUS}, {"step_time.prefill_base_ms", s.PrefillBaseMS},
		{"step_time.prefill_token_us", s.PrefillTokenUS}, {"step_time.prefill_small_us", s.PrefillSmallUS},
		{"step_time.prefill_small_tokens", s.PrefillSmallTokens}, {"step_time.attention_pair_ns", s.AttentionPairNS},
		{"step_time.attention_floor_us", s.AttentionFloorUS}, {"step_time.attention_contention", s.AttentionContention},
		{"front_end.serial_ms", f.SerialMS}, {"front_end.serial_token_us", f.SerialTokenUS}, {"front_end.delay_ms", f.DelayMS},
		{"front_end.delay_token_us", f.DelayTokenUS}, {"model.weights_gib", p.Model.WeightsGiB}, {"hardware.vram_gib", p.Hardware.VRAMGiB},
	} {
		if !finite(n.value) {
			return bad(n.field, n.value, "It is 0 or more.")
		}
	}
	return nil
}

func checkShapes(p *Profile) *fault {
	s := &p.StepTime
	switch {
	case s.BaseMS == 0:
		return bad("step_time.base_ms", 0, "A step takes time, even with one sequence and no context.")
	case !(s.KVWaveFactor >= 1) || s.KVWaveFactor > mostTime:
		return bad("step_time.kv_wave_factor", s.KVWaveFactor, "It is at least 1.")
	case !(s.KVNorm >= 1) || s.KVNorm > 100:
		return bad("step_time.kv_norm", s.KVNorm, "It is from 1 to 100.")
	case s.ExpertsPerToken > s.Experts:
		return bad("step_time.experts_per_token", s.ExpertsPerToken, "A token cannot use more experts than there are.")
	case s.Attention != AttentionPerSequence && s.Attention != AttentionOneKernel:
		return &fault{"step_time.attention", fmt.Sprintf("cannot be %q", s.Attention), "It is per-sequence or one-kernel."}
	}
	return nil
}

func checkPrompt(p *Profile) *fault {
	q := &p.Prompt
	switch {
	case q.ZeroContextTokens < 0 || q.ZeroContextTokens > p.Model.MaxLengthTokens:
		return bad("prompt.zero_context_tokens", q.ZeroContextTokens, "It is the length of the prompt of context 0.")
	case !finite(q.OffsetTokens):
		return bad("prompt.offset_tokens", q.OffsetTokens, "It is 0 or more.")
	case !finite(q.PerContextToken) || q.PerContextToken > 10:
		return bad("prompt.per_context_token", q.PerContextToken, "It is the true tokens per token of context, near 1.")
	}
	for _, list := range [][]int{p.Matrix.Contexts, p.Matrix.Concurrency, p.Matrix.Prefill} {
		for _, n := range list {
			if n < 0 || n > mostTokens {
				return bad("matrix", n, "Contexts, concurrencies and prefill sizes are whole numbers from 0.")
			}
		}
	}
	return nil
}

// checkRoom refuses a machine that cannot hold its own model.
func checkRoom(p *Profile) *fault {
	usable := (p.KV.Blocks - 1) * p.KV.BlockTokens
	if p.Model.MaxLengthTokens > usable {
		return &fault{"model.max_length_tokens", fmt.Sprintf("is %s, but the KV cache holds %s tokens", unit.Count(p.Model.MaxLengthTokens), unit.Count(usable)),
			"Give it more blocks or a shorter maximum length: one request must fit."}
	}
	h := &p.Hardware
	if h.VRAMGiB == 0 {
		return nil
	}
	kv := float64(p.KV.Tokens()) * p.KV.BytesPerToken / bytesPerGiB
	if need := p.Model.WeightsGiB + kv; need > h.VRAMGiB {
		return &fault{"hardware.vram_gib", fmt.Sprintf("is %g, but the weights take %.1f GiB and the KV cache %.1f GiB", h.VRAMGiB, p.Model.WeightsGiB, kv),
			"The machine cannot hold its own model: give it fewer blocks, a smaller model or more memory."}
	}
	return nil
}

func finite(x float64) bool { return x >= 0 && x <= mostTime && !math.IsNaN(x) }

func bad(field string, value any, next string) *fault {
	return &fault{field, fmt.Sprintf("cannot be %v", value), next}
}
