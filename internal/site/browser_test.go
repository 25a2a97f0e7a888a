package site

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
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

// tab is an open page of a site; whatever it says on the console, and each request to elsewhere, fails the test.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string
}

// newTab opens a tab beside a site.
func newTab(t *testing.T, browser context.Context, w *world, s screenOf) *tab {
	t.Helper()
	server := httptest.NewServer(w.handler)
	t.Cleanup(server.Close)
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	var mu sync.Mutex
	var trouble []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		trouble = append(trouble, fmt.Sprintf(format, args...))
	}
	if err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			note("console: %s", e.Type)
		case *runtime.EventExceptionThrown:
			note("exception: %s", e.ExceptionDetails.Text)
		case *cdplog.EventEntryAdded:
			note("log: %s %s", e.Entry.Text, e.Entry.URL)
		case *page.EventJavascriptDialogOpening:
			note("a dialog: %s", e.Message)
		case *network.EventRequestWillBeSent:
			if url := e.Request.URL; !strings.HasPrefix(url, server.URL) && !strings.HasPrefix(url, "data:") {
				note("a request to %s", url)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	p := &tab{t, ctx, server.URL}
	call(p, cdplog.Enable, cdp.Empty{})
	call(p, network.Enable, network.EnableParams{})
	call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: s.noScript})
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	p.resize(s.width)
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, what := range trouble {
			t.Errorf("%s: %s", s, what)
		}
	})
	return p
}

// open goes to a page of the site.
func (p *tab) open(path string) {
	p.t.Helper()
	p.run(chromedp.Navigate(p.base + path))
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

// eval gives the value of a script, awaited.
func eval[T any](p *tab, script string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}
