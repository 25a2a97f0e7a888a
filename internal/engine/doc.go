// Package engine is a simulated LLM engine: vLLM's scheduler (continuous
// batching under a token budget, chunked prefill, paged KV cache with a prefix
// cache, preemption by recompute) with the step times of a real machine.
//
// It is pure: no clock, no goroutine, no input or output. The caller adds
// requests, begins a step, lets the step's duration pass on whatever clock it
// likes, and ends the step to learn which requests got a token. The same
// calls in the same order give the same answers.
package engine
