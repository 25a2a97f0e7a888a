package report

import (
	"fmt"
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/compare"
	"speedmatrix/internal/unit"
)

// Comparison is runs against each other as they are read: its words and numbers in their order.
type Comparison struct {
	// Data is the comparison itself. Its text is not cleaned.
	Data  *compare.Comparison
	Title string
	Sides []ComparedSide
	// Different are the settings that differ, Equal those that do not.
	Different, Equal []ComparedSetting
	Pairs            []ComparedPair
	// Notes say what the comparison knows of the noise, and what it cannot know.
	Notes []string
}

// ComparedSide is one side in words.
type ComparedSide struct {
	// Name is "A"; Title "MODEL on HARDWARE"; Subtitle the engine, its version and the quantization.
	Name, Title, Subtitle string
	// Origin is "Measured" or the like; About says how often and by what.
	Origin, About string
	// Notes are what its own measurements say about it: drift, outliers.
	Notes []string
}

// ComparedSetting is a setting in words, a value for each side.
type ComparedSetting struct {
	Label string
	// Code marks an option of the launch command.
	Code   bool
	Values []string
	// Allowed marks one that makes numbers incomparable.
	Allowed bool
}

// ComparedPair is a side against the first.
type ComparedPair struct {
	Data     *compare.Pair
	From, To string
	// Counts is "of 12 cells that ran in both, B is slower in 11, …".
	Counts   string
	Verdicts []string
	// Changed lists the cells whose status differs.
	Changed     []string
	Concurrency []int
	Rows        []ComparedRow
	// Cells are all of them: prefill, then decode.
	Cells []*ComparedCell
}

// ComparedRow is one context: a cell for each concurrency, never nil.
type ComparedRow struct {
	Label string
	Cells []*ComparedCell
}

// ComparedCell is a cell in words.
type ComparedCell struct {
	Data *compare.Cell
	Name string
	// Numbers are the metrics that both sides have.
	Numbers map[compare.Metric]ComparedNumber
	// State is "only in A" or "neither" where not both have a speed, and Why the other's status.
	State, Why string
	// Words name statuses beside a speed: "B: Requests queued".
	Words string
}

// ComparedNumber is a difference in words.
type ComparedNumber struct {
	// Change is "+4.1 %", "same" or "× 3.1"; Exact the change whatever it is worth: "+0.3 %".
	Change, Exact string
	// Both is "117 → 122"; Interval "+3.2 to +5.0 %", "" without one.
	Both, Interval string
	// Step is its colour on the scale of differences.
	Step int
	// Significant marks a difference that stands after Hochberg's correction.
	Significant bool
}

// BuildComparison words a comparison. It reads the comparison only.
func BuildComparison(c *compare.Comparison) *Comparison {
	d := &Comparison{Data: c}
	for i := range c.Sides {
		d.Sides = append(d.Sides, newComparedSide(&c.Sides[i]))
	}
	d.Title = comparisonTitle(d.Sides)
	for i := range c.Settings {
		s := newComparedSetting(&c.Settings[i])
		if s.Label == "" {
			continue
		}
		if c.Settings[i].Differs {
			d.Different = append(d.Different, s)
		} else {
			d.Equal = append(d.Equal, s)
		}
	}
	for i := range c.Pairs {
		d.Pairs = append(d.Pairs, newComparedPair(c, &c.Pairs[i]))
	}
	d.Notes = comparisonNotes(c)
	return d
}

// comparisonTitle names what is compared: models where they differ, else what they share.
func comparisonTitle(sides []ComparedSide) string {
	var names []string
	for _, s := range sides {
		name, _, _ := strings.Cut(s.Title, " on ")
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		var letters []string
		for _, s := range sides {
			letters = append(letters, s.Name)
		}
		return names[0] + ": " + strings.Join(letters, " against ")
	}
	return strings.Join(names, " against ")
}

