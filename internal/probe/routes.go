package probe

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	"speedmatrix"
)

// apis are the completion endpoints by the names of their dialects, in the order in which
// they are preferred.
var apis = [...]struct{ name, route string }{
	{"chat", "/v1/chat/completions"},
	{"completions", "/v1/completions"},
	{"responses", "/v1/responses"},
	{"anthropic", "/v1/messages"},
	{"ollama", "/api/chat"},
	{"tgi", "/generate_stream"},
}

// The routes that empty a prefix cache or abort requests by id.
var (
	resetRoutes = []string{"/reset_prefix_cache", "/flush_cache"}
	abortRoutes = []string{"/abort_requests", "/abort_request"}
)

const sourceRoutes = "GET /openapi.json"

// readRoutes finds the completion endpoints, by the server's own list of routes where it
// gives one, else by asking each with a body that none can take, so that nothing runs.
func (s *Server) readRoutes(ctx context.Context) {
	engine := s.Facts.Engine
	if routes := s.openAPI(ctx); routes != nil {
		for _, api := range apis {
			if slices.Contains(routes, api.route) {
				s.APIs = append(s.APIs, api.name)
			}
		}
		for key, names := range map[string][]string{speedmatrix.EngineCacheReset: resetRoutes, speedmatrix.EngineAbortRoute: abortRoutes} {
			for _, route := range names {
				if slices.Contains(routes, route) {
					engine.Set(key, "POST "+route, sourceRoutes)
				}
			}
		}
	}
	source := sourceRoutes
	if len(s.APIs) == 0 {
		source = "tried"
		s.APIs = s.tryRoutes(ctx)
	}
	if len(s.APIs) > 0 {
		engine.Set(speedmatrix.EngineAPIs, strings.Join(s.APIs, ", "), source)
	}
}

// openAPI gives the routes that the server describes; nil without a description.
func (s *Server) openAPI(ctx context.Context) (routes []string) {
	if s.Hosted {
		return nil
	}
	a, err := s.http.do(ctx, call{route: "/openapi.json", limit: callLimit})
	var described struct {
		Paths map[string]json.RawMessage `json:"paths"`
	}
	if err != nil || !a.decode(&described) {
		return nil
	}
	for path := range described.Paths {
		routes = append(routes, path)
	}
	return routes
}

// noRoute is one that no server has: one that answers it as it does the others tells nothing.
const noRoute = "/v1/no-such-route"

// tryRoutes asks each endpoint with an empty list, which is no request.
func (s *Server) tryRoutes(ctx context.Context) (names []string) {
	there := make([]bool, len(apis)+1)
	var all sync.WaitGroup
	for i := range there {
		route := noRoute
		if i < len(apis) {
			route = apis[i].route
		}
		all.Go(func() {
			a, err := s.http.do(ctx, call{route: route, body: rawJSON("[]"), limit: lookLimit, most: lookMost})
			there[i] = err == nil && !a.html && exists(a)
		})
	}
	all.Wait()
	if there[len(apis)] {
		return nil
	}
	for i, api := range apis {
		if there[i] {
			names = append(names, api.name)
		}
	}
	return names
}

// exists says whether a route is there that answered a body which it cannot take.
func exists(a *answer) bool {
	switch a.status {
	case http.StatusOK:
		return !unexpected(a)
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusUnsupportedMediaType:
		return true
	}
	return false
}
