package load

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/dialect"
	"speedmatrix/internal/stamp"
)

// testStream is a stream that nothing is sent on, with a request under way.
func testStream(t testing.TB) (*stream, *exchange) {
	t.Helper()
	return streamOf(t, dialect.Chat())
}

// streamOf is testStream for another API.
func streamOf(t testing.TB, d dialect.Dialect) (*stream, *exchange) {
	t.Helper()
	c, err := New(Options{BaseURL: &url.URL{Scheme: "http", Host: "127.0.0.1"}, Dialect: d})
	if err != nil {
		t.Fatal(err)
	}
	s := newStream(c, 0)
	s.decoder, s.decoded = d.NewDecoder(), new(dialect.Event)
	x := s.begin(t.Context(), Request{ID: 99})
	s.reset()
	return s, x
}

func TestWhatIsRecordedIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRecord(1)
		var want []Event
		var texts [][]byte
		for i := range rapid.IntRange(0, 1500).Draw(t, "events") {
			e := Event{
				At:        int64(i) * 1_000_003,
				Length:    rapid.SampledFrom([]int{0, 1, 4, 5, 40, 700, 9000}).Draw(t, "length"),
				Tokens:    rapid.SampledFrom([]int{-1, 0, 1, 1 << 30}).Draw(t, "tokens"),
				Channel:   speedmatrix.Channel(rapid.IntRange(0, 2).Draw(t, "channel")),
				Continued: rapid.Bool().Draw(t, "continued"),
			}
			text := bytes.Repeat([]byte{byte('a' + i%26)}, e.Length)
			r.append(e)
			r.text.append(text)
			want, texts = append(want, e), append(texts, text)
		}
		l := &Log{record: r}
		for range l.Events() {
			t.Fatal("an event is seen before it is published")
		}
		r.publish()
		i := 0
		for e := range l.Events() {
			if e != want[i] {
				t.Fatalf("event %d is %+v, want %+v", i, e, want[i])
			}
			i++
		}
		if i != len(want) || !bytes.Equal(l.Text(), bytes.Join(texts, nil)) {
			t.Fatalf("%d of %d events, %d bytes of text", i, len(want), len(l.Text()))
		}
		if i == 0 {
			return
		}
		from, to := rapid.IntRange(0, i-1).Draw(t, "from"), rapid.IntRange(0, i-1).Draw(t, "to")
		from, to = min(from, to), max(from, to)
		got := l.TextBetween(want[from].At, want[to].At)
		if !bytes.Equal(got, bytes.Join(texts[from+1:to+1], nil)) {
			t.Fatalf("text between events %d and %d has %d bytes", from, to, len(got))
		}
	})
}

func TestAFollowerBesideTheWriterMissesNothing(t *testing.T) {
	s, _ := testStream(t)
	const requests, events = 20, 3000
	var ended atomic.Bool
	go func() {
		for n := range requests {
			r := s.newRecord(int32(n))
			for i := range events {
				text := fmt.Appendf(nil, "é%d ", i)
				r.append(Event{At: int64(i), Length: len(text), Tokens: i, Channel: speedmatrix.Channel(i / 100 % 2)})
				r.text.append(text)
				if i%3 == 0 || i == events-1 {
					r.publish()
				}
			}
		}
		ended.Store(true)
	}()
	f := &Follower{stream: s}
	got := make([]strings.Builder, requests)
	for over := false; !over; {
		over = ended.Load()
		for p, ok := f.Next(); ok; p, ok = f.Next() {
			if !strings.HasPrefix(string(p.Text), "é") || !strings.HasSuffix(string(p.Text), " ") {
				t.Fatalf("a piece was cut: %q", p.Text)
			}
			if p.Request < requests {
				got[p.Request].Write(p.Text)
			}
		}
	}
	var want strings.Builder
	for i := range events {
		fmt.Fprintf(&want, "é%d ", i)
	}
	for n := range got {
		if got[n].String() != want.String() {
			t.Errorf("request %d: %d bytes of %d", n, got[n].Len(), want.Len())
		}
	}
}

