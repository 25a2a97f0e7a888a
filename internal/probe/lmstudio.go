package probe

import (
	"context"
	"encoding/json"
	"strings"

	"speedmatrix"
)

// The routes with which LM Studio lists its models, the newer first.
const (
	lmStudioV1 = "/api/v1/models"
	lmStudioV0 = "/api/v0/models"
)

// lmStudio lists all models on its disk, and which are loaded. It answers every route that it
// does not know with status 200.
func lmStudio() engine {
	return engine{
		kind: KindLMStudio, routes: []string{lmStudioV1, lmStudioV0},
		is: func(w *sight) bool { return len(lmStudioModels(w.get)) > 0 },
		read: func(_ context.Context, s *Server, w *sight) {
			s.nameEngine(KindLMStudio, "", "GET "+lmStudioModels(w.get)[0].route)
		},
		loaded: func(ctx context.Context, s *Server) { s.readLMStudio(ctx) },
		inUse: func(ctx context.Context, s *Server) (names []string) {
			for _, m := range lmStudioModels(s.fetch(ctx)) {
				if m.loaded {
					names = append(names, m.name)
				}
			}
			return names
		},
		tokenizers: func(*Server) []tokenCounter { return nil },
	}
}

// lmStudioModel is a model of either list.
type lmStudioModel struct {
	name, route, format, architecture, quantization, parameters string
	// length is that of the loaded model, trained what it was made for; parallel its requests at once.
	length, trained, parallel int
	loaded                    bool
}

// lmStudioModels gives the models of the newest list that is there.
func lmStudioModels(get func(route string) *answer) []lmStudioModel {
	if list := lmStudioNew(get(lmStudioV1)); len(list) > 0 {
		return list
	}
	return lmStudioOld(get(lmStudioV0))
}

func lmStudioNew(a *answer) (list []lmStudioModel) {
	var answer struct {
		Models []struct {
			Key          string `json:"key"`
			Architecture string `json:"architecture"`
			Format       string `json:"format"`
			Parameters   string `json:"params_string"`
			Trained      int    `json:"max_context_length"`
			Quantization struct {
				Name string `json:"name"`
			} `json:"quantization"`
			Loaded *[]struct {
				ID     string `json:"id"`
				Config struct {
					Length   int `json:"context_length"`
					Parallel int `json:"parallel"`
				} `json:"config"`
			} `json:"loaded_instances"`
		} `json:"models"`
	}
	if !a.decode(&answer) {
		return nil
	}
	for _, m := range answer.Models {
		if m.Key == "" || m.Loaded == nil {
			continue
		}
		one := lmStudioModel{name: m.Key, route: lmStudioV1, format: m.Format, architecture: m.Architecture,
			quantization: m.Quantization.Name, parameters: m.Parameters, trained: m.Trained}
		if len(*m.Loaded) == 0 {
			list = append(list, one)
		}
		for _, instance := range *m.Loaded {
			loaded := one
			loaded.loaded, loaded.name = true, orText(instance.ID, m.Key)
			loaded.length, loaded.parallel = instance.Config.Length, instance.Config.Parallel
			list = append(list, loaded)
		}
	}
	return list
}

func lmStudioOld(a *answer) (list []lmStudioModel) {
	var answer struct {
		Data []struct {
			ID           string `json:"id"`
			State        string `json:"state"`
			Architecture string `json:"arch"`
			Format       string `json:"compatibility_type"`
			Quantization string `json:"quantization"`
			Trained      int    `json:"max_context_length"`
			Length       int    `json:"loaded_context_length"`
		} `json:"data"`
	}
	if !a.decode(&answer) {
		return nil
	}
	for _, m := range answer.Data {
		if m.ID == "" || m.State == "" {
			continue
		}
		list = append(list, lmStudioModel{name: m.ID, route: lmStudioV0, format: m.Format, architecture: m.Architecture,
			quantization: m.Quantization, trained: m.Trained, length: m.Length, loaded: m.State == "loaded"})
	}
	return list
}

// fetch gives answers to routes as they are now.
func (s *Server) fetch(ctx context.Context) func(route string) *answer {
	return func(route string) *answer {
		a, err := s.http.get(ctx, route)
		if err != nil {
			return nil
		}
		return a
	}
}

// readLMStudio runs after the trials: a model that was not loaded is by then.
func (s *Server) readLMStudio(ctx context.Context) {
	for _, m := range lmStudioModels(s.fetch(ctx)) {
		if m.name != s.Model.Name {
			continue
		}
		source := "GET " + m.route
		s.Facts.Model.Set(speedmatrix.ModelName, m.name, source)
		setAll(s.Facts.Model, source, map[string]any{
			speedmatrix.ModelMaxLength: m.length, speedmatrix.ModelTrainedLength: m.trained, speedmatrix.ModelFormat: strings.ToUpper(m.format),
			speedmatrix.ModelArchitecture: m.architecture, speedmatrix.ModelQuantization: m.quantization, speedmatrix.ModelParameters: m.parameters,
		})
		setAll(s.Facts.Engine, source, map[string]any{speedmatrix.EngineRunningLimit: m.parallel})
		return
	}
}

// unexpected says whether an answer of status 200 is LM Studio's to a route that it lacks.
func unexpected(a *answer) bool {
	var problem struct {
		Error json.RawMessage `json:"error"`
	}
	return a.decode(&problem) && strings.Contains(string(problem.Error), "Unexpected endpoint")
}
