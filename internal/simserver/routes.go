package simserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"speedmatrix/internal/wire"
)

func healthy(http.ResponseWriter, *http.Request) {}

// version is vLLM's, and what is behind it.
func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	writeDocument(w, struct {
		Version   string    `json:"version"`
		Simulated simulated `json:"simulated"`
	}{s.profile.Engine.Version, simulated{s.profile.Name, s.profile.Kind, s.options.Speed, s.options.Seed}})
}

// simulated tells a client what it measures.
type simulated struct {
	Profile string  `json:"profile"`
	Kind    string  `json:"kind"`
	Speed   float64 `json:"clock_speed"`
	Seed    uint64  `json:"seed"`
}

// writeDocument answers with a value as JSON.
func writeDocument(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		(&wire.Problem{Status: http.StatusInternalServerError, Type: "InternalServerError", Message: err.Error()}).Write(w)
		return
	}
	wire.WriteJSON(w, b)
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	wire.WriteJSON(w, wire.Models(wire.Model{
		ID: s.served, OwnedBy: "vllm", Root: s.profile.Model.Name, MaxLength: s.config.MaxLength, Created: s.clock.begun.Unix(),
	}))
}

// model is one entry of the list.
func (s *Server) model(w http.ResponseWriter, r *http.Request) {
	if problem := s.checkModel(r.PathValue("id")); problem != nil {
		problem.Write(w)
		return
	}
	writeDocument(w, map[string]any{
		"id": s.served, "object": "model", "created": s.clock.begun.Unix(), "owned_by": "vllm",
		"root": s.profile.Model.Name, "parent": nil, "max_model_len": s.config.MaxLength,
	})
}

func (s *Server) load(w http.ResponseWriter, _ *http.Request) {
	wire.WriteJSON(w, []byte(`{"server_load":0}`))
}

// tokenize counts a prompt, or a chat with its template around it.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) {
	body, err := s.readBody(w, r)
	if err != nil {
		return
	}
	req, problem := wire.DecodeTokenize(body)
	if problem == nil {
		problem = s.checkModel(req.Model)
	}
	if problem != nil {
		problem.Write(w)
		return
	}
	var more struct {
		Open    *bool `json:"add_generation_prompt"`
		Strings bool  `json:"return_token_strs"`
	}
	if err := json.Unmarshal(body, &more); err != nil {
		invalid("body", err.Error()).Write(w)
		return
	}
	words := s.loop.model.words
	var ids []uint32
	if len(req.Messages) > 0 {
		ids = words.chat(req.Messages, more.Open == nil || *more.Open)
	} else {
		ids = words.encode(nil, req.Text)
	}
	var texts []string
	if more.Strings {
		texts = make([]string, len(ids))
		for i, id := range ids {
			texts[i] = words.text(id)
		}
	}
	wire.WriteJSON(w, s.tokenized(ids, texts))
}

// tokenized is vLLM's document; texts are null unless they were asked for.
func (s *Server) tokenized(ids []uint32, texts []string) []byte {
	b := fmt.Appendf(nil, `{"count":%d,"max_model_len":%d,"tokens":`, len(ids), s.config.MaxLength)
	b = appendIDs(b, ids)
	b = append(b, `,"token_strs":`...)
	if texts == nil {
		return append(b, "null}"...)
	}
	for i, text := range texts {
		b = append(b, "[,"[min(i, 1)])
		b = wire.AppendString(b, text)
	}
	if len(texts) == 0 {
		b = append(b, '[')
	}
	return append(b, `]}`...)
}

