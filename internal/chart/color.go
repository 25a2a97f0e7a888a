package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Steps is the number of colours of a heat scale.
const Steps = 8

// Direction says what more of a number means.
type Direction int

// The directions of a heat scale: hue tells them apart, lightness alone orders the steps.
const (
	MoreIsBetter Direction = iota
	MoreIsWorse
	// Diverging is a difference: its steps are those of DifferenceStep.
	Diverging
)

// palette is the colours of one scheme.
type palette struct {
	up, down   []string
	difference []string
	contexts   []string
	tokens     [][2]string
}

var light = palette{
	up:         strings.Fields("#EAF8F6 #B9E2E3 #8CCBD2 #64B1C2 #4497B1 #2D7C9C #206184 #1B4769"),
	down:       strings.Fields("#FBF5E8 #EDD8B4 #DFBA86 #CF9B5F #BC7E41 #A6632B #8C4A1F #6E351A"),
	difference: strings.Fields("#9C5313 #D9884D #F7BC95 #FEE2CF #EEF0F2 #D3ECFE #97D3FD #49A8E4 #0970A5"),
	contexts:   strings.Fields("#153470 #045D74 #048378 #3A9371"),
	tokens: [][2]string{
		{"paper", "#FFFFFF"}, {"wash", "#F5F7F8"}, {"ink", "#14191E"}, {"ink2", "#454E57"}, {"ink3", "#626C76"},
		{"rule", "#E2E6E9"}, {"rule2", "#C3C9CF"}, {"accent", "#0B6180"}, {"warn", "#8A4B0F"}, {"dn", "#A6632B"},
		{"hatch", "#E4E7EA"}, {"floor", "#F3F5F6"}, {"track", "#E8ECEE"}, {"la", "#0B6180"}, {"lb", "#B4571B"},
	},
}

var dark = palette{
	up:         strings.Fields("#192A34 #194354 #175E71 #1C7A8B #3097A1 #50B4B6 #76CFC9 #A1EADD"),
	down:       strings.Fields("#332419 #55361A #764A1C #936223 #AF7D34 #C79A4E #DEB971 #F2D89A"),
	difference: strings.Fields("#EFA464 #B26E30 #6C411A #422E1E #22292F #1D3644 #135372 #258ABB #61C3F9"),
	contexts:   strings.Fields("#B7F2ED #7CCBE4 #659DD6 #6584C9"),
	tokens: [][2]string{
		{"paper", "#0F1317"}, {"wash", "#161B20"}, {"ink", "#E9EDF0"}, {"ink2", "#B6BFC7"}, {"ink3", "#909AA4"},
		{"rule", "#252C33"}, {"rule2", "#414A53"}, {"accent", "#76C4DA"}, {"warn", "#E5B06A"}, {"dn", "#C79A4E"},
		{"hatch", "#1F262C"}, {"floor", "#161B20"}, {"track", "#242B32"}, {"la", "#6CC9D6"}, {"lb", "#E9A063"},
	},
}

// Text on a heat step is one of these, whichever contrasts more.
const (
	darkText  = "#10151A"
	lightText = "#FFFFFF"
)

// lineColours is how many colours of context lines there are as variables.
const lineColours = 8

// Variables gives the colours as CSS: the light scheme, and the dark one for screens
// that ask for it. --u0 … --u7 and --d0 … --d7 are the heat steps upward and downward,
// --v0 … --v8 those of a difference, with --uf0 … the text on them; --x0 … --x7 are the lines.
func Variables() string {
	return ":root{color-scheme:light dark;" + light.variables() + "}" +
		"@media screen and (prefers-color-scheme:dark){:root{" + dark.variables() + "}}"
}

