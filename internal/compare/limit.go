package compare

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/stats"
	"speedmatrix/internal/unit"
)

// Limit is a change that is not accepted.
type Limit struct {
	// Text is the limit as it was written.
	Text   string
	Metric Metric
	// Below says that changes below Share are not accepted, else those above it.
	Below bool
	Share float64
	// Context and Concurrency say in which cells, nil in all.
	Context, Concurrency *int
}

// limitShape is METRIC < SHARE, with @CONTEXT and xCONCURRENCY behind it.
var limitShape = regexp.MustCompile(`^\s*([a-z-]+)\s*([<>])\s*([+\-−]?[0-9.]+)\s*(%?)\s*(?:@\s*([0-9.,]+[KkMm]?i?))?\s*(?:[x×]\s*([0-9]+))?\s*$`)

// ParseLimit reads a limit such as "total < -2%" or "ttft > 10% @16K x8". What cannot be read is an error that says
// why.
func ParseLimit(text string) (Limit, error) {
	const shape = "write it like 'total < -2%' or 'ttft > 10% @16K x8'"
	parts := limitShape.FindStringSubmatch(text)
	if parts == nil {
		return Limit{}, fmt.Errorf("%q is no limit; %s", text, shape)
	}
	l := Limit{Text: strings.TrimSpace(text), Metric: Metric(parts[1]), Below: parts[2] == "<"}
	if !slices.Contains(Metrics(), l.Metric) {
		var names []string
		for _, m := range Metrics() {
			names = append(names, string(m))
		}
		return Limit{}, fmt.Errorf("there is no number %q; the numbers are %s", parts[1], strings.Join(names, ", "))
	}
	share, err := strconv.ParseFloat(strings.ReplaceAll(parts[3], "−", "-"), 64)
	if err != nil {
		return Limit{}, fmt.Errorf("%q is no share; %s", parts[3], shape)
	}
	if l.Share = share; parts[4] == "%" {
		l.Share = share / 100
	}
	if l.Share <= -1 {
		return Limit{}, fmt.Errorf("%s: nothing can fall by as much as that", l.Text)
	}
	if parts[5] != "" {
		n, err := unit.ParseTokens(parts[5])
		if err != nil {
			return Limit{}, err
		}
		l.Context = &n
	}
	if parts[6] != "" {
		n, err := strconv.Atoi(parts[6])
		if err != nil {
			return Limit{}, fmt.Errorf("%q is no number of requests; %s", parts[6], shape)
		}
		l.Concurrency = &n
	}
	return l, nil
}

// Breach is a limit and a cell that breaks it.
type Breach struct {
	Limit Limit
	// Sentence says which cell and by how much.
	Sentence string
}

// Check tests every pair against the limits. A cell breaks a limit if its change is beyond it by more than the noise:
// with an interval if all of that is beyond, corrected by Hochberg over the cells that the limit is about; without one if
// the change itself is. A cell that was measured on both sides and shows no speed on the second any more breaks every
// limit of its metric. A limit about which no cell has numbers is an error of kind KindUsage.
func (c *Comparison) Check(limits []Limit) ([]Breach, error) {
	var breaches []Breach
	for _, l := range limits {
		for i := range c.Pairs {
			found, tried := l.check(&c.Pairs[i])
			if !tried {
				return nil, &speedmatrix.Error{Kind: speedmatrix.KindUsage,
					What: fmt.Sprintf("--fail-if %q cannot be decided: no cell that it is about has %s in both %s and %s", l.Text, lowerFirst(l.Metric.Name()), c.Pairs[i].From, c.Pairs[i].To),
					Next: "Choose a context and a number of requests that both were measured at."}
			}
			breaches = append(breaches, found...)
		}
	}
	return breaches, nil
}

// check tests one pair; tried is false where no cell has anything to test.
func (l Limit) check(p *Pair) (breaches []Breach, tried bool) {
	var tested []*Cell
	for i := range p.Cells {
		cell := &p.Cells[i]
		switch {
		case !l.about(cell):
		case cell.Differences[l.Metric] != nil:
			tested = append(tested, cell)
		case lost(cell):
			tried = true
			breaches = append(breaches, Breach{l, fmt.Sprintf("%s: %s shows no speed in %s any more: %s", l.Text, cellName(cell), p.To, cell.To.Status)})
		}
	}
	bound := math.Log1p(l.Share)
	probabilities := make([]float64, len(tested))
	for i, cell := range tested {
		probabilities[i] = math.NaN()
		if d := cell.Differences[l.Metric]; d.known {
			probabilities[i] = d.estimate.P(bound)
		}
	}
	adjusted := stats.Hochberg(probabilities)
	for i, cell := range tested {
		d := cell.Differences[l.Metric]
		beyond := d.estimate.Value > bound
		if l.Below {
			beyond = d.estimate.Value < bound
		}
		if beyond && (!d.known || adjusted[i] < Level) {
			breaches = append(breaches, Breach{l, l.sentence(cell, d)})
		}
	}
	return breaches, tried || len(tested) > 0
}

func (l Limit) about(c *Cell) bool {
	return c.Phase == l.Metric.phase() && (l.Context == nil || *l.Context == c.Context) && (l.Concurrency == nil || *l.Concurrency == c.Concurrency)
}

// lost says whether a cell had a speed and has none after it was tried.
func lost(c *Cell) bool {
	untried := []speedmatrix.Status{"", speedmatrix.StatusSkipped, speedmatrix.StatusInterrupted}
	return c.From.Shown > 0 && c.To.Shown == 0 && !slices.Contains(untried, c.To.Status)
}

func (l Limit) sentence(c *Cell, d *Difference) string {
	text := fmt.Sprintf("%s: %s is %s", l.Text, cellName(c), unit.Change(d.Change))
	switch {
	case d.Low == nil:
		return text + ", measured once each and without an interval"
	case !d.Basis.Tested():
		return text + fmt.Sprintf(" (%s to %s by the noise inside the windows; measured once each)", unit.ChangeFine(*d.Low), unit.ChangeFine(*d.High))
	}
	return text + fmt.Sprintf(" (%s to %s)", unit.ChangeFine(*d.Low), unit.ChangeFine(*d.High))
}

// lowerFirst begins a metric's name inside a sentence: "total tok/s", but "TTFT".
func lowerFirst(name string) string {
	if len(name) > 1 && strings.ToUpper(name[:2]) == name[:2] {
		return name
	}
	return strings.ToLower(name[:1]) + name[1:]
}
