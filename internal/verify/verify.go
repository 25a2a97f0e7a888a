// Package verify recomputes every published number of a run from its rows alone,
// by direct formulas of its own, and compares. It shares no code with what made the
// numbers, so a fault in one of the two shows as a disagreement. docs/method.md is
// the source of every formula here.
package verify

import (
	"iter"

	"speedmatrix"
)

// Rows gives the rows of a run by the key of a cell: "decode-16k-x8", "prefill-16k",
// "drift-" and "repeat-n-" before the key for those measurements.
type Rows interface {
	HasCell(key string) bool
	Events(key string) iter.Seq2[speedmatrix.EventRow, error]
	Requests(key string) ([]speedmatrix.RequestRow, error)
	Server() ([]speedmatrix.ServerRow, error)
	Machine() ([]speedmatrix.MachineRow, error)
}

// Disagreement is a published value that the rows do not give, or a broken invariant.
type Disagreement struct {
	// Cell is the key of the cell's rows, "" for the run as a whole.
	Cell string
	// Field is the name in run.json, with its parts: "ttft_ms.p50"; for an invariant its name.
	Field string
	// Published is what the document says, Recomputed what the rows give; "null" is unknown.
	Published, Recomputed string
}

// Report is the outcome of a check.
type Report struct {
	// Cells were recomputed from their rows; Numbers values were compared in them.
	Cells, Numbers int
	Disagreements  []Disagreement
	// Unchecked lists the cells that publish numbers but have no rows: "key: reason".
	Unchecked []string
}
