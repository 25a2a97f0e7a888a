package report

import (
	"fmt"
	"strings"
	"time"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// CellLine is a finished cell on one line: its name, its numbers if its status shows
// any, its status, and the reason if it is not Valid. The numbers of usual size stand
// below each other.
func CellLine(c *speedmatrix.Cell) string {
	m := newMeasurement(c)
	parts := []string{padRight(m.Name, 15)}
	if m.ShowsSpeed {
		parts = append(parts, speeds(m)...)
	}
	status := statusWord(m.Status)
	if m.Reason != "" && m.Status != speedmatrix.StatusValid {
		status += ": " + m.Reason
	}
	return strings.Join(append(parts, status), "  ")
}

// TimeLine says how long a run took of what it would have taken with prefill samples of their own and windows of the
// whole duration: "27.0 of 46.3 min: 42 % saved …"; "" for a run that does not know.
func TimeLine(run *speedmatrix.Run) string {
	taken, separate := run.Plan.TakenSeconds, run.Plan.SeparateSeconds
	if taken == nil || separate == nil || !(*taken > 0) || !(*separate > 0) {
		return ""
	}
	per, of := 60.0, "min"
	if max(*taken, *separate) < 120 {
		per, of = 1, "s"
	}
	saved := unit.Percent(1 - *taken / *separate) + " saved"
	if *taken > *separate {
		saved = unit.Percent(*taken / *separate - 1) + " more"
	}
	return fmt.Sprintf("%s of %s %s: %s over separate prefill samples and windows of %s", unit.Fixed(*taken/per, 1), unit.Fixed(*separate/per, 1), of, saved,
		unit.Duration(time.Duration(run.Method.DurationSeconds*float64(time.Second))))
}

func speeds(m *Measurement) []string {
	parts := []string{padLeft(m.Total, 5) + " tok/s"}
	if m.Cell.Phase == speedmatrix.PhaseDecode {
		parts = append(parts, padLeft(m.PerRequest, 4)+" each")
	}
	parts = append(parts, "TTFT "+padLeft(m.TTFT, 6))
	if m.TimeBetween != unit.Dash {
		parts = append(parts, padLeft(m.TimeBetween, 7)+"/token")
	}
	if n := len(m.Cell.PrefillSamples); n > 0 {
		parts = append(parts, plural(n, "sample"))
	}
	return parts
}