func (p palette) variables() string {
	var b strings.Builder
	for _, token := range p.tokens {
		fmt.Fprintf(&b, "--%s:%s;", token[0], token[1])
	}
	for _, scale := range []struct {
		name    string
		colours []string
	}{{"u", p.up}, {"d", p.down}, {"v", p.difference}} {
		for i, colour := range scale.colours {
			fmt.Fprintf(&b, "--%s%d:%s;--%sf%d:%s;", scale.name, i, colour, scale.name, i, textOn(colour))
		}
	}
	for i := range lineColours {
		fmt.Fprintf(&b, "--x%d:%s;", i, between(p.contexts, float64(i)/(lineColours-1)))
	}
	return b.String()
}

// token is the light value of a colour's name.
func (p palette) token(name string) string {
	for _, token := range p.tokens {
		if token[0] == name {
			return token[1]
		}
	}
	return ""
}

// lineColour is the colour of line i of n, light to dark or dark to light by order.
func lineColour(i, n int) string {
	return "var(--x" + strconv.Itoa(int(math.Round(float64(i)*(lineColours-1)/float64(max(1, n-1))))) + ")"
}

// Step is the heat step of a value between the run's least and greatest: equal ratios,
// or equal differences where linear.
func Step(v, lo, hi float64, linear bool) int {
	if hi <= lo || !linear && (lo <= 0 || v <= 0) {
		return Steps / 2
	}
	t := (v - lo) / (hi - lo)
	if !linear {
		t = math.Log(v/lo) / math.Log(hi/lo)
	}
	return min(max(int(t*Steps), 0), Steps-1)
}

// textOn is the colour of text on a background.
func textOn(background string) string {
	if contrast(darkText, background) >= contrast(lightText, background) {
		return darkText
	}
	return lightText
}

// contrast is the ratio of WCAG 2: 1 … 21.
func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(colour string) float64 {
	weights := [3]float64{0.2126, 0.7152, 0.0722}
	sum := 0.0
	for i, c := range channels(colour) {
		v := float64(c) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weights[i] * v
	}
	return sum
}

// channels are red, green and blue of "#RRGGBB".
func channels(colour string) [3]uint8 {
	n, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 32)
	if err != nil {
		return [3]uint8{}
	}
	return [3]uint8{uint8(n >> 16), uint8(n >> 8), uint8(n)}
}

// between is the colour at share t of the way along stops.
func between(stops []string, t float64) string {
	at := t * float64(len(stops)-1)
	i := min(int(at), len(stops)-2)
	a, b := channels(stops[i]), channels(stops[i+1])
	var mixed [3]int
	for k := range mixed {
		mixed[k] = int(math.Round(float64(a[k]) + (float64(b[k])-float64(a[k]))*(at-float64(i))))
	}
	return fmt.Sprintf("#%02X%02X%02X", mixed[0], mixed[1], mixed[2])
}

// Rules is the style sheet of drawings.
func Rules() string { return strings.Join(rules, "") }

var rules = []string{
	"svg text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;fill:var(--ink2);font-variant-numeric:tabular-nums}",
	"svg .hal{paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}",
	"svg .b{font-weight:640;fill:var(--ink)}svg .m{fill:var(--ink3)}svg .w{fill:var(--ink2);font-size:11px}",
	"svg .v{font-size:17px;font-weight:560}svg .t{font-size:20px;font-weight:640;fill:var(--ink)}",
	"svg .g{stroke:var(--rule);stroke-width:1;fill:none;shape-rendering:crispEdges}",
	"svg .ax{stroke:var(--rule2);stroke-width:1;fill:none;shape-rendering:crispEdges}",
	"svg .fl{fill:var(--floor)}svg .ac{fill:var(--accent)}svg .band{fill:var(--track)}",
	"svg .fll{stroke:var(--ink3);stroke-width:1;stroke-dasharray:3 3;fill:none}",
	"svg .ln{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}",
}

// StepRatio is how many times the values of a heat step are those of the one before it.
func StepRatio(lo, hi float64) float64 { return math.Pow(hi/lo, 1.0/Steps) }
