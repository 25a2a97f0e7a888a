package site

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// becomes waits until a page says yes; while one page gives way to the next there is none to ask.
func (p *tab) becomes(script string) {
	p.t.Helper()
	var last error
	for p.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
		yes, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script))
		cancel()
		if err == nil && yes {
			return
		}
		last = err
	}
	p.t.Fatalf("never: %s (%v)", script, last)
}

func TestRealNamesAreSuggestedAsOneTypes(t *testing.T) {
	browser := newBrowser(t)
	w := listWorld(t)
	p := newTab(t, browser, w, screenOf{width: 1440})
	p.open("/")
	press := func(key string) { p.run(chromedp.KeyEvent(key)) }
	p.run(chromedp.Focus(chromedp.CSS("#q")))
	press("309")
	p.becomes(`document.querySelector('#sugg').dataset.of === '309'`)
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
	p.becomes(`document.querySelector('#sugg').dataset.of === '3090' && !document.querySelector('#sugg').hidden`)
	press(kb.ArrowDown)
	press("\r")
	p.becomes(`location.pathname === '/hardware/rtx-3090-24gb' && !!document.querySelector('#versions')`)
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
	p.becomes(`!!document.querySelector('table.tb')`)
	if got := eval[string](p, `location.search + ' ' + document.querySelectorAll('tr[id]').length`); got != "?q=qwen3+coder+3090 6" {
		t.Errorf("a search leads to %s", got)
	}
	until("facet", `document.activeElement.innerText === 'RTX 3090 24GB' && !!document.activeElement.closest('.fx')`)
	press("\r")
	p.becomes(`new URLSearchParams(location.search).get('gpu') === 'rtx-3090-24gb' && !!document.querySelector('.fx .on a[aria-current="true"]')`)
	until("order", `document.activeElement.id === 'sn'`)
	for range 3 {
		press(kb.ArrowUp) // 4, 2, 1
	}
	until("button", `document.activeElement.innerText === 'Sort'`)
	press("\r")
	p.becomes(`!!document.querySelector('#sn option[value="1"][selected]')`)
	if got := eval[string](p, `document.querySelector('th[aria-sort]').innerText.replace(/\s+/g, ' ')`); got != "Total tok/s 16K × 1" {
		t.Errorf("sorted by %q", got)
	}
	for range 2 {
		until("run to compare", `document.activeElement.name === 'run' && !document.activeElement.checked`)
		press(" ")
	}
	until("button to compare", `document.activeElement.innerText === 'Compare the chosen runs'`)
	press("\r")
	p.becomes(`location.pathname === '/compare' && new URLSearchParams(location.search).getAll('run').length === 2 && !!document.querySelector('#settings')`)
	p.open("/")
	until("question", `document.activeElement.id === 'a-model'`)
	press("\t")
	press("\r")
	p.becomes(`location.pathname === '/boards/16kx8' && !!document.querySelector('table.bd')`)
}
