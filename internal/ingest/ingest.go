// Package ingest is how a run enters a results site and changes there: an
// archive of a run directory is read within bounds of size and time, its
// document is held against the schema, every published number is recomputed
// from the rows, and the run stands with what was found. A dry run is the same
// without the last step.
package ingest

import (
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/trust"
)

// Receipt is what an uploader is told.
type Receipt struct {
	// ID and Version are "" and 0 after a dry run.
	ID         string             `json:"id"`
	Version    int                `json:"version"`
	Visibility catalog.Visibility `json:"visibility"`
	Title      string             `json:"title"`
	Report     trust.Report       `json:"report"`
	// Duplicate is the ID of a run with the same raw rows or document that is here already, "" for none.
	Duplicate string `json:"duplicate,omitempty"`
	// Claim is the secret with which an account may claim a run that was uploaded without one; shown once.
	Claim string `json:"claim,omitempty"`
}

// Problem is a refusal: which rule, where in the upload, what to do. It becomes a problem+json answer.
type Problem struct {
	// Code names the rule for programs: "archive-too-large"; Status is the HTTP status.
	Code   string `json:"code"`
	Status int    `json:"status"`
	Title  string `json:"title"`
	// Detail says what to do; Pointer is the place: a file's name, or a JSON pointer into run.json behind "#".
	Detail  string `json:"detail"`
	Pointer string `json:"pointer,omitempty"`
}

// Error is the problem as one sentence.
func (p *Problem) Error() string { return p.Title + ": " + p.Detail }
