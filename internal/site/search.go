package site

import (
	"encoding/json"
	"net/http"
	"net/url"

	"speedmatrix/internal/catalog"
)

// suggestion is a name that was perhaps meant, and where it leads.
type suggestion struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	URL  string `json:"url"`
	Runs int    `json:"runs,omitempty"`
}

// mostSuggested is how many names are offered.
const mostSuggested = 8

// search serves what was perhaps meant by what is typed so far: /search.json?q=qw.
func (p *pages) search(w http.ResponseWriter, r *http.Request) error {
	list := []suggestion{}
	for _, s := range p.Index.Suggest(clip(r.URL.Query().Get("q"), mostAsked), mostSuggested) {
		list = append(list, suggestion{s.Kind, clip(s.Name, 120), suggestedLink(s), s.N})
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if fresh(w, r, p.tag(r, string(data))) {
		return nil
	}
	return send(w, "application/json", data)
}

func suggestedLink(s catalog.Suggestion) string {
	switch s.Kind {
	case "model":
		return "/models/" + url.PathEscape(s.Key)
	case "hardware":
		return "/hardware/" + url.PathEscape(s.Key)
	case "engine":
		return "/engines/" + url.PathEscape(s.Key)
	case "uploader":
		return "/users/" + url.PathEscape(s.Key)
	}
	return "/runs?" + url.Values{"q": {s.Key}}.Encode()
}
