package bench

import (
	"slices"

	"speedmatrix"
)

// codeLost is the warning of a cell that failed because the server was gone: a run that goes on measures it again.
const codeLost = "server gone"

// lose marks a failed cell as one that the server's end spoilt.
func lose(c *speedmatrix.Cell) {
	if c.Status == speedmatrix.StatusFailed && !lost(c) {
		c.Warnings = append(c.Warnings, speedmatrix.Warning{Code: codeLost,
			Message: "the server stopped answering; the cell is measured again when the run goes on"})
	}
}

// lose marks the row's failed cells, those included that wait for their second try.
func (s *Session) lose(r *rowState) {
	for _, i := range r.again {
		lose(s.cell(i))
	}
}

// lost says whether a cell failed because the server was gone.
func lost(c *speedmatrix.Cell) bool {
	return c.Status == speedmatrix.StatusFailed &&
		slices.ContainsFunc(c.Warnings, func(w speedmatrix.Warning) bool { return w.Code == codeLost })
}

// forgetLost keeps the requests that the server's end spoilt out of the samples of a prefill cell that is measured again.
func (s *Session) forgetLost(old *speedmatrix.Cell) {
	if old != nil && old.Phase == speedmatrix.PhasePrefill && lost(old) {
		s.row(old.Context).spoilt = true
	}
}
