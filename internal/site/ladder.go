package site

import (
	"fmt"
	"net/url"
	"strings"

	"speedmatrix/internal/catalog"
	"speedmatrix/internal/trust"
)

// rung is a level of the ladder of trust with what was checked for it.
type rung struct {
	Name, What, Result string
	Reached            bool
	Checks             []checkView
}

// checkView is one line of the ladder.
type checkView struct {
	Outcome, Class, What, Detail string
	Cells                        []cellLink
}

// cellLink is a cell's name and where it stands.
type cellLink struct{ Name, Link string }

// levels are the rungs from the lowest, with what each says.
var levels = []struct {
	level      catalog.Level
	name, what string
}{
	{catalog.Stated, "Stated", "Someone gave these numbers and their source."},
	{catalog.Complete, "Complete", "What is needed to measure it again is there."},
	{catalog.Recomputed, "Recomputed", "This site got the same numbers from the raw events."},
	{catalog.SelfConsistent, "Self-consistent", "The numbers agree with each other and with physics."},
	{catalog.Reproduced, "Reproduced by another", "Someone else measured the same within the intervals."},
}

// levelWord is a level as it is written beside a run: the word and never a badge. n counts the other uploaders who agree.
func levelWord(l catalog.Level, n int) string {
	switch {
	case l == catalog.Reproduced && n > 1:
		return fmt.Sprintf("Reproduced by %d others", n)
	case l >= catalog.Stated && int(l) <= len(levels):
		return levels[l-1].name
	}
	return "Not checked"
}

// levelSentence says what a level means.
func levelSentence(l catalog.Level) string {
	if l >= catalog.Stated && int(l) <= len(levels) {
		return levels[l-1].what
	}
	return "Nothing was checked yet."
}

// ladder gives the rungs of a report; page is the address of the run's page, for links to cells.
func ladder(r *trust.Report, page string) []rung {
	var rungs []rung
	for _, l := range levels {
		g := rung{Name: l.name, What: l.what, Reached: l.level <= r.Level}
		var ahead bool
		var why string
		for _, c := range r.Checks {
			if c.Level != l.level {
				continue
			}
			v := checkView{Outcome: string(c.Outcome), What: clip(c.What, 200), Detail: clip(c.Detail, 600)}
			switch c.Outcome {
			case trust.Found:
				v.Class = "wn"
			case trust.Unknown:
				v.Class = "un"
			default:
				ahead = true
			}
			if why == "" && (c.Bars || c.Outcome == trust.Unknown) {
				why = v.Detail
			}
			if c.Bars {
				why = v.Detail
			}
			for _, key := range c.Cells {
				v.Cells = append(v.Cells, cellLink{cellName(clip(key, 80)), page + "#" + url.PathEscape(key)})
			}
			g.Checks = append(g.Checks, v)
		}
		g.Result = rungResult(l.level, r.Level, ahead, why)
		rungs = append(rungs, g)
	}
	return rungs
}

// rungResult says whether a level is reached, and if it is not, why.
func rungResult(level, reached catalog.Level, ahead bool, why string) string {
	switch {
	case level <= reached:
		return "Reached"
	case level == reached+1 && why != "":
		return "Not reached: " + why
	case level == reached+1:
		return "Not reached"
	}
	below := levels[min(max(int(reached), 0), len(levels)-1)].name
	if ahead {
		return "Checked ahead; not reached before " + below
	}
	return "Not reached before " + below
}

// cellName writes a cell's key as people do: "decode-128k-x1" is "128K × 1".
func cellName(key string) string {
	phase, rest, found := strings.Cut(key, "-")
	if !found {
		return key
	}
	context, n, many := cutLast(rest, "-x")
	context = strings.ToUpper(context)
	if phase == "prefill" {
		return "prefill " + context
	}
	if many {
		return context + " × " + n
	}
	return key
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// tally counts checks by outcome in words: "9 checks passed, 4 found something, 5 could not be made".
func tally(r *trust.Report) string {
	counts := map[trust.Outcome]int{}
	for _, c := range r.Checks {
		counts[c.Outcome]++
	}
	checks := "checks"
	if counts[trust.Passed] == 1 {
		checks = "check"
	}
	return fmt.Sprintf("%d %s passed, %d found something, %d could not be made", counts[trust.Passed], checks, counts[trust.Found], counts[trust.Unknown])
}

// standing is the sentence above the ladder.
func standing(r *trust.Report) string {
	return fmt.Sprintf("It stands at level %d of %d: %s. %s.", r.Level, len(levels), strings.ToLower(levelWord(r.Level, len(r.Reproducers))), capital(tally(r)))
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