func TestTextBeyondTheLimitIsMissingButItsEventsAreNot(t *testing.T) {
	s, x := testStream(t)
	s.textLeft = 25
	for range 5 {
		x.take([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"ten bytes \"}}]}\n\n"), 1)
	}
	x.take([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"), 2)
	x.publish()
	if got := string(x.log.Text()); got != "ten bytes ten bytes " {
		t.Errorf("kept %q", got)
	}
	n := 0
	for e := range x.log.Events() {
		n += e.Length
	}
	if n != 51 {
		t.Errorf("events of %d bytes", n)
	}
	f := &Follower{stream: s}
	if p, ok := f.Next(); !ok || string(p.Text) != "ten bytes ten bytes " {
		t.Errorf("followed %q", p.Text)
	}
	if p, ok := f.Next(); ok {
		t.Errorf("followed %q beyond the limit", p.Text)
	}
}

func TestOnlyCountsThatComeAlongWithTheTextAreCounts(t *testing.T) {
	const (
		role     = `{"choices":[{"delta":{"role":"assistant"}}],"usage":{"completion_tokens":0}}`
		plain    = `{"choices":[{"delta":{"content":"a"}}]}`
		counted  = `{"choices":[{"delta":{"content":"a"}}],"usage":{"completion_tokens":%d}}`
		hidden   = `{"choices":[{"delta":{}}],"usage":{"completion_tokens":%d}}`
		finish   = `{"choices":[{"delta":{},"finish_reason":"stop"}]}`
		usage    = `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":%d}}`
		lastText = `{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"completion_tokens":%d}}`
	)
	tests := []struct {
		name   string
		events []string
		want   string // tokens of the recorded events
		view   int64
	}{
		{"in every event", []string{role, fmt.Sprintf(counted, 1), fmt.Sprintf(counted, 3), finish, fmt.Sprintf(usage, 3)}, "[1 3]", 3},
		{"the end brings more", []string{fmt.Sprintf(counted, 1), finish, fmt.Sprintf(usage, 2)}, "[1 2]", 2},
		{"usage at the end only", []string{plain, plain, finish, fmt.Sprintf(usage, 2)}, "[-1 -1]", -1},
		{"usage in the last text only", []string{plain, plain, fmt.Sprintf(lastText, 3)}, "[-1 -1 -1]", -1},
		{"now and then", []string{plain, fmt.Sprintf(counted, 2), plain, fmt.Sprintf(counted, 4)}, "[-1 2 -1 4]", 4},
		{"tokens without text", []string{fmt.Sprintf(hidden, 1), fmt.Sprintf(hidden, 2), fmt.Sprintf(hidden, 2), fmt.Sprintf(counted, 3)}, "[1 2 3]", 3},
		{"a single event", []string{fmt.Sprintf(lastText, 1)}, "[1]", 1},
		{"a count that falls", []string{fmt.Sprintf(counted, 5), fmt.Sprintf(counted, 4), fmt.Sprintf(counted, 6)}, "[5 4 6]", 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, x := testStream(t)
			for i, e := range tt.events {
				x.take([]byte("data: "+e+"\n\n"), int64(i))
			}
			x.publish()
			tokens := []int{}
			for e := range x.log.Events() {
				tokens = append(tokens, e.Tokens)
			}
			if got := fmt.Sprint(tokens); got != tt.want || s.view().Counted != tt.view {
				t.Errorf("recorded %s, counted %d; want %s, %d", got, s.view().Counted, tt.want, tt.view)
			}
		})
	}
}

func TestAReadWithTwoEventsIsCoalesced(t *testing.T) {
	s, x := testStream(t)
	event := "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	steps := []struct {
		reads       int64
		large       bool
		bytes       string
		events      int64
		eventReads  int64
		coalesced   int64
		explanation string
	}{
		{0, false, event, 1, 1, 0, "one event, come with the headers"},
		{1, false, event, 2, 2, 0, "one event in one read"},
		{1, false, event + event + event, 5, 3, 1, "three in one read"},
		{1, false, event, 6, 4, 1, "one"},
		{0, false, event, 7, 4, 2, "another one of the same read"},
		{2, true, event, 8, 5, 3, "one that two reads brought"},
		{2, true, event + event, 10, 6, 4, "two that two reads brought: one more, not two"},
		{2, false, event, 11, 7, 4, "two reads, the first without bytes of the body"},
		{1, false, "data: [DONE]\n\n", 11, 7, 4, "none"},
	}
	for i, step := range steps {
		s.reading(step.reads, step.large, int64(i+1)*1e6)
		x.take([]byte(step.bytes), 1)
		x.publish()
		q := Quality{Shared: new(stamp.Histogram)}
		s.addTo(&q, new(connections))
		if q.Events != step.events || q.EventReads != step.eventReads || q.CoalescedReads != step.coalesced {
			t.Errorf("%s: %d events, %d reads, %d coalesced", step.explanation, q.Events, q.EventReads, q.CoalescedReads)
		}
	}
}