func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) {
	body, err := s.readBody(w, r)
	if err != nil {
		return
	}
	var req struct {
		Model  string `json:"model"`
		Tokens []int  `json:"tokens"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		invalid("body", err.Error()).Write(w)
		return
	}
	problem := s.checkModel(req.Model)
	var ids []uint32
	if problem == nil {
		ids, problem = s.checkIDs(req.Tokens)
	}
	if problem != nil {
		problem.Write(w)
		return
	}
	wire.WriteJSON(w, append(wire.AppendString([]byte(`{"prompt":`), s.loop.model.words.join(ids)), '}'))
}

// resetPrefixCache forgets the cached prefixes unless requests run on them.
func (s *Server) resetPrefixCache(w http.ResponseWriter, _ *http.Request) {
	var done bool
	if s.loop.ask(func() { done = s.loop.engine.ResetPrefixCache() }) {
		wire.WriteJSON(w, fmt.Appendf(nil, `{"success":%t}`, done))
	}
}

// abortRequests ends requests by their ids, all of them without any.
func (s *Server) abortRequests(w http.ResponseWriter, r *http.Request) {
	body, err := s.readBody(w, r)
	if err != nil {
		return
	}
	var req struct {
		IDs []string `json:"request_ids"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		invalid("", "Invalid JSON format").Write(w)
		return
	}
	found, n := s.names.find(req.IDs), len(req.IDs)
	if n == 0 {
		found = s.names.every()
		n = len(found)
	}
	for _, g := range found {
		s.loop.abort(g, true)
	}
	wire.WriteJSON(w, fmt.Appendf(nil, `{"status":"aborted","aborted":%d}`, n))
}

// serverInfo is vLLM's configuration, as one text or, if asked for, as JSON.
func (s *Server) serverInfo(w http.ResponseWriter, r *http.Request) {
	p, c := s.profile, &s.config
	cache := map[string]any{
		"block_size": c.BlockTokens, "num_gpu_blocks": c.Blocks, "kv_cache_size_tokens": c.Blocks * c.BlockTokens,
		"kv_cache_max_concurrency": s.concurrency(), "enable_prefix_caching": c.PrefixCaching, "cache_dtype": s.kvType(),
	}
	scheduler := map[string]any{
		"max_num_seqs": c.MaxRunning, "max_num_batched_tokens": c.StepTokens, "enable_chunked_prefill": true,
		"policy": "fcfs", "async_scheduling": false, "stream_interval": 1, "long_prefill_token_threshold": c.LongPrefillTokens,
	}
	model := map[string]any{
		"model": p.Model.Name, "served_model_name": s.served, "max_model_len": c.MaxLength,
		"quantization": orNull(strings.ToLower(p.Model.Quantization)), "revision": orNull(p.Model.Revision),
	}
	config := map[string]any{"cache_config": cache, "scheduler_config": scheduler, "model_config": model}
	environment := map[string]any{"vllm_version": p.Engine.Version}
	if r.URL.Query().Get("config_format") == "json" {
		writeDocument(w, map[string]any{"vllm_config": config, "vllm_env": map[string]any{}, "system_env": environment})
		return
	}
	text, err := json.Marshal(config)
	if err != nil {
		text = nil
	}
	writeDocument(w, map[string]any{"vllm_config": string(text), "vllm_env": map[string]any{}, "system_env": environment})
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// concurrency is how many requests of the maximum length fit the KV cache.
func (s *Server) concurrency() float64 {
	return float64(s.config.Blocks*s.config.BlockTokens) / float64(s.config.MaxLength)
}

func (s *Server) kvType() string {
	if s.profile.Engine.KVType == "" {
		return "auto"
	}
	return s.profile.Engine.KVType
}

// cacheConfig gives the labels of vllm:cache_config_info as names and values in turn.
func (s *Server) cacheConfig() []string {
	c := &s.config
	python := map[bool]string{true: "True", false: "False"}
	block := strconv.Itoa(c.BlockTokens)
	mode, bytes := "none", "None"
	if c.Hybrid {
		mode = "align"
	}
	if b := s.profile.KV.BytesPerToken; b > 0 {
		bytes = strconv.FormatFloat(b*float64(c.Blocks*c.BlockTokens), 'f', 0, 64)
	}
	return []string{
		"_block_size_resolved", "True", "block_size", block, "cache_dtype", s.kvType(), "cache_hit_alignment_tokens", "None",
		"effective_attention_block_size", block, "enable_mamba_shared_prefix_checkpoint", "False",
		"enable_prefix_caching", python[c.PrefixCaching], "engine", "0", "gpu_memory_utilization", "0.92", "hash_block_size", "None",
		"is_attention_free", "False", "kv_cache_dtype_skip_layers", "[]", "kv_cache_layout", "None",
		"kv_cache_max_concurrency", strconv.FormatFloat(s.concurrency(), 'f', -1, 64), "kv_cache_memory_bytes", bytes,
		"kv_cache_size_tokens", strconv.Itoa(c.Blocks * c.BlockTokens), "kv_offloading_backend", "native", "kv_offloading_size", "None",
		"kv_sharing_fast_prefill", "False", "mamba_block_size", "None", "mamba_cache_dtype", "auto", "mamba_cache_mode", mode,
		"mamba_page_size_padded", "None", "mamba_ssm_cache_dtype", "float32", "num_cpu_blocks", "None",
		"num_gpu_blocks", strconv.Itoa(c.Blocks), "num_gpu_blocks_override", "None", "prefix_cache_retention_interval", "0",
		"prefix_caching_hash_algo", "sha256", "prefix_match_unit", "None", "replayssm_buffer_len", "16", "skip_page_size_padded", "None",
		"sliding_window", "None", "swa_bounded_replay", "True", "use_kda_recoverssm", "False", "use_replayssm", "False",
		"user_specified_block_size", "False",
	}
}
