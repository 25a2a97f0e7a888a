package catalog

import (
	"cmp"
	"math"
	"regexp"
	"strings"
	"unicode"

	"speedmatrix"
	"speedmatrix/internal/stats"
	"speedmatrix/internal/unit"
)

// Describe gives what lists know of a run from its document: names and their keys, how the set-up departs from stock, the
// cells. Names are plain text of bounded length, whatever the document holds. What the site adds (owner, level, times of its
// own) is left zero.
func Describe(run *speedmatrix.Run) Entry {
	e := Entry{RunID: plain(run.ID), Origin: string(run.Origin), Method: plain(run.Method.Name), MeasuredAt: run.StartedAt,
		Model: cmp.Or(plain(modelName(run)), "Unnamed model"), Weights: weights(run.Model), Quantization: plain(run.Model.Text(speedmatrix.ModelQuantization)),
		Hardware: cmp.Or(plain(hardwareName(run.Hardware)), "Unknown hardware"),
		Engine:   cmp.Or(plain(engineName(run.Engine)), "Unknown engine"), EngineVersion: plain(run.Engine.Text(speedmatrix.EngineVersion)),
		Modified: modified(run), Speculative: plain(speculative(run.Engine)), Repeats: len(run.Repeats) + 1, Flags: launchFlags(run.LaunchCommand)}
	if run.Origin == speedmatrix.OriginImported {
		e.Source = plain(run.Tool.Name + " " + run.Tool.Version)
	}
	e.ModelKey, e.HardwareKey = Key(e.Model), Key(e.Hardware)
	for i := range run.Cells {
		c := &run.Cells[i]
		if c.Phase == speedmatrix.PhaseDecode {
			e.Cells = append(e.Cells, describeCell(run, c))
		} else {
			e.Prefill = append(e.Prefill, Prefill{Context: c.Context, Label: plain(c.ContextLabel), TokensPerSecond: number(c.PromptTokensPerSecond)})
		}
	}
	return e
}

// longestName bounds a name, in characters.
const longestName = 200

