package report

import "strings"

// grid is a table for the terminal. Cells may have several lines. If it is wider than the
// terminal, its columns fold into blocks below each other, each with the key columns.
type grid struct {
	// keys is how many of the first columns name a row.
	keys    int
	columns []gridColumn
	rows    []gridRow
	// loose puts a blank line between rows.
	loose bool
}

type gridColumn struct {
	head []string
	left bool
}

// gridRow is a cell for each column; a row with fewer cells has only the note beside them.
type gridRow struct {
	cells [][]piece
	// note stands from column noteFrom on: beside the last cell if there are fewer cells
	// than columns, else on lines of its own.
	note     piece
	noteFrom int
}

// The blanks between columns: wide, and narrow where that saves a fold.
const (
	wideGap   = 2
	narrowGap = 1
)

// A note with less room than leastNote beside its cells stands below them, indented.
const (
	leastNote  = 20
	noteIndent = 4
)

// write lays the table out and writes it.
func (g *grid) write(s *screen) {
	widths := g.widths()
	gap := wideGap
	if total(widths, wideGap) > s.width && total(widths, narrowGap) <= s.width {
		gap = narrowGap
	}
	for i, block := range g.fold(widths, gap, s.width) {
		if i > 0 {
			s.line()
		}
		g.writeBlock(s, gridBlock{columns: block, widths: widths, gap: gap, first: i == 0})
	}
}

// gridBlock is the columns that stand beside each other.
type gridBlock struct {
	columns []int
	widths  []int
	gap     int
	first   bool
}

func (g *grid) widths() []int {
	widths := make([]int, len(g.columns))
	for i, column := range g.columns {
		for _, line := range column.head {
			widths[i] = max(widths[i], displayWidth(line))
		}
	}
	for _, row := range g.rows {
		for i, cell := range row.cells {
			for _, line := range cell {
				widths[i] = max(widths[i], displayWidth(line.text))
			}
		}
	}
	return widths
}

func total(widths []int, gap int) int {
	n := 0
	for _, w := range widths {
		n += w + gap
	}
	return n - gap
}

// fold shares the columns out over as few blocks as fit, each about equally wide.
func (g *grid) fold(widths []int, gap, width int) [][]int {
	room := width - total(widths[:g.keys], gap) - gap
	blocks := g.pack(widths, gap, room)
	for narrower := room - 1; len(blocks) > 1 && narrower > 0; narrower-- {
		tried := g.pack(widths, gap, narrower)
		if len(tried) > len(blocks) {
			break
		}
		blocks = tried
	}
	return blocks
}

// pack fills blocks from the left; a block has at least one column beside the keys.
func (g *grid) pack(widths []int, gap, room int) [][]int {
	keys := make([]int, g.keys)
	for i := range keys {
		keys[i] = i
	}
	blocks := [][]int{append([]int(nil), keys...)}
	used := 0
	for i := g.keys; i < len(g.columns); i++ {
		if used > 0 && used+gap+widths[i] > room {
			blocks, used = append(blocks, append([]int(nil), keys...)), 0
		}
		if used > 0 {
			used += gap
		}
		used += widths[i]
		last := len(blocks) - 1
		blocks[last] = append(blocks[last], i)
	}
	return blocks
}

func (g *grid) writeBlock(s *screen, b gridBlock) {
	g.writeHead(s, b)
	for i, row := range g.rows {
		if len(row.cells) < len(g.columns) && !b.first {
			continue
		}
		if g.loose && i > 0 {
			s.line()
		}
		g.writeRow(s, b, row)
	}
}

func (g *grid) writeHead(s *screen, b gridBlock) {
	height := 0
	for _, i := range b.columns {
		height = max(height, len(g.columns[i].head))
	}
	for k := range height {
		var pieces []piece
		for n, i := range b.columns {
			head := g.columns[i].head
			text := ""
			if at := k - (height - len(head)); at >= 0 {
				text = head[at]
			}
			pieces = append(pieces, g.place(b, n, piece{text, faint}))
		}
		s.line(pieces...)
	}
}

// place pads one line of a cell to its column, with the gap before it.
func (g *grid) place(b gridBlock, n int, p piece) piece {
	i := b.columns[n]
	if g.columns[i].left {
		p.text = padRight(p.text, b.widths[i])
	} else {
		p.text = padLeft(p.text, b.widths[i])
	}
	if n > 0 {
		p.text = strings.Repeat(" ", b.gap) + p.text
	}
	return p
}

func (g *grid) writeRow(s *screen, b gridBlock, row gridRow) {
	height := 0
	for _, i := range b.columns {
		if i < len(row.cells) {
			height = max(height, len(row.cells[i]))
		}
	}
	at := b.offset(row.noteFrom)
	beside := len(row.cells) < len(g.columns)
	if s.width-at < leastNote {
		at, beside = noteIndent, false
	}
	var note []string
	if b.first && row.note.text != "" {
		note = wrap(row.note.text, s.width-at)
	}
	for k := range height {
		var pieces []piece
		for n, i := range b.columns {
			if i >= len(row.cells) {
				break
			}
			text := piece{}
			if k < len(row.cells[i]) {
				text = row.cells[i][k]
			}
			pieces = append(pieces, g.place(b, n, text))
		}
		if beside && len(note) > 0 {
			pieces = append(pieces, piece{strings.Repeat(" ", b.gap) + note[0], row.note.style})
			note = note[1:]
		}
		s.line(pieces...)
	}
	for _, line := range note {
		s.line(piece{text: strings.Repeat(" ", at)}, piece{line, row.note.style})
	}
}

// offset is where column i begins in the block.
func (b gridBlock) offset(i int) int {
	n := 0
	for k := range i {
		n += b.widths[k] + b.gap
	}
	return n
}
