package report

import (
	"bufio"
	"io"
	"strings"

	"speedmatrix"
)

// TerminalOptions says what the terminal can show.
type TerminalOptions struct {
	// Width in columns; 0 is 80, the least is 56. Wide tables fold into blocks of columns.
	Width int
	// Color allows escape sequences for colour; without it there are none at all.
	Color bool
}

// The widths of a terminal.
const (
	defaultWidth = 80
	leastWidth   = 56
)

// style is what a piece of text is for; it decides the colour only.
type style int

const (
	plain style = iota
	heading
	faint
	amber
	red
)

// escapes are the colours of the styles: SGR parameters.
var escapes = map[style]string{heading: "1;36", faint: "2", amber: "33", red: "31"}

// piece is text of one style.
type piece struct {
	text  string
	style style
}

// screen writes lines for a terminal. The first error stays until flush.
type screen struct {
	w     *bufio.Writer
	width int
	color bool
}

func newScreen(w io.Writer, o TerminalOptions) *screen {
	width := o.Width
	if width == 0 {
		width = defaultWidth
	}
	return &screen{w: bufio.NewWriter(w), width: max(width, leastWidth), color: o.Color}
}

func (s *screen) flush() error { return s.w.Flush() }

// line writes pieces and ends the line, without blanks at its end.
func (s *screen) line(pieces ...piece) {
	last := len(pieces) - 1
	for last >= 0 && strings.TrimRight(pieces[last].text, " ") == "" {
		last--
	}
	for i, p := range pieces[:last+1] {
		if i == last {
			p.text = strings.TrimRight(p.text, " ")
		}
		s.put(p)
	}
	s.w.WriteByte('\n')
}

// put writes a piece; blanks around the text stay outside of its colour.
func (s *screen) put(p piece) {
	text := strings.Trim(p.text, " ")
	escape := escapes[p.style]
	if !s.color || escape == "" || text == "" {
		s.w.WriteString(p.text)
		return
	}
	before, after, _ := strings.Cut(p.text, text)
	s.w.WriteString(before + "\x1b[" + escape + "m" + text + "\x1b[0m" + after)
}

// title writes a blank line and a section's heading.
func (s *screen) title(text, after string) {
	s.line()
	s.line(piece{text, heading}, piece{after, plain})
}

// entry writes a label and text that wraps beside it.
func (s *screen) entry(head piece, indent int, body piece) {
	for i, text := range wrap(body.text, s.width-indent) {
		if i == 0 {
			head.text = padRight(head.text, indent)
		} else {
			head = piece{text: strings.Repeat(" ", indent)}
		}
		s.line(head, piece{text, body.style})
	}
}

func statusStyle(status speedmatrix.Status) style {
	switch status {
	case speedmatrix.StatusValid:
		return plain
	case speedmatrix.StatusFailed:
		return red
	case speedmatrix.StatusOverCapacity, speedmatrix.StatusExceedsModelLength, speedmatrix.StatusSkipped:
		return faint
	}
	return amber
}

func padRight(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-displayWidth(s)))
}

func padLeft(s string, width int) string {
	return strings.Repeat(" ", max(0, width-displayWidth(s))) + s
}
