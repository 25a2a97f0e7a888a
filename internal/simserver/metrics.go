package simserver

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"speedmatrix/internal/wire"
)

// histogramInfo is the name, help and kind of bounds of a histogram.
type histogramInfo struct {
	name, help string
	bounds     []float64 // nil for 1, 2, 5, 10 … up to the model's maximum length
}

// The bounds that several histograms share.
var (
	requestSeconds = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	tokenSeconds   = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	firstSeconds   = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	stepTokens     = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
)

// histograms are those of vLLM 0.32, by their number.
var histograms = [histCount]histogramInfo{
	histPromptTokens:        {"request_prompt_tokens", "Number of prefill tokens processed.", nil},
	histGenerationTokens:    {"request_generation_tokens", "Number of generation tokens processed.", nil},
	histIterationTokens:     {"iteration_tokens_total", "Histogram of number of tokens per engine_step.", stepTokens},
	histMaxGenerationTokens: {"request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", nil},
	histParamsN:             {"request_params_n", "Histogram of the n request parameter.", []float64{1, 2, 5, 10, 20}},
	histParamsMaxTokens:     {"request_params_max_tokens", "Histogram of the max_tokens request parameter.", nil},
	histFirstToken:          {"time_to_first_token_seconds", "Histogram of time to first token in seconds.", firstSeconds},
	histInterToken:          {"inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", tokenSeconds},
	histPerOutputToken:      {"request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", tokenSeconds},
	histLatency:             {"e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", requestSeconds},
	histQueue:               {"request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", requestSeconds},
	histInference:           {"request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", requestSeconds},
	histPrefill:             {"request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", requestSeconds},
	histDecode:              {"request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", requestSeconds},
	histPreemptions:         {"request_num_preemptions", "Histogram of the number of preemptions of a request.", []float64{1, 2, 3, 4, 5, 10, 20}},
	histComputed:            {"request_prefill_kv_computed_tokens", "Histogram of new KV tokens computed during prefill (excluding cached tokens).", nil},
}

// boundsOf gives the upper bounds of all histograms for a model's maximum length.
func boundsOf(maxLength int) *[histCount][]float64 {
	var lengths []float64
	for decade := 1; decade <= maxLength; decade *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*decade <= maxLength {
				lengths = append(lengths, float64(m*decade))
			}
		}
	}
	var all [histCount][]float64
	for i := range histograms {
		if all[i] = histograms[i].bounds; all[i] == nil {
			all[i] = lengths[:min(len(lengths), mostBounds-1)]
		}
	}
	return &all
}

// page is /metrics while it is written.
type page struct {
	x       wire.Exposition
	labels  []string
	created float64
}

// metrics answers a scrape. The figures are those of the instant of the request.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	f := s.loop.board.read(s.clock.now())
	if delay := s.options.Faults.MetricsDelay; delay > 0 {
		timer := time.NewTimer(s.clock.pause(delay))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		case <-s.closing:
			return
		}
	}
	p := page{labels: []string{"engine", "0", "model_name", s.served}, created: float64(s.clock.begun.UnixNano()) / 1e9}
	p.write(&f)
	p.rejections(s.served, f.rejected)
	p.x.Family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
	p.x.Sample(1, s.cacheConfig()...)
	w.Header().Set("Content-Type", wire.ExpositionType)
	_, _ = w.Write(p.x.Bytes()) // the client may be gone; there is nobody to tell
}

// gauge writes a gauge of one value.
func (p *page) gauge(name, help string, v float64) {
	p.x.Family("vllm:"+name, "gauge", help)
	p.x.Sample(v, p.labels...)
}

// counter writes a counter; by names the label of its values, "" where there is one value alone.
func (p *page) counter(name, help, by string, values ...labelled) {
	p.x.Family("vllm:"+name+"_total", "counter", help)
	p.each(by, values)
	p.x.Family("vllm:"+name+"_created", "gauge", help)
	for i := range values {
		values[i].value = p.created
	}
	p.each(by, values)
}

// labelled is a value and its label's.
type labelled struct {
	label string
	value float64
}

func one(n int64) labelled { return labelled{value: float64(n)} }

