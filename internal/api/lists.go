package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"speedmatrix/internal/catalog"
)

// group is a model, a hardware or an engine.
type group struct {
	Key    string     `json:"key"`
	Name   string     `json:"name"`
	Runs   int        `json:"runs" doc:"Listed runs."`
	Newest *time.Time `json:"newest"`
}

type groupsOutput struct {
	ETag string `header:"ETag"`
	Body struct {
		Groups []group `json:"groups"`
	}
}

type freshInput struct {
	IfNoneMatch string `header:"If-None-Match"`
}

type searchInput struct {
	Text  string `query:"q" minLength:"1" maxLength:"200" doc:"The beginning of a name, as one types it."`
	Limit int    `query:"limit" minimum:"1" maximum:"50" default:"10" doc:"Names at most."`
}

type suggestion struct {
	Kind string `json:"kind" enum:"model,hardware,engine,uploader"`
	Key  string `json:"key"`
	Name string `json:"name"`
	Runs int    `json:"runs"`
}

type searchOutput struct {
	Body struct {
		Suggestions []suggestion `json:"suggestions"`
	}
}

type facet struct {
	Key  string `json:"key"`
	Name string `json:"name"`
	Runs int    `json:"runs"`
}

type facetsOutput struct {
	ETag string `header:"ETag"`
	Body struct {
		Total  int                `json:"total"`
		Facets map[string][]facet `json:"facets" doc:"By the name of the query's parameter."`
	}
}

// fresh is the validator of all lists: any change of any run changes it.
func (s *Server) fresh(ifNoneMatch string) (string, error) {
	tag := etag(s.o.Index.Sequence(), s.started)
	if unchanged(ifNoneMatch, tag) {
		return tag, huma.Status304NotModified()
	}
	return tag, nil
}

func (s *Server) registerLists() {
	for _, l := range []struct {
		id, path, summary string
		list              func() []catalog.Group
	}{
		{"list-models", "/models", "Models with listed runs", s.o.Index.Models},
		{"list-hardware", "/hardware", "Hardware with listed runs", s.o.Index.Hardware},
		{"list-engines", "/engines", "Engines with listed runs", s.o.Index.Engines},
	} {
		huma.Register(s.api, s.operation(l.id, "GET "+l.path, l.summary, reads), func(_ context.Context, in *freshInput) (*groupsOutput, error) {
			tag, err := s.fresh(in.IfNoneMatch)
			if err != nil {
				return nil, err
			}
			out := &groupsOutput{ETag: tag}
			out.Body.Groups = []group{}
			for _, g := range l.list() {
				v := group{Key: g.Key, Name: g.Name, Runs: g.N}
				if !g.Newest.IsZero() {
					v.Newest = &g.Newest
				}
				out.Body.Groups = append(out.Body.Groups, v)
			}
			return out, nil
		})
	}
	huma.Register(s.api, s.operation("search", "GET /search", "Names of models, hardware, engines and uploaders, as one types", reads),
		func(_ context.Context, in *searchInput) (*searchOutput, error) {
			out := &searchOutput{}
			out.Body.Suggestions = []suggestion{}
			for _, v := range s.o.Index.Suggest(in.Text, in.Limit) {
				out.Body.Suggestions = append(out.Body.Suggestions, suggestion{v.Kind, v.Key, v.Name, v.N})
			}
			return out, nil
		})
	huma.Register(s.api, s.operation("count-facets", "GET /facets", "How many runs have each value, under the rest of a query", reads), s.facets)
	huma.Register(s.api, s.operation("get-board", "GET /boards", "Machines in the order of one number of one model; only comparable runs are ranked", reads), s.board)
}

func (s *Server) facets(_ context.Context, in *listInput) (*facetsOutput, error) {
	q, err := in.question()
	if err != nil {
		return nil, err
	}
	tag, err := s.fresh(in.IfNoneMatch)
	if err != nil {
		return nil, err
	}
	f := s.o.Index.Facets(q)
	out := &facetsOutput{ETag: tag}
	out.Body.Total, out.Body.Facets = f.Total, map[string][]facet{}
	for name, list := range map[string][]catalog.Facet{"model": f.Models, "gpu": f.Hardware, "engine": f.Engines, "version": f.Versions,
		"quant": f.Quantizations, "method": f.Methods, "trust": f.Levels, "mod": f.Modified} {
		values := make([]facet, len(list))
		for i, v := range list {
			values[i] = facet{v.Key, v.Name, v.N}
		}
		out.Body.Facets[name] = values
	}
	return out, nil
}
