package probe

import (
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/memnet"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func TestURLsAreReadAsUsersPasteThem(t *testing.T) {
	for text, want := range map[string][]string{
		"http://127.0.0.1:8000":                    {"http://127.0.0.1:8000"},
		"http://127.0.0.1:8000/":                   {"http://127.0.0.1:8000"},
		"http://127.0.0.1:8000/v1":                 {"http://127.0.0.1:8000"},
		"http://127.0.0.1:8000/v1/":                {"http://127.0.0.1:8000"},
		"http://h:1/v1/chat/completions":           {"http://h:1"},
		"http://h:1/v1/models":                     {"http://h:1"},
		"https://openrouter.example/api/v1":        {"https://openrouter.example/api"},
		"https://h.example/team/llm/v1/":           {"https://h.example/team/llm"},
		"localhost:11434":                          {"http://localhost:11434", "https://localhost:11434"},
		"box":                                      {"http://box", "https://box"},
		"192.168.1.5":                              {"http://192.168.1.5", "https://192.168.1.5"},
		"[::1]:8000/v1":                            {"http://[::1]:8000", "https://[::1]:8000"},
		"api.example.com":                          {"https://api.example.com", "http://api.example.com"},
		"api.example.com/v1":                       {"https://api.example.com", "http://api.example.com"},
		"api.example.com:443":                      {"https://api.example.com:443", "http://api.example.com:443"},
		"  http://127.0.0.1:8000/v1/completions  ": {"http://127.0.0.1:8000"},
	} {
		roots, err := addresses(text)
		if err != nil || len(roots) != len(want) {
			t.Errorf("%q: %v, %v", text, roots, err)
			continue
		}
		for i := range roots {
			if roots[i].String() != want[i] {
				t.Errorf("%q: %v, want %q", text, roots, want)
			}
		}
	}
}

func TestURLsThatCannotBeServersAreRefused(t *testing.T) {
	for text, what := range map[string]string{
		"ftp://h":               "neither http nor https",
		"http://":               "names no host",
		"http://u:p@h:1":        "user name or a password",
		"http://h:1/v1?key=abc": "carries a query",
		"http://h:port":         "not a server's URL",
	} {
		_, err := addresses(text)
		must(t, err, speedmatrix.KindUsage, what, "")
	}
}

func TestAPathBeforeV1IsKept(t *testing.T) {
	for _, url := range []string{serverURL + "/team/llm", "127.0.0.1:8000/team/llm/v1"} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			s := found(t, n, http.StripPrefix("/team/llm", vllmFake()), func(o *Options) { o.URL = url })
			if s.Kind != KindVLLM || s.Base.String() != serverURL+"/team/llm" {
				t.Errorf("%s at %s", s.Kind, s.Base)
			}
		})
	}
}

func TestARedirectOnTheSameHostIsTakenOver(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		mux := http.NewServeMux()
		mux.Handle("/llm/", http.StripPrefix("/llm", vllmFake()))
		mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/llm"+r.URL.Path, http.StatusMovedPermanently)
		})
		s := found(t, n, mux, nil)
		if s.Kind != KindVLLM || s.Base.String() != serverURL+"/llm" || !s.Habits.FinalUsage {
			t.Errorf("%s at %s, habits %+v", s.Kind, s.Base, s.Habits)
		}
	})
}

func TestPlacesAreToldByTheirAddress(t *testing.T) {
	for _, c := range []struct {
		remote, host string
		hosted, same bool
	}{
		{"127.0.0.1:8000", "localhost", false, true},
		{"127.0.0.1:8000", "api.example.com", false, true}, // a tunnel
		{"[::1]:8000", "::1", false, true},
		{"[::ffff:127.0.0.1]:8000", "x", false, true},
		{"10.1.2.3:80", "gpu-box", false, false},
		{"192.168.0.4:80", "x.example.com", false, false},
		{"100.64.0.9:80", "x", false, false},
		{"[fd00::1]:80", "x", false, false},
		{"[fe80::1%eth0]:80", "x", false, false},
		{"8.8.8.8:443", "api.example.com", true, false},
		{"[2600::1]:443", "api.example.com", true, false},
		{"pipe", "localhost", false, true},
		{"pipe", "api.example.com", true, false},
		{"pipe", "box", false, false},
	} {
		hosted, same := place(memnet.Addr(c.remote), c.host)
		if hosted != c.hosted || same != c.same {
			t.Errorf("%s (%s): hosted %v, same machine %v", c.remote, c.host, hosted, same)
		}
	}
	if hosted, same := place(nil, "localhost"); hosted || !same {
		t.Error("localhost without an address is elsewhere")
	}
}

func TestAnInterfacesAddressIsThisMachine(t *testing.T) {
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		t.Skip("this system does not tell its addresses")
	}
	for _, a := range interfaces {
		prefix, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if _, same := place(&net.TCPAddr{IP: prefix.IP, Port: 1}, "x"); !same {
			t.Errorf("%s is not this machine", prefix.IP)
		}
	}
}

func TestTheRoundTripIsTheMedianOnOpenConnections(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := vllmFake()
		delayed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				time.Sleep(7 * time.Millisecond)
			}
			f.ServeHTTP(w, r)
		})
		if s := found(t, n, delayed, nil); s.RoundTrip != 7*time.Millisecond {
			t.Errorf("round trip %s", s.RoundTrip)
		}
	})
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := vllmFake()
		closing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close")
			time.Sleep(7 * time.Millisecond)
			f.ServeHTTP(w, r)
		})
		if s := found(t, n, closing, nil); s.RoundTrip != 0 || s.Habits.KeepsConnections {
			t.Errorf("round trip %s, keeps connections %v", s.RoundTrip, s.Habits.KeepsConnections)
		}
	})
}

func TestWithoutAURLTheUsualPortsAreLookedAt(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		none := func(o *Options) { o.URL = "" }
		_, err := look(t, n, none)
		must(t, err, speedmatrix.KindNoServer, "no LLM server on this machine's usual ports", "speedmatrix demo")

		serve(t, n, "127.0.0.1:8080", status(200, "text/html", "<html>a page</html>"))
		serve(t, n, "127.0.0.1:30000", vllmFake())
		s, err := look(t, n, none)
		if err != nil || s.Base.String() != "http://127.0.0.1:30000" {
			t.Fatalf("%v", err)
		}

		serve(t, n, "127.0.0.1:11434", ollamaFake(`{"models":[]}`))
		_, err = look(t, n, none)
		must(t, err, speedmatrix.KindUsage,
			"several LLM servers answer on this machine: http://127.0.0.1:30000 (vLLM, smollm2) and http://127.0.0.1:11434 (Ollama, 2 models)", "Give the URL")

		all, err := Find(t.Context(), Options{Dial: n.DialContext})
		if err != nil || len(all) != 3 || all[0].Serves() || all[0].Note != "200 OK" || all[1].Kind != KindVLLM || all[2].Kind != KindOllama {
			t.Errorf("found %v, %v", all, err)
		}
	})
}
