package fidelity_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"speedmatrix"
	"speedmatrix/internal/cli"
	"speedmatrix/internal/report"
	"speedmatrix/internal/truth"
	"speedmatrix/internal/wire"
)

// table gives the CSV of a run.
func (w *world) table() [][]string {
	w.t.Helper()
	var out bytes.Buffer
	if err := report.CSV(&out, report.Build(w.run)); err != nil {
		w.t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll() // which wants as many fields in every row
	if err != nil {
		w.t.Fatal(err)
	}
	return rows
}

// kinds are runs that know very different things.
func kinds(t *testing.T) map[string]*world {
	t.Helper()
	fails := func(kind truth.FailureKind) func(truth.Call) *truth.Failure {
		return func(c truth.Call) *truth.Failure {
			if !ofCell(c) {
				return nil
			}
			return &truth.Failure{Kind: kind, After: 5, Problem: wire.EngineBusy()}
		}
	}
	beds := map[string]bed{
		"everything": {script: truth.Script{MaxLength: 8 << 10, KVTokens: 64 << 10, PrefixCache: true, Tokenize: true, Metrics: truth.Metrics{Speculative: true}},
			args: []string{"--contexts", "0,1K", "--concurrency", "1,2", "--prefill", "1K", "--duration", "5s"}},
		"nothing":          {script: truth.Script{Engine: truth.Plain, Usage: truth.UsageNone}},
		"errors":           {script: truth.Script{Fail: fails(truth.FailEvent)}},
		"refusals":         {script: truth.Script{Fail: fails(truth.FailStatus)}},
		"a queue":          {script: truth.Script{MaxRunning: 1}},
		"over capacity":    {script: truth.Script{MaxLength: 8 << 10, KVTokens: 8 << 10}, args: oneCell("4K", "1,8")},
		"no text, but use": {script: truth.Script{Channel: func(int, int) string { return wire.Reasoning }}},
	}
	worlds := map[string]*world{}
	for name, b := range beds {
		worlds[name] = b.measure(t)
		worlds[name].verified()
	}
	return worlds
}

// leaves walks all values of a JSON document that hold no others.
func leaves(path string, v any, visit func(path string, v any)) {
	switch x := v.(type) {
	case map[string]any:
		for name, inner := range x {
			leaves(path+"."+name, inner, visit)
		}
	case []any:
		for _, inner := range x {
			leaves(path+"[]", inner, visit)
		}
	default:
		visit(path, v)
	}
}

// remote matches what makes a browser ask for something: links to other pages do not.
var remote = regexp.MustCompile(`(?i)(src|srcset|poster|data|action|formaction|background)\s*=\s*["']?\s*(https?:)?//|@import|url\(\s*["']?(https?:)?//|<link\b[^>]*href="[^d]|<iframe\b|<script[^>]*\bsrc|fetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon`)

func TestReportsOfEveryKindOfRun(t *testing.T) {
	worlds := kinds(t)
	t.Run("J09 runs that know more have no other columns", func(t *testing.T) { caseJ09RunsThatKnowMoreHaveNoOtherColumns(t, worlds) })
	t.Run("J10 the page asks for nothing", func(t *testing.T) { caseJ10ThePageAsksForNothing(t, worlds) })
	t.Run("J12 what is unknown is null, and no number stands in a name", func(t *testing.T) { caseJ12WhatIsUnknownIsNullAndNoNumberStandsInAName(t, worlds) })
	t.Run("J13 a run never goes where another is", caseJ13ARunNeverGoesWhereAnotherIs)
	t.Run("J12 tables show no speed and no sentinel where there is none", func(t *testing.T) { caseJ12TablesShowNoSpeedAndNoSentinelWhereThereIsNone(t, worlds) })
}

func caseJ09RunsThatKnowMoreHaveNoOtherColumns(t *testing.T, worlds map[string]*world) {
	header := worlds["nothing"].table()[0]
	for name, w := range worlds {
		rows := w.table()
		if !slices.Equal(rows[0], header) {
			t.Errorf("%s: columns %q", name, rows[0])
		}
		if len(rows)-1 != len(w.run.Cells) {
			t.Errorf("%s: %d rows for %d cells", name, len(rows)-1, len(w.run.Cells))
		}
	}
}

func caseJ10ThePageAsksForNothing(t *testing.T, worlds map[string]*world) {
	for name, w := range worlds {
		var out bytes.Buffer
		if err := report.HTML(&out, report.Build(w.run), report.HTMLOptions{Rows: w.store}); err != nil {
			t.Fatal(err)
		}
		if found := remote.FindString(out.String()); found != "" {
			t.Errorf("%s: the page has %q", name, found)
		}
		if !strings.Contains(out.String(), `http-equiv="Content-Security-Policy"`) || !strings.Contains(html.UnescapeString(out.String()), "default-src 'none'") {
			t.Errorf("%s: the page does not forbid requests", name)
		}
	}
}

func caseJ12WhatIsUnknownIsNullAndNoNumberStandsInAName(t *testing.T, worlds map[string]*world) {
	// What changed may be less than before.
	signed := regexp.MustCompile(`change|offset`)
	for name, w := range worlds {
		data, err := json.Marshal(w.run)
		if err != nil {
			t.Fatal(err)
		}
		var document any
		if err := json.Unmarshal(data, &document); err != nil {
			t.Fatal(err)
		}
		leaves("", document, func(path string, v any) {
			if x, ok := v.(float64); ok && x < 0 && !signed.MatchString(path) {
				t.Errorf("%s: %s is %v", name, path, x)
			}
		})
	}
	w := bed{script: truth.Script{Model: `../../org/Modèle -1.0:"latest"` + "\n", Engine: truth.Plain}}.measure(t)
	w.valid()
	if !regexp.MustCompile(`^\d{8}T\d{6}Z-[a-z0-9][a-z0-9.-]+$`).MatchString(w.run.ID) {
		t.Errorf("the run is called %q", w.run.ID)
	}
}

func caseJ13ARunNeverGoesWhereAnotherIs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(dir, "run.json")
	if err := os.WriteFile(kept, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &tap{}
	w := bed{args: oneCell("0", "1", "--out", dir), dial: p.dial, change: func(env *cli.Env) { env.Create = nil }}.measure(t)
	w.exited(6, "exists")
	if data, err := os.ReadFile(kept); err != nil || string(data) != "precious" {
		t.Errorf("%q, %v", data, err)
	}
	if len(p.dialled) > 0 {
		t.Error("the server was asked before")
	}
	// Two runs that begin in the same second go to places of their own.
	var places []string
	for range 2 {
		b := bed{args: oneCell("0", "1", "--out", "")}
		b.change = func(env *cli.Env) {
			store, err := env.Create("")
			if err != nil {
				t.Error(err)
			}
			env.Create = func(path string) (cli.Store, error) {
				places = append(places, path)
				return store, nil
			}
		}
		b.measure(t).valid()
	}
	if len(places) != 2 || places[0] == places[1] {
		t.Errorf("places %q", places)
	}
}

func caseJ12TablesShowNoSpeedAndNoSentinelWhereThereIsNone(t *testing.T, worlds map[string]*world) {
	for _, name := range []string{"errors", "refusals"} {
		w := worlds[name]
		c := w.failed(w.cell(0, 2))
		var text, markdown bytes.Buffer
		if err := report.Terminal(&text, report.Build(w.run), report.TerminalOptions{Width: 120}); err != nil {
			t.Fatal(err)
		}
		if err := report.Markdown(&markdown, report.Build(w.run)); err != nil {
			t.Fatal(err)
		}
		for _, shown := range []string{text.String(), markdown.String()} {
			if strings.Contains(shown, "-1") || strings.Contains(shown, "NaN") || !strings.Contains(shown, string(speedmatrix.StatusFailed)) {
				t.Errorf("%s: %s\n%s", name, c.Reason, shown)
			}
		}
	}
}
