package site

import (
	"encoding/json"
	"html/template"
	"net/http"
	"strings"
)

// Fail answers a request that does not come as far as a page: as a page, or to programs as a problem of RFC 9457.
func (s *Site) Fail(w http.ResponseWriter, r *http.Request, status int, detail string) {
	if !strings.HasPrefix(r.URL.Path, "/api/") {
		s.pages.fail(w, r, &failure{status: status, Title: http.StatusText(status), Says: detail, Link: "/", LinkText: "Home"})
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	code := strings.ToLower(strings.ReplaceAll(http.StatusText(status), " ", "-"))
	// The visitor is gone when this fails.
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail, "code": code})
}

// Page writes a page of others in the site's frame. Its content begins within the header, which it ends, and holds a main
// element.
func (s *Site) Page(w http.ResponseWriter, r *http.Request, title string, content template.HTML) {
	s.pages.show(w, r, view{title: title, name: "content", data: content})
}
