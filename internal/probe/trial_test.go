package probe

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/memnet"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// refusing answers 400 to requests that carry one of the fields, with words made of it.
func refusing(words string, fields ...string) func(string, map[string]any) (int, string) {
	return func(_ string, body map[string]any) (int, string) {
		options, _ := body["stream_options"].(map[string]any)
		for _, field := range fields {
			_, top := body[field]
			_, below := options[field]
			if top || below {
				return 400, fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error"}}`, strings.ReplaceAll(words, "FIELD", field))
			}
		}
		return 0, ""
	}
}

func TestFieldsThatTheServerRefusesAreLeftOut(t *testing.T) {
	type taken struct{ usage, continuous, eos, temperature bool }
	const named, silent = "Unrecognized request argument supplied: FIELD", "Invalid request"
	for _, c := range []struct {
		name, words string
		fields      []string
		want        taken
		most        int // completion requests that may be sent
	}{
		{"nothing refused", named, nil, taken{true, true, true, true}, 9},
		{"one named", named, []string{"ignore_eos"}, taken{true, true, false, true}, 10},
		{"two named", named, []string{"ignore_eos", "continuous_usage_stats"}, taken{true, false, false, true}, 10},
		{"all stream options named", named, []string{"stream_options"}, taken{false, false, true, true}, 10},
		{"one named by its path", "body.stream_options.FIELD: extra fields are not permitted", []string{"continuous_usage_stats"}, taken{true, false, true, true}, 10},
		{"temperature named", named, []string{"temperature"}, taken{true, true, true, false}, 10},
		{"one not named", silent, []string{"ignore_eos"}, taken{true, true, false, true}, 14},
		{"two not named", silent, []string{"ignore_eos", "continuous_usage_stats"}, taken{true, false, false, true}, 14},
		{"all not named", silent, []string{"ignore_eos", "stream_options", "temperature"}, taken{}, 14},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				f := newFake().get("/v1/models", listPlain)
				f.honours, f.everyUsage = true, true
				f.refuse = refusing(c.words, c.fields...)
				s := found(t, n, f, func(o *Options) { o.Temperature = new(0.8) })
				p := s.Params
				if got := (taken{p.IncludeUsage, p.ContinuousUsage, p.IgnoreEOS, p.Temperature != nil}); got != c.want {
					t.Errorf("taken %+v, want %+v", got, c.want)
				}
				if s.warned("option_refused") != (len(c.fields) > 0) {
					t.Errorf("warnings %v", s.Warnings)
				}
				if got := len(f.sent()); got > c.most {
					t.Errorf("%d requests were sent", got)
				}
			})
		})
	}
}

func TestTimingsAreAskedOfLlamaCppAlone(t *testing.T) {
	for kind, f := range map[Kind]*fake{
		KindVLLM: vllmFake(), KindLlamaCpp: llamaFake(propsLlama), KindOpenAI: newFake().get("/v1/models", listPlain),
	} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			found(t, n, f, nil)
			if _, asked := f.sent()[0]["timings_per_token"]; asked != (kind == KindLlamaCpp) {
				t.Errorf("%s was asked for timings: %v", kind, asked)
			}
		})
	}
}

// TestAConnectionThatIsClosedDespiteItsPromiseIsNotKept: llama.cpp does so after a
// streamed answer.
func TestAConnectionThatIsClosedDespiteItsPromiseIsNotKept(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := llamaFake(propsLlama)
		s := found(t, n, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
				f.ServeHTTP(w, r)
				return
			}
			recorded := httptest.NewRecorder()
			f.ServeHTTP(recorded, r)
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nKeep-Alive: timeout=5, max=100\r\nContent-Length: %d\r\n\r\n%s",
				recorded.Body.Len(), recorded.Body)
			conn.Close()
		}), nil)
		if s.Habits.KeepsConnections || !s.Habits.FinalUsage {
			t.Errorf("habits %+v", s.Habits)
		}
	})
}

