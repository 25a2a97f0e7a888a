package simserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix/internal/memnet"
	"speedmatrix/internal/metricstext"
	"speedmatrix/internal/profile"
	"speedmatrix/internal/simserver"
	"speedmatrix/internal/sse"
)

const ms = time.Millisecond

// machine is a profile with round times: a decode step takes 10 ms and 1 ms for
// each sequence, a step with prefill 20 ms and 0.1 ms for each token of it.
func machine() *profile.Profile {
	p := &profile.Profile{Name: "round", Kind: profile.KindEstimated}
	p.Model = profile.Model{Name: "org/Round-1B", ServedName: "round", Quantization: "FP8", MaxLengthTokens: 4096}
	p.Engine = profile.Engine{Name: "vllm", Version: "0.32.0"}
	p.Scheduler = profile.Scheduler{StepTokens: 512, MaxRunning: 8, PrefixCaching: true}
	p.KV = profile.KV{BlockTokens: 16, Blocks: 1025, BytesPerToken: 1024}
	p.StepTime = profile.StepTime{
		BaseMS: 10, PerSequenceMS: 1, KVWaveFactor: 1, KVNorm: 1, PrefillBaseMS: 20, PrefillTokenUS: 100,
		Attention: profile.AttentionPerSequence,
	}
	p.FrontEnd = profile.FrontEnd{SerialMS: 2, DelayMS: 1}
	return p
}

// world is a server on a network in memory and a client of it, in a bubble.
type world struct {
	t      *testing.T
	server *simserver.Server
	net    *memnet.Network
	client *http.Client
	begun  time.Time
}

// inBubble runs a test in virtual time against a server.
func inBubble(t *testing.T, p *profile.Profile, o simserver.Options, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server, err := simserver.New(p, o)
		if err != nil {
			t.Fatal(err)
		}
		network := memnet.New()
		l, err := network.Listen("sim:80")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		transport := &http.Transport{DialContext: network.DialContext}
		w := &world{t, server, network, &http.Client{Transport: transport}, time.Now()}
		defer func() {
			transport.CloseIdleConnections()
			server.Close()
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		}()
		test(t, w)
	})
}

// event is one SSE event and when it came.
type event struct {
	at   time.Duration
	data string
	body struct {
		ID      string
		Object  string
		Choices []struct {
			Index        int
			Text         string
			Delta        struct{ Role, Content string }
			FinishReason string   `json:"finish_reason"`
			StopReason   string   `json:"stop_reason"`
			TokenIDs     []uint32 `json:"token_ids"`
			Message      struct{ Content string }
		}
		Usage          *usage
		PromptTokenIDs []uint32 `json:"prompt_token_ids"`
		Error          *struct {
			Message, Type, Param string
			Code                 int
		}
	}
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Total      int `json:"total_tokens"`
	Completion int `json:"completion_tokens"`
	Details    *struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// answer is what came back for one request.
type answer struct {
	status int
	header http.Header
	events []event
	err    error // of reading to the end
}

// fields is a body in the making.
type fields map[string]any

// chat is a streamed chat request.
func chat(prompt string, maxTokens int) fields {
	return fields{
		"model": "round", "messages": []fields{{"role": "user", "content": prompt}}, "max_tokens": maxTokens, "stream": true, "ignore_eos": true,
		"stream_options": fields{"include_usage": true, "continuous_usage_stats": true},
	}
}

func (f fields) with(name string, value any) fields {
	f[name] = value
	return f
}

// post sends a request and reads the whole answer.
func (w *world) post(ctx context.Context, path string, body any) *answer {
	w.t.Helper()
	data, raw := body.([]byte)
	if !raw {
		var err error
		if data, err = json.Marshal(body); err != nil {
			w.t.Fatal(err)
		}
	}
	return w.do(ctx, http.MethodPost, path, data)
}

func (w *world) do(ctx context.Context, method, path string, data []byte) *answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://sim:80"+path, bytes.NewReader(data))
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return &answer{err: err}
	}
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode, header: resp.Header}
	a.read(w, resp)
	return a
}

func (a *answer) read(w *world, resp *http.Response) {
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		data, err := io.ReadAll(resp.Body)
		a.add(w, data)
		a.err = err
		return
	}
	var reader sse.Reader
	for {
		chunk := make([]byte, 4096)
		n, err := resp.Body.Read(chunk)
		reader.Push(chunk[:n], int64(time.Since(w.begun)))
		var ev sse.Event
		for reader.Next(&ev) {
			a.add(w, ev.Data)
		}
		if err != nil {
			if err != io.EOF {
				a.err = err
			}
			return
		}
	}
}

func (a *answer) add(w *world, data []byte) {
	e := event{at: time.Since(w.begun), data: string(data)}
	_ = json.Unmarshal(data, &e.body) // [DONE], metrics and empty bodies are no JSON
	a.events = append(a.events, e)
}

// times are when the tokens of a choice came.
func (a *answer) times(index int) []time.Duration {
	var list []time.Duration
	for _, e := range a.events {
		for _, c := range e.body.Choices {
			if c.Index == index && c.Delta.Role == "" {
				list = append(list, e.at)
			}
		}
	}
	return list
}

// text is all text of a choice.
func (a *answer) text(index int) string {
	var all strings.Builder
	for _, e := range a.events {
		for _, c := range e.body.Choices {
			if c.Index == index {
				all.WriteString(c.Text + c.Delta.Content + c.Message.Content)
			}
		}
	}
	return all.String()
}

// finish is the finish reason of a choice.
func (a *answer) finish(index int) (reason, stop string) {
	for _, e := range a.events {
		for _, c := range e.body.Choices {
			if c.Index == index && c.FinishReason != "" {
				reason, stop = c.FinishReason, c.StopReason
			}
		}
	}
	return reason, stop
}

// usage is the last one.
func (a *answer) usage() usage {
	for i := len(a.events) - 1; i >= 0; i-- {
		if u := a.events[i].body.Usage; u != nil {
			return *u
		}
	}
	return usage{}
}

// cached is −1 where the server says nothing.
func (u usage) cached() int {
	if u.Details == nil {
		return -1
	}
	return u.Details.Cached
}

// scrape reads the metrics a moment after whatever happens now.
func (w *world) scrape() metricstext.Families {
	w.t.Helper()
	time.Sleep(time.Microsecond)
	a := w.do(w.t.Context(), http.MethodGet, "/metrics", nil)
	if a.status != http.StatusOK || a.err != nil {
		w.t.Fatalf("metrics: %d %v", a.status, a.err)
	}
	f, err := metricstext.Parse(strings.NewReader(a.events[0].data))
	if err != nil {
		w.t.Fatal(err)
	}
	return f
}

func sum(t *testing.T, f metricstext.Families, name string, where ...metricstext.Label) float64 {
	t.Helper()
	v, ok := f.Sum(name, where...)
	if !ok {
		t.Errorf("no metric %s", name)
	}
	return v
}

// readAll reads an answer from a bare connection of HTTP/1.0.
func readAll(t *testing.T, w *world, c net.Conn) *answer {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode, header: resp.Header}
	a.read(w, resp)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return a
}
