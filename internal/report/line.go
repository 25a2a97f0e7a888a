package report

import (
	"strings"

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
