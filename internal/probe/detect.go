package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"speedmatrix"
	"speedmatrix/internal/metricstext"
)

// sight is what a server's routes answered: each engine has some that tell it apart.
type sight struct {
	models []Model
	// listing is the answer to GET /v1/models, answers those to the routes of the table that
	// came with status 200 and are no web page.
	listing *answer
	answers map[string]*answer

	metrics    metricstext.Families
	metricsErr error
}

// lookMost bounds the answer of a route that tells engines apart.
const lookMost = 1 << 20

// look asks the routes that tell the engines apart, all at once, and gives the row of the
// table. warning is set when what was seen is contradictory.
func (w *sight) look(ctx context.Context, c *caller) (e engine, warning *speedmatrix.Warning) {
	table := engines()
	var routes []string
	for i := range table {
		routes = append(routes, table[i].routes...)
	}
	slices.Sort(routes)
	routes = slices.Compact(routes)
	answers := make([]*answer, len(routes))
	var all sync.WaitGroup
	for i, route := range routes {
		all.Go(func() {
			a, err := c.do(ctx, call{route: route, limit: lookLimit, most: lookMost})
			if err == nil && a.status == http.StatusOK && !a.html {
				answers[i] = a
			}
		})
	}
	all.Go(func() { w.metrics, w.metricsErr = c.metrics(ctx) })
	all.Wait()
	w.answers = map[string]*answer{}
	for i, a := range answers {
		if a != nil {
			w.answers[routes[i]] = a
		}
	}
	for i := range table {
		if table[i].is(w) {
			return table[i], table[i].doubt(w)
		}
	}
	return engineOf(KindOpenAI), nil
}

// doubt is set when a server answers as an engine does that it is not.
func (e *engine) doubt(w *sight) *speedmatrix.Warning {
	if e.kind != KindOpenAI || !hasVersion(w.get("/version")) {
		return nil
	}
	return &speedmatrix.Warning{
		Code: "version_without_engine",
		Message: "the server answers GET /version as vLLM does, but neither its metrics nor its list of models is vLLM's: " +
			"taken for a proxy, so its version is not that of an engine",
	}
}

// get gives the answer to a route of the table; nil without one.
func (w *sight) get(route string) *answer { return w.answers[route] }

// header gives a header field of the first answer.
func (w *sight) header(name string) string {
	if w.listing == nil {
		return ""
	}
	return w.listing.header.Get(name)
}

func (w *sight) owned(by string) bool {
	return slices.ContainsFunc(w.models, func(m Model) bool { return m.Owner == by })
}

func hasVersion(a *answer) bool {
	var v struct {
		Version string `json:"version"`
	}
	return a.decode(&v) && v.Version != ""
}

// metrics scrapes /metrics; without an answer of status 200 that reads to its end it is an error.
func (c *caller) metrics(ctx context.Context) (metricstext.Families, error) {
	return c.metricsAt(ctx, "/metrics")
}

func (c *caller) metricsAt(ctx context.Context, route string) (metricstext.Families, error) {
	a, err := c.do(ctx, call{route: route, accept: metricstext.Accept, limit: lookLimit, most: metricsMost})
	switch {
	case err != nil:
		return metricstext.Families{}, err
	case a.status != http.StatusOK:
		return metricstext.Families{}, &statusError{route: route, status: a.status, words: a.words()}
	case a.html:
		return metricstext.Families{}, errWebPage
	}
	seen, err := metricstext.Parse(bytes.NewReader(a.body))
	if err != nil {
		return metricstext.Families{}, fmt.Errorf("%s: %s", route, a.hide(err.Error()))
	}
	return seen, nil
}

// errWebPage is a page for people where figures were expected.
var errWebPage = errors.New("/metrics: a web page")

// statusError is an answer of another status than 200 to a route that should have one.
type statusError struct {
	route  string
	status int
	words  string
}

func (e *statusError) Error() string { return e.route + ": " + says(e.status, e.words) }