func (p *page) each(by string, values []labelled) {
	for _, v := range values {
		if by == "" {
			p.x.Sample(v.value, p.labels...)
		} else {
			p.x.Sample(v.value, append(slices.Clone(p.labels), by, v.label)...)
		}
	}
}

func (p *page) write(f *figures) {
	for _, name := range []string{"flops", "read_bytes", "write_bytes"} {
		p.counter("estimated_"+name+"_per_gpu", "Estimated per GPU since start.", "", one(0))
	}
	waiting := float64(f.gauges.Waiting)
	p.gauge("num_requests_running", "Number of requests in model execution batches.", float64(f.gauges.Running))
	p.gauge("num_requests_waiting", "Number of requests waiting to be processed.", waiting)
	p.x.Family("vllm:num_requests_waiting_by_reason", "gauge", "Number of requests waiting to be processed by reason.")
	p.each("reason", []labelled{{"capacity", waiting}, {"deferred", 0}})
	p.x.Family("vllm:engine_sleep_state", "gauge", "Engine sleep state; awake = 1.")
	p.each("sleep_state", []labelled{{"awake", 1}, {"weights_offloaded", 0}, {"discard_all", 0}})
	p.gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", f.gauges.KVUsage)
	p.counters(f)
	for i := range f.histograms {
		p.histogram(&histograms[i], &f.histograms[i], f.bounds[i])
	}
}

func (p *page) counters(f *figures) {
	p.counter("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.", "", one(f.engine.PrefixQueries))
	p.counter("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", "", one(f.engine.PrefixHits))
	p.counter("external_prefix_cache_queries", "External prefix cache queries from KV connector.", "", one(0))
	p.counter("external_prefix_cache_hits", "External prefix cache hits from KV connector.", "", one(0))
	p.counter("mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items.", "", one(0))
	p.counter("mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items.", "", one(0))
	p.counter("num_preemptions", "Cumulative number of preemptions from the engine.", "", one(f.preemptions))
	p.counter("prompt_tokens", "Number of prefill tokens processed.", "", one(f.promptTokens))
	cached := float64(f.cachedTokens)
	p.counter("prompt_tokens_by_source", "Number of prompt tokens by source.", "source", labelled{"local_compute", float64(f.promptTokens) - cached},
		labelled{"local_cache_hit", cached}, labelled{"external_kv_transfer", 0})
	p.counter("prompt_tokens_cached", "Number of cached prompt tokens.", "", one(f.cachedTokens))
	p.counter("prompt_tokens_cached_by_source", "Number of cached prompt tokens by source.", "source", labelled{"device", cached},
		labelled{"host", 0}, labelled{"p2p", 0}, labelled{"disk", 0}, labelled{"external_unspecified", 0})
	p.counter("generation_tokens", "Number of generation tokens processed.", "", one(f.generated))
	success := make([]labelled, len(finishReasons))
	for i, reason := range finishReasons {
		success[i] = labelled{reason, float64(f.success[i])}
	}
	p.counter("request_success", "Count of successfully processed requests.", "finished_reason", success...)
}

// rejections is the one counter without an engine.
func (p *page) rejections(served string, rejected int64) {
	p.labels = []string{"model_name", served}
	p.counter("admission_rejections", "Number of requests rejected at admission.", "reason",
		labelled{"max_num_queued_reqs", float64(rejected)}, labelled{"max_num_queued_tokens", 0})
}

func (p *page) histogram(info *histogramInfo, h *histogram, bounds []float64) {
	p.x.Family("vllm:"+info.name, "histogram", info.help)
	sum := int64(0)
	for i := range len(bounds) + 1 {
		sum += h.counts[i]
		le := "+Inf"
		if i < len(bounds) {
			le = bound(bounds[i])
		}
		p.x.Suffixed("_bucket", float64(sum), append(slices.Clone(p.labels), "le", le)...)
	}
	p.x.Suffixed("_count", float64(h.n), p.labels...)
	p.x.Suffixed("_sum", h.sum, p.labels...)
	p.gauge(info.name+"_created", info.help, p.created)
}

// bound writes a bucket's bound with one decimal at least, as the Python client does.
func bound(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
