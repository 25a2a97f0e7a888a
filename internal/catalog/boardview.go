package catalog

import "math"

// BoardRule is the rule of all boards in words.
const BoardRule = "same weights by hash, method standard/1, stock hardware, no speculative decoding, at least 3 repeats, recomputed; one row a machine, its best median; rows whose 95 % intervals meet share a rank"

// BoardView is a board as programs read it.
type BoardView struct {
	Model       Named          `json:"model"`
	Weights     string         `json:"weights" doc:"The hash of the files that are compared."`
	By          Sort           `json:"by" enum:"total,per-request,ttft,users,prefill"`
	Context     int            `json:"context"`
	Concurrency int            `json:"concurrency"`
	Floor       float64        `json:"floor_tokens_per_second"`
	Rule        string         `json:"rule" doc:"What is compared, and how it is ordered, in words."`
	Rows        []BoardRowView `json:"rows"`
	Apart       []ApartView    `json:"not_compared" doc:"The newest 50 that are not compared."`
}

// BoardRowView is a machine of a board.
type BoardRowView struct {
	Rank     *int     `json:"rank" doc:"Null where the run lacks the number."`
	Shared   bool     `json:"shared" doc:"Its interval meets that of the row above, so that both have one rank."`
	Hardware string   `json:"hardware"`
	Value    *float64 `json:"value"`
	Low      *float64 `json:"low_95" doc:"The lower end of the 95 % interval; null without one."`
	High     *float64 `json:"high_95"`
	Runs     int      `json:"runs" doc:"The machine's compared runs."`
	Run      View     `json:"run" doc:"The best of them."`
}

// ApartView is a run that is not compared with the others, and why.
type ApartView struct {
	Reason string `json:"reason"`
	Run    View   `json:"run"`
}

// View gives the board as programs read it; q is what was asked, base the site's address without a slash at its end.
func (b *Board) View(q BoardQuery, base string) BoardView {
	v := BoardView{Model: b.Model, Weights: b.Weights, By: q.By, Context: q.Context, Concurrency: q.Concurrency, Floor: q.Floor, Rule: BoardRule,
		Rows: make([]BoardRowView, 0, len(b.Rows)), Apart: ApartViews(b.Apart, base)}
	for _, row := range b.Rows {
		r := BoardRowView{Hardware: row.Entry.Hardware, Runs: row.Runs, Run: row.Entry.View(base), Shared: row.Shared}
		if row.Rank > 0 && !math.IsNaN(row.Value) {
			r.Rank, r.Value = new(row.Rank), new(row.Value)
			if row.High > row.Low {
				r.Low, r.High = new(row.Low), new(row.High)
			}
		}
		v.Rows = append(v.Rows, r)
	}
	return v
}

// ApartViews gives runs that stand apart as programs read them.
func ApartViews(list []Apart, base string) []ApartView {
	out := make([]ApartView, 0, len(list))
	for _, a := range list {
		out = append(out, ApartView{a.Reason, a.Entry.View(base)})
	}
	return out
}
