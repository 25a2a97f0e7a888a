package site

import (
	"net/http"
	"slices"
	"strings"
)

// Site is the pages of a results site.
type Site struct{ pages *pages }

// New makes the pages over what they stand on. Options.Now and Options.Log must be there.
func New(o Options) *Site { return &Site{newPages(o)} }

// Routes adds all pages to a mux, and a page for each address of it that is nobody's: 404, or 405 where the address
// knows other methods. Whatever else the site answers is registered on the same mux; the visitor is that of
// account.FromContext.
func (s *Site) Routes(mux *http.ServeMux) {
	s.pages.register(mux)
	s.pages.registerLists(mux)
	mux.HandleFunc("GET /static/", static)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.pages.nowhere(w, r, mux) })
}

// methods are those that a site answers.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// nowhere answers what no other handler does.
func (p *pages) nowhere(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	var allowed []string
	for _, method := range methods {
		other := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := mux.Handler(other); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		p.fail(w, r, nothing("page"))
		return
	}
	slices.Sort(allowed)
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	p.fail(w, r, &failure{status: http.StatusMethodNotAllowed, Title: "This address does not take " + clip(r.Method, 12),
		Says: "It answers " + strings.Join(allowed, ", ") + ".", Link: "/runs", LinkText: "All runs"})
}
