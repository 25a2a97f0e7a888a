package truth

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"

	"speedmatrix/internal/wire"
)

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.script.Engine == LlamaCpp {
		wire.WriteJSON(w, []byte(`{"status":"ok"}`))
	}
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	if s.script.Version == "" {
		wire.NotFound().Write(w)
		return
	}
	wire.WriteJSON(w, append(wire.AppendString([]byte(`{"version":`), s.script.Version), '}'))
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	m := wire.Model{ID: s.script.Model, OwnedBy: "truth", Created: s.begun.Unix()}
	switch s.script.Engine {
	case VLLM:
		m.OwnedBy, m.Root, m.MaxLength = "vllm", s.script.Model, s.script.MaxLength
	case LlamaCpp:
		m.OwnedBy = "llamacpp"
		m.Meta = fmt.Sprintf(`{"vocab_type":2,"n_vocab":49152,"n_ctx":%d,"n_ctx_train":%d}`, s.script.MaxLength, s.script.MaxLength)
	case Plain:
	}
	wire.WriteJSON(w, wire.Models(m))
}

// tokenize serves both engines' shapes.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	req := s.readTokenize(w, r)
	if req == nil {
		return
	}
	ids := s.countable(req)
	if s.script.Engine == LlamaCpp {
		wire.WriteJSON(w, wire.LlamaTokenized(ids))
		return
	}
	wire.WriteJSON(w, wire.Tokenized(ids, s.script.MaxLength))
}

// inputTokens is llama.cpp's count of a chat's prompt.
func (s *Server) inputTokens(w http.ResponseWriter, r *http.Request) {
	if s.script.Engine != LlamaCpp {
		wire.NotFound().Write(w)
		return
	}
	if req := s.readTokenize(w, r); req != nil {
		wire.WriteJSON(w, fmt.Appendf(nil, `{"input_tokens":%d,"object":"response.input_tokens"}`, len(s.countable(req))))
	}
}

// readTokenize gives the request, or nil if it has been answered.
func (s *Server) readTokenize(w http.ResponseWriter, r *http.Request) *wire.TokenizeRequest {
	s.tokenized.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	req, problem := wire.DecodeTokenize(body)
	if problem != nil {
		problem.Write(w)
		return nil
	}
	return req
}

// countable gives the ids of what is to be counted; those of the template are 1.
func (s *Server) countable(r *wire.TokenizeRequest) []int {
	if len(r.Messages) == 0 {
		return tokenIDs(r.Text)
	}
	ids := slices.Repeat([]int{1}, s.script.TemplateTokens)
	for _, text := range messageTexts(r.Messages) {
		ids = append(ids, tokenIDs(text)...)
	}
	return ids
}

// scrape waits as the script says and reads the values in between. It has
// answered already if ok is false.
func (s *Server) scrape(w http.ResponseWriter, r *http.Request) (g gauges, after func() (index int), ok bool) {
	m := &s.script.Metrics
	index := int(s.scrapes.Add(1)) - 1
	if m.Off {
		wire.NotFound().Write(w)
		return g, nil, false
	}
	sleep := s.newSleeper(r.Context())
	if sleep.until(s.since()+m.Before) != nil {
		return g, nil, false
	}
	if m.Fail != nil {
		if problem := m.Fail(index); problem != nil {
			problem.Write(w)
			return g, nil, false
		}
	}
	g = s.sched.read()
	return g, func() int {
		_ = sleep.until(s.since() + m.After) // gone or not, the answer is written
		return index
	}, true
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	g, after, ok := s.scrape(w, r)
	if !ok {
		return
	}
	x := &wire.Exposition{}
	if s.script.Engine == LlamaCpp {
		s.llamaMetrics(x, &g)
	} else {
		s.vllmMetrics(x, &g)
	}
	index, text := after(), x.Bytes()
	if rewrite := s.script.Metrics.Rewrite; rewrite != nil {
		text = []byte(rewrite(index, string(text)))
	}
	w.Header().Set("Content-Type", wire.ExpositionType)
	_, _ = w.Write(text) // the client may be gone; there is nobody to tell
}

// share adds one sample for each label set; whole values are dealt out so that they sum up.
func (s *Server) share(x *wire.Exposition, value float64, labels ...string) {
	n := s.script.Metrics.Engines
	each := math.Floor(value / float64(n))
	for i := range n {
		v := each
		if i == 0 {
			v = value - each*float64(n-1)
		}
		x.Sample(v, append([]string{"engine", strconv.Itoa(i), "model_name", s.script.Model}, labels...)...)
	}
}

// family is a metric with one value.
type family struct {
	name, kind, help string
	value            float64
}

