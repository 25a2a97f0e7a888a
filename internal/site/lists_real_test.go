package site

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestRealNamesAreSuggestedAsOneTypes(t *testing.T) {
	browser := newBrowser(t)
	w := listWorld(t)
	p := newTab(t, browser, w, screenOf{width: 1440})
	p.open("/")
	press := func(key string) { p.run(chromedp.KeyEvent(key)) }
	p.run(chromedp.Focus(chromedp.CSS("#q")))
	press("309")
	p.run(chromedp.WaitVisible(chromedp.CSS("#sugg li")))
	if got := eval[string](p, `document.querySelector('#sugg').innerText.replace(/\s+/g, ' ')`); !strings.HasPrefix(got, "RTX 3090 24GB hardware, 17 runs") {
		t.Errorf("suggested: %s", got)
	}
	press(kb.ArrowDown)
	press(kb.ArrowDown)
	if got := eval[string](p, `document.activeElement.id + ' ' + document.querySelector('#' + document.querySelector('#q').getAttribute('aria-activedescendant')).innerText.split('\n')[0]`); got != "q 2 × RTX 3090 24GB" {
		t.Errorf("the second is marked: %s", got)
	}
	press(kb.Escape)
	if got := eval[string](p, `document.querySelector('#q').getAttribute('aria-expanded')`); got != "false" {
		t.Errorf("after Escape it is open: %s", got)
	}
	press("0")
	p.run(chromedp.WaitVisible(chromedp.CSS("#sugg li")))
	press(kb.ArrowDown)
	press("\r")
	p.run(chromedp.WaitReady(chromedp.CSS("#versions")))
	if got := eval[string](p, `location.pathname`); got != "/hardware/rtx-3090-24gb" {
		t.Errorf("the first suggestion leads to %s", got)
	}
}

func TestRealListsWorkWithTheKeyboardAloneAndWithoutScripts(t *testing.T) {
	browser := newBrowser(t)
	w := listWorld(t)
	p := newTab(t, browser, w, screenOf{width: 1440, noScript: true})
	p.open("/")
	press := func(key string) { p.run(chromedp.KeyEvent(key)) }
	until := func(what, script string) {
		t.Helper()
		for i := 0; !eval[bool](p, script); i++ {
			if i > 120 {
				t.Fatalf("no %s among the stops of the keyboard", what)
			}
			press("\t")
		}
	}
	until("search field", `document.activeElement.id === 'q'`)
	press("qwen3 coder 3090")
	press("\r")
	p.run(chromedp.WaitReady(chromedp.CSS("table.tb")))
	if got := eval[string](p, `location.search + ' ' + document.querySelectorAll('tr[id]').length`); got != "?q=qwen3+coder+3090 6" {
		t.Errorf("a search leads to %s", got)
	}
	until("facet", `document.activeElement.innerText === 'RTX 3090 24GB' && !!document.activeElement.closest('.fx')`)
	press("\r")
	p.run(chromedp.WaitReady(chromedp.CSS(`.fx .on a[aria-current="true"]`)))
	if got := eval[string](p, `new URLSearchParams(location.search).get('gpu')`); got != "rtx-3090-24gb" {
		t.Errorf("the facet leads to gpu=%s", got)
	}
	until("order", `document.activeElement.id === 'sn'`)
	for range 3 {
		press(kb.ArrowUp) // 4, 2, 1
	}
	until("button", `document.activeElement.innerText === 'Sort'`)
	press("\r")
	p.run(chromedp.WaitReady(chromedp.CSS(`#sn option[value="1"][selected]`)))
	if got := eval[string](p, `document.querySelector('th[aria-sort]').innerText.replace(/\s+/g, ' ')`); got != "Total tok/s 16K × 1" {
		t.Errorf("sorted by %q", got)
	}
	for range 2 {
		until("run to compare", `document.activeElement.name === 'run' && !document.activeElement.checked`)
		press(" ")
	}
	until("button to compare", `document.activeElement.innerText === 'Compare the chosen runs'`)
	press("\r")
	p.run(chromedp.WaitReady(chromedp.CSS("#settings")))
	if got := eval[string](p, `location.pathname + ' ' + new URLSearchParams(location.search).getAll('run').length`); got != "/compare 2" {
		t.Errorf("comparing leads to %s", got)
	}
	p.open("/")
	until("question", `document.activeElement.id === 'a-model'`)
	press("\t")
	press("\r")
	p.run(chromedp.WaitReady(chromedp.CSS("table.bd")))
	if got := eval[string](p, `location.pathname`); got != "/boards/16kx8" {
		t.Errorf("the first question leads to %s", got)
	}
}
