package dialect

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"speedmatrix"
)

func TestDialectsAreKnownByName(t *testing.T) {
	for name, path := range map[string]string{
		"chat": "/v1/chat/completions", "completions": "/v1/completions", "responses": "/v1/responses",
		"anthropic": "/v1/messages", "ollama": "/api/chat", "tgi": "/generate_stream",
	} {
		d, err := ByName(name)
		if err != nil || d.Name() != name || d.Path() != path || d.Templated() == (name == "completions" || name == "tgi") {
			t.Errorf("ByName(%q) = %v, %v", name, d, err)
		}
	}
	d, err := ByName("grpc")
	if d != nil || speedmatrix.KindOf(err) != speedmatrix.KindUsage {
		t.Errorf("ByName of an unknown name: %v, %v", d, err)
	}
	if known, _ := errors.AsType[*speedmatrix.Error](err); known.Next != "Use chat, completions, responses, anthropic, ollama or tgi." {
		t.Errorf("what next: %q", known.Next)
	}
}

func TestBodiesCarryWhatIsSetAndNothingElse(t *testing.T) {
	cold := 0.0
	full := Params{
		Model: "m", System: "Be <brief> & kind.", Prompt: "Hi \u2028\"you\"", MaxTokens: 8, Temperature: &cold,
		IgnoreEOS: true, IncludeUsage: true, ContinuousUsage: true, TimingsPerToken: true, Stream: true,
	}
	whole := full
	whole.Stream = false
	extra := Params{
		Model: "m", Prompt: "p", MaxTokens: 8, Stream: true, IncludeUsage: true,
		Extra: map[string]any{"top_k": 1, "max_tokens": nil, "stream_options": map[string]any{"a": true}, "min_p": 0.5},
	}
	tests := []struct {
		name    string
		dialect Dialect
		params  Params
		want    string
	}{
		{"chat, all set", Chat(), full, `{"model":"m","messages":[{"role":"system","content":"Be <brief> & kind."},{"role":"user","content":"Hi \u2028\"you\""}],"max_tokens":8,"temperature":0,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"ignore_eos":true,"timings_per_token":true}`},
		{"no stream options without a stream", Chat(), whole, `{"model":"m","messages":[{"role":"system","content":"Be <brief> & kind."},{"role":"user","content":"Hi \u2028\"you\""}],"max_tokens":8,"temperature":0,"ignore_eos":true,"timings_per_token":true}`},
		{"chat, nothing set", Chat(), Params{}, `{"messages":[{"role":"user","content":""}]}`},
		{"usage only", Completions(), Params{Prompt: "p", Stream: true, IncludeUsage: true}, `{"prompt":"p","stream":true,"stream_options":{"include_usage":true}}`},
		{"completions with a system text", Completions(), Params{System: "s", Prompt: "p"}, `{"prompt":"s\n\np"}`},
		{"the user's fields replace ours", Completions(), extra, `{"model":"m","prompt":"p","stream":true,"max_tokens":null,"min_p":0.5,"stream_options":{"a":true},"top_k":1}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.dialect.Body(test.params)
			if err != nil || string(got) != test.want {
				t.Errorf("got  %s (%v)\nwant %s", got, err, test.want)
			}
		})
	}
}

func TestALargePromptArrivesWhole(t *testing.T) {
	prompt := strings.Repeat("Fish & <chips> \"é\U0001F600\"\n", 100_000)
	got, err := Chat().Body(Params{Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	var back struct{ Messages []message }
	if err := json.Unmarshal(got, &back); err != nil || len(back.Messages) != 1 || back.Messages[0].Content != prompt {
		t.Fatalf("the prompt came back changed (%v)", err)
	}
}

func TestABodyThatJSONCannotCarryIsAUsageError(t *testing.T) {
	_, err := Chat().Body(Params{Extra: map[string]any{"top_p": math.NaN()}})
	if speedmatrix.KindOf(err) != speedmatrix.KindUsage || !strings.Contains(err.Error(), `"top_p"`) {
		t.Fatalf("error %v", err)
	}
}

func BenchmarkBody(b *testing.B) {
	p := Params{Model: "m", Prompt: strings.Repeat("the quick brown fox ", 50_000), Stream: true}
	b.ReportAllocs()
	b.SetBytes(int64(len(p.Prompt)))
	for b.Loop() {
		if _, err := Chat().Body(p); err != nil {
			b.Fatal(err)
		}
	}
}

func TestErrorTextIsWhatAHumanNeeds(t *testing.T) {
	long := strings.Repeat("é", 400)
	tests := []struct{ name, body, want string }{
		{"OpenAI", `{"error":{"message":"The model ` + "`nope`" + ` does not exist.","type":"NotFoundError","param":"model","code":404}}`, "The model `nope` does not exist. (NotFoundError, 404)"},
		{"FastAPI text", `{"detail":"Not Found"}`, "Not Found"},
		{"FastAPI list", `{"detail":[{"type":"missing","loc":["body","messages",0],"msg":"Field required"},{"msg":"no"}]}`, "body.messages.0: Field required; no"},
		{"an error as text", `{"error":"unauthorized"}`, "unauthorized"},
		{"a web framework", `{"timestamp":1,"status":404,"error":"Not Found","message":"No route"}`, "No route"},
		{"a list", `[{"error":{"message":"a"}},{"error":{"message":"b"}}]`, "a; b"},
		{"type and code only", `{"error":{"type":"server_error","code":500}}`, "server_error, 500"},
		{"JSON of no known shape", `{"a": {"b": 1}}`, `{"a":{"b":1}}`},
		{"a JSON string", `"busy"`, "busy"},
		{"inside an event stream", "data: {\"error\":{\"message\":\"busy\"}}\n\ndata: [DONE]\n\n", "busy"},
		{"plain", "  upstream\n\tconnect   error\x00 ", "upstream connect error"},
		{"a page with a title", "<!DOCTYPE html><html><head><title>502 Bad\nGateway &amp; more</title></head><body><h1>502</h1></body></html>", "502 Bad Gateway & more"},
		{"a page without one", "<html><style>a{}</style><script>x<y</script><!-- c --><body><h1>Busy</h1><p>Come&nbsp;back.</body></html>", "Busy Come back."},
		{"nothing", " \n", ""},
		{"long", long, strings.Repeat("é", 248) + "…"},
		{"no UTF-8", "a\xffb", "a\uFFFDb"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ErrorText([]byte(test.body))
			if got != test.want || len(got) > maxErrorText || !utf8.ValidString(got) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}
