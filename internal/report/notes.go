package report

import (
	"slices"
	"strings"

	"speedmatrix"
)

// refusedBeforehand is the note on Over capacity where no such cell was attempted.
const refusedBeforehand = "not run because this many requests at this context would exceed the server's KV cache."

// notes explains the statuses that occur, those with numbers first.
func notes(d *Document) []Note {
	occurs := map[speedmatrix.Status]bool{}
	for _, m := range d.Measurements {
		occurs[m.Cell.Status] = true
	}
	order := speedmatrix.Statuses()
	slices.Reverse(order)
	slices.SortStableFunc(order, func(a, b speedmatrix.Status) int { return withoutSpeed(a) - withoutSpeed(b) })
	var list []Note
	for _, status := range order {
		text := status.Explanation()
		if !occurs[status] || text == "" {
			continue
		}
		if status == speedmatrix.StatusOverCapacity && !anyAttempted(d, status) {
			text = refusedBeforehand
		}
		list = append(list, Note{Status: status, Text: text})
	}
	return list
}

func withoutSpeed(s speedmatrix.Status) int {
	if s.ShowsSpeed() {
		return 0
	}
	return 1
}

func anyAttempted(d *Document, status speedmatrix.Status) bool {
	return slices.ContainsFunc(d.Measurements, func(m *Measurement) bool {
		return m.Cell.Status == status && m.Cell.Attempted()
	})
}

// ttftRows gives the rows by the kind of their decode cells' TTFT; at context 0 there is
// nothing to cache, so its row does not count.
func ttftRows(d *Document) map[speedmatrix.TTFTKind][]string {
	kinds := map[speedmatrix.TTFTKind][]string{}
	for _, row := range d.Matrix.Rows {
		for _, m := range row.Cells {
			if row.Context == 0 || !m.ShowsSpeed || m.Cell.TTFT == nil {
				continue
			}
			kind := ttftKind(d.Run, m.Cell)
			if list := kinds[kind]; len(list) == 0 || list[len(list)-1] != row.Label {
				kinds[kind] = append(list, row.Label)
			}
		}
	}
	return kinds
}

// ttftKind is a cell's kind; the method that warms each row makes an unknown one warm.
func ttftKind(run *speedmatrix.Run, c *speedmatrix.Cell) speedmatrix.TTFTKind {
	switch c.TTFTKind {
	case speedmatrix.TTFTCold, speedmatrix.TTFTWarm, speedmatrix.TTFTMixed:
		return c.TTFTKind
	}
	if run.Method.Name == speedmatrix.MethodCompat {
		return speedmatrix.TTFTWarm
	}
	return speedmatrix.TTFTUnknown
}

// ttftNote says how much of the prompt the decode cells' TTFT includes.
func ttftNote(d *Document) string {
	kinds := ttftRows(d)
	switch {
	case len(kinds) == 0:
		return ""
	case len(kinds) > 1:
		return mixedTTFT(kinds)
	case kinds[speedmatrix.TTFTWarm] != nil:
		return "TTFT is measured after the benchmark warms the server's prompt cache, so it mostly excludes prefill."
	case kinds[speedmatrix.TTFTCold] != nil:
		return "TTFT is cold: it includes reading the whole prompt, because the server kept none of it."
	case kinds[speedmatrix.TTFTMixed] != nil:
		return "TTFT is mixed: some of the requests had to read their whole prompt, some found it in the server's prompt cache."
	}
	return "Whether TTFT includes reading the prompt is not known: the server does not say, and the times do not tell."
}

func mixedTTFT(kinds map[speedmatrix.TTFTKind][]string) string {
	times := map[string]int{}
	for _, rows := range kinds {
		for _, row := range rows {
			times[row]++
		}
	}
	var parts []string
	for _, kind := range []speedmatrix.TTFTKind{
		speedmatrix.TTFTWarm, speedmatrix.TTFTMixed, speedmatrix.TTFTCold, speedmatrix.TTFTUnknown,
	} {
		var where []string
		for _, row := range kinds[kind] {
			if times[row] > 1 {
				row = "some cells of " + row
			}
			where = append(where, row)
		}
		if where != nil {
			parts = append(parts, string(kind)+" in "+strings.Join(where, ", "))
		}
	}
	return "TTFT is " + strings.Join(parts, "; ") + " (warm: the prompt came from the server's cache; cold: it had to be read; mixed: some of each)."
}