func newComparedSide(s *compare.Side) ComparedSide {
	run := s.Runs[0]
	d := Build(run)
	side := ComparedSide{Name: s.Name, Title: d.Title, Subtitle: d.Subtitle, Origin: d.Origin}
	about := []string{"by " + tool(run.Tool)}
	if run.Origin == speedmatrix.OriginImported {
		about = []string{"from " + tool(run.Tool)}
	}
	if len(s.Runs) > 1 {
		about = append(about, plural(len(s.Runs), "run"))
	}
	about = append(about, "measured "+times(s.Measurements))
	if len(s.Runs) == 1 {
		about = append(about, clip(Clean(run.ID), 80))
	}
	side.About = strings.Join(about, " · ")
	if s.Noise != nil {
		side.Notes = append(side.Notes, "from one measurement to the next total tok/s varies by "+unit.PercentFine(*s.Noise))
	}
	if t := s.Trend; t != nil {
		side.Notes = append(side.Notes, fmt.Sprintf("drift: total tok/s changes by %s from one measurement to the next (%s to %s)", unit.ChangeFine(t.Change), unit.ChangeFine(t.Low), unit.ChangeFine(t.High)))
	}
	if s.Drift != nil && run.Drift.Significant {
		side.Notes = append(side.Notes, "drift: the first cell had changed by "+unit.Change(*s.Drift)+" at the end of the run")
	}
	for _, o := range s.Outliers {
		side.Notes = append(side.Notes, fmt.Sprintf("outlier, kept: %s of %s, measurement %d, %s tok/s where the median is %s", Clean(o.Cell), clip(Clean(o.Run), 80), o.Repeat, unit.Rate(o.Value), unit.Rate(o.Median)))
	}
	return side
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return unit.Count(n) + " times"
}

// comparisonNotes say how much is known of noise.
func comparisonNotes(c *compare.Comparison) (notes []string) {
	for _, other := range c.Sides[1:] {
		if slices.Equal(other.IDs, c.Sides[0].IDs) {
			notes = append(notes, fmt.Sprintf("%s and %s are the same: nothing can differ.", c.Sides[0].Name, other.Name))
		}
	}
	bases := basesOf(c)
	for _, b := range bases {
		if text := basisNotes[b]; text != "" {
			notes = append(notes, text)
		}
		if b == compare.BasisStated {
			notes = append(notes, "Measured once each; that two runs of the same server differ by "+unit.PercentFine(*c.StatedNoise)+" (standard deviation) was stated, not measured.")
		}
	}
	oneRun := func(s compare.Side) bool { return len(s.Runs) == 1 && s.Measurements > 1 }
	if slices.Contains(bases, compare.BasisRepeats) && slices.ContainsFunc(c.Sides, oneRun) {
		notes = append(notes, "The repeats of a single run are measurements of one server process: what a restart changes is not in the intervals.")
	}
	if slices.ContainsFunc(bases, compare.Basis.Tested) {
		notes = append(notes, "Intervals are 95 % for each cell by itself. Differences count as found after Hochberg's correction over all cells of a number, so that one false finding in 20 comparisons is the most to expect.")
	}
	return notes
}

// basisNotes are what a comparison knows and does not know by the basis of its intervals.
var basisNotes = map[compare.Basis]string{
	compare.BasisNone:    "One run each, without intervals: nothing is known of the noise, so no difference is tested: a question mark says so. A change of more than 2 % is shown as one.",
	compare.BasisWindows: "One run each: the intervals know the noise inside the windows, not what two runs of the same server differ by, so no difference is tested: a question mark says so. Repeats tell that noise (run --repeat 5), or state it with --run-noise 0.5%.",
	compare.BasisOneSide: "A side that was measured once is taken to be as noisy as the other.",
	compare.BasisPairs:   "Measured in alternation and compared round by round, so that a slow drift of the machine cancels. What a restart of a server changes is not in the intervals.",
}

// basesOf are the bases of the verdicts on total tok/s.
func basesOf(c *compare.Comparison) (bases []compare.Basis) {
	for i := range c.Pairs {
		for _, v := range c.Pairs[i].Verdicts {
			if v.Metric == compare.Total && !slices.Contains(bases, v.Overall.Basis) {
				bases = append(bases, v.Overall.Basis)
			}
		}
	}
	return bases
}

