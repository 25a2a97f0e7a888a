package trust

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/golden"
	"speedmatrix/internal/importer"
	"speedmatrix/internal/runfile"
)

// outcome writes a report as the ladder shows it.
func outcome(r Report) []byte {
	var b bytes.Buffer
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s", c.Level, c.Outcome, c.What, c.Detail)
		if len(c.Cells) > 0 {
			fmt.Fprintf(&b, "\t[%s]", strings.Join(c.Cells, " "))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "level %d: %s. %s\n", r.Level, r.Level, r.ToReach)
	for _, d := range r.Doubts {
		fmt.Fprintf(&b, "doubt\t%s\t%s\n", d.Cell, d.Why)
	}
	return b.Bytes()
}

func judged(run *speedmatrix.Run) Report {
	e := catalog.Describe(run)
	e.ID, e.Owner, e.OwnerName = "seed", "ada", "ada"
	return Evaluate(Input{Run: run, Entry: &e})
}

// page imports a published page as its text says it.
func page(t testing.TB, name string) *speedmatrix.Run {
	t.Helper()
	text, err := os.ReadFile("../report/testdata/seeds/" + name + ".rtx3090.txt")
	if err != nil {
		t.Fatal(err)
	}
	run, err := importer.Import([]importer.File{{Name: name + ".txt", Data: text}}, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

var seeds = []struct {
	name, example string
	doubts        []string
}{
	{"qwen3-coder-30b-a3b-awq", "rtx3090-qwen3-coder-30b-a3b-awq", []string{"decode-128k-x1", "decode-136k-x1"}},
	{"agents-a1-4b-fp8", "rtx3090-agents-a1-4b-fp8", nil},
}

func TestTheSeedsAreCompleteAndTheirFalseLabelsAreNamed(t *testing.T) {
	for _, s := range seeds {
		t.Run(s.name, func(t *testing.T) {
			r := judged(page(t, s.name))
			golden.Check(t, s.name+".txt", outcome(r))
			var doubts []string
			for _, d := range r.Doubts {
				doubts = append(doubts, d.Cell)
			}
			if r.Level != catalog.Complete || !slices.Equal(doubts, s.doubts) {
				t.Errorf("level %s, doubts %v", r.Level, doubts)
			}
		})
	}
}

// The examples are the same pages with what a token costs by the model's configuration, and the server's limits.
func TestTheExamplesAreUnderTheLimitsOfTheirHardware(t *testing.T) {
	for _, s := range seeds {
		t.Run(s.name, func(t *testing.T) {
			data, err := os.ReadFile("../../examples/" + s.example + "/run.json")
			if err != nil {
				t.Fatal(err)
			}
			run, err := runfile.DecodeStrict(data)
			if err != nil {
				t.Fatal(err)
			}
			r := judged(run)
			golden.Check(t, s.name+".example.txt", outcome(r))
			if c := found(t, r, "ceiling"); c.Outcome != Passed {
				t.Errorf("%+v", c)
			}
		})
	}
}