func TestIgnoreEOSIsBelievedOnlyWhenItShows(t *testing.T) {
	for _, c := range []struct {
		name        string
		natural     int
		honours     bool
		sent, habit bool
	}{
		{"honoured", 1, true, true, true},
		{"ignored: the answer ends early", 1, false, false, false},
		{"a model that is never done tells nothing", 1000, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				f := newFake().get("/v1/models", listPlain)
				f.natural, f.honours = c.natural, c.honours
				s := found(t, n, f, nil)
				if s.Params.IgnoreEOS != c.sent || s.Habits.IgnoresEOS != c.habit {
					t.Errorf("sent %v, habit %v", s.Params.IgnoreEOS, s.Habits.IgnoresEOS)
				}
			})
		})
	}
}

func TestUsageAtTheEndIsNotUsageInEveryEvent(t *testing.T) {
	for _, every := range []bool{true, false} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			f := newFake().get("/v1/models", listPlain)
			f.everyUsage = every // one word comes first: too short to tell, so a longer answer is asked for
			s := found(t, n, f, nil)
			if s.Habits.UsageEveryEvent != every || s.Params.ContinuousUsage != every || !s.Habits.FinalUsage {
				t.Errorf("every %v: habits %+v", every, s.Habits)
			}
			if s.Habits.CachedTokens || s.Habits.TokensPerEvent != 1 {
				t.Errorf("habits %+v", s.Habits)
			}
		})
	}
}

func TestWithoutUsageNothingIsCalibrated(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := vllmFake()
		f.everyUsage, f.finalUsage = false, false
		s := found(t, n, f, nil)
		if h := s.Habits; h.FinalUsage || h.UsageEveryEvent || h.Tokenizer || h.CharsPerToken != 0 || h.TokensPerEvent != 0 {
			t.Errorf("habits %+v", h)
		}
		if _, err := s.CountTokens(t.Context(), "x"); err == nil {
			t.Error("tokens are counted without a tokenizer")
		}
		if _, err := s.CountText(t.Context(), "x"); err == nil {
			t.Error("text is counted without a tokenizer")
		}
	})
}

// TestTheTokenizerMustAgreeWithTheServersUsage: what is constant is calibrated away.
func TestTheTokenizerMustAgreeWithTheServersUsage(t *testing.T) {
	for _, c := range []struct {
		name  string
		count func(words int) int // of a prompt with the template
		used  bool
		want  int // of 100 words, 109 by usage
	}{
		{"exact", func(n int) int { return n + 9 }, true, 109},
		{"without the template", func(n int) int { return n }, true, 109},
		{"two more", func(n int) int { return n + 11 }, true, 109},
		{"twice as many", func(n int) int { return 2 * n }, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				f := newFake().get("/version", `{"version":"1"}`).get("/v1/models", listVLLM)
				f.post("/tokenize", func(body map[string]any) string {
					if body["messages"] == nil {
						return fmt.Sprintf(`{"count":%d}`, words(asked(body)))
					}
					return fmt.Sprintf(`{"count":%d}`, c.count(words(asked(body))))
				})
				s := found(t, n, f, nil)
				if s.Habits.Tokenizer != c.used || s.warned("tokenizer_disagrees") == c.used {
					t.Fatalf("tokenizer %v, warnings %v", s.Habits.Tokenizer, s.Warnings)
				}
				if !c.used {
					return
				}
				if got, err := s.CountTokens(t.Context(), strings.Repeat("x ", 100)); got != c.want || err != nil {
					t.Errorf("%d tokens, %v", got, err)
				}
				if got, err := s.CountText(t.Context(), strings.Repeat("x ", 100)); got != 100 || err != nil {
					t.Errorf("%d tokens of text, %v", got, err)
				}
			})
		})
	}
}

func TestWithoutATokenizerTheTemplateIsWhatALetterNeedsMore(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		s := found(t, n, newFake().get("/v1/models", listPlain), nil)
		if s.Habits.Tokenizer || s.Habits.TemplateTokens != 9 || s.Habits.CharsPerToken == 0 {
			t.Errorf("habits %+v", s.Habits)
		}
	})
}

