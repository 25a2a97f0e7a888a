package bench_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"speedmatrix"
	"speedmatrix/internal/bench"
	"speedmatrix/internal/prompt"
)

func TestDefaultContextsAdaptToTheModel(t *testing.T) {
	const k = 1024
	for length, want := range map[int][]int{
		144 * k: {0, 16 * k, 32 * k, 64 * k, 128 * k, 136 * k},
		256 * k: {0, 32 * k, 64 * k, 128 * k, 248 * k},
		8 * k:   {0, k, 2 * k, 4 * k, 7 * k},
		2 * k:   {0, k, 2*k - 256},
		1 << 20: {0, 128 * k, 256 * k, 512 * k, 1<<20 - 8*k},
		600:     {0, 525},
	} {
		got := bench.DefaultContexts(length)
		if length == 256*k || length == 1<<20 {
			if len(got) != 6 || got[0] != 0 || !slices.IsSorted(got) || got[5] != want[len(want)-1] {
				t.Errorf("%d: %v", length, got)
			}
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", length, got, want)
		}
	}
	if got := bench.DefaultConcurrency(16); !slices.Equal(got, []int{1, 2, 4, 8, 16}) {
		t.Errorf("concurrency up to 16: %v", got)
	}
	if got := bench.DefaultConcurrency(0); len(got) != 8 || got[7] != 128 {
		t.Errorf("concurrency: %v", got)
	}
}

// The reserved capacity of the two published machines, for every budget that fits their pages.
func TestReservedCapacityRefusesWhatThePublishedPagesRefuse(t *testing.T) {
	const k = 1024
	machines := []struct {
		length, low, high, refused int
		contexts                   []int
		largest                    []int
	}{
		{144 * k, 147456, 163839, 34, []int{0, 16 * k, 32 * k, 64 * k, 128 * k, 136 * k}, []int{16, 4, 2, 2, 1, 1}},
		{256 * k, 393216, 524287, 27, []int{0, 16 * k, 32 * k, 64 * k, 128 * k, 248 * k}, []int{32, 16, 8, 4, 2, 1}},
	}
	for _, m := range machines {
		for _, budget := range []int{m.low, m.high} {
			s := complete(t, bench.Settings{Contexts: m.contexts, KVPlan: bench.KVReserve, NoPrefill: true})
			plan := planned(t, s, bench.Limits{MaxLength: m.length, KVTokens: budget, KVBlockTokens: 16})
			refused := 0
			for _, c := range plan.Cells {
				if c.Verdict == bench.Refused {
					refused++
				}
				largest := m.largest[slices.Index(m.contexts, c.Context)]
				if (c.Verdict == bench.Refused) != (c.Concurrency > largest) {
					t.Errorf("budget %d: %d × %d: %v %s", budget, c.Context, c.Concurrency, c.Verdict, c.Reason)
				}
			}
			if refused != m.refused {
				t.Errorf("budget %d: %d cells refused, want %d", budget, refused, m.refused)
			}
		}
	}
}

func complete(t *testing.T, s bench.Settings) bench.Settings {
	t.Helper()
	s, err := s.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func planned(t *testing.T, s bench.Settings, l bench.Limits) *bench.Plan {
	t.Helper()
	p, err := bench.NewPlan(s, l)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestObservedCapacityRefusesOnlyWhatCannotFit(t *testing.T) {
	limits := bench.Limits{MaxLength: 32768, KVTokens: 16384, KVBlockTokens: 16}
	tests := []struct {
		mode    string
		c       int
		verdict bench.Verdict
	}{
		{"distinct", 1, bench.Runs}, {"distinct", 2, bench.Runs}, {"distinct", 3, bench.Tried}, {"distinct", 4, bench.Refused},
		{"shared", 4, bench.Runs}, {"shared", 32, bench.Tried}, {"shared", 4096, bench.Refused},
	}
	for _, tt := range tests {
		s := complete(t, bench.Settings{Contexts: []int{4096}, Concurrency: []int{tt.c}, Prompts: prompt.Mode(tt.mode), NoPrefill: true})
		c := planned(t, s, limits).Cells[0]
		if c.Verdict != tt.verdict || (c.Verdict == bench.Runs) != (c.Reason == "") {
			t.Errorf("%s × %d: %v %q, want %v", tt.mode, tt.c, c.Verdict, c.Reason, tt.verdict)
		}
	}
}

func TestFitIntoKeepsTheCornersLongestAndSaysWhatItDropped(t *testing.T) {
	s := complete(t, bench.Settings{Contexts: []int{0, 1024, 4096}, Concurrency: []int{1, 2, 4, 8}})
	pilot := bench.Pilot{A: 1e-4, Known: true}
	for _, limit := range []time.Duration{time.Hour, 3 * time.Minute, time.Minute, 25 * time.Second} {
		p := planned(t, s, bench.Limits{MaxLength: 32768})
		dropped := p.FitInto(limit, &s, pilot)
		total, _ := p.Expected(&s, pilot)
		left := 0
		for _, c := range p.Cells {
			if c.Verdict != bench.Refused {
				left++
			} else if c.Status != speedmatrix.StatusSkipped || !strings.Contains(c.Reason, "--max-time") {
				t.Errorf("dropped with %s: %s", c.Status, c.Reason)
			}
		}
		if total > limit && left > 1 || left+dropped != len(p.Cells) || limit == time.Hour && dropped > 0 {
			t.Errorf("%v: %d cells of %v stay, %d dropped", limit, left, total, dropped)
		}
		if limit == 3*time.Minute {
			if p.Cells[0].Verdict == bench.Refused {
				t.Error("the first cell was dropped")
			}
		}
	}
}

func TestSettingsThatCannotBeMeasuredAreRefusedByName(t *testing.T) {
	for name, s := range map[string]bench.Settings{
		"0 cannot":       {Concurrency: []int{0}},
		"-5 cannot":      {Contexts: []int{-5}},
		"given twice":    {Concurrency: []int{2, 2}},
		"200000000":      {Contexts: []int{200_000_000}},
		"too short":      {Duration: 2 * time.Second},
		"--precision":    {Precision: 0.7},
		"--temperature":  {Temperature: "hot"},
		"no method":      {Method: "other/1"},
		"--repeat":       {Repeat: 101},
		"longer than":    {Duration: 2 * time.Hour},
		"--max-output 3": {MaxOutput: 3},
	} {
		_, err := s.Complete()
		if speedmatrix.KindOf(err) != speedmatrix.KindUsage || !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
