package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"speedmatrix"
	"speedmatrix/internal/account"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/ingest"
	"speedmatrix/internal/runfile"
)

type changeInput struct {
	ID      string `path:"id" pattern:"^[0-9a-z]{26}$"`
	IfMatch string `header:"If-Match" doc:"The ETag of the run as it was read; the change is refused if it changed since."`
	Body    struct {
		Visibility catalog.Visibility `json:"visibility" enum:"unlisted,public,withdrawn"`
		Why        string             `json:"why,omitempty" maxLength:"500" doc:"A sentence for the run's history; needed to withdraw."`
	}
}

type removeInput struct {
	ID string `path:"id" pattern:"^[0-9a-z]{26}$"`
}

type claimInput struct {
	ID   string `path:"id" pattern:"^[0-9a-z]{26}$"`
	Body struct {
		Claim string `json:"claim" maxLength:"200" doc:"The secret of the receipt."`
	}
}

type compareInput struct {
	Runs        []string `query:"run,explode" minItems:"2" maxItems:"8" doc:"The IDs of the runs; each is compared with the first."`
	Allow       []string `query:"allow,explode" maxItems:"20" doc:"Settings of the method that may differ, such as method.duration_seconds."`
	IfNoneMatch string   `header:"If-None-Match"`
}

type compareOutput struct {
	ETag string `header:"ETag"`
	Body *compare.Comparison
}

func (s *Server) registerChanges() {
	huma.Register(s.api, protected(s.operation("change-run", "PATCH /runs/{id}", "Publish, unlist, or withdraw a run", uploads)),
		func(ctx context.Context, in *changeInput) (*runOutput, error) {
			if in.IfMatch != "" {
				r, err := s.o.Store.Get(ctx, in.ID, 0)
				if err != nil {
					return nil, s.worded(ctx, err)
				}
				if !unchanged(in.IfMatch, runTag(&r.Entry)) {
					return nil, refuse(http.StatusPreconditionFailed, "changed-meanwhile", "The run changed since it was read. Get it again and repeat what you want to change.")
				}
			}
			e, err := s.o.Runs.SetVisibility(ctx, account.FromContext(ctx), in.ID, ingest.Wish{Visibility: in.Body.Visibility, Why: in.Body.Why})
			if err != nil {
				return nil, s.worded(ctx, err)
			}
			return &runOutput{ETag: runTag(&e), Body: e.View(s.o.Base)}, nil
		})
	huma.Register(s.api, protected(s.operation("delete-run", "DELETE /runs/{id}", "Delete a draft of one's own, or as a moderator any run", uploads)),
		func(ctx context.Context, in *removeInput) (*struct{}, error) {
			return nil, s.worded(ctx, s.o.Runs.Remove(ctx, account.FromContext(ctx), in.ID))
		})
	huma.Register(s.api, protected(s.operation("claim-run", "POST /runs/{id}/claim", "Make a run that was uploaded without an account one's own", uploads)),
		func(ctx context.Context, in *claimInput) (*runOutput, error) {
			e, err := s.o.Runs.Claim(ctx, account.FromContext(ctx), in.ID, in.Body.Claim)
			if err != nil {
				return nil, s.worded(ctx, err)
			}
			return &runOutput{ETag: runTag(&e), Body: e.View(s.o.Base)}, nil
		})
	huma.Register(s.api, s.operation("compare-runs", "GET /compare", "Compare runs cell by cell", reads), s.compare)
}

func (s *Server) compare(ctx context.Context, in *compareInput) (*compareOutput, error) {
	inputs := make([]compare.Input, len(in.Runs))
	tags := make([]any, 0, len(in.Runs)+1)
	for i, id := range in.Runs {
		r, _, err := s.run(ctx, &runInput{ID: id})
		if err != nil {
			return nil, err
		}
		doc, _, err := runfile.Decode(r.Document)
		if err != nil {
			return nil, s.worded(ctx, err)
		}
		inputs[i] = compare.Input{Runs: []*speedmatrix.Run{doc}}
		tags = append(tags, r.Entry.ID, r.Entry.Sequence)
	}
	tag := etag(append(tags, in.Allow)...)
	if unchanged(in.IfNoneMatch, tag) {
		return nil, huma.Status304NotModified()
	}
	c, err := compare.New(inputs, compare.Options{Allow: in.Allow})
	if speedmatrix.KindOf(err) == speedmatrix.KindUsage {
		return nil, refuse(http.StatusUnprocessableEntity, "not-comparable", err.Error())
	}
	if err != nil {
		return nil, s.worded(ctx, err)
	}
	return &compareOutput{ETag: tag, Body: c}, nil
}

// runTag is the validator of a run.
func runTag(e *catalog.Entry) string { return etag(e.ID, e.Sequence) }
