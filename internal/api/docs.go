package api

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsText string

var docsPage = template.Must(template.New("docs").Parse(docsText))

// documentedGroup is the operations on one kind of thing.
type documentedGroup struct {
	ID, Title  string
	Operations []documented
}

// documented is one operation on the page of the contract.
type documented struct {
	ID, Method, Path, Summary string
	Token                     bool
	Parameters                []documentedParameter
}

type documentedParameter struct{ Name, In, Type, Doc string }

// documentedGroups lists the contract's operations by what they are on, those on runs first.
func documentedGroups(c *huma.OpenAPI) (groups []documentedGroup) {
	for path, item := range c.Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PATCH": item.Patch, "DELETE": item.Delete, "PUT": item.Put} {
			if op == nil {
				continue
			}
			id, _, _ := strings.Cut(op.Tags[0], ":") // runs:check is on runs
			i := slices.IndexFunc(groups, func(g documentedGroup) bool { return g.ID == id })
			if i < 0 {
				i = len(groups)
				groups = append(groups, documentedGroup{ID: id, Title: strings.ToUpper(id[:1]) + id[1:]})
			}
			groups[i].Operations = append(groups[i].Operations, documentedOperation(method+" "+Prefix+path, op))
		}
	}
	for _, g := range groups {
		slices.SortFunc(g.Operations, func(a, b documented) int { return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method) })
	}
	rank := func(g documentedGroup) string {
		if g.ID == "runs" {
			return ""
		}
		return g.ID
	}
	slices.SortFunc(groups, func(a, b documentedGroup) int { return strings.Compare(rank(a), rank(b)) })
	return groups
}

// documentedOperation is an operation for people; the validators of lists are told of once for all.
func documentedOperation(route string, op *huma.Operation) documented {
	method, path, _ := strings.Cut(route, " ")
	d := documented{ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, Token: len(op.Security) > 0}
	for _, p := range op.Parameters {
		if p.Name == "If-None-Match" {
			continue
		}
		d.Parameters = append(d.Parameters, documentedParameter{p.Name, p.In, typeOf(p.Schema), meaning(p)})
	}
	return d
}

func typeOf(s *huma.Schema) string {
	if s == nil {
		return ""
	}
	return s.Type
}

// meaning is what a parameter is for, and which values it takes.
func meaning(p *huma.Param) string {
	says := p.Description
	if p.Schema == nil {
		return says
	}
	if says == "" {
		says = p.Schema.Description
	}
	if p.Name == "id" && says == "" {
		says = "The ID."
	}
	var values []string
	for _, v := range p.Schema.Enum {
		values = append(values, fmt.Sprint(v))
	}
	if len(values) > 0 {
		says += " One of " + strings.Join(values, ", ") + "."
	}
	if p.Schema.Default != nil {
		says += fmt.Sprintf(" %v where it is not given.", p.Schema.Default)
	}
	return strings.TrimSpace(says)
}

// docs is the contract for people, without a script or anything from elsewhere.
func (s *Server) docs(w http.ResponseWriter, r *http.Request) {
	var content strings.Builder
	err := docsPage.Execute(&content, struct {
		Base, Prefix string
		Groups       []documentedGroup
	}{s.o.Base, Prefix, documentedGroups(s.api.OpenAPI())})
	if err != nil {
		s.o.Log.ErrorContext(r.Context(), "the contract's page cannot be made", "error", err)
	}
	s.o.Page(w, r, "API", template.HTML(content.String()))
}
