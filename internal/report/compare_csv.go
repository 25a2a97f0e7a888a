package report

import (
	"encoding/csv"
	"io"
	"strconv"

	"speedmatrix/internal/compare"
)

// ComparisonCSV writes one row for each number that both sides of a pair have, with the statuses; numbers are raw, and
// unknown is empty. Text that a spreadsheet would take for a formula begins with an apostrophe. It fails only if w does.
func ComparisonCSV(w io.Writer, d *Comparison) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"from", "to", "key", "phase", "context_label", "context", "concurrency", "from_status", "to_status",
		"metric", "from_value", "to_value", "n_from", "n_to", "change", "low_95", "high_95", "basis", "p", "p_adjusted", "judgement"}); err != nil {
		return err
	}
	for i := range d.Data.Pairs {
		if err := pairCSV(out, &d.Data.Pairs[i]); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func pairCSV(out *csv.Writer, p *compare.Pair) error {
	for k := range p.Cells {
		c := &p.Cells[k]
		for _, m := range compare.Metrics() {
			x, there := c.Differences[m]
			if !there {
				continue
			}
			if err := out.Write([]string{p.From, p.To, noFormula(Clean(c.Key)), noFormula(Clean(string(c.Phase))), noFormula(Clean(c.ContextLabel)),
				strconv.Itoa(c.Context), strconv.Itoa(c.Concurrency), noFormula(Clean(string(c.From.Status))), noFormula(Clean(string(c.To.Status))), string(m), raw(&x.From), raw(&x.To),
				strconv.Itoa(x.NFrom), strconv.Itoa(x.NTo), raw(&x.Change), raw(x.Low), raw(x.High), string(x.Basis), raw(x.P), raw(x.Adjusted), string(x.Judgement)}); err != nil {
				return err
			}
		}
	}
	return nil
}
