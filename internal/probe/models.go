package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// listedModel is one entry of GET /v1/models; each engine has its own name for the
// maximum length.
type listedModel struct {
	ID               string  `json:"id"`
	OwnedBy          string  `json:"owned_by"`
	Root             string  `json:"root"`
	Parent           *string `json:"parent"`
	MaxModelLen      int     `json:"max_model_len"`
	ContextLength    int     `json:"context_length"`
	ContextWindow    int     `json:"context_window"`
	MaxContextLength int     `json:"max_context_length"`
	MaxInputTokens   int     `json:"max_input_tokens"`
	Meta             struct {
		ContextPerSlot int     `json:"n_ctx"`
		Trained        int     `json:"n_ctx_train"`
		Parameters     float64 `json:"n_params"`
		FileType       string  `json:"ftype"`
	} `json:"meta"`
}

// readModels reads the list of models, in OpenAI's envelope or bare; ok is false when
// the answer is no such list.
func readModels(a *answer) (models []Model, ok bool) {
	listed, ok := listedModels(a)
	for _, m := range listed {
		one := Model{
			Name: m.ID, Root: m.Root, Owner: m.OwnedBy,
			MaxLength: max(m.MaxModelLen, m.ContextLength, m.ContextWindow, m.MaxContextLength, m.MaxInputTokens, m.Meta.ContextPerSlot),
		}
		if m.Parent != nil {
			one.Base, one.Adapter = *m.Parent, *m.Parent != ""
		}
		models = append(models, one)
	}
	return models, ok
}

func listedModels(a *answer) ([]listedModel, bool) {
	var envelope struct {
		Data json.RawMessage `json:"data"`
	}
	list := []byte(nil)
	if a.decode(&envelope) {
		list = envelope.Data
	} else if a != nil && a.status == 200 {
		list = a.body
	}
	var listed []listedModel
	if len(list) == 0 || json.Unmarshal(list, &listed) != nil {
		return nil, false
	}
	listed = slices.DeleteFunc(listed, func(m listedModel) bool { return m.ID == "" })
	return listed, true
}

// chooseModel takes the model that the user named, or the only one there is.
func (s *Server) chooseModel(ctx context.Context) error {
	want := s.options.Model
	if want == "" {
		return s.chooseUnnamed(ctx)
	}
	for _, name := range []string{want, want + ":latest"} {
		if i := slices.IndexFunc(s.Models, func(m Model) bool { return m.Name == name }); i >= 0 {
			s.Model = s.Models[i]
			return nil
		}
	}
	// A hosted service may serve names that it does not list: the trial decides.
	if len(s.Models) > 0 && !s.engine.open {
		return s.unknownModel(want, nil)
	}
	s.Model = Model{Name: want}
	return nil
}

func (s *Server) chooseUnnamed(ctx context.Context) error {
	own := slices.DeleteFunc(slices.Clone(s.Models), func(m Model) bool { return m.Adapter })
	switch {
	case len(own) == 1:
		s.Model = own[0]
		return nil
	case len(s.Models) == 0:
		return fail(speedmatrix.KindUsage, "Name the model: --model NAME.", "the server at %s lists no models that can be read", s.Base)
	case s.engine.inUse != nil:
		if loaded := s.engine.inUse(ctx, s); len(loaded) == 1 {
			if i := slices.IndexFunc(s.Models, func(m Model) bool { return m.Name == loaded[0] }); i >= 0 {
				s.Model = s.Models[i]
				return nil
			}
		}
	case len(own) > 0 && s.oneUnderManyNames(own):
		s.Model = own[0]
		return nil
	}
	return fail(speedmatrix.KindUsage, "Say which: --model NAME. It serves: "+names(s.Models, "")+".",
		"the server at %s has %d models", s.Base, len(s.Models))
}

// oneUnderManyNames: engines that load one model may serve it by several names.
func (s *Server) oneUnderManyNames(models []Model) bool {
	return !s.engine.open && models[0].Root != "" &&
		!slices.ContainsFunc(models, func(m Model) bool { return m.Root != models[0].Root })
}

// unknownModel lists what is served, and which name is near to the one wanted.
func (s *Server) unknownModel(want string, cause error) error {
	next := "Ask whoever runs it for the name."
	if len(s.Models) > 0 {
		all := make([]string, len(s.Models))
		for i, m := range s.Models {
			all[i] = m.Name
		}
		near := unit.Nearest(want, all)
		if near == "" && len(all) == 1 {
			near = all[0]
		}
		next = "It serves: " + names(s.Models, near) + "."
		if near != "" {
			next += fmt.Sprintf(" Did you mean that one? --model %s", near)
			if len(all) > 1 {
				next = fmt.Sprintf("It serves: %s. Did you mean %s? --model %s", names(s.Models, near), near, near)
			}
		}
	}
	return failing(speedmatrix.KindRefused, cause)(next, "the server knows no model %q", want)
}

// namesShown bounds a list of models in a message.
const namesShown = 12

// names lists the models, first as one of those shown however many there are.
func names(models []Model, first string) string {
	var shown []string
	if first != "" {
		shown = append(shown, first)
	}
	for _, m := range models {
		if m.Name != first && len(shown) < namesShown {
			shown = append(shown, m.Name)
		}
	}
	text := strings.Join(shown, ", ")
	if more := len(models) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
