package report

import (
	"fmt"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Demand is what a user is to get: at least Floor tok/s, and the first token within LimitMillis.
type Demand struct{ Floor, LimitMillis float64 }

// Text is the demand in short: "20 tok/s, 1 s".
func (q Demand) Text() string {
	limit := unit.Fixed(q.LimitMillis, 0) + " ms"
	if q.LimitMillis >= 1000 {
		limit = plainNumber(q.LimitMillis/1000) + " s"
	}
	return plainNumber(q.Floor) + " tok/s, " + limit
}

// demands are those that a page offers without a script: comfortable, fast, patient.
var demands = []Demand{{20, 1000}, {50, 500}, {10, 3000}}

// Fit is how many users a row of the matrix serves under a demand.
type Fit struct {
	// Users is the largest number of requests at once that keeps the demand; 0 is none. AtLeast
	// says that it is the largest that the run planned.
	Users   int
	AtLeast bool
	// Why says what stops at the next larger number.
	Why string
}

// fit finds how many users of a row get what they demand. Only measured cells count; nothing
// between them is guessed.
func fit(row MatrixRow, q Demand) Fit {
	best := -1
	for i, m := range row.Cells {
		if keeps(m, q) {
			best = i
		}
	}
	f := Fit{}
	if best >= 0 {
		f.Users = row.Cells[best].Cell.Concurrency
	}
	if best == len(row.Cells)-1 {
		f.AtLeast, f.Why = true, "nothing larger was planned"
		return f
	}
	next := row.Cells[best+1]
	f.Why = plural(next.Cell.Concurrency, "request") + ": " + stops(next, q)
	return f
}

func keeps(m *Measurement, q Demand) bool {
	each, ttft := m.Cell.PerRequestTokensPerSecond, median(m.Cell.TTFT)
	return m.ShowsSpeed && each != nil && ttft != nil && *each >= q.Floor && *ttft <= q.LimitMillis
}

// stops says in words why a cell does not keep a demand.
func stops(m *Measurement, q Demand) string {
	each, ttft := m.Cell.PerRequestTokensPerSecond, median(m.Cell.TTFT)
	switch {
	case m.Status == "":
		return "not run"
	case !m.ShowsSpeed && !attempted(m.Cell) && m.Status != speedmatrix.StatusLooped:
		return fmt.Sprintf("%s, not run", lower(string(m.Status)))
	case !m.ShowsSpeed:
		return lower(string(m.Status))
	case each == nil || ttft == nil:
		return "no speed of single requests or no TTFT is known"
	case *each < q.Floor:
		return m.PerRequest + " tok/s each"
	}
	return "TTFT " + wait(*ttft)
}
