package site

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"speedmatrix/internal/account"
	"speedmatrix/internal/chart"
	"speedmatrix/internal/report"
)

//go:embed page
var siteFiles embed.FS

var siteTemplate = template.Must(template.New("site").Funcs(template.FuncMap{"searchForm": newSearchForm}).ParseFS(siteFiles, "page/*.html"))

// asset is a file that pages link to, by a name that changes with its bytes.
type asset struct {
	path, kind string
	data       []byte
}

// assets are the style sheets and scripts of all pages.
type assets struct{ site, report, compare, script, search asset }

var siteAssets = sync.OnceValues(func() (assets, error) {
	var a assets
	base, err := siteFiles.ReadFile("page/site.css")
	if err != nil {
		return a, err
	}
	lists, err := siteFiles.ReadFile("page/lists.css")
	if err != nil {
		return a, err
	}
	extra, err := siteFiles.ReadFile("page/run.css")
	if err != nil {
		return a, err
	}
	style, err := report.Style()
	if err != nil {
		return a, err
	}
	compared, err := report.ComparisonStyle(mostSides)
	if err != nil {
		return a, err
	}
	script, err := report.Script()
	if err != nil {
		return a, err
	}
	search, err := siteFiles.ReadFile("page/search.js")
	if err != nil {
		return a, err
	}
	css, js := "text/css; charset=utf-8", "text/javascript; charset=utf-8"
	a.site = newAsset("site", ".css", css, []byte(chart.Variables()+chart.Rules()+string(base)+string(lists)))
	a.report, a.compare = newAsset("report", ".css", css, append(style, extra...)), newAsset("compare", ".css", css, append(compared, extra...))
	a.script, a.search = newAsset("report", ".js", js, script), newAsset("search", ".js", js, search)
	return a, nil
})

func newAsset(name, ext, kind string, data []byte) asset {
	sum := sha256.Sum256(data)
	return asset{"/static/" + name + "-" + hex.EncodeToString(sum[:6]) + ext, kind, data}
}

// view is a page as its handler gives it.
type view struct {
	status int
	// title is the page's name, says what it is about in a sentence, current the address of the part of the site it belongs to.
	title, says, current string
	// name is the template of its content, data what that shows.
	name string
	data any
	// head is further elements of the head; unlisted keeps the page out of searches.
	head     template.HTML
	unlisted bool
}

// frameView is what the frame around a page shows.
type frameView struct {
	Title, Says, Site, Version, Current string
	CSS                                 string
	Head, Content                       template.HTML
	Unlisted                            bool
	Visitor                             string
	SignIn                              bool
}

// show writes a page.
func (p *pages) show(w http.ResponseWriter, r *http.Request, v view) {
	a, err := siteAssets()
	var content, out bytes.Buffer
	if err == nil {
		err = siteTemplate.ExecuteTemplate(&content, v.name, v.data)
	}
	if err == nil {
		f := p.frameOf(r, v.title, v.current)
		f.Says, f.CSS, f.Head, f.Unlisted, f.Content = v.says, a.site.path, v.head, v.unlisted, template.HTML(content.String())
		err = siteTemplate.ExecuteTemplate(&out, "frame", f)
	}
	if err != nil {
		p.Log.ErrorContext(r.Context(), "a page failed", "path", r.URL.Path, "error", err)
		http.Error(w, "This page could not be made. The fault is the site's; it is in its log.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Security-Policy", policyOf(false))
	if v.status == 0 {
		v.status = http.StatusOK
	}
	w.WriteHeader(v.status)
	_, _ = w.Write(out.Bytes()) // nobody is there to be told
}

// policyOf lets a page load the site's own files and nothing else; a report's elements have styles of their own.
func policyOf(styled bool) string {
	style := "'self'"
	if styled {
		style = "'self'; style-src-attr 'unsafe-inline'"
	}
	return "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; img-src 'self' data:; connect-src 'self'; script-src 'self'; style-src " + style
}

func (p *pages) frameOf(r *http.Request, title, current string) frameView {
	v := account.FromContext(r.Context())
	return frameView{Title: title, Site: p.Name, Version: p.Version, Current: current, Visitor: v.Account.Name, SignIn: p.Accounts != nil && !v.SignedIn()}
}

// part renders a template of the frame alone.
func part(name string, data any) (template.HTML, error) {
	var out strings.Builder
	if err := siteTemplate.ExecuteTemplate(&out, name, data); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return template.HTML(out.String()), nil
}

// static serves the files that pages link to.
func static(w http.ResponseWriter, r *http.Request) {
	a, err := siteAssets()
	if err != nil {
		http.Error(w, "The file could not be made.", http.StatusInternalServerError)
		return
	}
	for _, x := range []asset{a.site, a.report, a.compare, a.script, a.search} {
		if x.path == r.URL.Path {
			w.Header().Set("Content-Type", x.kind)
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			_, _ = w.Write(x.data) // nobody is there to be told
			return
		}
	}
	http.NotFound(w, r)
}
