package probe

import (
	"bytes"
	"context"
	"sync"

	"speedmatrix"
	"speedmatrix/internal/metricstext"
)

// sight is what a server's routes answered: each engine has some that tell it apart.
type sight struct {
	models  []Model
	sglang  *answer // /get_server_info or /server_info with SGLang's key
	props   *answer // llama.cpp's /props
	version *answer // /version
	ollama  *answer // /api/version
	tags    *answer // /api/tags
	metrics metricstext.Families
	unread  error // why there are no metrics; nil if there are
}

// look asks the routes that tell the engines apart, all at once, and gives the kind.
// warning is set when what was seen is contradictory.
func (w *sight) look(ctx context.Context, c *caller) (kind Kind, warning *speedmatrix.Warning) {
	var all sync.WaitGroup
	ask := func(into **answer, route string) {
		all.Go(func() {
			if a, err := c.get(ctx, route); err == nil && a.status == 200 {
				*into = a
			}
		})
	}
	var newInfo *answer
	ask(&w.sglang, "/get_server_info")
	ask(&newInfo, "/server_info")
	ask(&w.props, "/props")
	ask(&w.version, "/version")
	ask(&w.ollama, "/api/version")
	ask(&w.tags, "/api/tags")
	all.Go(func() { w.metrics, w.unread = c.metrics(ctx) })
	all.Wait()
	if !sglangInfo(w.sglang) {
		w.sglang = newInfo
	}
	return w.kind()
}

func (w *sight) kind() (Kind, *speedmatrix.Warning) {
	switch {
	case sglangInfo(w.sglang):
		return KindSGLang, nil
	case isLlamaCpp(w.props), w.owned("llamacpp"):
		return KindLlamaCpp, nil
	case hasVersion(w.ollama) && isTags(w.tags):
		return KindOllama, nil
	case hasVersion(w.version) && (w.metrics.Has("vllm:") || w.owned("vllm")):
		return KindVLLM, nil
	case hasVersion(w.version):
		return KindOpenAI, &speedmatrix.Warning{
			Code: "version_without_engine",
			Message: "the server answers GET /version as vLLM does, but neither its metrics nor its list of models is vLLM's: " +
				"taken for a proxy, so its version is not that of an engine",
		}
	}
	return KindOpenAI, nil
}

func (w *sight) owned(by string) bool {
	for _, m := range w.models {
		if m.Owner == by {
			return true
		}
	}
	return false
}

func sglangInfo(a *answer) bool {
	var info struct {
		Tokens *float64 `json:"max_total_num_tokens"`
	}
	return a.decode(&info) && info.Tokens != nil
}

func isLlamaCpp(a *answer) bool {
	var props struct {
		Slots *int    `json:"total_slots"`
		Build *string `json:"build_info"`
	}
	return a.decode(&props) && (props.Slots != nil || props.Build != nil)
}

func hasVersion(a *answer) bool {
	var v struct {
		Version string `json:"version"`
	}
	return a.decode(&v) && v.Version != ""
}

func isTags(a *answer) bool {
	var tags struct {
		Models *[]any `json:"models"`
	}
	return a.decode(&tags) && tags.Models != nil
}

// metrics scrapes /metrics; without an answer of status 200 that reads to its end it is an error.
func (c *caller) metrics(ctx context.Context) (metricstext.Families, error) {
	a, err := c.do(ctx, call{route: "/metrics", accept: metricstext.Accept, limit: lookLimit, most: metricsMost})
	if err != nil {
		return metricstext.Families{}, err
	}
	if a.status != 200 {
		return metricstext.Families{}, &statusError{route: "/metrics", status: a.status, words: a.words()}
	}
	return metricstext.Parse(bytes.NewReader(a.body))
}

// statusError is an answer of another status than 200 to a route that should have one.
type statusError struct {
	route  string
	status int
	words  string
}

func (e *statusError) Error() string { return e.route + ": " + says(e.status, e.words) }
