package report

import (
	"slices"
	"strings"

	"speedmatrix"
	"speedmatrix/internal/unit"
)

// Warning is a doubt about the run, or about the cells that it names.
type Warning struct {
	Code, Message string
	// Cells are the names of the cells it stands on; empty means the whole run.
	Cells []string
	Keys  []string
}

// Scope says in short where the warning stands: "", "decode 16K × 4", "23 cells".
func (w Warning) Scope() string {
	switch {
	case len(w.Cells) == 0:
		return ""
	case len(w.Cells) <= 3:
		return strings.Join(w.Cells, ", ")
	}
	return plural(len(w.Cells), "cell")
}

// warnings gives the run's warnings, then those of cells, the same ones joined, and
// those of one code beside each other.
func warnings(run *speedmatrix.Run) []Warning {
	var list []Warning
	for _, w := range run.Warnings {
		list = append(list, Warning{Code: Clean(w.Code), Message: Clean(w.Message)})
	}
	ofRun := len(list)
	at := map[speedmatrix.Warning]int{}
	for i := range run.Cells {
		list = addCell(list, at, &run.Cells[i])
	}
	ofCells := list[ofRun:]
	first := map[string]int{}
	for i, w := range ofCells {
		if _, there := first[w.Code]; !there {
			first[w.Code] = i
		}
	}
	slices.SortStableFunc(ofCells, func(a, b Warning) int { return first[a.Code] - first[b.Code] })
	return list
}

func addCell(list []Warning, at map[speedmatrix.Warning]int, c *speedmatrix.Cell) []Warning {
	for _, w := range c.Warnings {
		i, there := at[w]
		if !there {
			i = len(list)
			at[w] = i
			list = append(list, Warning{Code: Clean(w.Code), Message: Clean(w.Message)})
		}
		name := cellName(c)
		if !slices.Contains(list[i].Cells, name) {
			list[i].Cells = append(list[i].Cells, name)
			list[i].Keys = append(list[i].Keys, Clean(c.Key()))
		}
	}
	return list
}

// fewOfEach keeps at most n warnings of one code, and says after them how many more there are.
func fewOfEach(list []Warning, n int) []Warning {
	seen := map[string]int{}
	for _, w := range list {
		seen[w.Code]++
	}
	var short []Warning
	shown := map[string]int{}
	for _, w := range list {
		shown[w.Code]++
		switch k := shown[w.Code]; {
		case k <= n:
			short = append(short, w)
		case k == seen[w.Code]:
			short = append(short, Warning{Code: w.Code, Message: unit.Count(k-n) + " more of this kind (" + w.Code + "); all of them stand in the Markdown and JSON reports"})
		}
	}
	return short
}
