package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"speedmatrix"
	"speedmatrix/internal/memnet"
)

// must checks an error's kind and that its texts say what they have to.
func must(t *testing.T, err error, kind speedmatrix.ErrorKind, what, next string) {
	t.Helper()
	e, ok := errors.AsType[*speedmatrix.Error](err)
	if !ok {
		t.Fatalf("not an error for users: %v", err)
	}
	if e.Kind != kind || !strings.Contains(e.What, what) || !strings.Contains(e.Next, next) {
		t.Errorf("kind %d\n  what %s\n  next %s\nwant kind %d, %q, %q", e.Kind, e.What, e.Next, kind, what, next)
	}
	if strings.HasSuffix(e.What, ".") {
		t.Errorf("a full stop ends %q", e.What)
	}
}

func status(code int, contentType, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	})
}

func TestRefusalsOfTheFirstAnswerSayWhatToDo(t *testing.T) {
	const json, html = "application/json", "text/html; charset=utf-8"
	for _, c := range []struct {
		name       string
		handler    http.Handler
		change     func(*Options)
		kind       speedmatrix.ErrorKind
		what, next string
	}{
		{"no key", status(401, json, `{"error":"Unauthorized"}`), nil, speedmatrix.KindRefused,
			"the server at http://127.0.0.1:8000 wants a valid key (401 Unauthorized", "OPENAI_API_KEY"},
		{"wrong key", status(401, json, `{"error":{"message":"bad key"}}`),
			func(o *Options) { o.Header = http.Header{"Authorization": {"Bearer x"}} },
			speedmatrix.KindRefused, "401 Unauthorized: bad key", "A key was sent and not taken"},
		{"Anthropic's", status(401, json, `{"type":"error","error":{"type":"authentication_error","message":"x-api-key header is required"}}`), nil,
			speedmatrix.KindRefused, "x-api-key header is required", "--api anthropic"},
		{"forbidden", status(403, json, `{}`), nil, speedmatrix.KindRefused, "403 Forbidden", "--api-key"},
		{"too many", status(429, json, `{"error":{"message":"slow down"}}`), nil, speedmatrix.KindRefused,
			"refuses more requests for now (429 Too Many Requests: slow down", "Try again later"},
		{"web page", status(200, html, "<!doctype html><title>Open WebUI</title>"), nil, speedmatrix.KindNoServer,
			"what answers at http://127.0.0.1:8000 is a web page, not an LLM server", "8000 (vLLM)"},
		{"web page for what is missing", status(404, html, "<h1>Not Found</h1>"), nil, speedmatrix.KindNoServer, "is a web page", "URL of the API"},
		{"no such route", status(404, json, `{"detail":"Not Found"}`), nil, speedmatrix.KindNoServer,
			"no LLM server at http://127.0.0.1:8000: it has no GET /v1/models (404 Not Found", "/v1 begins"},
		{"something else", status(200, json, `{"hello":1}`), nil, speedmatrix.KindNoServer, "gives no list of models (200 OK)", "--model NAME"},
		{"a proxy without its server", status(502, html, "<h1>Bad Gateway</h1>"), nil, speedmatrix.KindNoServer,
			"fails (502 Bad Gateway", "logs of both"},
		{"another host", http.RedirectHandler("http://10.0.0.9:1/login", http.StatusFound), nil, speedmatrix.KindNoServer,
			"redirects to another host, 10.0.0.9:1", "give its URL: http://10.0.0.9:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				serve(t, n, "127.0.0.1:8000", c.handler)
				_, err := look(t, n, c.change)
				must(t, err, c.kind, c.what, c.next)
			})
		})
	}
}

func TestNothingListensAndTheUsualPortsAreNamed(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		_, err := look(t, n, func(o *Options) { o.URL = "127.0.0.1:9999" })
		must(t, err, speedmatrix.KindNoServer, "no LLM server at http://127.0.0.1:9999 (connection refused)",
			"None of these answers on this machine either.")
		serve(t, n, "127.0.0.1:8080", llamaFake(propsLlama))
		serve(t, n, "127.0.0.1:1234", status(200, "text/html", "<html>"))
		_, err = look(t, n, func(o *Options) { o.URL = "127.0.0.1:9999" })
		must(t, err, speedmatrix.KindNoServer, "refused", "On this machine http://127.0.0.1:8080 (llama.cpp, smol) answers")
	})
}

func TestAServerThatNeverAnswersIsGivenUpOn(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serve(t, n, "127.0.0.1:8000", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		begun := time.Now()
		_, err := look(t, n, nil)
		must(t, err, speedmatrix.KindNoServer, "takes connections but sent no answer within 10 s", "stuck")
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestAServerThatTakesRequestsAndNeverAnswersIsGivenUpOn(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := &fake{mux: http.NewServeMux()}
		f.get("/v1/models", listPlain)
		f.mux.HandleFunc("POST /", func(_ http.ResponseWriter, r *http.Request) {
			buffer := make([]byte, 1<<16)
			for err := error(nil); err == nil; {
				_, err = r.Body.Read(buffer)
			}
			<-r.Context().Done()
		})
		serve(t, n, "127.0.0.1:8000", f)
		_, err := look(t, n, nil)
		must(t, err, speedmatrix.KindNoServer, "takes requests but sent no token within 3 min", "log")
	})
}

func TestTheUsersEndIsNotAnError(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serve(t, n, "127.0.0.1:8000", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		end := errors.New("ended by the user")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(end) })
		if _, err := Look(ctx, Options{URL: serverURL, Dial: n.DialContext}); !errors.Is(err, end) {
			t.Errorf("error %v", err)
		}
	})
}

