package api

import (
	"time"

	"speedmatrix/internal/catalog"
)

// Question is a question for a list as it stands in an address; the site's pages use the same names.
type Question struct {
	Text          string       `query:"q" maxLength:"200" doc:"Words that the model, hardware, engine or uploader contain; one that begins with a dash is looked for in the launch command."`
	Model         string       `query:"model" maxLength:"200" doc:"A model's key."`
	Hardware      string       `query:"gpu" maxLength:"200" doc:"A hardware's key."`
	Engine        string       `query:"engine" maxLength:"100" doc:"An engine's key."`
	EngineVersion string       `query:"version" maxLength:"100" doc:"An engine's version, as runs write it."`
	Quantization  string       `query:"quant" maxLength:"100" doc:"A quantization, in upper or lower case."`
	Method        string       `query:"method" maxLength:"100" example:"standard/1" doc:"A method's name."`
	Uploader      string       `query:"uploader" maxLength:"100" doc:"An account's name."`
	Trust         int          `query:"trust" minimum:"0" maximum:"5" doc:"The least level: 1 Stated, 2 Complete, 3 Recomputed, 4 Self-consistent, 5 Reproduced."`
	Since         string       `query:"since" maxLength:"30" doc:"Measured on this day or later: 2026-11-30." example:"2026-11-30"`
	Until         string       `query:"until" maxLength:"30" doc:"Measured before this day."`
	Modified      string       `query:"mod" enum:"stock,modified" doc:"Only stock or only modified hardware."`
	Context       int          `query:"ctx" minimum:"0" maximum:"100000000" doc:"Tokens of context that the order refers to."`
	Concurrency   int          `query:"n" minimum:"0" maximum:"1000000" doc:"Requests at once that the order refers to."`
	WithCell      bool         `query:"cell" doc:"Only runs with a speed in that cell."`
	Floor         float64      `query:"floor" minimum:"0" maximum:"100000" doc:"Per request tok/s that counts as enough for a user; 20 where it is not given."`
	All           bool         `query:"all" doc:"Runs that are not comparable among the others, not apart."`
	Sort          catalog.Sort `query:"sort" enum:"total,per-request,ttft,users,prefill,newest" doc:"The order; total where it is not given."`
	Limit         int          `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Runs at most."`
	Cursor        string       `query:"cursor" maxLength:"500" doc:"next of the page before."`
}

// day reads a day or an instant.
func day(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	return time.Parse(time.RFC3339, text)
}

// question is the query as the index takes it.
func (q *Question) question() (catalog.Query, error) {
	since, err := day(q.Since)
	if err != nil {
		return catalog.Query{}, refuse(422, "bad-day", "since is no day: write it as 2026-11-30.")
	}
	until, err := day(q.Until)
	if err != nil {
		return catalog.Query{}, refuse(422, "bad-day", "until is no day: write it as 2026-11-30.")
	}
	return catalog.Query{Text: q.Text, Model: q.Model, Hardware: q.Hardware, Engine: q.Engine, EngineVersion: q.EngineVersion,
		Quantization: q.Quantization, Method: q.Method, Owner: q.Uploader, Level: catalog.Level(q.Trust), After: since, Before: until,
		Context: q.Context, Concurrency: q.Concurrency, HasCell: q.WithCell, Floor: q.Floor, Modified: q.Modified, All: q.All,
		Sort: q.Sort, Limit: q.Limit, Cursor: q.Cursor}, nil
}
