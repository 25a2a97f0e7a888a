package chart

import (
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/gomedium"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// The size of a card in pixels, as link previews want it.
const (
	CardWidth  = 1200
	CardHeight = 630
)

// Figure is a headline number of a card.
type Figure struct{ Label, Value, Unit string }

// Card is a picture for link previews: a title, up to three numbers and a small heat map.
type Card struct {
	Eyebrow, Brand, Title, Subtitle string
	Figures                         []Figure
	Columns, Rows                   []string
	// Cells are row by row; of their texts only Text and State are drawn.
	Cells  [][]Cell
	Footer string
}

// A card shows at most this much of a large matrix.
const (
	cardRows    = 18
	cardColumns = 16
)

// The measures of a card.
const (
	cardMargin = 60
	cardLeft   = 404 // where the matrix begins
	cardRight  = CardWidth - cardMargin
	cardFoot   = 552 // the matrix ends here
	cardNames  = 64  // the column of row names
	cardGap    = 3
)

// PNG writes the card.
func (c Card) PNG(w io.Writer) error {
	p, err := newPainter()
	if err != nil {
		return err
	}
	p.words(c)
	p.figures(c.Figures)
	p.matrix(c)
	if p.err != nil {
		return p.err
	}
	return (&png.Encoder{CompressionLevel: png.DefaultCompression}).Encode(w, p.image)
}

// weight is one of the faces of the card's type.
type weight int

const (
	regular weight = iota
	medium
	bold
)

// painter draws on a card. The first error stays.
type painter struct {
	image *image.RGBA
	fonts [3]*opentype.Font
	faces map[faceKey]font.Face
	err   error
}

type faceKey struct {
	weight weight
	size   float64
}

func newPainter() (*painter, error) {
	p := &painter{image: image.NewRGBA(image.Rect(0, 0, CardWidth, CardHeight)), faces: map[faceKey]font.Face{}}
	draw.Draw(p.image, p.image.Bounds(), image.NewUniform(rgba(light.token("paper"))), image.Point{}, draw.Src)
	for i, data := range [][]byte{goregular.TTF, gomedium.TTF, gobold.TTF} {
		f, err := opentype.Parse(data)
		if err != nil {
			return nil, fmt.Errorf("read the card's type: %w", err)
		}
		p.fonts[i] = f
	}
	return p, nil
}

func (p *painter) face(k faceKey) font.Face {
	if f, ok := p.faces[k]; ok {
		return f
	}
	f, err := opentype.NewFace(p.fonts[k.weight], &opentype.FaceOptions{Size: k.size, DPI: 72, Hinting: font.HintingNone})
	if err != nil {
		p.err = cmp.Or(p.err, fmt.Errorf("make the card's type at %g px: %w", k.size, err))
		return nil
	}
	p.faces[k] = f
	return f
}

// lettering is how text on a card looks; right aligns its end to the place.
type lettering struct {
	weight weight
	size   float64
	colour string
	right  bool
}

// text draws a line of text and gives its width.
func (p *painter) text(at point, s string, l lettering) float64 {
	face := p.face(faceKey{l.weight, l.size})
	if face == nil {
		return 0
	}
	width := float64(font.MeasureString(face, s)) / 64
	if l.right {
		at.x -= width
	}
	d := font.Drawer{Dst: p.image, Src: image.NewUniform(rgba(l.colour)), Face: face,
		Dot: fixed.Point26_6{X: fixed.Int26_6(math.Round(at.x * 64)), Y: fixed.Int26_6(math.Round(at.y * 64))}}
	d.DrawString(s)
	return width
}

// fit shortens text to a width, with an ellipsis.
func (p *painter) fit(s string, l lettering, width float64) string {
	face := p.face(faceKey{l.weight, l.size})
	if face == nil || float64(font.MeasureString(face, s))/64 <= width {
		return s
	}
	runes := []rune(s)
	lo, hi := 0, len(runes)
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if float64(font.MeasureString(face, string(runes[:mid])+"…"))/64 <= width {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return string(runes[:lo]) + "…"
}

func (p *painter) words(c Card) {
	const full = CardWidth - 2*cardMargin
	p.text(point{cardMargin, 74}, c.Eyebrow, lettering{medium, 22, light.token("accent"), false})
	p.text(point{cardRight, 74}, c.Brand, lettering{regular, 22, light.token("ink3"), true})
	title := lettering{bold, 38, light.token("ink"), false}
	switch n := len([]rune(c.Title)); {
	case n <= 22:
		title.size = 54
	case n <= 32:
		title.size = 44
	}
	p.text(point{cardMargin, 138}, p.fit(c.Title, title, full), title)
	sub := lettering{regular, 26, light.token("ink2"), false}
	p.text(point{cardMargin, 186}, p.fit(c.Subtitle, sub, full), sub)
	foot := lettering{regular, 17, light.token("ink3"), true}
	p.text(point{cardRight, cardFoot + 32}, p.fit(c.Footer, foot, full), foot)
}

// figures stand below each other left of the matrix, the last at its foot.
func (p *painter) figures(list []Figure) {
	const left, width, tall = cardMargin, 290, 114
	list = list[:min(len(list), 3)]
	top := float64(cardFoot + 20 - tall*len(list))
	for i, f := range list {
		y := top + float64(i*tall)
		rule := light.token("rule2")
		if i == 0 {
			rule = light.token("ink")
		}
		p.fill(box{left, y, width, 1}, rule)
		label := lettering{regular, 19, light.token("ink2"), false}
		p.text(point{left, y + 32}, p.fit(f.Label, label, width), label)
		w := p.text(point{left, y + 82}, f.Value, lettering{medium, 46, light.token("ink"), false})
		p.text(point{left + w + 8, y + 82}, f.Unit, lettering{regular, 22, light.token("ink2"), false})
	}
}

func (p *painter) matrix(c Card) {
	rows, columns := min(len(c.Rows), cardRows), min(len(c.Columns), cardColumns)
	if rows == 0 || columns == 0 {
		return
	}
	tall := min(48, float64(300-rows*cardGap)/float64(rows))
	wide := (float64(cardRight-cardLeft-cardNames) - float64(columns*cardGap)) / float64(columns)
	size := min(20, tall*0.62, wide/3.9)
	top := float64(cardFoot) - float64(rows)*(tall+cardGap)
	head := lettering{regular, min(18, size), light.token("ink3"), true}
	inset := min(11, wide*0.14)
	for k := range columns {
		p.text(point{cardLeft + cardNames + float64(k)*(wide+cardGap) + wide - inset, top - 9}, c.Columns[k], head)
	}
	for i := range rows {
		y := top + float64(i)*(tall+cardGap)
		name := lettering{bold, min(19, size), light.token("ink"), false}
		p.text(point{cardLeft, y + tall/2 + name.size*0.36}, p.fit(c.Rows[i], name, cardNames-6), name)
		for k := range min(columns, len(c.Cells[i])) {
			p.cell(c.Cells[i][k], box{cardLeft + cardNames + float64(k)*(wide+cardGap), y, wide, tall}, size)
		}
	}
}

// cell draws one place of the matrix.
func (p *painter) cell(c Cell, r box, size float64) {
	inset := min(11, r.w*0.14)
	at := point{r.x + r.w - inset, r.y + r.h/2 + size*0.36}
	if !c.Heat {
		if c.Pattern != "" {
			p.pattern(r, c.Pattern)
		}
		if c.Pattern != "over" && c.State != "" {
			state := lettering{regular, min(15, size*0.75), light.token("ink2"), true}
			text := p.fit(c.State, state, r.w-8)
			w := float64(font.MeasureString(p.face(faceKey{state.weight, state.size}), text)) / 64
			p.fill(box{at.x - w - 3, r.y + r.h/2 - state.size*0.8, w + 6, state.size * 1.5}, light.token("paper"))
			p.text(point{at.x, r.y + r.h/2 + state.size*0.36}, text, state)
		}
		return
	}
	colour := light.up[c.Step]
	p.rounded(r, colour)
	text := lettering{medium, size, textOn(colour), true}
	p.text(at, c.Text, text)
	if c.State != "" {
		for x := r.x + 4; x+6 < r.x+r.w; x += 11 {
			p.fill(box{x, r.y + r.h - 5, 6, 2}, textOn(colour))
		}
	}
}

// fill paints a rectangle with sharp edges.
func (p *painter) fill(r box, colour string) {
	rect := image.Rect(int(math.Round(r.x)), int(math.Round(r.y)), int(math.Round(r.x+r.w)), int(math.Round(r.y+r.h)))
	draw.Draw(p.image, rect, image.NewUniform(rgba(colour)), image.Point{}, draw.Over)
}

// rounded paints a rectangle with corners of 3 px.
func (p *painter) rounded(r box, colour string) {
	const k = 3
	x, y := math.Floor(r.x), math.Floor(r.y)
	at := image.Rect(int(x), int(y), int(math.Ceil(r.x+r.w)), int(math.Ceil(r.y+r.h)))
	r.x, r.y = r.x-x, r.y-y
	z := vector.NewRasterizer(at.Dx(), at.Dy())
	f := func(v float64) float32 { return float32(v) }
	z.MoveTo(f(r.x+k), f(r.y))
	z.LineTo(f(r.x+r.w-k), f(r.y))
	z.QuadTo(f(r.x+r.w), f(r.y), f(r.x+r.w), f(r.y+k))
	z.LineTo(f(r.x+r.w), f(r.y+r.h-k))
	z.QuadTo(f(r.x+r.w), f(r.y+r.h), f(r.x+r.w-k), f(r.y+r.h))
	z.LineTo(f(r.x+k), f(r.y+r.h))
	z.QuadTo(f(r.x), f(r.y+r.h), f(r.x), f(r.y+r.h-k))
	z.LineTo(f(r.x), f(r.y+k))
	z.QuadTo(f(r.x), f(r.y), f(r.x+k), f(r.y))
	z.ClosePath()
	z.Draw(p.image, at, image.NewUniform(rgba(colour)), image.Point{})
}

// pattern paints the pattern of a state: how much ink each pixel gets follows from its
// distance to the nearest line.
func (p *painter) pattern(r box, name string) {
	ink := rgba(light.token("rule2"))
	for y := int(r.y); y < int(r.y+r.h); y++ {
		for x := int(r.x); x < int(r.x+r.w); x++ {
			share := inked(name, float64(x), float64(y))
			if share <= 0 {
				continue
			}
			old := p.image.RGBAAt(x, y)
			mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + (float64(b)-float64(a))*share)) }
			p.image.SetRGBA(x, y, color.RGBA{mix(old.R, ink.R), mix(old.G, ink.G), mix(old.B, ink.B), 255})
		}
	}
}

// inked is the share of ink, 0–1, that a pattern leaves on a pixel.
func inked(name string, x, y float64) float64 {
	line := func(v, period, half float64) float64 {
		d := math.Abs(math.Mod(v, period))
		return min(max(half+0.5-min(d, period-d), 0), 1)
	}
	const diagonal = 1 / math.Sqrt2
	switch name {
	case "over":
		return 0.8 * line((x+y)*diagonal, 8, 0.3)
	case "long":
		return line(x, 7, 0.3)
	case "wait":
		return line(y, 7, 0.3)
	case "client":
		return max(line(x, 8, 0.3), line(y, 8, 0.3))
	case "fail":
		return max(line((x+y)*diagonal, 9, 0.5), line((x-y+10_000)*diagonal, 9, 0.5))
	}
	d := math.Hypot(math.Mod(x, 8)-4, math.Mod(y, 8)-4)
	return min(max(1.7-d, 0), 1)
}

func rgba(colour string) color.RGBA {
	c := channels(colour)
	return color.RGBA{c[0], c[1], c[2], 255}
}
