package catalog

import "time"

// Sort is what a list is ordered by.
type Sort string

// The orders of a list. Those by speed put the fastest first, runs without the number last.
const (
	ByTotal      Sort = "total"       // Query.Context × Query.Concurrency, total tok/s
	ByPerRequest Sort = "per-request" // the same cell, per request tok/s
	ByTTFT       Sort = "ttft"        // the same cell, least first
	ByUsers      Sort = "users"       // most requests at once that each keep Query.Floor at Query.Context
	ByPrefill    Sort = "prefill"     // prompt tok/s at Query.Context
	ByNewest     Sort = "newest"
)

// Query is a question for a list of runs. All of it stands in an address; the zero value is all comparable runs, newest
// first.
type Query struct {
	// Text is what was typed: words that the model, hardware, engine or uploader must contain; one that begins
	// with a dash, the launch command's flags.
	Text                                   string
	Model, Hardware, Engine, EngineVersion string // keys
	Quantization, Method, Owner, Source    string
	// Weights is the hash of the files.
	Weights       string
	Level         Level // at least
	After, Before time.Time
	// Context and Concurrency restrict to runs with a speed in that cell where HasCell says so; else they are only what Sort
	// refers to.
	Context, Concurrency int
	HasCell              bool
	// Floor is per request tok/s for ByUsers; 0 is 20.
	Floor float64
	// Modified: "" both, "stock" or "modified".
	Modified string
	// All lifts the rule of comparability: runs of every method, modified hardware, speculative decoding and trust below
	// Recomputed stand among the others.
	All  bool
	Sort Sort
	// Limit is the greatest number of entries, 0 is 50; Cursor is Next or Previous of another page, "" for the first.
	Limit  int
	Cursor string
}

// Facet is one value of a property with the number of runs that have it under the rest of a query.
type Facet struct {
	Key, Name string
	N         int
}

// Page is the answer to a Query.
type Page struct {
	Entries []*Entry
	// Total is how many comparable runs match; Apart are those of this page that are not comparable, each with its reason.
	Total int
	Apart []Apart
	// ApartTotal counts those by reason.
	ApartTotal []Facet
	// Next is the cursor of the next page, "" at the end; Previous that of the page before, "" at the beginning.
	Next, Previous string
}

// Apart is a run that a list keeps below its line, and why.
type Apart struct {
	Entry  *Entry
	Reason string
}
