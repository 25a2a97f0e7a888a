package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"speedmatrix/internal/need"
)

// newBrowser starts a Chromium that ends with the test.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	allocator, cancel := chromedp.NewExecAllocator(context.Background(),
		chromedp.ExecPath(need.Browser(t)), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("headless", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.WSURLReadTimeout(time.Minute))
	t.Cleanup(cancel)
	quiet := log.New(io.Discard, "", 0).Printf
	browser, cancel := chromedp.NewContext(allocator, chromedp.WithErrorf(quiet), chromedp.WithLogf(quiet))
	t.Cleanup(cancel)
	if err := chromedp.Do(browser); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	return browser
}

// screenOf is how a page is looked at.
type screenOf struct {
	width    int64
	dark     bool
	noScript bool
}

func (s screenOf) String() string {
	name := fmt.Sprintf("%d light", s.width)
	if s.dark {
		name = fmt.Sprintf("%d dark", s.width)
	}
	if s.noScript {
		name += " without scripts"
	}
	return name
}

// tab is an open page; whatever it says on the console, and each request beyond the first, fails
// the test.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// openPage serves a page from this machine and opens it.
func openPage(t *testing.T, browser context.Context, html []byte, s screenOf) *tab {
	t.Helper()
	var mu sync.Mutex
	var trouble []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		trouble = append(trouble, fmt.Sprintf(format, args...))
	}
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests++
		again := requests > 1
		mu.Unlock()
		if again || r.URL.Path != "/" {
			note("a request to %s", r.URL)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(html)
	}))
	t.Cleanup(server.Close)
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			note("console: %s", e.Type)
		case *runtime.EventExceptionThrown:
			note("exception: %s", e.ExceptionDetails.Text)
		case *cdplog.EventEntryAdded:
			note("log: %s", e.Entry.Text)
		case *page.EventJavascriptDialogOpening:
			note("a dialog: %s", e.Message)
		}
	}); err != nil {
		t.Fatal(err)
	}
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	p := &tab{t, ctx}
	call(p, cdplog.Enable, cdp.Empty{})
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: s.noScript})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	p.resize(s.width)
	p.run(chromedp.Navigate(server.URL))
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, what := range trouble {
			t.Errorf("%s: %s", s, what)
		}
	})
	return p
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// call sends a command to the page.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, command, params); err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) resize(width int64) {
	p.t.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 600})
}

func (p *tab) click(selector string) {
	p.t.Helper()
	p.run(chromedp.Click(chromedp.CSS(selector)))
}

// eval gives the value of a script, awaited.
func eval[T any](p *tab, script string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

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
	return strings.ReplaceAll(squeeze(b.String()), "|", "")
}

const seedText = `[...document.querySelectorAll('[data-seed]')].map(e => e.innerText).join('\n')`

func TestRealVisibleTextOfTheSeedsIsThePublishedText(t *testing.T) {
	browser := newBrowser(t)
	for _, s := range seeds {
		run, want := readSeed(t, s)
		html := render(t, run, htmlPage)
		for _, screen := range []screenOf{{width: 1440}, {width: 390}, {width: 1440, noScript: true}} {
			p := openPage(t, browser, html, screen)
			got := eval[string](p, seedText)
			if a, b := glued(got), glued(want); a != b {
				at := 0
				for at < min(len(a), len(b)) && a[at] == b[at] {
					at++
				}
				t.Errorf("%s at %s differs from byte %d on:\n got %.80q\nwant %.80q", s.key, screen, at, a[at:], b[at:])
			}
		}
	}
}

// realPages are pages of every kind of run.
func realPages(t *testing.T) map[string][]byte {
	pages := map[string][]byte{}
	for _, s := range seeds {
		run, _ := readSeed(t, s)
		pages[s.key] = render(t, run, htmlPage)
	}
	for name, run := range everyRun() {
		pages[name] = render(t, run, htmlPage)
	}
	measured, rows := measuredRun()
	var out strings.Builder
	if err := HTML(&out, Build(measured), HTMLOptions{Rows: rows}); err != nil {
		t.Fatal(err)
	}
	pages["with rows"] = []byte(out.String())
	pages["watched"], pages["watched, two GPUs"] = watchedPage(t, 1), watchedPage(t, 2)
	compared := comparisons(t)
	for name, as := range map[string]string{"seeds": "rtx seeds compared", "repeats": "repeats compared", "three": "three compared", "hostile": "hostile compared", "huge": "huge compared"} {
		pages[as] = comparisonPage(t, compared[name])
	}
	return pages
}