func TestALoadingServerIsWaitedFor(t *testing.T) {
	const loading = `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`
	for _, c := range []struct {
		name  string
		ready time.Duration
		ok    bool
	}{{"ready in time", 40 * time.Second, true}, {"not ready in time", 200 * time.Second, false}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				begun, f, said := time.Now(), vllmFake(), []string(nil)
				serve(t, n, "127.0.0.1:8000", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if time.Since(begun) < c.ready {
						status(503, "application/json", loading).ServeHTTP(w, r)
						return
					}
					f.ServeHTTP(w, r)
				}))
				s, err := look(t, n, func(o *Options) { o.Say = func(text string) { said = append(said, text) } })
				if len(said) != 1 || !strings.Contains(said[0], "not ready (503 Service Unavailable: Loading model") {
					t.Errorf("said %q", said)
				}
				if c.ok {
					if err != nil || s.Kind != KindVLLM {
						t.Errorf("%v", err)
					}
					return
				}
				must(t, err, speedmatrix.KindBusy, "not ready within 60 s (503 Service Unavailable: Loading model", "loading")
				if took := time.Since(begun); took < 60*time.Second || took > 62*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestUnknownModelsAreAnsweredWithThoseServed(t *testing.T) {
	const many = `{"data":[{"id":"llama-8b"},{"id":"qwen3-30b"},{"id":"gemma"}]}`
	for _, c := range []struct {
		name, list, model string
		change            func(*fake)
		kind              speedmatrix.ErrorKind
		what, next        string
	}{
		{"the only one", listVLLM, "qwen3", func(f *fake) { f.get("/version", `{"version":"1"}`) }, speedmatrix.KindRefused,
			`the server knows no model "qwen3"`, "It serves: smollm2. Did you mean that one? --model smollm2"},
		{"a near one of many", many, "qwen-30b", refusesModel, speedmatrix.KindRefused,
			`no model "qwen-30b"`, "Did you mean qwen3-30b? --model qwen3-30b"},
		{"none near", many, "zzz", refusesModel, speedmatrix.KindRefused, `no model "zzz"`, "It serves: llama-8b, qwen3-30b, gemma."},
		{"not named, many", many, "", nil, speedmatrix.KindUsage, "has 3 models", "--model NAME. It serves: llama-8b"},
		{"not named, none", `{"data":[]}`, "", nil, speedmatrix.KindUsage, "lists no models", "--model NAME"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				f := newFake().get("/v1/models", c.list)
				if c.change != nil {
					c.change(f)
				}
				serve(t, n, "127.0.0.1:8000", f)
				_, err := look(t, n, func(o *Options) { o.Model = c.model })
				must(t, err, c.kind, c.what, c.next)
			})
		})
	}
}

func refusesModel(f *fake) {
	f.refuse = func(string, map[string]any) (int, string) {
		return 404, `{"error":{"message":"The model does not exist.","type":"NotFoundError","param":"model","code":404}}`
	}
}

func TestALongListOfModelsIsCutButShowsTheNearest(t *testing.T) {
	var models []Model
	for i := range 40 {
		models = append(models, Model{Name: fmt.Sprintf("m%d", i)})
	}
	text := names(models, "m39")
	if !strings.HasPrefix(text, "m39, m0, m1") || !strings.HasSuffix(text, "m10 and 28 more") {
		t.Error(text)
	}
}

func TestAnUnknownAuthorityNamesTheFlags(t *testing.T) {
	server := httptest.NewUnstartedServer(vllmFake())
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	refuseRest := func(o *Options) { o.URL, o.Dial = server.URL, onlyTo(server.Listener.Addr().String()) }
	_, err := look(t, nil, refuseRest)
	must(t, err, speedmatrix.KindRefused, "signed by an authority that this machine does not know", "--ca-file FILE, or go on without checking it with --insecure")

	s, err := look(t, nil, func(o *Options) { refuseRest(o); o.TLS = &tls.Config{InsecureSkipVerify: true} })
	if err != nil || s.Kind != KindVLLM || !s.SameMachine {
		t.Errorf("without checking: %v", err)
	}
	_, err = look(t, nil, func(o *Options) { refuseRest(o); o.URL = strings.Replace(server.URL, "https", "http", 1) })
	must(t, err, speedmatrix.KindNoServer, "speaks HTTPS, not plain HTTP", "Try https://127.0.0.1")
}

func TestPlainHTTPWhereHTTPSWasSaid(t *testing.T) {
	server := httptest.NewServer(vllmFake())
	t.Cleanup(server.Close)
	_, err := look(t, nil, func(o *Options) {
		o.URL, o.Dial = strings.Replace(server.URL, "http", "https", 1), onlyTo(server.Listener.Addr().String())
	})
	must(t, err, speedmatrix.KindNoServer, "does not speak HTTPS", "Try http://127.0.0.1")
}

// onlyTo dials one real address and refuses all others, so that no test looks at the
// usual ports of the machine that it runs on.
func onlyTo(address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, to string) (net.Conn, error) {
		if to != address {
			return nil, errors.New("connection refused")
		}
		return new(net.Dialer).DialContext(ctx, network, to)
	}
}

func TestAHugeAnswerIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		chunk := strings.Repeat("x", 1<<16)
		serve(t, n, "127.0.0.1:8000", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for range 1 << 10 {
				if _, err := fmt.Fprint(w, chunk); err != nil {
					return
				}
			}
		}))
		_, err := look(t, n, nil)
		must(t, err, speedmatrix.KindNoServer, "its list of models is over 4 MiB", "API")
	})
}
