package tui

import (
	"fmt"
	"math"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// The least screen that the view is drawn on.
const (
	LeastWidth  = 50
	LeastHeight = 16
)

// The widths of the matrix.
const (
	labelWidth = 7
	cellMost   = 9
	cellLeast  = 6
)

// lines around the matrix: title, three rules, head; the cell in progress, engine, machine; blank lines and keys.
const aroundMatrix = 13

// The tones of text; every screen is readable without them.
func faint(text string) string  { return lipgloss.NewStyle().Faint(true).Render(text) }
func strong(text string) string { return lipgloss.NewStyle().Bold(true).Render(text) }
func accent(text string) string {
	return lipgloss.NewStyle().Foreground(lipgloss.Color("6")).Bold(true).Render(text)
}
func amber(text string) string {
	return lipgloss.NewStyle().Foreground(lipgloss.Color("3")).Render(text)
}
func red(text string) string { return lipgloss.NewStyle().Foreground(lipgloss.Color("1")).Render(text) }

// heat is the background of a cell by its share of the greatest speed, from faint to full, with text that is
// readable on it.
var heat = []struct{ back, text string }{
	{"236", "252"}, {"23", "255"}, {"24", "255"}, {"30", "255"}, {"37", "16"}, {"79", "16"}, {"122", "16"},
}

// View draws the screen.
func (m Model) View() tea.View {
	v := tea.NewView(m.Text())
	v.AltScreen = true
	v.WindowTitle = "speedmatrix"
	return v
}

// Text is the screen as lines.
func (m Model) Text() string {
	if m.help {
		return m.fitted(m.helpLines())
	}
	lines := append([]string{m.title(), ""}, m.matrixLines()...)
	if p := m.prefillLine(); p != "" {
		lines = append(lines, p)
	}
	lines = append(lines, "")
	lines = append(lines, m.cellLines()...)
	if g := m.machineLine(); g != "" {
		lines = append(lines, g)
	}
	keys := m.keys()
	room := m.height - len(lines) - 2
	notices := m.noticeLines(room)
	lines = append(lines, m.finishedLines(room-len(notices))...)
	lines = append(lines, notices...)
	return m.fitted(append(lines, "", keys))
}

// fitted cuts the lines to the screen: what does not fit is left out at the bottom but for the last line, the keys.
func (m Model) fitted(lines []string) string {
	if len(lines) > m.height && m.height > 1 {
		lines = append(lines[:m.height-1:m.height-1], lines[len(lines)-1])
	}
	cut := lipgloss.NewStyle().MaxWidth(max(m.width, 1))
	for i := range lines {
		lines[i] = cut.Render(strings.TrimRight(" "+lines[i], " "))
	}
	return strings.Join(lines, "\n")
}

// title is what is measured on the left, and how far on the right.
func (m Model) title() string {
	right := ""
	if m.of > 0 {
		right = fmt.Sprintf("%d of %d · %s left", m.count, m.of, unit.Duration(m.expected()))
	}
	room := m.width - 2 - lipgloss.Width(right)
	left := m.plan.Title
	if w := lipgloss.Width(left); w >= room {
		left = string([]rune(left)[:max(0, min(len([]rune(left)), room-2))]) + "…"
	}
	return strong(left) + strings.Repeat(" ", max(room-lipgloss.Width(left), 1)) + faint(right)
}

// matrixLines is the matrix in a frame, or as much of it around the cell in progress as there is room for.
func (m Model) matrixLines() []string {
	columns := m.matrix.concurrency
	if len(columns) == 0 {
		return []string{faint("warming up …")}
	}
	room := m.width - labelWidth - 4
	columns = excerpt(columns, m.begin.Concurrency, max(room/(cellLeast+1), 1))
	width := min(max(room/len(columns)-1, cellLeast), cellMost)
	rows := excerpt(m.matrix.contexts, m.begin.Context, max(m.height-aroundMatrix-2, 1))

	rule := func(left, middle, right string) string {
		parts := []string{strings.Repeat("─", labelWidth)}
		for range columns {
			parts = append(parts, strings.Repeat("─", width))
		}
		return faint(left + strings.Join(parts, middle) + right)
	}
	bar := faint("│")
	var head strings.Builder
	head.WriteString(bar + faint(right("tok/s", labelWidth)) + bar)
	for _, c := range columns {
		head.WriteString(strong(right(unit.Count(c), width)) + bar)
	}
	lines := []string{rule("┌", "┬", "┐"), head.String(), rule("├", "┼", "┤")}
	most := m.matrix.most()
	for _, context := range rows {
		var line strings.Builder
		line.WriteString(bar + strong(right(m.matrix.labels[context], labelWidth)) + bar)
		for _, c := range columns {
			line.WriteString(m.cell(place{context, c}, width, most) + bar)
		}
		lines = append(lines, line.String())
	}
	return append(lines, rule("└", "┴", "┘"))
}

// right sets text to the right of a width, a blank behind it.
func right(text string, width int) string {
	return strings.Repeat(" ", max(width-1-lipgloss.Width(text), 0)) + text + " "
}

// cell draws one place of the matrix.
func (m Model) cell(p place, width int, most float64) string {
	c, there := m.matrix.decode[p]
	if b := m.begin; b.Label != "" && b.Phase == speedmatrix.PhaseDecode && b.Context == p.context && b.Concurrency == p.concurrency {
		text := "▶"
		if m.glance.TokensPerSecond > 0 {
			text = "▶ " + short(m.glance.TokensPerSecond)
		}
		return accent(right(text, width))
	}
	switch {
	case !there:
		return right("", width)
	case c.Status.ShowsSpeed() && c.TotalTokensPerSecond != nil:
		text := short(*c.TotalTokensPerSecond)
		if c.Status == speedmatrix.StatusRequestsQueued {
			text += "q"
		}
		tone := heat[min(int(*c.TotalTokensPerSecond/max(most, 1)*float64(len(heat))), len(heat)-1)]
		return lipgloss.NewStyle().Background(lipgloss.Color(tone.back)).Foreground(lipgloss.Color(tone.text)).Render(right(text, width))
	case c.Status == speedmatrix.StatusInterrupted:
		return faint(right("·", width))
	}
	word, tone := brief(&c)
	return tone(right(word, width))
}

// brief is a status in at most five letters.
func brief(c *speedmatrix.Cell) (string, func(string) string) {
	switch c.Status {
	case speedmatrix.StatusFailed:
		return "fail", red
	case speedmatrix.StatusClientLimited:
		return "limit", amber
	case speedmatrix.StatusLooped:
		return "loop", amber
	case speedmatrix.StatusNotReady:
		return "wait", amber
	case speedmatrix.StatusSkipped:
		return "skip", faint
	case speedmatrix.StatusOverCapacity:
		if c.Attempts > 0 {
			return "full", amber
		}
	}
	return "–", faint
}

// short writes tok/s for a narrow cell: "94.1", "432", "2,125", "10.8K".
func short(v float64) string {
	if math.Round(v*10)/10 >= 100 && v < 9_999.5 {
		return unit.Fixed(v, 0)
	}
	return unit.Short(v)
}

// prefillLine is the prefill speeds so far, the newest at the end.
func (m Model) prefillLine() string {
	var parts []string
	for i := range m.matrix.prefill {
		c := &m.matrix.prefill[i]
		if c.PromptTokensPerSecond != nil {
			parts = append(parts, c.ContextLabel+" "+unit.Short(*c.PromptTokensPerSecond))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return faint("prefill  ") + strings.Join(parts, faint(" · "))
}
