// Package trust says how far a run's numbers can be believed: a ladder of
// levels, each with the checks that it rests on, what each found, and what that
// costs. It works on the document, the raw rows and the entries of other runs,
// and shares no code with what produced the numbers. Nothing is called verified
// without saying by what.
package trust

import "speedmatrix/internal/catalog"

// Outcome is how a check ended.
type Outcome string

// The outcomes of a check.
const (
	Passed Outcome = "passed"
	// Found: the check found something; Detail says what, and what it costs.
	Found Outcome = "found"
	// Unknown: the check could not be made; Detail says why.
	Unknown Outcome = "unknown"
)

// Check is one line of the ladder.
type Check struct {
	Level catalog.Level `json:"level"`
	// Code names the check for programs: "identity-total".
	Code    string  `json:"code"`
	What    string  `json:"what"`
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail"`
	// Cells are the keys of the cells that it is about, where not all.
	Cells []string `json:"cells,omitempty"`
	// Bars says that what was found keeps the run from this level.
	Bars bool `json:"bars,omitempty"`
}

// Report is the outcome of all checks of one version of a run.
type Report struct {
	Level  catalog.Level `json:"level"`
	Checks []Check       `json:"checks"`
	// ToReach says what would bring the run to the next level, "" at the top.
	ToReach string `json:"to_reach"`
	// Doubts are cells whose status or number cannot be true as written: their keys, and why.
	Doubts []Doubt `json:"doubts,omitempty"`
	// Reproducers are the IDs of other uploaders' runs that agree within the intervals.
	Reproducers []string `json:"reproducers,omitempty"`
}

// Doubt is a cell that cannot be true as it is written.
type Doubt struct {
	Cell string `json:"cell"`
	Why  string `json:"why"`
}
