package engine

import (
	"fmt"

	"speedmatrix/internal/profile"
)

// Config is what an engine is built from.
type Config struct {
	// StepTokens is the token budget of one step (max_num_batched_tokens).
	StepTokens int
	// MaxRunning is the most requests that run at once (max_num_seqs).
	MaxRunning int
	// MaxLength is the model's maximum length: prompt and output of one request, in tokens.
	MaxLength int
	// BlockTokens is the size of a KV block, Blocks their number; one of them is the null block that nobody uses.
	BlockTokens, Blocks int
	// PrefixCaching keeps the blocks of finished requests for later prompts that begin alike.
	PrefixCaching bool
	// Hybrid models keep a recurrent state beside the KV cache: their prefill chunks end on block boundaries, and a
	// prefix is found again only up to a boundary at which a chunk ended.
	Hybrid bool
	// LongPrefillTokens is the most prompt tokens of one request in a step; 0 is no limit beside the budget.
	LongPrefillTokens int
	// Watermark is the share (0–1) of the blocks that must stay free when a request is admitted beside others.
	Watermark float64
	Timing    Timing
	// Noise is the standard deviation of a step's duration as a share; 0 is none. Seed decides it and the ids of
	// generated tokens that the caller does not give.
	Noise float64
	Seed  uint64
}

// FromProfile is the configuration of a profile's machine, without noise.
func FromProfile(p *profile.Profile) Config {
	return Config{
		StepTokens: p.Scheduler.StepTokens, MaxRunning: p.Scheduler.MaxRunning, MaxLength: p.Model.MaxLengthTokens,
		BlockTokens: p.KV.BlockTokens, Blocks: p.KV.Blocks, PrefixCaching: p.Scheduler.PrefixCaching,
		Hybrid: p.Scheduler.Hybrid, LongPrefillTokens: p.Scheduler.LongPrefillTokens, Watermark: p.Scheduler.Watermark,
		Timing: TimingOf(&p.StepTime),
	}
}

// Usable is the number of blocks that requests can use.
func (c *Config) Usable() int { return c.Blocks - 1 }

// check refuses what could not run or could stand still for ever.
func (c *Config) check() error {
	switch {
	case c.StepTokens < 1:
		return fmt.Errorf("engine: a token budget of %d per step", c.StepTokens)
	case c.MaxRunning < 1:
		return fmt.Errorf("engine: %d requests at once", c.MaxRunning)
	case c.MaxLength < 2:
		return fmt.Errorf("engine: a maximum length of %d tokens", c.MaxLength)
	}
	if err := c.checkBlocks(); err != nil {
		return err
	}
	return c.Timing.check()
}

// checkBlocks refuses a KV cache or bounds that do not go together.
func (c *Config) checkBlocks() error {
	switch {
	case c.BlockTokens < 1 || c.Blocks < 2:
		return fmt.Errorf("engine: %d KV blocks of %d tokens", c.Blocks, c.BlockTokens)
	case c.Hybrid && c.StepTokens < c.BlockTokens:
		return fmt.Errorf("engine: a hybrid model's block of %d tokens does not fit the budget of %d per step", c.BlockTokens, c.StepTokens)
	case c.LongPrefillTokens < 0 || c.Hybrid && c.LongPrefillTokens > 0 && c.LongPrefillTokens < c.BlockTokens:
		return fmt.Errorf("engine: at most %d prompt tokens of a request per step with blocks of %d", c.LongPrefillTokens, c.BlockTokens)
	case c.Watermark < 0 || c.Watermark >= 1:
		return fmt.Errorf("engine: a watermark of %g", c.Watermark)
	case c.Noise < 0 || c.Noise > 0.2:
		return fmt.Errorf("engine: noise of %g, at most 0.2", c.Noise)
	}
	return nil
}
