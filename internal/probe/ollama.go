package probe

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"speedmatrix"
)

// ollamaModel is a loaded model in Ollama's /api/ps.
type ollamaModel struct {
	Name    string `json:"name"`
	Context int    `json:"context_length"`
	Details struct {
		Parameters   string `json:"parameter_size"`
		Quantization string `json:"quantization_level"`
	} `json:"details"`
}

func (s *Server) ollamaLoaded(ctx context.Context) []ollamaModel {
	var loaded struct {
		Models []ollamaModel `json:"models"`
	}
	if a, err := s.http.get(ctx, "/api/ps"); err != nil || !a.decode(&loaded) {
		return nil
	}
	return loaded.Models
}

// ollamaShow is /api/show as far as it is used. Sizes in model_info have the
// architecture's name before them: "llama.context_length".
type ollamaShow struct {
	Parameters string         `json:"parameters"`
	ModelInfo  map[string]any `json:"model_info"`
	Details    struct {
		Parameters   string `json:"parameter_size"`
		Quantization string `json:"quantization_level"`
	} `json:"details"`
}

var contextParameter = regexp.MustCompile(`(?m)^\s*num_ctx\s+(\d+)`)

// readOllama runs after the trials, which load the model: only then does /api/ps say the
// context that it really has. A longer prompt is cut without a word, so this matters.
func (s *Server) readOllama(ctx context.Context) {
	engine, model := s.Facts.Engine, s.Facts.Model
	engine.Set(speedmatrix.EngineRepository, "github.com/ollama/ollama", "GET /api/version")
	var v struct {
		Version string `json:"version"`
	}
	// Builds outside of the project's own say 0.0.0.
	if a, err := s.http.get(ctx, "/api/version"); err == nil && a.decode(&v) && v.Version != "" && v.Version != "0.0.0" {
		engine.Set(speedmatrix.EngineVersion, v.Version, "GET /api/version")
	}
	for _, loaded := range s.ollamaLoaded(ctx) {
		if loaded.Name == s.Model.Name && loaded.Context > 0 {
			model.Set(speedmatrix.ModelMaxLength, loaded.Context, "GET /api/ps")
		}
	}
	s.showOllama(ctx)
	if _, known := model.Int(speedmatrix.ModelMaxLength); !known {
		s.warn("length_unknown", "Ollama does not say the context of %s; it cuts longer prompts without a word: say --state model.%s=N",
			s.Model.Name, speedmatrix.ModelMaxLength)
	}
}

// showOllama asks /api/show. The length that the model was trained for is the last
// resort, and a doubtful one: Ollama's own default is shorter.
func (s *Server) showOllama(ctx context.Context) {
	const source = "POST /api/show"
	a, err := s.http.do(ctx, call{route: "/api/show", body: map[string]string{"model": s.Model.Name}, limit: lookLimit})
	var show ollamaShow
	if err != nil || !a.decode(&show) {
		return
	}
	model := s.Facts.Model
	model.Set(speedmatrix.ModelName, strings.TrimSuffix(s.Model.Name, ":latest"), "GET /api/tags")
	if show.Details.Quantization != "" {
		model.Set(speedmatrix.ModelQuantization, show.Details.Quantization, source)
	}
	if show.Details.Parameters != "" {
		model.Set(speedmatrix.ModelParameters, show.Details.Parameters, source)
	}
	if _, known := model.Int(speedmatrix.ModelMaxLength); known {
		return
	}
	if match := contextParameter.FindStringSubmatch(show.Parameters); match != nil {
		if n, err := strconv.Atoi(match[1]); err == nil {
			model.Set(speedmatrix.ModelMaxLength, n, source)
		}
		return
	}
	for key, value := range show.ModelInfo {
		if n, ok := value.(float64); ok && strings.HasSuffix(key, ".context_length") && n > 0 {
			model.Set(speedmatrix.ModelMaxLength, int(n), source)
			s.warn("length_of_training", "%.0f tokens is what %s was trained for; Ollama may have loaded it with less and cuts longer prompts without a word",
				n, s.Model.Name)
		}
	}
}
