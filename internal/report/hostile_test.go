package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"speedmatrix"
)

// hostileRun has the hostile text in every text field, except those that decide what is shown.
func hostileRun() *speedmatrix.Run {
	run := everyStatusRun()
	poison(reflect.ValueOf(run), hostileText)
	return run
}

// poison sets all text below v, keys and facts included; phases, statuses and the origin stay.
func poison(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			poison(v.Elem(), text)
		}
	case reflect.Struct:
		poisonStruct(v, text)
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i), text)
		}
	case reflect.Map:
		if facts, ok := v.Interface().(speedmatrix.Facts); ok {
			for key, fact := range facts {
				facts[key] = speedmatrix.Fact{Value: text, Source: fact.Source, Others: []speedmatrix.Fact{{Value: text, Source: text}}}
			}
			facts[text] = speedmatrix.Fact{Value: map[string]any{text: text}, Source: text}
		}
	case reflect.String:
		switch v.Interface().(type) {
		case speedmatrix.Phase, speedmatrix.Status, speedmatrix.Origin:
		default:
			v.SetString(text)
		}
	}
}

func poisonStruct(v reflect.Value, text string) {
	if fact, ok := v.Addr().Interface().(*speedmatrix.Fact); ok {
		fact.Value = text
		return
	}
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			poison(v.Field(i), text)
		}
	}
}

func TestHostileTextNeverReachesTheTerminalOrTheTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just(hostileText), rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(rapid.SampledFrom([]string{"x", "世", "|", "`", "\x1b[", "\u0301", "=", "\n"}).Draw(t, "piece"), 500)
		}), rapid.StringOfN(rapid.SampledFrom([]rune("|`*<>\\\n=+-@\x1b\u202e\t ab")), 0, 40, -1)).Draw(t, "text")
		checkRenderings(t, text, rapid.Bool().Draw(t, "statuses too"))
	})
}

func TestTenThousandHostileCharactersInEveryFieldBreakNothing(t *testing.T) {
	for _, piece := range []string{"x", "世", "|", "`", "\x1b[", "\u0301", "=", "\n", hostileText} {
		text := strings.Repeat(piece, 10_000/len(piece)+1)
		checkRenderings(t, text, false)
		checkRenderings(t, text, true)
	}
}

func checkRenderings(t rapid.TB, text string, statusesToo bool) {
	run := everyStatusRun()
	poison(reflect.ValueOf(run), text)
	if statusesToo {
		for i := range run.Cells {
			run.Cells[i].Status, run.Cells[i].Phase = speedmatrix.Status(text), speedmatrix.Phase(text)
		}
	}
	d := Build(run)
	var screen, page, table bytes.Buffer
	if Terminal(&screen, d, TerminalOptions{}) != nil || Markdown(&page, d) != nil || CSV(&table, d) != nil {
		t.Fatal("rendering failed")
	}
	checkNoControls(t, screen.String())
	checkNoControls(t, page.String())
	checkLines(t, screen.String())
	checkMarkdown(t, page.String())
	checkCSV(t, table.Bytes())
}

func checkLines(t rapid.TB, out string) {
	for line := range strings.SplitSeq(out, "\n") {
		if displayWidth(line) > 80 {
			t.Fatalf("a line takes %d columns: %q", displayWidth(line), line)
		}
	}
}

// checkMarkdown reads the page as a renderer would: all rows of a table have as many cells
// as its head, no tag but our line break, and no code but the launch command.
func checkMarkdown(t rapid.TB, page string) {
	columns, fence := 0, ""
	for line := range strings.SplitSeq(page, "\n") {
		if fence != "" {
			if line == fence {
				fence = ""
			}
			continue
		}
		if strings.HasPrefix(line, "```") {
			fence = line
			continue
		}
		bare := unescaped(line)
		if strings.ContainsAny(strings.ReplaceAll(bare, "<br>", ""), "<`[]") {
			t.Fatalf("markup in %q", line)
		}
		switch n := strings.Count(bare, "|"); {
		case !strings.HasPrefix(line, "|"):
			columns = 0
			if n > 0 {
				t.Fatalf("a pipe outside a table: %q", line)
			}
		case columns == 0:
			columns = n
		case n != columns:
			t.Fatalf("%d pipes in a table of %d: %q", n, columns, line)
		}
	}
	if fence != "" {
		t.Fatal("the launch command's block does not end")
	}
}

// unescaped is a line without what a backslash protects.
func unescaped(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
			continue
		}
		b.WriteByte(line[i])
	}
	return b.String()
}

func checkCSV(t rapid.TB, data []byte) {
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		for i, field := range row {
			if _, err := strconv.ParseFloat(field, 64); err == nil || field == "" {
				continue
			}
			if strings.ContainsAny(field[:1], "=+-@\t\r\n") {
				t.Fatalf("%s can be taken for a formula: %q", rows[0][i], field)
			}
			if field[0] == '[' && !strings.HasPrefix(rows[0][i], "run_id") && strings.Contains("prefill_samples loops warnings", rows[0][i]) && !json.Valid([]byte(field)) {
				t.Fatalf("%s is no JSON: %q", rows[0][i], field)
			}
			checkNoControls(t, field)
		}
	}
}
