package probe

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"speedmatrix"
)

// ollama has routes of its own beside OpenAI's, and they suffice: a server that is reached
// by them alone has its models in /api/tags.
func ollama() engine {
	return engine{
		kind: KindOllama, routes: []string{"/api/version", "/api/tags"}, ping: "/api/version",
		is: func(w *sight) bool {
			return hasVersion(w.get("/api/version")) && isTags(w.get("/api/tags"))
		},
		read: func(_ context.Context, s *Server, w *sight) {
			s.nameEngine(KindOllama, "github.com/ollama/ollama", sourceOllama)
			s.readOllamaVersion(w.get("/api/version"))
			s.readTag(w.get("/api/tags"))
		},
		loaded: func(ctx context.Context, s *Server) { s.readOllama(ctx) },
		models: func(w *sight) (list []Model) {
			for _, m := range ollamaModels(w.get("/api/tags")) {
				list = append(list, Model{Name: m.Name, Owner: "library"})
			}
			return list
		},
		inUse: func(ctx context.Context, s *Server) (names []string) {
			for _, m := range s.ollamaLoaded(ctx) {
				names = append(names, m.Name)
			}
			return names
		},
		tokenizers: func(*Server) []tokenCounter { return nil },
	}
}

const sourceOllama = "GET /api/version"

// ollamaModel is a model in Ollama's /api/tags, or, with its context, in /api/ps.
type ollamaModel struct {
	Name    string        `json:"name"`
	Digest  string        `json:"digest"`
	Context int           `json:"context_length"`
	Details ollamaDetails `json:"details"`
}

type ollamaDetails struct {
	Parent       string `json:"parent_model"`
	Format       string `json:"format"`
	Family       string `json:"family"`
	Parameters   string `json:"parameter_size"`
	Quantization string `json:"quantization_level"`
}

func isTags(a *answer) bool {
	var tags struct {
		Models *[]json.RawMessage `json:"models"`
	}
	return a.decode(&tags) && tags.Models != nil
}

func ollamaModels(a *answer) []ollamaModel {
	var list struct {
		Models []ollamaModel `json:"models"`
	}
	if !a.decode(&list) {
		return nil
	}
	return slices.DeleteFunc(list.Models, func(m ollamaModel) bool { return m.Name == "" })
}

func (s *Server) ollamaLoaded(ctx context.Context) []ollamaModel {
	a, err := s.http.get(ctx, "/api/ps")
	if err != nil {
		return nil
	}
	return ollamaModels(a)
}

// readOllamaVersion: builds outside of the project's own say 0.0.0, which is no version.
func (s *Server) readOllamaVersion(a *answer) {
	var v struct {
		Version string `json:"version"`
	}
	if a.decode(&v) && v.Version != "0.0.0" {
		s.setVersion(v.Version, sourceOllama)
	}
}

// readTag takes what the list says of the model's file.
func (s *Server) readTag(tags *answer) {
	const source = "GET /api/tags"
	for _, m := range ollamaModels(tags) {
		if m.Name != s.Model.Name {
			continue
		}
		s.Facts.Model.Set(speedmatrix.ModelName, strings.TrimSuffix(m.Name, ":latest"), source)
		setAll(s.Facts.Model, source, map[string]any{
			speedmatrix.ModelRevision: m.Digest, speedmatrix.ModelFormat: strings.ToUpper(m.Details.Format),
			speedmatrix.ModelArchitecture: m.Details.Family, speedmatrix.ModelParameters: m.Details.Parameters,
			speedmatrix.ModelQuantization: m.Details.Quantization, speedmatrix.ModelBase: ownName(m.Details.Parent),
		})
	}
}

// ownName leaves out a parent that is a file on the server's disk: its name tells nothing.
func ownName(parent string) string {
	if strings.ContainsAny(parent, `\`) || strings.HasPrefix(parent, "/") {
		return ""
	}
	return parent
}

// ollamaShow is /api/show as far as it is used. Sizes in model_info have the
// architecture's name before them: "llama.context_length".
type ollamaShow struct {
	Parameters string         `json:"parameters"`
	ModelInfo  map[string]any `json:"model_info"`
	Details    ollamaDetails  `json:"details"`
}

var contextParameter = regexp.MustCompile(`(?m)^\s*num_ctx\s+(\d+)`)

// readOllama runs after the trials, which load the model: only then does /api/ps say the
// context that it really has. A longer prompt is cut without a word, so this matters.
func (s *Server) readOllama(ctx context.Context) {
	model := s.Facts.Model
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
	setAll(model, source, map[string]any{
		speedmatrix.ModelQuantization: show.Details.Quantization, speedmatrix.ModelParameters: show.Details.Parameters,
	})
	trained := 0
	for key, value := range show.ModelInfo {
		if n, ok := value.(float64); ok && strings.HasSuffix(key, ".context_length") && n > 0 && n < 1e9 {
			trained = int(n)
		}
	}
	setAll(model, source, map[string]any{speedmatrix.ModelTrainedLength: trained})
	if _, known := model.Int(speedmatrix.ModelMaxLength); known {
		return
	}
	if match := contextParameter.FindStringSubmatch(show.Parameters); match != nil {
		if n, err := strconv.Atoi(match[1]); err == nil {
			model.Set(speedmatrix.ModelMaxLength, n, source)
		}
		return
	}
	if trained > 0 {
		model.Set(speedmatrix.ModelMaxLength, trained, source)
		s.warn("length_of_training", "%d tokens is what %s was trained for; Ollama may have loaded it with less and cuts longer prompts without a word",
			trained, s.Model.Name)
	}
}
