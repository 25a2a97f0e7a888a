package ingest

import (
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// bounds holds what the schema cannot say.
func bounds(run *speedmatrix.Run, limits Limits, now time.Time) error {
	if n := len(run.Repeats); n > mostRepeats {
		return bad("too-many-repeats", "run.json has too many repeats", fmt.Sprintf("At most %d.", mostRepeats), at("/repeats"))
	}
	if len(run.Cells) == 0 {
		return bad("no-cells", "run.json has no cell", "There is nothing to show of it.", at("/cells"))
	}
	if !slices.Contains([]speedmatrix.Origin{speedmatrix.OriginMeasured, speedmatrix.OriginPredicted, speedmatrix.OriginImported}, run.Origin) {
		return bad("origin", "run.json does not say where its numbers come from", "The origin is measured, predicted or imported.", at("/origin"))
	}
	if err := planned(run.Plan, limits); err != nil {
		return err
	}
	if err := times(run, now); err != nil {
		return err
	}
	if err := facts(run); err != nil {
		return err
	}
	return measurements(run, limits, now)
}

// planned bounds the matrix of a plan, whose places are as many as the product of its lists.
func planned(p speedmatrix.Plan, limits Limits) error {
	if len(p.Contexts) > limits.Cells || len(p.Concurrency) > limits.Cells || len(p.Contexts)*len(p.Concurrency)+len(p.Prefill) > 10*limits.Cells {
		return bad("too-many-cells", "The plan in run.json has too many cells", fmt.Sprintf("At most %d.", 10*limits.Cells), at("/plan"))
	}
	return nil
}

// measurements holds the cells of the matrix, of its repeats and of the drift.
func measurements(run *speedmatrix.Run, limits Limits, now time.Time) error {
	if len(run.Cells) > limits.Cells {
		return bad("too-many-cells", "run.json has too many cells", fmt.Sprintf("At most %d.", limits.Cells), at("/cells"))
	}
	if err := cells(run.Cells, "/cells", now); err != nil {
		return err
	}
	total := len(run.Cells)
	indexes := map[int]bool{}
	for i := range run.Repeats {
		r, pointer := &run.Repeats[i], fmt.Sprintf("/repeats/%d", i)
		if total += len(r.Cells); total > 10*limits.Cells {
			return bad("too-many-cells", "run.json has too many cells", fmt.Sprintf("At most %d over all measurements.", 10*limits.Cells), at(pointer))
		}
		if r.Index < 2 || indexes[r.Index] {
			return bad("repeat", "A repeat in run.json has a number that cannot be", "They count from 2, each once.", at(pointer+"/index"))
		}
		indexes[r.Index] = true
		if err := cells(r.Cells, pointer+"/cells", now); err != nil {
			return err
		}
	}
	if run.Drift == nil {
		return nil
	}
	return cell(&run.Drift.Cell, "/drift/cell", now)
}

func times(run *speedmatrix.Run, now time.Time) error {
	// Another tool may not have said when it measured.
	if run.Origin != speedmatrix.OriginImported || !run.StartedAt.IsZero() {
		if err := moment(run.StartedAt, "/started_at", now); err != nil {
			return err
		}
	}
	if run.FinishedAt == nil {
		return nil
	}
	if err := moment(*run.FinishedAt, "/finished_at", now); err != nil {
		return err
	}
	if run.FinishedAt.Before(run.StartedAt) {
		return bad("time-order", "The run ended before it began", "Look at the clock of the machine.", at("/finished_at"))
	}
	return nil
}

// facts holds what stands in lists, and the form of what is known of the set-up.
func facts(run *speedmatrix.Run) error {
	for _, name := range []struct{ pointer, text string }{{"/id", run.ID}, {"/method/name", run.Method.Name}, {"/tool/name", run.Tool.Name}, {"/tool/version", run.Tool.Version}} {
		if err := readable(name.pointer, name.text); err != nil {
			return err
		}
	}
	for _, group := range []struct {
		name  string
		facts speedmatrix.Facts
	}{{"model", run.Model}, {"hardware", run.Hardware}, {"engine", run.Engine}} {
		for key, fact := range group.facts {
			switch fact.Value.(type) {
			case string, float64, bool, nil:
			default:
				return bad("fact", "A fact in run.json is a structure", "It is a text, a number, true or false.", at("/"+group.name+"/"+escape.Replace(key)))
			}
			text, _ := fact.Value.(string)
			if !shownInLists(key) {
				continue
			}
			if err := readable("/"+group.name+"/"+key, text); err != nil {
				return err
			}
		}
	}
	return nil
}

func moment(t time.Time, pointer string, now time.Time) error {
	if t.Before(firstDay()) || t.After(now.Add(24*time.Hour)) {
		return bad("time-out-of-range", "The run was measured at a time that cannot be", "Look at the clock of the machine.", at(pointer))
	}
	return nil
}

// shownInLists are the facts that stand where a false letter would pass for another name.
func shownInLists(key string) bool {
	// A model's name and an engine's have one key.
	return slices.Contains([]string{speedmatrix.ModelName, speedmatrix.ModelServedName, speedmatrix.ModelBase, speedmatrix.ModelRevision, speedmatrix.ModelQuantization,
		speedmatrix.HardwareGPU, speedmatrix.HardwareVRAM, speedmatrix.HardwareCPU, speedmatrix.EngineVersion, speedmatrix.EngineService, speedmatrix.EngineProxy,
		speedmatrix.EngineBuild, speedmatrix.EngineSpeculative}, key)
}

// readable refuses names that do not read as what they are: with characters that cannot be seen or that turn the line round.
func readable(pointer, name string) error {
	if len(name) > longestName {
		return bad("name-too-long", "A name in run.json is too long", fmt.Sprintf("At most %d bytes.", longestName), at(pointer))
	}
	for _, r := range name {
		if unicode.Is(unicode.Cf, r) || unicode.IsControl(r) || unicode.Is(unicode.Co, r) || r == utf8.RuneError {
			return bad("name-unreadable", "A name in run.json has characters that cannot be seen", fmt.Sprintf("Take out U+%04X.", r), at(pointer))
		}
	}
	return nil
}

// cells holds the cells of one measurement of the matrix, each of which has a place of its own.
func cells(list []speedmatrix.Cell, pointer string, now time.Time) error {
	type place struct {
		phase                speedmatrix.Phase
		context, concurrency int
	}
	seen := map[place]bool{}
	for i := range list {
		c, here := &list[i], pointer+"/"+strconv.Itoa(i)
		if err := cell(c, here, now); err != nil {
			return err
		}
		p := place{c.Phase, c.Context, c.Concurrency}
		if seen[p] {
			return bad("cell-twice", "A cell stands twice", "Each planned cell stands once; repeats have a place of their own.", at(here))
		}
		seen[p] = true
	}
	return nil
}

func cell(c *speedmatrix.Cell, pointer string, now time.Time) error {
	if err := place(c, pointer); err != nil {
		return err
	}
	if c.WindowStartedAt != nil {
		if err := moment(*c.WindowStartedAt, pointer+"/window_started_at", now); err != nil {
			return err
		}
	}
	if c.Interval95 != nil && c.Interval95.High < c.Interval95.Low {
		return bad("interval", "A cell's interval is upside down", "low is not above high.", at(pointer+"/interval_95"))
	}
	if c.Status != speedmatrix.StatusSkipped && c.Status != speedmatrix.StatusExceedsModelLength {
		return nil
	}
	for name, v := range map[string]*float64{"total_tokens_per_second": c.TotalTokensPerSecond, "per_request_tokens_per_second": c.PerRequestTokensPerSecond,
		"prompt_tokens_per_second": c.PromptTokensPerSecond, "output_tokens": c.OutputTokens} {
		if v != nil {
			return bad("status-number", "A cell that was not run has a number", "A cell that is "+string(c.Status)+" has none.", at(pointer+"/"+name))
		}
	}
	return nil
}

// place holds where a cell stands in the matrix, and what it is called.
func place(c *speedmatrix.Cell, pointer string) error {
	switch {
	case !slices.Contains(speedmatrix.Statuses(), c.Status):
		return bad("status", "A cell has a status that there is not", "The statuses are those of docs/method.md.", at(pointer+"/status"))
	case c.Phase != speedmatrix.PhasePrefill && c.Phase != speedmatrix.PhaseDecode:
		return bad("phase", "A cell has a phase that there is not", "It is prefill or decode.", at(pointer+"/phase"))
	case c.Concurrency < 1 || c.Concurrency > mostConcurrency:
		return bad("concurrency", "A cell has a number of requests that cannot be", fmt.Sprintf("It is from 1 to %d.", mostConcurrency), at(pointer+"/concurrency"))
	case c.Context < 0 || c.Context > mostContext:
		return bad("context", "A cell has a context that cannot be", "It is a number of tokens.", at(pointer+"/context"))
	case c.ContextLabel == "" || len(c.ContextLabel) > 16:
		return bad("label", "A cell has no label, or a long one", "It is such as 16K.", at(pointer+"/context_label"))
	}
	if n, err := unit.ParseTokens(c.ContextLabel); err != nil || n != c.Context {
		return bad("label", "A cell's label does not say its context", fmt.Sprintf("%d tokens are called %s.", c.Context, unit.FormatTokens(c.Context)), at(pointer+"/context_label"))
	}
	return nil
}
