package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/ingest"
	"speedmatrix/internal/trust"
)

// runList is one page of a list.
type runList struct {
	Runs       []catalog.View      `json:"runs"`
	Total      int                 `json:"total" doc:"How many comparable runs match, over all pages."`
	Apart      []catalog.ApartView `json:"apart" doc:"Runs that match and are not comparable, with the reason; they have no rank."`
	ApartTotal []reason            `json:"apart_total"`
	Next       string              `json:"next" doc:"The cursor of the next page; empty at the end."`
}

// reason is why runs stand apart, and how many do.
type reason struct {
	Reason string `json:"reason"`
	N      int    `json:"n"`
}

func (s *Server) list(page catalog.Page) runList {
	out := runList{Runs: make([]catalog.View, len(page.Entries)), Total: page.Total, Next: page.Next,
		Apart: catalog.ApartViews(page.Apart, s.o.Base), ApartTotal: make([]reason, len(page.ApartTotal))}
	for i, e := range page.Entries {
		out.Runs[i] = e.View(s.o.Base)
	}
	for i, f := range page.ApartTotal {
		out.ApartTotal[i] = reason{f.Name, f.N}
	}
	return out
}

type listInput struct {
	Question
	IfNoneMatch string `header:"If-None-Match"`
}

type listOutput struct {
	ETag         string `header:"ETag"`
	CacheControl string `header:"Cache-Control"`
	Body         runList
}

// runInput names a run, and a version of it where 0 is the latest.
type runInput struct {
	ID          string `path:"id" minLength:"26" maxLength:"26" pattern:"^[0-9a-z]{26}$"`
	Version     int    `query:"v" minimum:"0" maximum:"1000000" doc:"A version of the run; the latest where it is not given."`
	IfNoneMatch string `header:"If-None-Match"`
}

type runOutput struct {
	ETag string `header:"ETag"`
	Body catalog.View
}

type documentOutput struct {
	ETag        string `header:"ETag"`
	ContentType string `header:"Content-Type"`
	Body        []byte
}

type checksOutput struct {
	ETag string `header:"ETag"`
	Body trust.Report
}

type historyOutput struct {
	Body struct {
		Changes []catalog.Change `json:"changes"`
	}
}

func (s *Server) registerRuns() {
	huma.Register(s.api, s.operation("list-runs", "GET /runs", "Find runs", reads), s.listRuns)
	huma.Register(s.api, s.operation("get-run", "GET /runs/{id}", "One run as lists know it", reads),
		func(ctx context.Context, in *runInput) (*runOutput, error) {
			r, tag, err := s.run(ctx, in)
			if err != nil {
				return nil, err
			}
			return &runOutput{ETag: tag, Body: r.Entry.View(s.o.Base)}, nil
		})
	document := s.operation("get-document", "GET /runs/{id}/document", "A run's whole document, speedmatrix.run/1", reads)
	document.Responses = map[string]*huma.Response{"200": {Description: "run.json", Content: map[string]*huma.MediaType{"application/json": {}}}}
	huma.Register(s.api, document, func(ctx context.Context, in *runInput) (*documentOutput, error) {
		r, tag, err := s.run(ctx, in)
		if err != nil {
			return nil, err
		}
		return &documentOutput{ETag: tag, ContentType: "application/json", Body: r.Document}, nil
	})
	huma.Register(s.api, s.operation("get-checks", "GET /runs/{id}/checks", "What was checked of a run, and what was found", reads),
		func(ctx context.Context, in *runInput) (*checksOutput, error) {
			r, tag, err := s.run(ctx, in)
			if err != nil {
				return nil, err
			}
			out := &checksOutput{ETag: tag}
			return out, s.worded(ctx, json.Unmarshal(r.Checks, &out.Body))
		})
	huma.Register(s.api, s.operation("get-history", "GET /runs/{id}/history", "What happened to a run", reads),
		func(ctx context.Context, in *runInput) (*historyOutput, error) {
			if _, _, err := s.run(ctx, &runInput{ID: in.ID}); err != nil {
				return nil, err
			}
			out := &historyOutput{}
			var err error
			out.Body.Changes, err = s.o.Store.History(ctx, in.ID)
			return out, s.worded(ctx, err)
		})
}

func (s *Server) listRuns(ctx context.Context, in *listInput) (*listOutput, error) {
	q, err := in.question()
	if err != nil {
		return nil, err
	}
	page, err := s.o.Index.Find(q)
	if err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "bad-query", err.Error())
	}
	body := s.list(page)
	tag := etag(s.o.Index.Sequence(), s.started)
	if unchanged(in.IfNoneMatch, tag) {
		return nil, huma.Status304NotModified()
	}
	return &listOutput{ETag: tag, CacheControl: "no-cache", Body: body}, nil
}

// run reads a version of a run that the visitor may see, and its validator.
func (s *Server) run(ctx context.Context, in *runInput) (catalog.Record, string, error) {
	r, err := s.o.Store.Get(ctx, in.ID, in.Version)
	if err != nil {
		return r, "", s.worded(ctx, err)
	}
	if !ingest.MaySee(s.o.Rules, account.FromContext(ctx), &r.Entry) {
		return r, "", s.worded(ctx, catalog.ErrNotFound)
	}
	if r.Entry.Visibility == catalog.Withdrawn && s.o.Rules.May(account.FromContext(ctx), account.See, r.Entry.Owner) != nil {
		return r, "", refuse(http.StatusGone, "withdrawn", "This run was withdrawn; its page says why.")
	}
	tag := etag(r.Entry.ID, r.Entry.Sequence)
	if unchanged(in.IfNoneMatch, tag) {
		return r, tag, huma.Status304NotModified()
	}
	return r, tag, nil
}
