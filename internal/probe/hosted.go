package probe

import (
	"encoding/json"
	"fmt"
	"strings"

	"speedmatrix"
)

// anthropic is the service of that name, or one that lists its models in the same form.
func anthropic() engine {
	return engine{
		kind: KindAnthropic, open: true,
		is:         func(w *sight) bool { return anthropicList(w.listing) },
		tokenizers: func(*Server) []tokenCounter { return nil },
	}
}

// anthropicList tells Anthropic's list of models from OpenAI's.
func anthropicList(a *answer) bool {
	var list struct {
		Data []struct {
			Type    string `json:"type"`
			Display string `json:"display_name"`
			Object  string `json:"object"`
		} `json:"data"`
		More *bool `json:"has_more"`
	}
	return a.decode(&list) && len(list.Data) > 0 && list.More != nil &&
		list.Data[0].Type == "model" && list.Data[0].Display != "" && list.Data[0].Object == ""
}

// anthropicError says whether an error is in Anthropic's form.
func anthropicError(body []byte) bool {
	var problem struct {
		Type  string `json:"type"`
		Error *struct {
			Type string `json:"type"`
		} `json:"error"`
	}
	return json.Unmarshal(body, &problem) == nil && problem.Type == "error" && problem.Error != nil
}

// openAI is every server with OpenAI's routes that is none of the others.
func openAI() engine {
	return engine{
		kind: KindOpenAI, open: true, routes: []string{"/version"},
		is: func(*sight) bool { return true },
		tokenizers: func(s *Server) []tokenCounter {
			if s.Hosted {
				return []tokenCounter{s.vllmTokenizer()}
			}
			return append([]tokenCounter{s.vllmTokenizer()}, s.llamaTokenizers()...)
		},
	}
}

// readService names a hosted service by its host, and the model's own limits where its list
// has them.
func (s *Server) readService() {
	if !s.Hosted {
		return
	}
	host := s.Base.Hostname()
	s.Facts.Engine.Set(speedmatrix.EngineService, host, "URL")
	for _, router := range []struct{ host, name string }{{"openrouter.ai", "OpenRouter"}, {"router.huggingface.co", "Hugging Face router"}} {
		if host == router.host || strings.HasSuffix(host, "."+router.host) {
			s.Facts.Engine.Set(speedmatrix.EngineProxy, router.name, "URL")
		}
	}
}

// readRateLimit takes what a service allows from the headers of an answer.
func (s *Server) readRateLimit(a *answer) {
	for _, prefix := range []string{"X-Ratelimit-Limit-", "Anthropic-Ratelimit-"} {
		var parts []string
		for _, what := range []string{"requests", "tokens"} {
			name := prefix + what
			if prefix != "X-Ratelimit-Limit-" {
				name += "-limit"
			}
			if value := a.header.Get(name); value != "" {
				parts = append(parts, fmt.Sprintf("%s %s", value, what))
			}
		}
		if len(parts) > 0 {
			s.Facts.Engine.Set(speedmatrix.EngineRateLimit, s.options.hidden()(strings.Join(parts, ", ")), "header "+prefix+"…")
			return
		}
	}
}