func TestRealPagesDoNotScrollSideways(t *testing.T) {
	browser := newBrowser(t)
	for name, html := range realPages(t) {
		p := openPage(t, browser, html, screenOf{width: 1440})
		for _, width := range []int64{390, 340, 600, 761, 1000, 1100, 1200, 1281, 1361, 1440} {
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
	for name, html := range realPages(t) {
		screens := []screenOf{{width: 1440}, {width: 390, dark: true}}
		if strings.HasPrefix(name, "rtx") {
			screens = append(screens, screenOf{width: 1440, dark: true}, screenOf{width: 390})
		}
		for _, screen := range screens {
			p := openPage(t, browser, html, screen)
			eval[int](p, string(axe)+";0")
			eval[bool](p, `document.querySelectorAll('details').forEach((d, i) => d.open = i < 12), true`)
			for _, line := range eval[[]string](p, `axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.flatMap(v => v.nodes.slice(0, 3).map(n => v.id + ': ' + n.target + ' ' + n.failureSummary)))`) {
				t.Errorf("%s at %s: %s", name, screen, line)
			}
		}
	}
}

func TestRealPagesPrint(t *testing.T) {
	browser := newBrowser(t)
	for name, html := range realPages(t) {
		p := openPage(t, browser, html, screenOf{width: 1440, dark: true})
		call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
		small := eval[[]string](p, `[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && e.childNodes.length && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) && parseFloat(getComputedStyle(e).fontSize) < 10).slice(0, 3).map(e => e.className + ': ' + e.textContent.slice(0, 40))`)
		if len(small) > 0 {
			t.Errorf("%s: text below 10 px in print: %q", name, small)
		}
		if paper := eval[string](p, `getComputedStyle(document.body).backgroundColor`); paper != "rgb(255, 255, 255)" {
			t.Errorf("%s: printed on %s", name, paper)
		}
		pdf, err := chromedp.Run(p.ctx, chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4), chromedp.PDFPrintBackground()))
		if err != nil {
			t.Fatal(err)
		}
		sheets := strings.Count(string(pdf), "/Type /Page\n")
		if !strings.HasPrefix(string(pdf), "%PDF-") || sheets == 0 || strings.HasPrefix(name, "rtx") && sheets > 7 {
			t.Errorf("%s: a PDF of %d bytes and %d pages", name, len(pdf), sheets)
		}
	}
}

func TestRealSwitchesWorkWithoutScripts(t *testing.T) {
	browser := newBrowser(t)
	run, _ := readSeed(t, seeds[1])
	for _, noScript := range []bool{true, false} {
		p := openPage(t, browser, render(t, run, htmlPage), screenOf{width: 1440, noScript: noScript})
		cell := `document.getElementById('decode-16k-x8').innerText.split(/\s*\n\s*/).join(' ')`
		for _, x := range [][2]string{{"t", "635.9 177 ms TTFT"}, {"p", "79.6 635.9 total"}, {"f", "177 ms 635.9 total"}, {"i", "12.6 ms 635.9 total"}, {"s", "73 % 635.9 total"}} {
			p.click(`label[for="m-` + x[0] + `"]`)
			if got := eval[string](p, cell); got != x[1] {
				t.Errorf("%s: the cell says %q, want %q", x[0], got, x[1])
			}
		}
		p.click(`label[for="c-b"]`)
		if got := eval[string](p, `[...document.querySelectorAll('.fit tbody .n')].map(e => e.innerText).join(' ')`); got != "16 16 8 4 2 0" {
			t.Errorf("users at 50 tok/s and 500 ms: %s", got)
		}
		p.click(`label[for="h-no"]`)
		if got := eval[int](p, `[...document.querySelectorAll('.all tbody tr')].filter(r => r.checkVisibility()).length`); got != 26 {
			t.Errorf("%d rows are left, want the 26 with a speed", got)
		}
	}
}

