package probe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix"
	"speedmatrix/internal/memnet"
)

// fake is an engine of which each route and habit can be set. A token is a word.
type fake struct {
	mux *http.ServeMux

	// natural is the number of tokens after which the model ends by itself; honours says
	// whether ignore_eos makes it go on; everyUsage and finalUsage what usage it sends.
	natural                         int
	honours, everyUsage, finalUsage bool
	timings, cached                 bool
	template                        int           // tokens that the chat template adds
	reused                          int           // tokens of a longer prompt that are said to be cached
	first                           time.Duration // to the first token
	empty                           bool          // tokens have no text
	sign                            string        // system_fingerprint
	refuse                          func(path string, body map[string]any) (status int, answer string)

	mu     sync.Mutex
	bodies []map[string]any
}

const (
	listVLLM  = `{"object":"list","data":[{"id":"smollm2","object":"model","created":1,"owned_by":"vllm","root":"/models/m1","parent":null,"max_model_len":8192,"permission":[{}]}]}`
	listLlama = `{"models":[{"name":"m"}],"object":"list","data":[{"id":"smol","object":"model","owned_by":"llamacpp","meta":{"vocab_type":1,"n_vocab":49152,"n_ctx":2048,"n_ctx_train":8192,"n_params":134515008,"size":98000000}}]}`
	listPlain = `{"object":"list","data":[{"id":"m","object":"model","owned_by":"someone"}]}`
)

func newFake() *fake {
	f := &fake{mux: http.NewServeMux(), natural: 1, finalUsage: true, template: 9}
	f.mux.HandleFunc("POST /v1/chat/completions", f.complete)
	f.mux.HandleFunc("POST /v1/completions", f.complete)
	return f
}

// get answers a route with JSON.
func (f *fake) get(route, body string) *fake {
	f.mux.HandleFunc("GET "+route, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	})
	return f
}

// post answers a route with what of makes of the request's body.
func (f *fake) post(route string, of func(body map[string]any) string) *fake {
	f.mux.HandleFunc("POST "+route, func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if json.NewDecoder(r.Body).Decode(&body) != nil {
			http.Error(w, "bad body", 400)
			return
		}
		fmt.Fprint(w, of(body))
	})
	return f
}

func words(text string) int { return len(strings.Fields(text)) }

// asked gives the user's text of a request, of either endpoint.
func asked(body map[string]any) string {
	if prompt, ok := body["prompt"].(string); ok {
		return prompt
	}
	messages, _ := body["messages"].([]any)
	var text strings.Builder
	for _, m := range messages {
		content, _ := m.(map[string]any)["content"].(string)
		text.WriteString(content)
	}
	return text.String()
}

func (f *fake) complete(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		http.Error(w, "bad body", 400)
		return
	}
	f.mu.Lock()
	f.bodies = append(f.bodies, body)
	f.mu.Unlock()
	if f.refuse != nil {
		if status, answer := f.refuse(r.URL.Path, body); status != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, answer)
			return
		}
	}
	f.stream(w, r, body)
}

