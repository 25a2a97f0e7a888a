package report

import (
	"fmt"
	"slices"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// matrix lays the decode cells out by context and concurrency. A place that neither the
// plan nor the run names, in a run whose cells are no full rectangle, stays without a status.
func matrix(run *speedmatrix.Run, list []*Measurement) Matrix {
	at := map[place]*Measurement{}
	contexts, concurrency := slices.Clone(run.Plan.Contexts), slices.Clone(run.Plan.Concurrency)
	for _, m := range list {
		if m.Cell.Phase != speedmatrix.PhaseDecode {
			continue
		}
		contexts, concurrency = append(contexts, m.Cell.Context), append(concurrency, m.Cell.Concurrency)
		if p := placeOf(m.Cell); at[p] == nil {
			at[p] = m
		}
	}
	slices.Sort(contexts)
	slices.Sort(concurrency)
	mx := Matrix{Concurrency: slices.Compact(concurrency)}
	for _, context := range slices.Compact(contexts) {
		row := MatrixRow{Context: context, Label: unit.FormatTokens(context)}
		for _, c := range mx.Concurrency {
			m := at[place{speedmatrix.PhaseDecode, context, c}]
			if m == nil {
				m = newMeasurement(&speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, Context: context, Concurrency: c})
			} else {
				row.Label = m.Context
			}
			row.Cells = append(row.Cells, m)
		}
		setScaling(row)
		mx.Rows = append(mx.Rows, row)
	}
	return mx
}

// setScaling compares the cells of a row with its single request.
func setScaling(row MatrixRow) {
	single := slices.IndexFunc(row.Cells, func(m *Measurement) bool { return m.Cell.Concurrency == 1 })
	for _, m := range row.Cells {
		m.Efficiency = unit.Dash
		if single < 0 || !m.ShowsSpeed || !row.Cells[single].ShowsSpeed {
			continue
		}
		total, one := m.Cell.TotalTokensPerSecond, row.Cells[single].Cell.TotalTokensPerSecond
		if total == nil || one == nil || *one <= 0 || m.Cell.Concurrency <= 0 {
			continue
		}
		share := *total / (*one * float64(m.Cell.Concurrency))
		m.Scaling, m.Efficiency = &share, unit.Percent(share)
	}
}

func prefill(list []*Measurement) []PrefillRow {
	var rows []PrefillRow
	fastest := 0.0
	for _, m := range list {
		if m.Cell.Phase != speedmatrix.PhasePrefill {
			continue
		}
		row := PrefillRow{Measurement: m, Speed: unit.Dash}
		if v := m.Cell.PromptTokensPerSecond; m.ShowsSpeed && v != nil {
			row.Speed = number(v, unit.Short)
			fastest = max(fastest, *v)
		}
		rows = append(rows, row)
	}
	for i, row := range rows {
		if v := row.Cell.PromptTokensPerSecond; row.ShowsSpeed && v != nil && fastest > 0 {
			rows[i].Share = max(*v, 0) / fastest
		}
	}
	return rows
}

// highestTotal is the label of the largest number of the matrix.
const highestTotal = "Highest total"

// glance picks the numbers that a reader looks for first, as far as they were measured.
func glance(d *Document) []Figure {
	single := best(d, func(m *Measurement) float64 {
		if m.Cell.Concurrency != 1 {
			return -1
		}
		return *m.Cell.TotalTokensPerSecond
	})
	top := best(d, func(m *Measurement) float64 { return *m.Cell.TotalTokensPerSecond })
	far := best(d, func(m *Measurement) float64 { return float64(m.Cell.Context)*1e6 + float64(m.Cell.Concurrency) })
	var figures []Figure
	if single != nil {
		figures = append(figures, Figure{Label: "Fastest single stream", Value: single.Total, Unit: "tok/s", At: where(single), Where: where(single), Key: single.Key})
	}
	if top != nil {
		figures = append(figures, Figure{Label: highestTotal, Value: top.Total, Unit: "tok/s", At: where(top) + ", " + top.PerRequest + " each", Where: where(top), Key: top.Key})
		also := where(far) + ", " + far.Total + " tok/s"
		if !far.valid() {
			also += ", " + lower(string(far.Status))
		}
		figures = append(figures, Figure{Label: "Longest context that ran", Value: far.Context, Unit: "tokens", At: also, Where: where(far), Key: far.Key})
	}
	if row := glancePrefill(d.Prefill); row != nil {
		figures = append(figures, Figure{Label: "Prefill at " + row.Context, Value: row.Speed, Unit: "tok/s", At: "first token after " + row.TTFT, Key: row.Key})
	}
	return figures
}

// best is the measured decode cell with the largest score of at least 0, the first of equals.
func best(d *Document, score func(*Measurement) float64) *Measurement {
	var found *Measurement
	most := 0.0
	for _, m := range d.Measurements {
		if m.Cell.Phase != speedmatrix.PhaseDecode || !m.ShowsSpeed || m.Cell.TotalTokensPerSecond == nil {
			continue
		}
		if s := score(m); s >= most && (found == nil || s > most) {
			found, most = m, s
		}
	}
	return found
}

// glancePrefill is the 16K size, else the first one measured.
func glancePrefill(rows []PrefillRow) *PrefillRow {
	var first *PrefillRow
	for i := range rows {
		row := &rows[i]
		if row.Share == 0 {
			continue
		}
		if row.Cell.Context == 16<<10 {
			return row
		}
		if first == nil {
			first = row
		}
	}
	return first
}

func where(m *Measurement) string {
	return fmt.Sprintf("%s context, %s", m.Context, plural(m.Cell.Concurrency, "request"))
}
