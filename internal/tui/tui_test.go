package tui

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"pgregory.net/rapid"

	"speedmatrix"
	"speedmatrix/internal/golden"
)

var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

func decode(label string, context, n int, status speedmatrix.Status, total float64) speedmatrix.Cell {
	c := speedmatrix.Cell{Phase: speedmatrix.PhaseDecode, ContextLabel: label, Context: context, Concurrency: n, Status: status}
	if total > 0 {
		c.TotalTokensPerSecond, c.Attempts = new(total), 1
	}
	return c
}

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.Local)

// plan has every kind of place.
func plan() Plan {
	var cells []speedmatrix.Cell
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64, 128} {
		cells = append(cells, decode("0", 0, n, speedmatrix.StatusInterrupted, 0), decode("16K", 16384, n, speedmatrix.StatusInterrupted, 0))
	}
	for i := range cells {
		if cells[i].Context > 0 && cells[i].Concurrency > 16 {
			cells[i].Status = speedmatrix.StatusOverCapacity
		}
	}
	cells = append(cells, speedmatrix.Cell{Phase: speedmatrix.PhasePrefill, ContextLabel: "16K", Context: 16384, Concurrency: 1, Status: speedmatrix.StatusInterrupted})
	return Plan{Title: "Agents-A1-4B-FP8 · vLLM 0.32.0 · RTX 3090", Cells: cells}
}

// told gives a view that was told those messages.
func told(width, height int, messages ...tea.Msg) Model {
	var m tea.Model = New(func(Wish) {})
	for _, msg := range append([]tea.Msg{tea.WindowSizeMsg{Width: width, Height: height}}, messages...) {
		m, _ = m.Update(msg)
	}
	return m.(Model)
}

// midway is a run in the middle of a cell.
func midway() []tea.Msg {
	done := func(c speedmatrix.Cell, n int) tea.Msg {
		return Done{Cell: &c, Text: fmt.Sprintf("12:0%d:00  %s %s × %d  %s", n%10, c.Phase, c.ContextLabel, c.Concurrency, c.Status), Count: n, Of: 14, SecondsLeft: new(420.0)}
	}
	prefill := speedmatrix.Cell{Phase: speedmatrix.PhasePrefill, ContextLabel: "16K", Context: 16384, PromptTokensPerSecond: new(10_036.0), Status: speedmatrix.StatusValid}
	messages := []tea.Msg{plan(), done(prefill, 1)}
	for i, v := range []float64{117.3, 225.7, 432.6, 788.5, 1376.6, 2124.5} {
		messages = append(messages, done(decode("0", 0, 1<<i, speedmatrix.StatusValid, v), i+2))
	}
	messages = append(messages, done(decode("0", 0, 64, speedmatrix.StatusRequestsQueued, 2890), 8), done(decode("0", 0, 128, speedmatrix.StatusLooped, 0), 9),
		done(decode("16K", 16384, 1, speedmatrix.StatusValid, 109.1), 10), done(decode("16K", 16384, 2, speedmatrix.StatusFailed, 0), 11),
		Machine{ClockMHz: new(1890.0), PowerWatts: new(348.2), LimitWatts: new(350.0), Celsius: new(71.0), MemoryBytes: new(22.9 * (1 << 30))},
		Notice{At: noon, Text: "the server's clock stepped"},
		Begin{Phase: speedmatrix.PhaseDecode, Label: "16K", Context: 16384, Concurrency: 4, At: noon})
	for i, rate := range []float64{200, 340, 371, 374.2} {
		messages = append(messages, Glance{Step: "window", Since: noon, Now: noon.Add(time.Duration(i) * 2300 * time.Millisecond), Share: float64(i) / 4.8,
			TokensPerSecond: rate, Producing: 4, Running: new(4.0), Waiting: new(0.0), KVUsage: new(0.153)})
	}
	return messages
}

func TestTheScreenShowsTheRunAtEverySize(t *testing.T) {
	for name, size := range map[string][2]int{"80x24": {80, 24}, "200x50": {200, 50}, "50x16": {50, 16}} {
		got := escape.ReplaceAllString(told(size[0], size[1], midway()...).Text(), "")
		golden.Check(t, "midway-"+name+".txt", []byte(got+"\n"))
	}
}

func TestNoLineIsWiderThanTheScreenNorTheScreenHigher(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width, height := rapid.IntRange(1, 220).Draw(t, "width"), rapid.IntRange(2, 70).Draw(t, "height")
		messages := midway()
		shown := rapid.IntRange(0, len(messages)).Draw(t, "messages")
		lines := strings.Split(escape.ReplaceAllString(told(width, height, messages[:shown]...).Text(), ""), "\n")
		if len(lines) > height {
			t.Fatalf("%d lines on %d", len(lines), height)
		}
		for _, line := range lines {
			if n := len([]rune(line)); n > width {
				t.Fatalf("%d columns on %d: %q", n, width, line)
			}
		}
	})
}

func TestTheCellInProgressStaysInSight(t *testing.T) {
	for _, n := range []int{1, 16, 128} {
		messages := append(midway(), Begin{Phase: speedmatrix.PhaseDecode, Label: "16K", Context: 16384, Concurrency: n, At: noon})
		if text := told(LeastWidth, LeastHeight, messages...).Text(); !strings.Contains(text, "▶") {
			t.Errorf("at %d requests the cell in progress is out of sight:\n%s", n, text)
		}
	}
}

func TestKeysBecomeWishes(t *testing.T) {
	var got []Wish
	var m tea.Model = New(func(w Wish) { got = append(got, w) })
	press := func(key string) {
		switch key {
		case "ctrl+c":
			m, _ = m.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
		default:
			m, _ = m.Update(tea.KeyPressMsg{Code: rune(key[0]), Text: key})
		}
	}
	m, _ = m.Update(plan())
	press("s") // between cells there is nothing to skip
	m, _ = m.Update(Begin{Phase: speedmatrix.PhaseDecode, Label: "0", Concurrency: 1, At: noon})
	for _, key := range []string{"s", "q", "ctrl+c", "x"} {
		press(key)
	}
	if len(got) != 3 || got[0] != WishSkip || got[1] != WishFinish || got[2] != WishInterrupt {
		t.Errorf("wishes %v", got)
	}
	if text := m.(Model).Text(); !strings.Contains(text, "ends after this cell") {
		t.Errorf("the wish to finish is not shown:\n%s", text)
	}
	press("q")
	if text := m.(Model).Text(); strings.Contains(text, "ends after this cell") {
		t.Error("a second q does not take it back")
	}
	press("?")
	if text := m.(Model).Text(); !strings.Contains(text, "The keys") {
		t.Errorf("? shows no help:\n%s", text)
	}
}

func TestAMeasurementBesidesTheMatrixLeavesItAlone(t *testing.T) {
	again := decode("0", 0, 1, speedmatrix.StatusValid, 1)
	before, after := told(80, 24, midway()...), told(80, 24, append(midway(), Done{Cell: &again, Again: "drift", Count: 12, Of: 14})...)
	if p := (place{0, 1}); *before.matrix.decode[p].TotalTokensPerSecond != *after.matrix.decode[p].TotalTokensPerSecond {
		t.Error("the drift cell stands in the matrix")
	}
}

func TestTheTimeLeftCountsDown(t *testing.T) {
	m := told(80, 24, plan(), Begin{Label: "0", Concurrency: 1, At: noon}, Done{Count: 1, Of: 14, SecondsLeft: new(100.0)}, tickMsg(noon.Add(40*time.Second)))
	if got := m.expected(); got != time.Minute {
		t.Errorf("%s left, want 1 min", got)
	}
}