func (s *Server) vllmMetrics(x *wire.Exposition, g *gauges) {
	list := []family{
		{"vllm:num_requests_running", "gauge", "Requests in the running batch.", float64(g.running)},
		{"vllm:num_requests_waiting", "gauge", "Requests that wait.", float64(g.waiting)},
		{"vllm:prefix_cache_queries_total", "counter", "Tokens looked up in the prefix cache.", float64(g.queries)},
		{"vllm:prefix_cache_hits_total", "counter", "Tokens found in the prefix cache.", float64(g.hits)},
		{"vllm:num_preemptions_total", "counter", "Preemptions.", float64(g.preemptions)},
		{"vllm:prompt_tokens_total", "counter", "Prompt tokens read.", float64(g.promptTokens)},
		{"vllm:generation_tokens_total", "counter", "Tokens generated.", float64(g.generated)},
	}
	if s.script.Metrics.Speculative {
		list = append(list,
			family{"vllm:spec_decode_num_drafts_total", "counter", "Drafts.", float64(g.events)},
			family{"vllm:spec_decode_num_accepted_tokens_total", "counter", "Draft tokens accepted.", float64(g.generated - g.events)})
	}
	for _, f := range list {
		x.Family(f.name, f.kind, f.help)
		s.share(x, f.value)
	}
	x.Family("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use, 1 is all of it.")
	for i := range s.script.Metrics.Engines {
		x.Sample(g.kvUsage, "engine", strconv.Itoa(i), "model_name", s.script.Model)
	}
	x.Family("vllm:request_success_total", "counter", "Requests that ended.")
	s.share(x, float64(g.stopped), "finished_reason", wire.FinishStop)
	s.share(x, float64(g.atLimit), "finished_reason", wire.FinishLength)
	if s.script.KVTokens > 0 {
		s.cacheConfig(x)
	}
}

func (s *Server) cacheConfig(x *wire.Exposition) {
	n := s.script.Metrics.Engines
	x.Family("vllm:cache_config_info", "gauge", "Settings of the KV cache.")
	for i := range n {
		tokens := s.script.KVTokens / n
		x.Sample(1,
			"block_size", strconv.Itoa(s.script.BlockTokens), "cache_dtype", "auto",
			"enable_prefix_caching", map[bool]string{true: "True", false: "False"}[s.script.PrefixCache],
			"engine", strconv.Itoa(i), "kv_cache_size_tokens", strconv.Itoa(tokens),
			"num_gpu_blocks", strconv.Itoa(tokens/s.script.BlockTokens))
	}
}

// llamaMetrics has counters of tokens that move only when a request ends, and
// a count of decoding steps that is live.
func (s *Server) llamaMetrics(x *wire.Exposition, g *gauges) {
	steps := g.events
	if s.script.Lockstep {
		steps = s.ticks.count()
	}
	busy := 0.0
	if steps > 0 {
		busy = float64(g.events) / float64(steps)
	}
	for _, f := range []family{
		{"llamacpp:prompt_tokens_total", "counter", "Prompt tokens read.", float64(g.promptTokens - g.cachedTokens)},
		{"llamacpp:prompt_tokens_cached_total", "counter", "Prompt tokens from the cache.", float64(g.cachedTokens)},
		{"llamacpp:prompt_seconds_total", "counter", "Time of reading prompts.", g.prefillTime.Seconds()},
		{"llamacpp:tokens_predicted_total", "counter", "Tokens generated by requests that ended.", float64(g.endedTokens)},
		{"llamacpp:n_decode_total", "counter", "Decoding steps.", float64(steps)},
		{"llamacpp:requests_processing", "gauge", "Requests in slots.", float64(g.running)},
		{"llamacpp:requests_deferred", "gauge", "Requests that wait.", float64(g.waiting)},
		{"llamacpp:n_busy_slots_per_decode", "gauge", "Mean of busy slots since the start.", busy},
	} {
		x.Family(f.name, f.kind, f.help)
		x.Sample(f.value)
	}
}

// slotCount is how many slots the server has: as many as may run.
func (s *Server) slotCount() int { return max(s.script.MaxRunning, 1) }

func (s *Server) props(w http.ResponseWriter, _ *http.Request) {
	b := fmt.Appendf(nil, `{"default_generation_settings":{"n_ctx":%d},"total_slots":%d,"model_alias":`, s.script.MaxLength, s.slotCount())
	b = wire.AppendString(b, s.script.Model)
	b = append(b, `,"model_path":`...)
	b = wire.AppendString(b, s.script.Model+".gguf")
	b = append(b, `,"model_ftype":"Q4_1","build_info":`...)
	b = wire.AppendString(b, s.script.Version)
	wire.WriteJSON(w, append(b, `,"endpoint_slots":true,"endpoint_props":true,"endpoint_metrics":true,"is_sleeping":false}`...))
}

// slots shows each slot's live count of generated tokens.
func (s *Server) slots(w http.ResponseWriter, r *http.Request) {
	g, after, ok := s.scrape(w, r)
	if !ok {
		return
	}
	slices.SortFunc(g.slots, func(a, b slot) int { return cmp.Compare(a.index, b.index) })
	count := s.slotCount()
	if n := len(g.slots); n > 0 {
		count = max(count, g.slots[n-1].index+1)
	}
	b := []byte{'['}
	for i := range count {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"id":%d,"n_ctx":%d,"speculative":false,"is_processing":`, i, s.script.MaxLength)
		at := slices.IndexFunc(g.slots, func(x slot) bool { return x.index == i })
		if at < 0 {
			b = append(b, "false}"...)
			continue
		}
		x := g.slots[at]
		b = fmt.Appendf(b, `true,"id_task":%d,"n_prompt_tokens":%d,"n_prompt_tokens_cache":%d,"next_token":[{"has_next_token":true,"n_decoded":%d}]}`,
			x.task, x.prompt, x.cached, x.decoded)
	}
	after()
	wire.WriteJSON(w, append(b, ']'))
}
