package site

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/template"
	"time"

	"speedmatrix/internal/catalog"
)

// A part of the sitemap has at most so many addresses: fewer than the 50,000 that are allowed, so that each is made at once.
const sitemapLength = 5000

type siteURL struct {
	Address string `xml:"loc"`
	Changed string `xml:"lastmod,omitempty"`
}

type siteURLs struct {
	XMLName xml.Name  `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 urlset"`
	URLs    []siteURL `xml:"url"`
}

type siteParts struct {
	XMLName xml.Name  `xml:"http://www.sitemaps.org/schemas/sitemap/0.9 sitemapindex"`
	Parts   []siteURL `xml:"sitemap"`
}

// sitemap lists the addresses of the site, or the parts of that list: the pages first, then the runs.
func (p *pages) sitemap(w http.ResponseWriter, r *http.Request) error {
	_, runs := p.Index.ListedRuns(0, 0)
	pages := p.pageURLs()
	if len(pages)+runs <= sitemapLength {
		return p.sendXML(w, r, siteURLs{URLs: append(pages, p.runURLs(0)...)})
	}
	index := siteParts{Parts: []siteURL{{Address: p.Base + "/sitemap/pages.xml"}}}
	for n := range (runs + sitemapLength - 1) / sitemapLength {
		index.Parts = append(index.Parts, siteURL{Address: p.Base + "/sitemap/runs-" + strconv.Itoa(n+1) + ".xml"})
	}
	return p.sendXML(w, r, index)
}

// sitemapPart serves a part: /sitemap/pages.xml, /sitemap/runs-3.xml.
func (p *pages) sitemapPart(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("part")
	if name == "pages.xml" {
		return p.sendXML(w, r, siteURLs{URLs: p.pageURLs()})
	}
	number, ok := strings.CutPrefix(strings.TrimSuffix(name, ".xml"), "runs-")
	n, err := strconv.Atoi(number)
	_, total := p.Index.ListedRuns(0, 0)
	if !ok || err != nil || n < 1 || (n-1)*sitemapLength >= total || !strings.HasSuffix(name, ".xml") {
		return nothing("page")
	}
	return p.sendXML(w, r, siteURLs{URLs: p.runURLs((n - 1) * sitemapLength)})
}

func (p *pages) runURLs(from int) (list []siteURL) {
	runs, _ := p.Index.ListedRuns(from, sitemapLength)
	for _, run := range runs {
		u := siteURL{Address: p.Base + "/runs/" + run.ID}
		if !run.PublishedAt.IsZero() {
			u.Changed = run.PublishedAt.Format(time.DateOnly)
		}
		list = append(list, u)
	}
	return list
}

// pageURLs are the pages beside those of runs; of the models, machines and engines those with most runs.
func (p *pages) pageURLs() (list []siteURL) {
	for _, path := range []string{"/", "/runs", "/boards", "/models", "/hardware", "/engines", "/upload"} {
		list = append(list, siteURL{Address: p.Base + path})
	}
	add := func(path string, groups []catalog.Group) {
		for _, g := range groups[:min(len(groups), sitemapLength/5)] {
			list = append(list, siteURL{Address: p.Base + "/" + path + "/" + url.PathEscape(g.Key), Changed: dated(g.Newest, time.DateOnly)})
		}
	}
	models := p.Index.Models()
	add("models", models)
	add("hardware", p.Index.Hardware())
	add("engines", p.Index.Engines())
	for _, m := range models[:min(len(models), sitemapLength/5)] {
		list = append(list, siteURL{Address: p.Base + boardTabs[2].link(nil, m.Key, "")})
	}
	return list
}

func (p *pages) sendXML(w http.ResponseWriter, r *http.Request, doc any) error {
	if fresh(w, r, p.tag(r, r.URL.Path, p.Index.Sequence())) {
		return nil
	}
	var out bytes.Buffer
	out.WriteString(xml.Header)
	if err := xml.NewEncoder(&out).Encode(doc); err != nil {
		return fmt.Errorf("write the sitemap: %w", err)
	}
	return send(w, "application/xml", out.Bytes())
}

// robots says what programs that walk the web need not look at.
func (p *pages) robots(w http.ResponseWriter, _ *http.Request) error {
	return send(w, "text/plain; charset=utf-8", []byte(`User-agent: *
Disallow: /me
Disallow: /upload/
Disallow: /signin
Disallow: /device
Disallow: /moderate
Disallow: /compare
Disallow: /search.json
Disallow: /runs?
Disallow: /runs.jsonl

Sitemap: `+p.Base+`/sitemap.xml
`))
}

// llms tells language models and their programs what the site has and how to ask for it.
func (p *pages) llms(w http.ResponseWriter, _ *http.Request) error {
	var out bytes.Buffer
	if err := llmsText.Execute(&out, p.Options); err != nil {
		return err
	}
	return send(w, "text/plain; charset=utf-8", out.Bytes())
}

var llmsText = template.Must(template.New("llms").Parse(`# {{.Name}}

> Measured speeds of language model servers. Each run is one model on one machine: a matrix of context length × simultaneous requests, with what was checked about it.

Numbers are output tokens per second over a window of sustained load, medians of repeats, ± the 95 % interval. A cell that does not fit in memory, or failed, has a status in place of a number; nothing is interpolated. Trust is a ladder: Stated, Complete, Recomputed (from the raw events, by this site), Self-consistent, Reproduced (by another uploader). Only comparable runs are ordered together: method standard/1, stock hardware, no speculative decoding, Recomputed or better. Say the run's address and its level when you use a number.

## Lists

- [Runs]({{.Base}}/runs.json): parameters q, model, gpu, engine, version, quant, method, uploader, trust (1 to 5), since, until, mod (stock or modified), ctx (tokens, 16K), n (requests at once), cell=1 (only runs with a speed there), floor (tok/s for each user), all=1, sort (total, per-request, ttft, users, prefill, newest), limit, cursor. Also .csv and .atom.
- [All documents]({{.Base}}/runs.jsonl): every published run with its whole document, one a line, under the same parameters.
- [Boards]({{.Base}}/boards.json): one order of machines for a model and a cell, {{.Base}}/boards/16kx8.json?model=KEY; by=users or by=prefill for other numbers. The rule is in the answer.
- [Models]({{.Base}}/models.json), [hardware]({{.Base}}/hardware.json), [engines]({{.Base}}/engines.json), and each of them: {{.Base}}/models/KEY.json
- [Names, as one types]({{.Base}}/search.json?q=qwen)

## A run

- {{.Base}}/runs/ID.json is the whole document, .csv its cells, .md a page to read; /runs/ID/checks says what was checked and found.
- {{.Base}}/compare.json?run=ID&run=ID compares cell by cell, with intervals.

## API

- [Contract]({{.Base}}/api/v1/openapi.json): OpenAPI 3.1, with uploads. [Documentation]({{.Base}}/api/v1/docs).
`))
