package truth_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix/internal/memnet"
	"speedmatrix/internal/truth"
)

// world is a ground truth server on a network of its own, inside a bubble.
type world struct {
	t      *testing.T
	server *truth.Server
	net    *memnet.Network
	client *http.Client
	url    string
}

// inBubble runs a test in virtual time against a script. Everything is made
// inside the bubble and has ended when the bubble does.
func inBubble(t *testing.T, s truth.Script, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: memnet.New(), server: truth.New(s), url: "http://server:80"}
		l, err := w.net.Listen("server:80")
		if err != nil {
			t.Fatal(err)
		}
		var serving sync.WaitGroup
		serving.Go(func() {
			if err := w.server.Serve(l); err != nil {
				t.Error(err)
			}
		})
		transport := &http.Transport{DialContext: w.net.DialContext, DisableCompression: true}
		w.client = &http.Client{Transport: transport}
		defer func() {
			transport.CloseIdleConnections()
			w.server.Close()
			serving.Wait()
		}()
		test(t, w)
	})
}

// The pattern to copy: a script, a client over memnet, and times that must be
// those of the script to the nanosecond.
func TestAStreamOverMemnetIsExact(t *testing.T) {
	script := truth.Script{
		PrefillBase: 100 * time.Millisecond, PrefillPerToken: time.Millisecond, TemplateTokens: -1,
		Gap: func(s truth.Step) time.Duration { return time.Duration(s.Token) * time.Millisecond },
	}
	inBubble(t, script, func(t *testing.T, w *world) {
		start := time.Now()
		got := w.chat(t.Context(), "one two three", 4, nil)

		first := start.Add(103 * time.Millisecond)
		want := []time.Time{first, first.Add(1e6), first.Add(3e6), first.Add(6e6)}
		if len(got.texts) != len(want) {
			t.Fatalf("%d events with text, want %d", len(got.texts), len(want))
		}
		account := w.server.Account()
		if r := account.Requests[0]; r.FirstNS() != first.UnixNano() || r.LastNS() != want[3].UnixNano() || r.ArrivedNS != start.UnixNano() {
			t.Errorf("account: %+v", r)
		}
		for i, e := range account.Requests[0].Events {
			if !got.times[i].Equal(want[i]) || e.AtNS != want[i].UnixNano() {
				t.Errorf("token %d arrived at %v, sent at %v, want %v",
					i, got.times[i].Sub(start), time.Unix(0, e.AtNS).Sub(start), want[i].Sub(start))
			}
		}
		if n := account.TokensBetween(first.UnixNano(), want[2].UnixNano()); n != 2 {
			t.Errorf("%d tokens after the first up to the third, want 2", n)
		}
	})
}

// answer is what a plain client saw of one answer.
type answer struct {
	status int
	header http.Header
	raw    []byte
	err    error // of reading the body

	texts []string // of events with text, in order
	times []time.Time
	all   []map[string]any // every event but [DONE]
	done  bool
}

func (a *answer) text() string { return strings.Join(a.texts, "") }

// usage gives the last usage object beside choices.
func (a *answer) usage() map[string]any {
	for i := len(a.all) - 1; i >= 0; i-- {
		if u, ok := a.all[i]["usage"].(map[string]any); ok {
			return u
		}
	}
	return nil
}

// chat sends one chat; more is merged into the body.
func (w *world) chat(ctx context.Context, prompt string, maxTokens int, more map[string]any) *answer {
	body := map[string]any{
		"model": "truth", "stream": true, "max_tokens": maxTokens,
		"messages": []any{map[string]any{"role": "user", "content": prompt}},
	}
	maps.Copy(body, more)
	return w.post(ctx, "/v1/chat/completions", body)
}

// asked asks for usage in every event.
func asked() map[string]any {
	return map[string]any{"stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true}}
}

func (w *world) post(ctx context.Context, path string, body any) *answer {
	data, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+path, bytes.NewReader(data))
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return &answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	a := &answer{status: resp.StatusCode, header: resp.Header}
	a.read(resp.Body)
	return a
}

func (w *world) get(path string) (int, string) {
	resp, err := w.client.Get(w.url + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Error(err)
	}
	return resp.StatusCode, string(body)
}

// read takes events whose lines end in LF; anything else stays in raw.
func (a *answer) read(body io.Reader) {
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		a.raw = append(a.raw, line...)
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			a.event(strings.TrimSpace(data))
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			a.err = err
			return
		}
	}
}

func (a *answer) event(data string) {
	if data == "[DONE]" {
		a.done = true
		return
	}
	var e map[string]any
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		a.err = fmt.Errorf("event %q: %w", data, err)
		return
	}
	a.all = append(a.all, e)
	if text := eventText(e); text != "" {
		a.texts, a.times = append(a.texts, text), append(a.times, time.Now())
	}
}

// eventText joins the text of all channels of an event.
func eventText(e map[string]any) string {
	choices, _ := e["choices"].([]any)
	if len(choices) == 0 {
		return ""
	}
	choice, _ := choices[0].(map[string]any)
	text, _ := choice["text"].(string)
	delta, _ := choice["delta"].(map[string]any)
	for _, field := range []string{"content", "reasoning", "reasoning_content"} {
		s, _ := delta[field].(string)
		text += s
	}
	if calls, ok := delta["tool_calls"].([]any); ok {
		function, _ := calls[0].(map[string]any)["function"].(map[string]any)
		s, _ := function["arguments"].(string)
		text += s
	}
	return text
}
