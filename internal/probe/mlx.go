package probe

import (
	"context"
	"encoding/json"
	"strings"
)

// mlx is mlx_lm.server. It has two routes for GET and says nothing of itself but by the HTTP
// server that it is made of; its version stands in the fingerprint of its answers. Its list
// has all models of the machine's cache, so the one to measure must be named.
func mlx() engine {
	return engine{
		kind: KindMLX, routes: []string{"/health"}, ping: "/health",
		is: func(w *sight) bool {
			var health struct {
				Status string `json:"status"`
			}
			return strings.HasPrefix(w.header("Server"), "BaseHTTP/") && w.get("/health").decode(&health) && health.Status == "ok" && ownerless(w.listing)
		},
		read: func(_ context.Context, s *Server, _ *sight) {
			s.nameEngine(KindMLX, "github.com/ml-explore/mlx-lm", "header Server")
			s.setModelName(s.Model.Name, sourceModels)
		},
		tokenizers: func(*Server) []tokenCounter { return nil },
	}
}

// ownerless says whether a list of models leaves out who owns them.
func ownerless(listing *answer) bool {
	var list struct {
		Data []map[string]json.RawMessage `json:"data"`
	}
	if !listing.decode(&list) {
		return false
	}
	for _, m := range list.Data {
		if _, owned := m["owned_by"]; owned {
			return false
		}
	}
	return true
}
