package site

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"speedmatrix/internal/need"
)

// glued is what a text says without spaces, bullets, and the bars of its tables.
func glued(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "|---") {
			continue
		}
		b.WriteString(strings.TrimPrefix(line, "- "))
	}
	return strings.ReplaceAll(strings.Join(strings.Fields(b.String()), ""), "|", "")
}

const seedText = `[...document.querySelectorAll('[data-seed]')].map(e => e.innerText).join('\n')`

func TestRealRunPagesShowTheWordsOfTheSeeds(t *testing.T) {
	browser := newBrowser(t)
	w := newWorld(t)
	for name, text := range map[string]string{qwenSeed: "qwen3-coder-30b-a3b-awq.rtx3090.txt", agentsSeed: "agents-a1-4b-fp8.rtx3090.txt"} {
		want, err := os.ReadFile("../report/testdata/seeds/" + text)
		if err != nil {
			t.Fatal(err)
		}
		receipt := w.receive(seed(t, name), ann)
		w.publish(receipt.ID, ann)
		for _, screen := range []screenOf{{width: 1440}, {width: 390}, {width: 1440, noScript: true}} {
			p := newTab(t, browser, w, screen)
			p.open("/runs/" + receipt.ID)
			if got := eval[string](p, seedText); glued(got) != glued(string(want)) {
				t.Errorf("%s at %s: the page's words are not the published ones", name, screen)
			}
		}
		if name == qwenSeed {
			p := newTab(t, browser, w, screenOf{width: 1440})
			p.open("/runs/" + receipt.ID + "/checks")
			if got := eval[string](p, `document.querySelector('.lad').innerText`); !strings.Contains(got, "128K × 1, 136K × 1") {
				t.Errorf("the checks do not name the two false cells: %s", got)
			}
		}
	}
}

// quiet are the answers that Chromium itself remarks on: pages that are not there.
var quiet = []string{"withdrawn", "refused", "missing"}

func TestRealPagesDoNotScrollSideways(t *testing.T) {
	browser := newBrowser(t)
	w, visits := fullWorld(t)
	for name, x := range visits {
		if slices.Contains(quiet, name) {
			continue
		}
		w.visitor = x.visitor
		p := newTab(t, browser, w, screenOf{width: 1440})
		p.open(x.path)
		for _, width := range []int64{390, 340, 600, 761, 900, 1000, 1100, 1200, 1440} {
			p.resize(width)
			if got := eval[int64](p, `document.documentElement.scrollWidth`); got > width {
				wide := eval[string](p, `[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.frame')).slice(0, 4).map(e => e.tagName + '.' + e.className).join(' ')`)
				t.Errorf("%s at %d: the page is %d wide: %s", name, width, got, wide)
			}
		}
	}
}

func TestRealPagesAreAccessible(t *testing.T) {
	axe, err := os.ReadFile(need.Setting(t, need.Axe))
	if err != nil {
		t.Fatal(err)
	}
	browser := newBrowser(t)
	w, visits := fullWorld(t)
	for name, x := range visits {
		if slices.Contains(quiet, name) {
			continue
		}
		w.visitor = x.visitor
		for _, screen := range []screenOf{{width: 1440}, {width: 390, dark: true}} {
			p := newTab(t, browser, w, screen)
			p.open(x.path)
			eval[int](p, string(axe)+";0")
			for _, line := range eval[[]string](p, `axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.flatMap(v => v.nodes.slice(0, 3).map(n => v.id + ': ' + n.target + ' ' + n.failureSummary)))`) {
				t.Errorf("%s at %s: %s", name, screen, line)
			}
		}
	}
}

// focused names what has the focus.
const focused = `(e => e.id || e.name || e.value || e.getAttribute('href') || e.innerText)(document.activeElement)`

func TestRealPagesWorkWithTheKeyboardAloneAndWithoutScripts(t *testing.T) {
	browser := newBrowser(t)
	w := newWorld(t)
	receipt := w.receive(seed(t, qwenSeed), ann)
	w.visitor = ann
	p := newTab(t, browser, w, screenOf{width: 1440, noScript: true})
	p.open("/upload/" + receipt.ID)
	press := func(key string) { p.run(chromedp.KeyEvent(key)) }
	press("\t")
	if got := eval[string](p, focused); got != "#main" {
		t.Errorf("the first stop is %q, not the way to the content", got)
	}
	for i := 0; eval[string](p, `document.activeElement.name || ''`) != "cells" && i < 60; i++ {
		press("\t")
	}
	press(" ")
	p.run(chromedp.KeyEvent(kb.ArrowDown)) // arrow down: the next choice
	if got := eval[string](p, `document.activeElement.value`); got != "valid" {
		t.Fatalf("the arrow chose %q", got)
	}
	press("\t")
	press("\r")
	p.run(chromedp.WaitNotPresent(chromedp.CSS("#cells")), chromedp.WaitReady(chromedp.CSS("#publish"))) // decided
	for i := 0; eval[string](p, `document.activeElement.value || ''`) != "public" && i < 80; i++ {
		press("\t")
	}
	press("\r")
	p.run(chromedp.WaitReady(chromedp.CSS("#matrix")))
	if got := eval[string](p, `location.pathname`); got != "/runs/"+receipt.ID {
		t.Errorf("publishing leads to %s", got)
	}
	// A link to a cell marks it, and the compare form works.
	p.open("/runs/" + receipt.ID + "#decode-0-x16")
	if got := eval[string](p, `getComputedStyle(document.querySelector('#decode-0-x16')).outlineStyle`); got != "solid" {
		t.Errorf("the cell that the address names has the outline %q", got)
	}
	other := w.put(seed(t, agentsSeed), bob, nil)
	p.run(chromedp.Focus(chromedp.CSS("#other")), chromedp.KeyEvent("https://speed.example.org/runs/"+other), chromedp.KeyEvent("\r"), chromedp.WaitReady(chromedp.CSS("#settings")))
	if got := eval[string](p, `document.querySelector('h1').innerText`); !strings.Contains(got, "against") {
		t.Errorf("comparing leads to %q", got)
	}
}

func TestRealHostileTextStaysText(t *testing.T) {
	browser := newBrowser(t)
	w, visits := hostileWorld(t)
	for _, x := range visits {
		if regexp.MustCompile(`\.(json|csv|atom|md|svg)(\?|$)`).MatchString(x.path) {
			continue // no page
		}
		w.visitor = x.visitor
		p := newTab(t, browser, w, screenOf{width: 390})
		p.open(x.path)
		got := eval[string](p, `[...document.querySelectorAll('script:not([src]), iframe, object, embed, [onload], [onerror], [onclick]')].map(e => e.outerHTML.slice(0, 80)).join(' ')`)
		if got != "" {
			t.Errorf("%s: the page has %s", x.path, got)
		}
		if wide := eval[int64](p, `document.documentElement.scrollWidth`); wide > 390 {
			t.Errorf("%s is %d wide", x.path, wide)
		}
	}
}