// newComparedPair words a pair.
func newComparedPair(c *compare.Comparison, p *compare.Pair) ComparedPair {
	d := ComparedPair{Data: p, From: p.From, To: p.To}
	for _, v := range p.Verdicts {
		d.Verdicts = append(d.Verdicts, v.Sentence)
	}
	byPlace := map[place]*ComparedCell{}
	var contexts []int
	labels := map[int]string{}
	for i := range p.Cells {
		cell := newComparedCell(p, &p.Cells[i])
		d.Cells = append(d.Cells, cell)
		x := cell.Data
		if x.Phase == speedmatrix.PhaseDecode {
			byPlace[place{x.Phase, x.Context, x.Concurrency}] = cell
			contexts, d.Concurrency = append(contexts, x.Context), append(d.Concurrency, x.Concurrency)
			labels[x.Context] = clip(Clean(x.ContextLabel), 12)
		}
	}
	slices.Sort(contexts)
	slices.Sort(d.Concurrency)
	d.Concurrency = slices.Compact(d.Concurrency)
	for _, context := range slices.Compact(contexts) {
		row := ComparedRow{Label: labels[context]}
		for _, n := range d.Concurrency {
			cell := byPlace[place{speedmatrix.PhaseDecode, context, n}]
			if cell == nil {
				cell = &ComparedCell{Data: &compare.Cell{Phase: speedmatrix.PhaseDecode, Context: context, Concurrency: n}, State: "neither"}
			}
			row.Cells = append(row.Cells, cell)
		}
		d.Rows = append(d.Rows, row)
	}
	d.Counts, d.Changed = comparedCounts(p, d), changedStatuses(p, d.Cells)
	return d
}

// changedStatuses says which cells ended otherwise, those that changed alike together: "Valid in A, Looped in B:
// decode 16K × 2 (the model kept repeating)".
func changedStatuses(p *compare.Pair, cells []*ComparedCell) []string {
	var kinds []string
	names, reasons := map[string][]string{}, map[string]string{}
	for _, cell := range cells {
		x := cell.Data
		if x.From.Status == x.To.Status || x.From.Status == "" || x.To.Status == "" {
			continue
		}
		kind := fmt.Sprintf("%s in %s, %s in %s", clip(Clean(string(x.From.Status)), 24), p.From, clip(Clean(string(x.To.Status)), 24), p.To)
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
			reasons[kind] = clip(Clean(joinFacts("; ", x.From.Reason, x.To.Reason)), 240)
		}
		names[kind] = append(names[kind], cell.Name)
	}
	var list []string
	for _, kind := range kinds {
		text := kind + ": " + strings.Join(names[kind], ", ")
		if reason := reasons[kind]; reason != "" {
			text += " (" + reason + ")"
		}
		list = append(list, text)
	}
	return list
}

// comparedCounts counts the decode cells as the map shows them.
func comparedCounts(p *compare.Pair, d ComparedPair) string {
	var v compare.Verdict
	for _, x := range p.Verdicts {
		if x.Metric == compare.Total {
			v = x
		}
	}
	text := fmt.Sprintf("of %s that ran in both, %s is slower in %d, faster in %d, the same in %d", plural(v.Cells, "cell"), p.To, v.Slower, v.Faster, v.Same)
	if v.Cells == 0 {
		text = "no cell ran in both"
	}
	only := map[string]int{}
	for _, row := range d.Rows {
		for _, cell := range row.Cells {
			only[cell.State]++
		}
	}
	var rest []string
	for _, name := range []string{p.From, p.To} {
		if n := only["only in "+name]; n > 0 && len(rest) == 0 {
			rest = append(rest, fmt.Sprintf("%d ran only in %s", n, name))
		} else if n > 0 {
			rest = append(rest, fmt.Sprintf("%d only in %s", n, name))
		}
	}
	return joinFacts("; ", text, strings.Join(rest, ", "))
}

func newComparedCell(p *compare.Pair, x *compare.Cell) *ComparedCell {
	cell := &ComparedCell{Data: x, Numbers: map[compare.Metric]ComparedNumber{}}
	cell.Name = cellName(&speedmatrix.Cell{Phase: x.Phase, ContextLabel: x.ContextLabel, Context: x.Context, Concurrency: x.Concurrency})
	for m, d := range x.Differences {
		cell.Numbers[m] = newComparedNumber(m, d)
	}
	a, b := x.From.Shown > 0, x.To.Shown > 0
	switch {
	case a && b:
		cell.Words = joinFacts(", ", queuedWord(p.From, x.From), queuedWord(p.To, x.To))
	case a:
		cell.State, cell.Why = "only in "+p.From, p.To+": "+whyNot(x.To)
	case b:
		cell.State, cell.Why = "only in "+p.To, p.From+": "+whyNot(x.From)
	default:
		cell.State = "neither"
	}
	return cell
}

func whyNot(s compare.Standing) string {
	if s.Status == "" {
		return "not planned"
	}
	return lower(clip(Clean(string(s.Status)), 24))
}

// queuedWord names a status beside a speed: "B: Requests queued"; "" where it is Valid.
func queuedWord(name string, s compare.Standing) string {
	if s.Status == speedmatrix.StatusValid {
		return ""
	}
	return name + ": " + clip(Clean(string(s.Status)), 24)
}
