package report

import (
	"bytes"
	"strings"
	"testing"

	"speedmatrix"
)

func TestAFramedPageHasNothingOfItsOwnButItsContent(t *testing.T) {
	run, rows := measuredRun()
	frame := &Frame{Head: "<title>T</title>", Top: "<i>top</i>", Below: "<i>below</i>", End: "<i>end</i>", Footer: "<footer>foot</footer>"}
	var out bytes.Buffer
	err := HTML(&out, Build(run), HTMLOptions{Frame: frame, Drawing: func(cell, drawing string) string { return "rows/" + cell + "/" + drawing }})
	if err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, never := range []string{"<style", "<script", "Content-Security-Policy", "Speed test matrix: "} {
		if strings.Contains(page, never) {
			t.Errorf("the page holds %q", never)
		}
	}
	at := 0
	for _, part := range []string{"<title>T</title>", "<i>top</i>", "<h1", "<i>below</i>", `aria-label="On this page"`, `<main id="main">`, `id="again"`, "<i>end</i>", "</main>", "<footer>foot</footer>"} {
		i := strings.Index(page[at:], part)
		if i < 0 {
			t.Fatalf("%q does not follow in its order", part)
		}
		at += i
	}
	drawn := 0
	for _, m := range Build(run).Measurements {
		for _, name := range []string{DrawingWindow, DrawingGaps, DrawingFirst} {
			if !strings.Contains(page, `src="rows/`+m.Cell.Key()+"/"+name+`"`) {
				continue
			}
			drawn++
			if !rows.HasCell(m.Cell.Key()) {
				continue
			}
			var svg bytes.Buffer
			if err := RowsSVG(&svg, Build(run), rows, [2]string{m.Cell.Key(), name}); err != nil || !strings.HasPrefix(svg.String(), "<svg") {
				t.Errorf("%s of %s: %v", name, m.Key, err)
			}
		}
	}
	if drawn == 0 || !strings.Contains(page, `src="rows//machine"`) {
		t.Errorf("%d drawings are loaded", drawn)
	}
	if err := RowsSVG(&out, Build(run), rows, [2]string{"decode-9-x9", DrawingWindow}); speedmatrix.KindOf(err) != speedmatrix.KindUsage {
		t.Errorf("a drawing of no cell: %v", err)
	}
}

func TestAFramedComparisonHasNothingOfItsOwnButItsContent(t *testing.T) {
	var out bytes.Buffer
	if err := ComparisonHTML(&out, comparisons(t)["seeds"], &Frame{Head: "<title>T</title>", Top: "<i>top</i>", Below: "<i>below</i>", End: "<i>end</i>", Footer: "<footer>foot</footer>"}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"<title>T</title>", "<i>top</i>", "<i>below</i>", "<i>end</i>", "<footer>foot</footer>"} {
		if strings.Count(out.String(), part) != 1 {
			t.Errorf("%q stands there %d times", part, strings.Count(out.String(), part))
		}
	}
	if strings.Contains(out.String(), "<style") || strings.Contains(out.String(), "Content-Security-Policy") {
		t.Error("the page has a style or a policy of its own")
	}
}