func TestAModelWithoutAChatTemplateIsMeasuredThroughCompletions(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		answer string
	}{
		"no template": {400, `{"error":{"message":"default chat template is no longer allowed"}}`},
		"no route":    {404, `{"detail":"Not Found"}`},
		"failure":     {500, `{"error":{"message":"template error"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				f := vllmFake()
				f.refuse = func(path string, _ map[string]any) (int, string) {
					if strings.Contains(path, "chat") {
						return c.status, c.answer
					}
					return 0, ""
				}
				serve(t, n, "127.0.0.1:8000", f)
				s, err := look(t, n, nil)
				if err != nil || s.Dialect.Name() != "completions" || !s.warned("chat_unavailable") || !s.Habits.Tokenizer || s.Habits.TemplateTokens != 0 {
					t.Fatalf("%v", err)
				}
				s, err = look(t, n, func(o *Options) { o.API = "chat" })
				if c.status == 500 {
					if err != nil || !s.warned("trial_failed") || s.Dialect.Name() != "chat" || !s.Params.IgnoreEOS {
						t.Errorf("%v", err)
					}
					return
				}
				if speedmatrix.KindOf(err) != speedmatrix.KindRefused && speedmatrix.KindOf(err) != speedmatrix.KindNoServer {
					t.Errorf("chat was asked for and does not work: %v", err)
				}
			})
		})
	}
}

func TestRefusalsOfATrialSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		status       int
		kind         speedmatrix.ErrorKind
		what, next   string
	}{
		{"key", `{"error":{"message":"no key"}}`, 401, speedmatrix.KindRefused, "wants a valid key (401 Unauthorized: no key", "--api-key"},
		{"limit", `{"error":{"message":"quota"}}`, 429, speedmatrix.KindRefused, "refuses more requests for now", "It asks to wait 20 s"},
		{"both refused", `{"error":{"message":"nonsense"}}`, 400, speedmatrix.KindRefused, "refuses a plain request (400 Bad Request: nonsense", "--body"},
		{"no route", `{"detail":"Not Found"}`, 404, speedmatrix.KindNoServer, "has no POST /v1/chat/completions", "/v1 begins"},
		{"not ready", `{"error":{"message":"busy"}}`, 503, speedmatrix.KindBusy, "not ready within 60 s", "loading"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				f := newFake().get("/v1/models", listPlain)
				f.refuse = func(string, map[string]any) (int, string) { return c.status, c.answer }
				serve(t, n, "127.0.0.1:8000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Retry-After", "20")
					f.ServeHTTP(w, r)
				}))
				_, err := look(t, n, nil)
				must(t, err, c.kind, c.what, c.next)
			})
		})
	}
}

func TestATrialThatFailsIsAWarningInTheServersWords(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := vllmFake()
		f.refuse = func(string, map[string]any) (int, string) { return 500, `{"error":{"message":"CUDA out of memory"}}` }
		s := found(t, n, f, nil)
		if !s.warned("trial_failed") || !strings.Contains(s.Warnings[0].Message, "CUDA out of memory") {
			t.Errorf("warnings %v", s.Warnings)
		}
		if s.Params.Model != "smollm2" || !s.Params.IncludeUsage || s.MaxLength != 8192 {
			t.Errorf("params %+v", s.Params)
		}
	})
}

func TestTheUsersFieldsGoWithTheTrials(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := vllmFake()
		extra := map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}}
		s := found(t, n, f, func(o *Options) { o.Extra, o.Header = extra, http.Header{"Authorization": {"Bearer k"}} })
		for _, body := range f.sent() {
			if _, there := body["chat_template_kwargs"]; !there {
				t.Errorf("a request without the field: %v", maps.Keys(body))
			}
		}
		if len(s.Params.Extra) != 1 {
			t.Errorf("params %+v", s.Params)
		}
	})
}

func TestAPingIsARequestForOneToken(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := vllmFake()
		f.first = 30 * time.Millisecond
		s := found(t, n, f, nil)
		before := len(f.sent())
		for range 2 {
			if ttft, err := s.Ping(t.Context()); ttft != 30*time.Millisecond || err != nil {
				t.Errorf("ttft %s, %v", ttft, err)
			}
		}
		sent := f.sent()[before:]
		if len(sent) != 2 || sent[0]["max_tokens"] != 1.0 || asked(sent[0]) == asked(sent[1]) {
			t.Errorf("sent %v", sent)
		}
		f.refuse = func(string, map[string]any) (int, string) { return 500, `{"error":{"message":"broken"}}` }
		_, err := s.Ping(t.Context())
		must(t, err, speedmatrix.KindNoServer, "failed (500 Internal Server Error: broken", "log")
	})
}

// An Ollama that lacks the OpenAI surface is spoken to in its own API.
func TestAnEnginesOwnAPIIsTheLastResort(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		server := truth.New(truth.Script{APIs: []wire.API{wire.OllamaChat}, Engine: truth.Plain, Model: "smollm2:latest"})
		t.Cleanup(server.Close)
		native := server.Handler()
		f := ollamaFake(`{"models":[]}`)
		refuses := true
		serve(t, n, "127.0.0.1:8000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/api/chat":
				native.ServeHTTP(w, r)
			case strings.HasPrefix(r.URL.Path, "/v1/") && r.Method == http.MethodPost && refuses:
				http.NotFound(w, r)
			default:
				f.ServeHTTP(w, r)
			}
		}))
		s, err := look(t, n, func(o *Options) { o.Model = "smollm2" })
		if err != nil {
			t.Fatal(err)
		}
		if s.Dialect.Name() != "ollama" || !s.warned("chat_unavailable") || !s.Habits.FinalUsage || s.Params.IgnoreEOS || s.Params.IncludeUsage {
			t.Errorf("API %s, habits %+v, params %+v, warnings %v", s.Dialect.Name(), s.Habits, s.Params, s.Warnings)
		}
		if s, err = look(t, n, func(o *Options) { o.Model, o.API = "smollm2", "chat" }); err == nil {
			t.Errorf("chat was asked for, and %s taken", s.Dialect.Name())
		}
	})
}

func TestAPingWhoseTokenHasNoTextIsTimedToItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := vllmFake()
		s := found(t, n, f, nil)
		f.first, f.empty = 30*time.Millisecond, true
		if ttft, err := s.Ping(t.Context()); ttft < 30*time.Millisecond || ttft > 35*time.Millisecond || err != nil {
			t.Errorf("ttft %s, %v", ttft, err)
		}
	})
}

func TestAScrapeThatFailsIsUnknownNotZero(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		broken := false
		f := vllmFake()
		s := found(t, n, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Millisecond)
			if broken && r.URL.Path == "/metrics" {
				http.Error(w, "oops", 500)
				return
			}
			f.ServeHTTP(w, r)
		}), nil)
		row := s.Scrape(t.Context())
		if row.Error != "" || *row.Running != 2 || *row.Waiting != 1 || *row.KVUsage != 0.20513 || *row.Preemptions != 2 ||
			*row.GenerationTokens != 1234 || *row.PromptTokens != 200 || *row.PrefixHits != 640 || *row.PrefixQueries != 700 || row.Drafts != nil {
			t.Errorf("row %+v", row)
		}
		if row.ReceivedNS-row.SentNS != int64(time.Millisecond) {
			t.Errorf("sent %d, received %d", row.SentNS, row.ReceivedNS)
		}
		if s.CounterName() != "vllm:generation_tokens_total" || !s.LiveCounter() || !s.Gauges() {
			t.Errorf("counter %q", s.CounterName())
		}
		broken = true
		row = s.Scrape(t.Context())
		if !strings.Contains(row.Error, "500") || row.Running != nil || row.GenerationTokens != nil || row.SentNS == 0 || row.ReceivedNS == 0 {
			t.Errorf("row %+v", row)
		}
		if _, _, known := s.Busy(t.Context()); known {
			t.Error("a failed scrape says that the server is idle")
		}
	})
}

func TestMetricsAreAskedForAsPlainText(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f, accept := vllmFake(), make(chan string, 100)
		found(t, n, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				accept <- r.Header.Get("Accept")
			}
			f.ServeHTTP(w, r)
		}), nil)
		if got := <-accept; got != "text/plain;version=0.0.4" {
			t.Errorf("accepts %q", got)
		}
	})
}

func TestAnUnknownAPIIsRefused(t *testing.T) {
	_, err := look(t, memnet.New(), func(o *Options) { o.API = "telepathy" })
	if speedmatrix.KindOf(err) != speedmatrix.KindUsage {
		t.Errorf("%v", err)
	}
}