// plain is a name on one line: valid, without what is not seen, and of bounded length.
func plain(s string) string {
	n := 0
	s = strings.Map(func(r rune) rune {
		switch n++; {
		case n > longestName || r == unicode.ReplacementChar:
			return -1
		case unicode.IsGraphic(r):
			return r
		case unicode.IsControl(r):
			return ' '
		}
		return -1
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// describeCell gives a cell's numbers: where it was measured several times, the medians of those that showed a speed and
// Student's interval of their mean; else those of the one window.
func describeCell(run *speedmatrix.Run, c *speedmatrix.Cell) Cell {
	out := Cell{Context: c.Context, Label: plain(c.ContextLabel), Concurrency: c.Concurrency, Status: c.Status,
		Total: number(nil), Half: number(nil), PerRequest: number(nil), TTFT: number(nil), Between: number(nil)}
	if !c.Status.ShowsSpeed() {
		return out
	}
	var total, each, first, between []float64
	for _, m := range measurementsOf(run, c) {
		add(&total, m.TotalTokensPerSecond)
		add(&each, m.PerRequestTokensPerSecond)
		add(&first, median(m.TTFT))
		add(&between, median(m.TimeBetweenTokens))
	}
	for _, x := range []struct {
		to     *float32
		values []float64
	}{{&out.Total, total}, {&out.PerRequest, each}, {&out.TTFT, first}, {&out.Between, between}} {
		if len(x.values) > 0 {
			*x.to = float32(stats.Median(x.values))
		}
	}
	if _, low, high, ok := stats.MeanInterval(total); ok {
		out.Half = float32((high - low) / 2)
	} else if c.Interval95 != nil {
		out.Half = float32((c.Interval95.High - c.Interval95.Low) / 2)
	}
	return out
}

// measurementsOf are all measurements of a cell that showed a speed.
func measurementsOf(run *speedmatrix.Run, c *speedmatrix.Cell) []*speedmatrix.Cell {
	all := []*speedmatrix.Cell{c}
	for i := range run.Repeats {
		for j := range run.Repeats[i].Cells {
			o := &run.Repeats[i].Cells[j]
			if o.Phase == c.Phase && o.Context == c.Context && o.Concurrency == c.Concurrency && o.Status.ShowsSpeed() {
				all = append(all, o)
			}
		}
	}
	return all
}

func add(values *[]float64, v *float64) {
	if v != nil {
		*values = append(*values, *v)
	}
}

func median(d *speedmatrix.Distribution) *float64 {
	if d == nil {
		return nil
	}
	return d.P50
}

func number(v *float64) float32 {
	if v == nil {
		return float32(math.NaN())
	}
	return float32(*v)
}

func modelName(run *speedmatrix.Run) string {
	for _, key := range []string{speedmatrix.ModelName, speedmatrix.ModelServedName} {
		if name := run.Model.Text(key); name != "" {
			return name[strings.LastIndexByte(name, '/')+1:]
		}
	}
	return ""
}

// weights is a commit or a digest of the weights; a name that moves, such as a branch, is none.
func weights(model speedmatrix.Facts) string {
	revision := strings.TrimPrefix(model.Text(speedmatrix.ModelRevision), "sha256:")
	if fixedRevision.MatchString(revision) {
		return revision
	}
	return ""
}

var fixedRevision = regexp.MustCompile(`^[0-9a-f]{12,64}$`)

// hardwareName is the GPUs with their memory, else the CPU: "2 × RTX 3090 24GB".
func hardwareName(facts speedmatrix.Facts) string {
	name := facts.Text(speedmatrix.HardwareGPU)
	if name == "" {
		return facts.Text(speedmatrix.HardwareCPU)
	}
	if n, ok := facts.Int(speedmatrix.HardwareGPUCount); ok && n > 1 {
		name = unit.Count(n) + " × " + name
	}
	return strings.TrimSpace(name + " " + strings.ReplaceAll(facts.Text(speedmatrix.HardwareVRAM), " ", ""))
}

func engineName(facts speedmatrix.Facts) string {
	for _, key := range []string{speedmatrix.EngineName, speedmatrix.EngineService, speedmatrix.EngineProxy} {
		if name := facts.Text(key); name != "" {
			return name
		}
	}
	return ""
}

// unlocked names patches that lift a card's limits.
var unlocked = regexp.MustCompile(`(?i)gpu[-_ ]?unlock|unlocked|vbios|shunt|patched driver|p2p[-_ ]?(?:patch|driver)`)

// SimulatedEngine is how a run's hardware departs from stock where no hardware worked at all.
const SimulatedEngine = "simulated engine"

// modified says how the hardware departs from how it is sold; "" is stock or unknown.
func modified(run *speedmatrix.Run) string {
	if _, simulated := run.Engine[speedmatrix.EngineSimulated]; simulated {
		return SimulatedEngine
	}
	command := ""
	if run.LaunchCommand != nil {
		command, _ = run.LaunchCommand.Value.(string)
	}
	if unlocked.MatchString(command) || unlocked.MatchString(run.Hardware.Text("note")) {
		return "modified card, unlocked"
	}
	limit, okLimit := run.Hardware.Positive(speedmatrix.HardwareGPUPowerLimit)
	standard, okStandard := run.Hardware.Positive(speedmatrix.HardwareGPUPowerDefault)
	switch {
	case !okLimit || !okStandard:
		return ""
	case limit > standard*1.005:
		return "power limit raised to " + unit.Fixed(limit, 0) + " W"
	case limit < standard*0.995:
		return "power limit lowered to " + unit.Fixed(limit, 0) + " W"
	}
	return ""
}

// A run has at most so many flags, each of so many bytes.
const (
	mostFlags   = 64
	longestFlag = 80
)

// launchFlags are the flags of a launch command, each with the value behind it.
func launchFlags(command *speedmatrix.Fact) (list []string) {
	if command == nil {
		return nil
	}
	text, _ := command.Value.(string)
	valued := false
	for word := range strings.FieldsSeq(text) {
		switch {
		case strings.HasPrefix(word, "-") && strings.Trim(word, "-") != "" && !numeric.MatchString(word):
			list = append(list, word)
			valued = strings.Contains(word, "=")
		case len(list) > 0 && !valued && word != "\\":
			list[len(list)-1] += " " + word
			valued = true
		}
	}
	list = list[:min(len(list), mostFlags)]
	for i, f := range list {
		list[i] = plain(strings.ToValidUTF8(f[:min(len(f), longestFlag)], ""))
	}
	return list
}

var numeric = regexp.MustCompile(`^-[0-9.]+$`)

// speculative is how tokens were drafted, "" without.
func speculative(engine speedmatrix.Facts) string {
	s := engine.Text(speedmatrix.EngineSpeculative)
	switch strings.ToLower(s) {
	case "", "off", "false", "none", "0":
		return ""
	}
	return s
}

// Key is a name as it stands in addresses: lower case letters, digits and single dashes.
func Key(name string) string {
	var b strings.Builder
	dash := false
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.':
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			dash = false
			b.WriteRune(r)
		case r == '×':
			dash = true
			b.WriteByte('x')
		default:
			dash = true
		}
	}
	if b.Len() == 0 {
		return "unnamed"
	}
	return b.String()
}
