package api

import (
	_ "embed"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsText string

var docsPage = template.Must(template.New("docs").Parse(docsText))

// documented is one operation on the page of the contract.
type documented struct {
	ID, Method, Path, Summary string
	Token                     bool
	Parameters                []documentedParameter
}

type documentedParameter struct{ Name, In, Type, Doc string }

// documentedOperations lists the contract's operations by path.
func documentedOperations(c *huma.OpenAPI) (all []documented) {
	for path, item := range c.Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PATCH": item.Patch, "DELETE": item.Delete, "PUT": item.Put} {
			if op == nil {
				continue
			}
			d := documented{ID: op.OperationID, Method: method, Path: Prefix + path, Summary: op.Summary, Token: len(op.Security) > 0}
			for _, p := range op.Parameters {
				d.Parameters = append(d.Parameters, documentedParameter{p.Name, p.In, typeOf(p.Schema), cmpDoc(p)})
			}
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b documented) int {
		return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method)
	})
	return all
}

func typeOf(s *huma.Schema) string {
	if s == nil {
		return ""
	}
	return s.Type
}

func cmpDoc(p *huma.Param) string {
	if p.Description != "" || p.Schema == nil {
		return p.Description
	}
	return p.Schema.Description
}

// docs is the contract for people, without a script or anything from elsewhere.
func (s *Server) docs(w http.ResponseWriter, r *http.Request) {
	var content strings.Builder
	err := docsPage.Execute(&content, struct {
		Base, Prefix, Description string
		Operations                []documented
	}{s.o.Base, Prefix, description, documentedOperations(s.api.OpenAPI())})
	if err != nil {
		s.o.Log.ErrorContext(r.Context(), "the contract's page cannot be made", "error", err)
	}
	s.o.Page(w, r, "API", template.HTML(content.String()))
}