func TestSurprisesAreCountedAndTheFirstFewKept(t *testing.T) {
	_, x := testStream(t)
	for range 5 {
		x.take([]byte("data: {\"choices\": oops"+strings.Repeat("s", 2000)+"\n\n"), 1)
	}
	if x.log.Surprises != 5 || len(x.log.Surprising()) != 3 || len(x.log.Surprising()[0]) != 1024 {
		t.Errorf("%d surprises, %d kept", x.log.Surprises, len(x.log.Surprising()))
	}
}

func TestTimingsFillInWhatTheUsageLeftOut(t *testing.T) {
	_, x := testStream(t)
	x.take([]byte(`data: {"choices":[{"delta":{"content":"a"}}],"timings":{"cache_n":5,"prompt_n":7,"predicted_n":1}}`+"\n\n"), 1)
	x.settle()
	if want := (dialect.Usage{Prompt: 12, Cached: 5, Completion: 1, Reasoning: -1}); x.log.Usage != want {
		t.Errorf("usage %+v, want %+v", x.log.Usage, want)
	}
}

func TestWhereRequestsGo(t *testing.T) {
	tests := []struct{ base, endpoint, address string }{
		{"http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/chat/completions", "127.0.0.1:8000"},
		{"http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1/chat/completions", "127.0.0.1:8000"},
		{"http://127.0.0.1/v1/chat/completions", "http://127.0.0.1/v1/chat/completions", "127.0.0.1:80"},
		{"https://user:pw@localhost/api?key=1#x", "https://localhost/api/v1/chat/completions?key=1", "localhost:443"},
		{"http://[::1]:9/x/v1", "http://[::1]:9/x/v1/chat/completions", "[::1]:9"},
	}
	for _, tt := range tests {
		u, _ := url.Parse(tt.base)
		c, err := New(Options{BaseURL: u})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.target.endpoint.String(); got != tt.endpoint || c.target.address != tt.address {
			t.Errorf("%s goes to %s at %s", tt.base, got, c.target.address)
		}
	}
	ours := map[string]dialect.Dialect{
		"http://h/v1/messages":     dialect.Anthropic(),
		"http://h/v1/responses":    dialect.Responses(),
		"http://h/api/chat":        dialect.Ollama(),
		"http://h/generate_stream": dialect.TGI(),
	}
	for want, d := range ours {
		for _, base := range []string{"http://h", "http://h/", "http://h/v1", "http://h/v1/", want} {
			u, _ := url.Parse(base)
			c, err := New(Options{BaseURL: u, Dialect: d})
			if err != nil {
				t.Fatal(err)
			}
			if got := c.target.endpoint.String(); got != want {
				t.Errorf("%s at %s goes to %s", d.Name(), base, got)
			}
		}
	}
	for _, bad := range []string{"127.0.0.1/x", "ftp://h", "http://", "http://:80"} {
		u, _ := url.Parse(bad)
		if _, err := New(Options{BaseURL: u}); speedmatrix.KindOf(err) != speedmatrix.KindUsage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestHeadersOfARequest(t *testing.T) {
	own := http.Header{"host": {"model.example"}, "authorization": {"Bearer k"}, "X-A": {"1", "2"}}
	h, host := headers(Options{Dialect: dialect.Chat(), Header: own}, url.UserPassword("u", "p"))
	if host != "model.example" || h.Get("Authorization") != "Bearer k" || len(h["X-A"]) != 2 || h.Get("Host") != "" {
		t.Errorf("host %q, header %v", host, h)
	}
	if h, _ := headers(Options{Dialect: dialect.Anthropic()}, nil); h.Get("Anthropic-Version") != "2023-06-01" || h.Get("X-Api-Key") != "" {
		t.Errorf("header %v", h)
	}
	own = http.Header{"Anthropic-Version": {"2030-01-01"}}
	if h, _ := headers(Options{Dialect: dialect.Anthropic(), Header: own}, nil); h.Get("Anthropic-Version") != "2030-01-01" {
		t.Errorf("header %v", h)
	}
	if h, _ := headers(Options{Dialect: dialect.Chat()}, url.UserPassword("u", "p")); h.Get("Authorization") != "Basic dTpw" {
		t.Errorf("header %v", h)
	}
	if values, there := h["Idempotency-Key"]; !there || len(values) != 0 {
		t.Error("net/http would not send a request again")
	}
}

func TestASharedStampIsBoundedByTheReadBefore(t *testing.T) {
	s, x := testStream(t)
	s.readNS = 1e6 // written
	event := "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	for i, events := range []int{1, 1, 3, 1} { // 10 ms apart
		s.reading(1, false, int64(i+1)*10e6)
		x.take([]byte(strings.Repeat(event, events)), int64(i+1)*10e6)
	}
	x.publish()
	q := Quality{Shared: new(stamp.Histogram)}
	s.addTo(&q, new(connections))
	if q.Shared.Count() != 2 || q.Shared.Max() != 10*time.Millisecond {
		t.Errorf("%d shared stamps, at most %v", q.Shared.Count(), q.Shared.Max())
	}
	// 4 of 6 stamps are exact.
	if half, most := q.StampBound(0.5), q.StampBound(0.99); half != 0 || most < 9*time.Millisecond || most > 10*time.Millisecond {
		t.Errorf("half are within %v, 99 of 100 within %v", half, most)
	}
	if (&Quality{Shared: new(stamp.Histogram)}).StampBound(0.99) != 0 {
		t.Error("without an event there is a bound")
	}
}

// vllmEvent is an ordinary event of 281 bytes with its end.
const vllmEvent = `data: {"id":"chatcmpl-0b9f3c1d2e4f5a6b7c8d9e0f1a2b3c4d","object":"chat.completion.chunk",` +
	`"created":1764500000,"model":"qwen3-coder-30b-a3b","choices":[{"index":0,"delta":{"content":" token"},` +
	`"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":16384,"total_tokens":16385,"completion_tokens":1}}` + "\n\n"

// ordinary are the bytes of an ordinary event of each API.
func ordinary() map[string][]byte {
	named := func(event, data string) []byte { return []byte("event: " + event + "\ndata: " + data + "\n\n") }
	return map[string][]byte{
		"chat":        []byte(vllmEvent),
		"completions": []byte(`data: {"id":"cmpl-0","object":"text_completion","created":1764500000,"model":"m","choices":[{"index":0,"text":" token","finish_reason":null}]}` + "\n\n"),
		"responses": named("response.output_text.delta",
			`{"content_index":0,"delta":" token","item_id":"msg_b1e006404162ba7b","logprobs":[],"output_index":0,"sequence_number":6,"type":"response.output_text.delta"}`),
		"anthropic": named("content_block_delta", `{"type":"content_block_delta","delta":{"type":"text_delta","text":" token"},"index":0}`),
		"ollama":    []byte(`{"model":"m","created_at":"2026-12-01T04:44:05.060494185Z","message":{"role":"assistant","content":" token"},"done":false}` + "\n"),
		"tgi":       []byte(`data:{"index":1,"token":{"id":1904,"text":" token","logprob":-0.52,"special":false},"generated_text":null,"details":null}` + "\n\n"),
	}
}

func BenchmarkEvent(b *testing.B) {
	for _, d := range dialect.All() {
		b.Run(d.Name(), func(b *testing.B) {
			s, x := streamOf(b, d)
			chunk := ordinary()[d.Name()]
			b.ReportAllocs()
			b.SetBytes(int64(len(chunk)))
			n := 0
			for b.Loop() {
				if n++; n%8192 == 0 {
					x.record, s.textLeft = newRecord(1), textLimit // as the next request would
				}
				s.reading(1, false, 1)
				x.take(chunk, int64(n))
				x.publish()
			}
		})
	}
}

func BenchmarkView(b *testing.B) {
	s, _ := testStream(b)
	for b.Loop() {
		_ = s.view()
	}
}

func TestAnEventMakesNoGarbage(t *testing.T) {
	for _, d := range dialect.All() {
		s, x := streamOf(t, d)
		chunk := ordinary()[d.Name()]
		x.take(chunk, 1)
		x.record.last.entries = make([]entry, 1<<12)
		x.record.text.last.bytes = make([]byte, 1<<16)
		at := stamp.NewClock().Now()
		allocs := testing.AllocsPerRun(1000, func() {
			s.reading(1, false, 1)
			x.take(chunk, at)
			x.publish()
		})
		if allocs != 0 || s.nText != 1002 || x.log.Surprises > 0 {
			t.Errorf("%s: %v allocations per event, %d events with text, %d surprises", d.Name(), allocs, s.nText, x.log.Surprises)
		}
	}
}
