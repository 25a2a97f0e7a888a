package api

import (
	"cmp"
	"context"
	"net/http"

	"speedmatrix/internal/catalog"
)

// boardInput asks for a board as the site's pages do.
type boardInput struct {
	Model       string       `query:"model" required:"true" minLength:"1" maxLength:"200" doc:"A model's key."`
	Weights     string       `query:"weights" maxLength:"200" doc:"The hash of the files to compare; that of the most runs where it is not given."`
	Engine      string       `query:"engine" maxLength:"100" doc:"An engine's key; any where it is not given."`
	By          catalog.Sort `query:"by" enum:"total,per-request,ttft,users,prefill" default:"total" doc:"What is ranked."`
	Context     int          `query:"ctx" minimum:"0" maximum:"100000000" default:"16384" doc:"Tokens of context at which it is read."`
	Concurrency int          `query:"n" minimum:"1" maximum:"1000000" default:"8" doc:"Requests at once at which it is read."`
	Floor       float64      `query:"floor" minimum:"0" maximum:"100000" default:"20" doc:"Per request tok/s that counts as enough for a user, where users are ranked."`
	IfNoneMatch string       `header:"If-None-Match"`
}

type boardOutput struct {
	ETag string `header:"ETag"`
	Body catalog.BoardView
}

// board ranks the machines that measured a model.
func (s *Server) board(_ context.Context, in *boardInput) (*boardOutput, error) {
	tag, err := s.fresh(in.IfNoneMatch)
	if err != nil {
		return nil, err
	}
	q := catalog.BoardQuery{Model: in.Model, Weights: in.Weights, Engine: in.Engine, By: cmp.Or(in.By, catalog.ByTotal), Context: in.Context, Concurrency: in.Concurrency, Floor: in.Floor}
	b, err := s.o.Index.Board(q)
	switch {
	case err != nil:
		return nil, refuse(http.StatusUnprocessableEntity, "bad-query", err.Error())
	case b.Of == 0:
		return nil, refuse(http.StatusNotFound, "not-found", "No listed run is of that model: GET /models has the keys.")
	}
	return &boardOutput{ETag: tag, Body: b.View(q, s.o.Base)}, nil
}