func (f *fake) stream(w http.ResponseWriter, r *http.Request, body map[string]any) {
	limit, _ := body["max_tokens"].(float64)
	n, reason := f.natural, "stop"
	if strings.HasPrefix(asked(body), "Count") {
		n += 20
	}
	if ignore, _ := body["ignore_eos"].(bool); ignore && f.honours || n >= int(limit) {
		n, reason = int(limit), "length"
	}
	options, _ := body["stream_options"].(map[string]any)
	w.Header().Set("Content-Type", "text/event-stream")
	<-time.After(f.first)
	for i := range n {
		fmt.Fprintf(w, "data: {%s%s}\n\n", f.choice(r.URL.Path, i), f.extra(body, options, i+1))
		w.(http.Flusher).Flush()
		<-time.After(time.Millisecond)
		if r.Context().Err() != nil {
			return
		}
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"text\":\"\",\"finish_reason\":%q}]}\n\n", reason)
	if final, _ := options["include_usage"].(bool); final && f.finalUsage {
		fmt.Fprintf(w, "data: {\"choices\":[],%s}\n\n", f.usage(body, n))
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func (f *fake) choice(path string, i int) string {
	text := fmt.Sprintf("word%d ", i)
	if f.empty {
		text = ""
	}
	if strings.Contains(path, "chat") {
		return fmt.Sprintf(`"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]`, text)
	}
	return fmt.Sprintf(`"choices":[{"index":0,"text":%q,"finish_reason":null}]`, text)
}

// extra is what an event carries beside its text.
func (f *fake) extra(body, options map[string]any, n int) string {
	if f.sign != "" {
		return fmt.Sprintf(`,"system_fingerprint":%q`, f.sign)
	}
	if on, _ := options["continuous_usage_stats"].(bool); on && f.everyUsage {
		return "," + f.usage(body, n)
	}
	if on, _ := body["timings_per_token"].(bool); on && f.timings {
		return fmt.Sprintf(`,"timings":{"prompt_n":5,"prompt_ms":3.5,"predicted_n":%d,"predicted_ms":12.5}`, n)
	}
	return ""
}

func (f *fake) usage(body map[string]any, n int) string {
	prompt := words(asked(body))
	if body["messages"] != nil {
		prompt += f.template
	}
	details := ""
	if f.cached {
		cached := 0
		if prompt > f.reused {
			cached = f.reused
		}
		details = fmt.Sprintf(`,"prompt_tokens_details":{"cached_tokens":%d}`, cached)
	}
	return fmt.Sprintf(`"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d%s}`, prompt, prompt+n, n, details)
}

// sent gives the bodies of the completion requests so far.
func (f *fake) sent() []map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]map[string]any(nil), f.bodies...)
}

// vllmFake is vLLM 0.32.0 as it was recorded, counts in every event.
func vllmFake() *fake {
	f := newFake()
	f.honours, f.everyUsage, f.cached = true, true, true
	f.get("/version", `{"version":"0.32.0"}`).get("/v1/models", listVLLM).get("/metrics", metricsVLLM)
	return f.post("/tokenize", func(body map[string]any) string {
		n := words(asked(body))
		if body["messages"] != nil {
			n += f.template
		}
		return fmt.Sprintf(`{"count":%d,"max_model_len":8192,"tokens":[],"token_strs":null}`, n)
	})
}

const metricsVLLM = `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="smollm2"} 2.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="smollm2"} 1.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="smollm2",reason="capacity"} 1.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="smollm2"} 0.20513
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="smollm2"} 700.0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="smollm2"} 640.0
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="smollm2"} 2.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="smollm2"} 200.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="smollm2"} 1234.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{_block_size_resolved="True",block_size="128",cache_dtype="auto",enable_prefix_caching="True",engine="0",kv_cache_size_tokens="46592",num_cpu_blocks="None",num_gpu_blocks="364",sliding_window="None"} 1.0
`

const serverURL = "http://127.0.0.1:8000"

// bubble runs a test in virtual time with a network of its own.
func bubble(t *testing.T, test func(t *testing.T, n *memnet.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, memnet.New()) })
}

// serve lets h answer at an address of the network until the test ends.
func serve(t *testing.T, n *memnet.Network, address string, h http.Handler) {
	t.Helper()
	listener, err := n.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: h}}
	server.Start()
	t.Cleanup(server.Close)
}

// look looks at the server on port 8000 with the options that change makes.
func look(t *testing.T, n *memnet.Network, change func(*Options)) (*Server, error) {
	t.Helper()
	o := Options{URL: serverURL, Dial: n.DialContext}
	if change != nil {
		change(&o)
	}
	s, err := Look(t.Context(), o)
	if err == nil {
		t.Cleanup(s.Close)
	}
	return s, err
}

// found looks at a server that must be there.
func found(t *testing.T, n *memnet.Network, f http.Handler, change func(*Options)) *Server {
	t.Helper()
	serve(t, n, "127.0.0.1:8000", f)
	s, err := look(t, n, change)
	if err != nil {
		t.Fatalf("look: %v", err)
	}
	return s
}

// has fails the test where a fact has another value; "" is a fact that must not be there.
func has(t *testing.T, facts speedmatrix.Facts, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got := facts.Text(key); got != value {
			t.Errorf("%s = %q (%s), want %q", key, got, facts[key].Source, value)
		}
	}
}

// warned says whether a warning of that code was given.
func (s *Server) warned(code string) bool {
	for _, w := range s.Warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.mux.ServeHTTP(w, r) }
