package capacity

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Answer is the capacity of a run under one demand.
type Answer struct {
	Run    *speedmatrix.Run
	Demand Demand
	Price  Price
	Rows   []Row
}

// New answers for a run.
func New(run *speedmatrix.Run, q Demand, p Price) *Answer {
	return &Answer{Run: run, Demand: q, Price: p, Rows: Rows(run, q)}
}

// Most is the row whose cell has the greatest total tok/s among those with a context above 0, else among all; nil
// where no cell keeps the demand.
func (a *Answer) Most() *Row {
	var best *Row
	better := func(r *Row) bool {
		if best == nil || (r.Context > 0) != (best.Context > 0) {
			return best == nil || r.Context > 0
		}
		x, y := r.At.TotalTokensPerSecond, best.At.TotalTokensPerSecond
		return x != nil && (y == nil || *x > *y)
	}
	for i := range a.Rows {
		if r := &a.Rows[i]; r.At != nil && better(r) {
			best = r
		}
	}
	return best
}

// Question is the demand as a heading.
func (a *Answer) Question() string {
	return fmt.Sprintf("Users at once with at least %s tok/s each and the first token within %s", plain(a.Demand.Floor), unit.Wait(a.Demand.LimitMillis))
}

// users writes the number of a row: "16", "≥ 128".
func (r *Row) users() string {
	if r.AtLeast && r.Users > 0 {
		return "≥ " + unit.Count(r.Users)
	}
	return unit.Count(r.Users)
}

// note says why there are no more users, and what each of them gets.
func (r *Row) note() string {
	parts := []string{r.Why}
	if r.At == nil && r.AtLeast {
		parts = []string{"no cell keeps it"}
	}
	if r.Limit != LimitNone && r.Limit != LimitUnknown {
		parts = append(parts, "limit: "+string(r.Limit))
	}
	if b := r.Between; b != nil {
		parts = append(parts, "by interpolation it ends near "+b.text())
	}
	return strings.Join(parts, "; ")
}

// text is the crossing with the range in which it may lie: "41 (38–45)".
func (b *Between) text() string {
	decimals := 0
	if b.Users < 10 {
		decimals = 1
	}
	return fmt.Sprintf("%s (%s–%s)", unit.Fixed(b.Users, decimals), unit.Fixed(b.Low, decimals), unit.Fixed(b.High, decimals))
}

// each is what every user gets at the row's cell.
func (r *Row) each() string {
	if r.At == nil {
		return unit.Dash
	}
	return unit.Maybe(r.At.PerRequestTokensPerSecond, unit.Rate)
}

func (r *Row) wait() string {
	if r.At == nil {
		return unit.Dash
	}
	return unit.Maybe(medianTTFT(r.At), unit.Wait)
}

// costs are sentences on what a token costs at each row's cell.
func (a *Answer) costs() []string {
	var list []string
	for i := range a.Rows {
		r := &a.Rows[i]
		if cost, ok := a.Price.At(r.At); ok {
			list = append(list, fmt.Sprintf("At %s × %s: %s", r.Label, unit.Count(r.Users), cost.Text(a.Price.Currency)))
		}
	}
	return list
}

// Text writes the answer for a terminal.
func (a *Answer) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintln(&b, a.Question())
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "\ncontext\tusers\ttok/s each\tTTFT\t\n")
	for i := range a.Rows {
		r := &a.Rows[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t\n", r.Label, r.users(), r.each(), r.wait())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	// The notes stand left-aligned behind their rows.
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i := range a.Rows {
		at := len(lines) - len(a.Rows) + i
		lines[at] = strings.TrimRight(lines[at], " ") + "   " + a.Rows[i].note()
	}
	if costs := a.costs(); len(costs) > 0 {
		lines = append(append(lines, ""), costs...)
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}

// Markdown writes the answer as a table.
func (a *Answer) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n\n| context | users | tok/s each | TTFT | why no more |\n|---:|---:|---:|---:|---|\n", a.Question())
	for i := range a.Rows {
		r := &a.Rows[i]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.Label, r.users(), r.each(), r.wait(), strings.ReplaceAll(r.note(), "|", `\|`))
	}
	for _, cost := range a.costs() {
		fmt.Fprintf(&b, "\n%s\n", cost)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Schema names the form of JSON.
const Schema = "speedmatrix.capacity/1"

// The form of JSON; an unknown number is null.
type (
	jsonAnswer struct {
		Schema string    `json:"schema"`
		Run    string    `json:"run"`
		Floor  float64   `json:"floor_tokens_per_second"`
		Limit  float64   `json:"ttft_limit_ms"`
		Rows   []jsonRow `json:"rows"`
	}
	jsonRow struct {
		Label   string       `json:"context_label"`
		Context int          `json:"context"`
		Users   int          `json:"users"`
		AtLeast bool         `json:"at_least"`
		Why     string       `json:"why"`
		Limit   Limit        `json:"limit"`
		Each    *float64     `json:"per_request_tokens_per_second"`
		Total   *float64     `json:"total_tokens_per_second"`
		TTFT    *float64     `json:"ttft_ms"`
		Between *jsonBetween `json:"interpolated"`
		Cost    *jsonCost    `json:"cost_per_million_output_tokens"`
	}
	jsonBetween struct {
		Users float64 `json:"users"`
		Low   float64 `json:"low"`
		High  float64 `json:"high"`
		By    string  `json:"by"`
	}
	jsonCost struct {
		Money          *float64 `json:"money"`
		Currency       string   `json:"currency,omitempty"`
		KilowattHours  *float64 `json:"kilowatt_hours"`
		JoulesPerToken *float64 `json:"joules_per_token"`
	}
)

// JSON writes the answer for programs.
func (a *Answer) JSON(w io.Writer) error {
	out := jsonAnswer{Schema: Schema, Run: a.Run.ID, Floor: a.Demand.Floor, Limit: a.Demand.LimitMillis, Rows: []jsonRow{}}
	for i := range a.Rows {
		r := &a.Rows[i]
		row := jsonRow{Label: r.Label, Context: r.Context, Users: r.Users, AtLeast: r.AtLeast, Why: r.Why, Limit: r.Limit}
		if r.At != nil {
			row.Each, row.Total, row.TTFT = r.At.PerRequestTokensPerSecond, r.At.TotalTokensPerSecond, medianTTFT(r.At)
		}
		if b := r.Between; b != nil {
			row.Between = &jsonBetween{Users: b.Users, Low: b.Low, High: b.High, By: b.By}
		}
		if cost, ok := a.Price.At(r.At); ok {
			row.Cost = &jsonCost{Money: above(cost.Money), KilowattHours: above(cost.KilowattHours), JoulesPerToken: above(cost.JoulesPerToken)}
			if row.Cost.Money != nil {
				row.Cost.Currency = a.Price.Currency
			}
		}
		out.Rows = append(out.Rows, row)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}

// above is a number above zero, else unknown.
func above(v float64) *float64 {
	if v <= 0 {
		return nil
	}
	return &v
}
