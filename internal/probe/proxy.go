package probe

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"speedmatrix"
)

// liteLLM answers none of the routes of the engine behind it, but passes on headers and a
// fingerprint with each answer.
func liteLLM() engine {
	return engine{
		kind: KindLiteLLM, routes: []string{"/health/liveliness", "/model/info"}, proxy: true, open: true,
		ping: "/health/liveliness",
		is: func(w *sight) bool {
			var alive string
			return w.get("/health/liveliness").decode(&alive) && alive == "I'm alive!" || w.header("X-Litellm-Version") != ""
		},
		read: func(_ context.Context, s *Server, w *sight) {
			s.Facts.Engine.Set(speedmatrix.EngineProxy, string(KindLiteLLM), "GET /health/liveliness")
			s.readLiteLLMModel(w.get("/model/info"))
		},
		tokenizers: func(*Server) []tokenCounter { return nil },
	}
}

// readLiteLLMModel takes where requests for the model go, without the address: that is
// nobody's business. A model may go to several.
func (s *Server) readLiteLLMModel(a *answer) {
	var list struct {
		Data []struct {
			Name   string `json:"model_name"`
			Params struct {
				Model string `json:"model"`
				Base  string `json:"api_base"`
			} `json:"litellm_params"`
			Info struct {
				MaxPrompt *int `json:"max_input_tokens"`
			} `json:"model_info"`
		} `json:"data"`
	}
	if !a.decode(&list) {
		return
	}
	const source = "GET /model/info"
	upstreams, here := 0, 0
	for _, m := range list.Data {
		if m.Name != s.Model.Name {
			continue
		}
		upstreams++
		if onLoopback(m.Params.Base) {
			here++
		}
		setAll(s.Facts.Engine, source, map[string]any{speedmatrix.EngineProxyUpstream: m.Params.Model})
		setKnown(s.Facts.Model, speedmatrix.ModelMaxPrompt, m.Info.MaxPrompt, source)
	}
	s.upstreamHere = upstreams > 0 && here == upstreams
	if upstreams > 1 {
		s.warn("replicas", "the proxy spreads the requests for %s over %d servers: no figure is that of one engine", s.Model.Name, upstreams)
	}
}

// onLoopback says whether a URL is one of the machine on which it is used.
func onLoopback(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsLoopback() || u.Hostname() == "localhost"
}

// llamaSwap loads one of several servers on demand and passes requests on to it.
func llamaSwap() engine {
	return engine{
		kind: KindLlamaSwap, proxy: true,
		is: func(w *sight) bool { return w.owned("llama-swap") },
		read: func(_ context.Context, s *Server, _ *sight) {
			s.Facts.Engine.Set(speedmatrix.EngineProxy, string(KindLlamaSwap), sourceModels)
			s.upstreamHere = true // it starts them itself
		},
	}
}

// vllmRouter stands in front of several vLLM servers, answers /version with its own version
// and has figures under vLLM's names, one for each server behind it.
func vllmRouter() engine {
	return engine{
		kind: KindVLLMRouter, routes: []string{"/version"}, proxy: true, ignoresEOS: true,
		metrics: metricNames{running: "vllm:num_requests_running", waiting: "vllm:num_requests_waiting"},
		is: func(w *sight) bool {
			return w.metrics.Has("vllm:healthy_pods_total") || len(w.metrics.Labels("vllm:num_requests_running", "server")) > 0
		},
		read: func(_ context.Context, s *Server, w *sight) {
			s.Facts.Engine.Set(speedmatrix.EngineProxy, string(KindVLLMRouter), sourceMetrics)
			var v struct {
				Version string `json:"version"`
			}
			if w.get("/version").decode(&v) && v.Version != "" {
				s.Facts.Engine.Set(speedmatrix.EngineProxyVersion, v.Version, sourceVersion)
			}
			if w.owned("vllm") {
				s.nameEngine(KindVLLM, "github.com/vllm-project/vllm", sourceModels)
				s.setModelName(s.Model.Root, sourceModels)
			}
			if n := distinct(w.metrics.Labels("vllm:num_requests_running", "server")); n > 1 {
				s.warn("replicas", "the router spreads the requests over %d servers: no figure is that of one engine", n)
			}
		},
		tokenizers: func(s *Server) []tokenCounter { return []tokenCounter{s.vllmTokenizer()} },
	}
}

// reverseProxies are programs that stand before a server and name themselves in headers,
// by how their names begin there in lower case.
var reverseProxies = map[string]string{
	"nginx": "nginx", "openresty": "OpenResty", "tengine": "Tengine", "cloudflare": "Cloudflare", "envoy": "Envoy",
	"istio-envoy": "Envoy", "caddy": "Caddy", "apache": "Apache", "traefik": "Traefik", "haproxy": "HAProxy",
	"awselb": "AWS load balancer", "google": "Google front end", "akamaighost": "Akamai", "kong": "Kong", "varnish": "Varnish",
	"litespeed": "LiteSpeed", "squid": "Squid", "cloudfront": "CloudFront", "gws": "Google front end", "esf": "Google front end",
}

var productName = regexp.MustCompile(`^([a-z][a-z-]*)(?:/v?([0-9][0-9.]*))?`)

// readReverseProxy finds a proxy that passes everything through, by the headers of the first
// answer: Server, which a proxy puts in the place of the engine's, and Via.
func (s *Server) readReverseProxy(h http.Header) {
	candidates := [][2]string{{"Server", h.Get("Server")}}
	for _, via := range h.Values("Via") {
		if _, name, ok := strings.Cut(strings.TrimSpace(via), " "); ok {
			candidates = append(candidates, [2]string{"Via", name}, [2]string{"Via", strings.Trim(name[strings.LastIndex(name, "(")+1:], "() ")})
		}
	}
	for _, c := range candidates {
		m := productName.FindStringSubmatch(strings.ToLower(c[1]))
		if m == nil {
			continue
		}
		name, known := reverseProxies[m[1]]
		if !known {
			continue
		}
		s.Facts.Engine.Set(speedmatrix.EngineProxy, name, "header "+c[0])
		if m[2] != "" && s.Facts.Engine.Text(speedmatrix.EngineProxy) == name {
			s.Facts.Engine.Set(speedmatrix.EngineProxyVersion, m[2], "header "+c[0])
		}
		return
	}
}