func TestRealComparisonSwitchesWorkWithoutScripts(t *testing.T) {
	p := openPage(t, newBrowser(t), comparisonPage(t, comparisons(t)["seeds"]), screenOf{width: 1440, noScript: true})
	cell := func(view string) string {
		return eval[string](p, `document.querySelector('.view-`+view+` tbody td').innerText.split(/\s*\n\s*/).join(' ')`)
	}
	for _, x := range [][2]string{{"t", "+4 % 117 → 123"}, {"p", "+6 % 117 → 125"}, {"f", "−44 % 54 → 30"}, {"i", "−6 % 8.5 → 8.0"}} {
		p.click(`label[for="m0-` + x[0] + `"]`)
		if got := cell("d"); got != x[1] {
			t.Errorf("the difference is %q, want %q", got, x[1])
		}
	}
	p.click(`label[for="m0-t"]`)
	for _, x := range [][2]string{{"a", "117.3 54 ms TTFT"}, {"b", "122.5 30 ms TTFT"}} {
		p.click(`label[for="w0-` + x[0] + `"]`)
		if got := cell(x[0]); got != x[1] {
			t.Errorf("the matrix of %s says %q, want %q", x[0], got, x[1])
		}
		if got := eval[int](p, `[...document.querySelectorAll('.view-d, .view-a, .view-b')].filter(e => e.checkVisibility()).length`); got != 1 {
			t.Errorf("%d views are shown at once", got)
		}
	}
}

func TestRealScriptSortsHidesCopiesAndOpens(t *testing.T) {
	browser := newBrowser(t)
	run, rows := measuredRun()
	var out strings.Builder
	if err := HTML(&out, Build(run), HTMLOptions{Rows: rows}); err != nil {
		t.Fatal(err)
	}
	p := openPage(t, browser, []byte(out.String()), screenOf{width: 1440})
	first := `document.querySelector('.all tbody tr').cells[4].textContent`
	p.click(`.all thead th:nth-child(5) .so`)
	if got := eval[string](p, first); got != "10.8K" {
		t.Errorf("sorted downward by speed the first is %s", got)
	}
	p.click(`.all thead th:nth-child(5) .so`)
	if got := eval[string](p, first); got != "56.2" {
		t.Errorf("sorted upward by speed the first is %s", got)
	}
	eval[bool](p, `navigator.clipboard.writeText = s => { window.copied = s; return Promise.resolve(); }, true`)
	p.click(`.cols summary`)
	p.click(`label[for="col-0"]`)
	p.click(`.tools button:last-of-type`)
	if got := eval[string](p, `window.copied.split('\r\n')[1]`); got != `248K,1,Valid,56.2,56.2,600 ms,17.8 ms,1.0,0,"1,686",30.0 s` {
		t.Errorf("copied %s", got)
	}
	p.click(`#decode-16k-x8 a`)
	if !eval[bool](p, `document.getElementById('cell-decode-16k-x8').open`) {
		t.Error("the link of a cell does not open its details")
	}
	if got := eval[int](p, `document.querySelectorAll('#cell-decode-16k-x8 .pics svg').length`); got != 3 {
		t.Errorf("the cell has %d drawings, want the window, the gaps and TTFT", got)
	}
	got := eval[string](p, `(() => { const i = document.querySelectorAll('.sliders input'); i[0].value = 11; i[0].dispatchEvent(new Event('input', {bubbles: true})); return [...document.querySelectorAll('.fit tbody .n')].map(e => e.innerText).join(' '); })()`)
	if got != "32 8 8 4 1 0" {
		t.Errorf("users at 60 tok/s and 1 s: %s", got)
	}
}

func TestRealHostileTextStaysText(t *testing.T) {
	browser := newBrowser(t)
	run := hostileRun()
	p := openPage(t, browser, render(t, run, htmlPage), screenOf{width: 390})
	state, err := json.Marshal(eval[map[string]int](p, `({scripts: document.scripts.length, forms: document.forms.length, images: document.images.length, styles: document.querySelectorAll('style').length})`))
	if err != nil || string(state) != `{"forms":0,"images":0,"scripts":1,"styles":1}` {
		t.Errorf("the page has %s (%v)", state, err)
	}
	if got := eval[string](p, `document.querySelector('h1').innerText`); !strings.Contains(got, "<script>alert(1)</script>") {
		t.Errorf("the title shows %q", got)
	}
}
