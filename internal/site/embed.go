package site

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"unicode/utf8"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/chart"
)

// heatmap sends a run's small heat map with its names, to stand on other sites.
func (p *pages) heatmap(w http.ResponseWriter, r *http.Request) error {
	rec, err := p.whole(r, 0)
	if err != nil || fresh(w, r, p.tag(r, rec.Entry.ID, rec.Entry.Sequence, "heatmap")) {
		return err
	}
	return send(w, "image/svg+xml", heatFile(&rec.Entry))
}

// heatRules are the rules of a small heat map in a file of its own.
const heatRules = `.h0{fill:var(--u0);stroke:var(--rule2);stroke-width:.8}.h1{fill:var(--u1)}.h2{fill:var(--u2)}.h3{fill:var(--u3)}.h4{fill:var(--u4)}.h5{fill:var(--u5)}.h6{fill:var(--u6)}.h7{fill:var(--u7)}` +
	`.tq{stroke:var(--ink2);fill:none;stroke-dasharray:3 2}.td{stroke:var(--rule2);fill:none}.tm{stroke:var(--ink2);fill:none}.tr{stroke:var(--ink);fill:none;stroke-width:1.5}svg{background:var(--paper)}`

func heatFile(e *catalog.Entry) []byte {
	body, width, height := thumbBody(e, inReview, nil)
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="%d %d %d %d" role="img" aria-label="%s"><style>%s%s%s</style><title>%s</title>%s</svg>`+"\n",
		width+thumbLeft, height+thumbTop, -thumbLeft, -thumbTop, width+thumbLeft, height+thumbTop, template.HTMLEscapeString(thumbSays(e)),
		chart.Variables(), chart.Rules(), heatRules, template.HTMLEscapeString(clip(e.Title(), 200)+", total tok/s"), body)
}

// badge sends a line with the model, the hardware, one number and its cell: the usual load, or the cell that ?cell= names.
func (p *pages) badge(w http.ResponseWriter, r *http.Request) error {
	rec, err := p.whole(r, 0)
	if err != nil || fresh(w, r, p.tag(r, rec.Entry.ID, rec.Entry.Sequence, "badge")) {
		return err
	}
	cell := badgeCell(&rec.Entry)
	if key := r.URL.Query().Get("cell"); key != "" {
		cell = nil
		for i := range rec.Entry.Cells {
			if c := &rec.Entry.Cells[i]; speedmatrix.CellKey(speedmatrix.PhaseDecode, c.Label, c.Concurrency) == key {
				cell = c
			}
		}
		if cell == nil {
			return nothing("cell")
		}
	}
	return send(w, "image/svg+xml", badgeFile(badgeName(&rec.Entry), badgeNumber(cell)))
}

// badgeCell is the usual load where it was measured, else the cell with the greatest total.
func badgeCell(e *catalog.Entry) *catalog.Cell {
	if _, _, ok := totalAt(e, usualLoad); ok {
		return cellAt(e, usualLoad)
	}
	return bestCell(e)
}

func badgeName(e *catalog.Entry) string { return clip(e.Model, 44) + " on " + clip(e.Hardware, 30) }

// badgeNumber is a cell's number, or the word of its status.
func badgeNumber(c *catalog.Cell) string {
	switch {
	case c == nil:
		return "no speed"
	case c.Status.ShowsSpeed() && known(c.Total):
		return fmt.Sprintf("%s tok/s at %s × %d", whole(float64(c.Total)), clip(c.Label, 8), c.Concurrency)
	}
	return fmt.Sprintf("%s at %s × %d", cmp.Or(strings.ToLower(clip(string(c.Status), 24)), "no speed"), clip(c.Label, 8), c.Concurrency)
}

// badgeSays is a badge in words.
func badgeSays(e *catalog.Entry) string { return badgeName(e) + ": " + badgeNumber(badgeCell(e)) }

// badgeFile draws a badge 20 px high. The width of its text is set, so that every font fits.
func badgeFile(name, number string) []byte {
	left, right := badgeWidth(name), badgeWidth(number)
	say := template.HTMLEscapeString(name + ": " + number)
	text := func(x, w int, s string) string {
		return fmt.Sprintf(`<text x="%d" y="14" textLength="%d" lengthAdjust="spacingAndGlyphs">%s</text>`, x+8, w-16, template.HTMLEscapeString(s))
	}
	return fmt.Appendf(nil, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" viewBox="0 0 %d 20" role="img" aria-label="%s"><title>%s</title><clipPath id="c"><rect width="%d" height="20" rx="3"/></clipPath><g clip-path="url(#c)"><path fill="#14191E" d="M0 0h%dv20H0z"/><path fill="#0B6180" d="M%d 0h%dv20h-%dz"/></g><g fill="#FFFFFF" font-family="system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif" font-size="12">%s%s</g></svg>`+"\n",
		left+right, left+right, say, say, left+right, left, left, right, right, text(0, left, name), text(left, right, number))
}

// badgeWidth is the room of a text of 12 px and its margins.
func badgeWidth(s string) int { return 16 + int(6.4*float64(utf8.RuneCountInString(s))) }

// markdownSafe is text that cannot end a Markdown link.
func markdownSafe(s string) string {
	return strings.NewReplacer("[", "(", "]", ")", "\\", "/", "`", "'", "<", "(", ">", ")").Replace(s)
}
