// Package capacity answers how many simultaneous users a server carries: from a run's document, the most requests
// at once that keep a demand at each context, what stops at the next larger number, and what a token costs there.
package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Demand is what each user is to get: at least Floor tok/s, and the first token within LimitMillis.
type Demand struct{ Floor, LimitMillis float64 }

// Text is the demand in short: "20 tok/s, 1 s".
func (q Demand) Text() string { return plain(q.Floor) + " tok/s, " + unit.Wait(q.LimitMillis) }

// Keeps says whether a cell shows a speed that keeps the demand: its per request tok/s and its median TTFT.
func (q Demand) Keeps(c *speedmatrix.Cell) bool {
	each, ttft := c.PerRequestTokensPerSecond, medianTTFT(c)
	return c.Status.ShowsSpeed() && each != nil && ttft != nil && *each >= q.Floor && *ttft <= q.LimitMillis
}

// Row is the answer at one context.
type Row struct {
	Context int
	Label   string
	// Users is the largest measured number of requests at once that keeps the demand; 0 is none. AtLeast
	// says that it is the largest that the run planned.
	Users   int
	AtLeast bool
	// Why says what stops at the next larger number, Limit what of the server it is.
	Why   string
	Limit Limit
	// At is the cell of Users, Next the next larger one; nil without one.
	At, Next *speedmatrix.Cell
	// Between is where the demand ends between At and Next by interpolation; nil where one of the two has no speed.
	Between *Between
}

// Rows gives the answer for each context of the run's decode cells, ascending. Users is never interpolated.
func Rows(run *speedmatrix.Run, q Demand) []Row {
	by := map[int][]*speedmatrix.Cell{}
	var contexts []int
	for i := range run.Cells {
		c := &run.Cells[i]
		if c.Phase != speedmatrix.PhaseDecode {
			continue
		}
		if _, there := by[c.Context]; !there {
			contexts = append(contexts, c.Context)
		}
		by[c.Context] = append(by[c.Context], c)
	}
	slices.Sort(contexts)
	rows := make([]Row, 0, len(contexts))
	for _, context := range contexts {
		cells := by[context]
		slices.SortFunc(cells, func(a, b *speedmatrix.Cell) int { return cmp.Compare(a.Concurrency, b.Concurrency) })
		row := Of(cells, q)
		row.Limit = limitOf(run, row, q)
		rows = append(rows, row)
	}
	return rows
}

// Of gives the answer for the decode cells of one context, ascending by concurrency, without its limit.
func Of(cells []*speedmatrix.Cell, q Demand) Row {
	best := -1
	for i, c := range cells {
		if q.Keeps(c) {
			best = i
		}
	}
	row := Row{Context: cells[0].Context, Label: cells[0].ContextLabel}
	if best >= 0 {
		row.At, row.Users = cells[best], cells[best].Concurrency
	}
	if best == len(cells)-1 {
		row.AtLeast, row.Why = true, "nothing larger was planned"
		return row
	}
	row.Next = cells[best+1]
	row.Why = requests(row.Next.Concurrency) + ": " + q.stops(row.Next)
	row.Between = between(row.At, row.Next, q)
	return row
}

// stops says in words why a cell does not keep the demand.
func (q Demand) stops(c *speedmatrix.Cell) string {
	each, ttft := c.PerRequestTokensPerSecond, medianTTFT(c)
	switch {
	case c.Status == "":
		return "not run"
	case !c.Status.ShowsSpeed() && !c.Attempted() && c.Status != speedmatrix.StatusLooped:
		return lower(string(c.Status)) + ", not run"
	case !c.Status.ShowsSpeed():
		return lower(string(c.Status))
	case each == nil || ttft == nil:
		return "no speed of single requests or no TTFT is known"
	case *each < q.Floor:
		return unit.Rate(*each) + " tok/s each"
	}
	return "TTFT " + unit.Wait(*ttft)
}

func medianTTFT(c *speedmatrix.Cell) *float64 {
	if c.TTFT == nil {
		return nil
	}
	return c.TTFT.P50
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%s requests", unit.Count(n))
}

func lower(s string) string { return strings.ToLower(s[:min(1, len(s))]) + s[min(1, len(s)):] }

func plain(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
